"""`hoptree.index`, `ask` over a folder, `stream`, and how a result shows itself."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.timing import TIMEOUT_S

import hoptree
from hoptree.core.errors import HoptreeError, InputError
from hoptree.engine.events import Event, Finished, Started
from hoptree.engine.result import Result
from hoptree.models.scripted import Rule, ScriptedModel

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "notebook.ipynb"
QUESTION = "Who directed the film Red Kite?"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "films.md").write_text("# Red Kite\n\nRed Kite is a film directed by Ada Moor.\n", encoding="utf-8")
    return folder


def model() -> ScriptedModel:
    return ScriptedModel(rules=[Rule("Bo Moor", contains="Blue Kite?"), Rule("Ada Moor")])


def test_a_folder_of_documents_is_a_corpus(documents: Path) -> None:
    result = hoptree.ask(QUESTION, corpus=documents, model=model(), method="oner", cache=None)
    assert result.answer == "Ada Moor" and [passage.title for passage in result.evidence] == ["Red Kite"]
    (documents / "more.txt").write_text("Blue Kite is a film directed by Bo Moor.\n", encoding="utf-8")
    result = hoptree.ask("Who directed Blue Kite?", corpus=str(documents), model=model(), method="oner", cache=None)
    assert result.answer == "Bo Moor" and result.evidence, "what came since is indexed too"
    assert not (documents / "index.json").exists(), "nothing is written beside the documents"


def test_an_index_is_made_and_brought_up_to_date(documents: Path, tmp_path: Path) -> None:
    out = hoptree.index(documents, tmp_path / "docs.idx")
    assert hoptree.ask(QUESTION, corpus=out, model=model(), method="oner", cache=None).answer == "Ada Moor"
    (documents / "more.txt").write_text("Blue Kite is a film directed by Bo Moor.\n", encoding="utf-8")
    assert hoptree.index(documents, out) == out
    result = hoptree.ask("Who directed Blue Kite?", corpus=out, model=model(), method="oner", cache=None)
    assert result.answer == "Bo Moor" and result.evidence
    assert hoptree.index(documents).is_relative_to(tmp_path / "cache")
    for wrong in ([], [documents, documents]):
        with pytest.raises(InputError):
            hoptree.index(wrong)


def test_a_question_can_be_watched(documents: Path) -> None:
    async def watch() -> list[Event | Result]:
        settings = {"corpus": documents, "model": model(), "method": "oner", "cache": None}
        return [update async for update in hoptree.stream(QUESTION, **settings)]

    first, *_, last_event, result = asyncio.run(watch())
    assert isinstance(first, Started) and isinstance(last_event, Finished)
    assert isinstance(result, Result) and result.answer == "Ada Moor"


def test_a_failure_is_raised_and_leaving_ends_the_question(documents: Path) -> None:
    async def watch(failing: ScriptedModel, *, leave: bool) -> None:
        settings = {"corpus": documents, "model": failing, "method": "oner", "cache": None}
        updates = hoptree.stream(QUESTION, **settings)
        async for _ in updates:
            if leave:
                break
        await updates.aclose()  # type: ignore[attr-defined]

    with pytest.raises(HoptreeError):
        asyncio.run(watch(ScriptedModel(rules=[]), leave=False))
    asyncio.run(watch(ScriptedModel(rules=[Rule("x")], latency=60.0), leave=True))


def test_a_result_is_readable_as_text_and_in_a_notebook(documents: Path) -> None:
    result = hoptree.ask(QUESTION, corpus=documents, model=model(), method="oner", cache=None)
    first, second, third, fourth = str(result).splitlines()
    assert first == "Ada Moor directed the film Red Kite: “Red Kite is a film directed by Ada Moor.” [1]"
    assert (second, third) == ("Answer: Ada Moor", "Well supported: a passage that was read says so.")
    assert fourth == "[1] Red Kite (films.md): Red Kite is a film directed by Ada Moor."
    html = result._repr_html_()
    assert "<b>Ada Moor</b>" in html and "<summary>Evidence</summary>" in html


def test_an_excerpt_has_the_answer_and_not_the_head_of_a_letter(tmp_path: Path) -> None:
    people = ", ".join(f"Person {number} <person{number}@example.org>" for number in range(9))
    letter = f"From: Ada <ada@example.org>\nTo: {people}\nSubject: Film\n\nRed Kite is a film directed by Ada Moor.\n"
    (tmp_path / "letter.eml").write_text(letter, encoding="utf-8")
    result = hoptree.ask(QUESTION, corpus=tmp_path / "letter.eml", model=model(), method="oner", cache=None)
    for text in (str(result), result._repr_html_()):
        assert "Red Kite is a film directed by Ada Moor." in text.partition("Film")[2] and "From: Ada" not in text


def test_no_text_of_a_document_or_a_model_is_markup_in_a_notebook(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    (tmp_path / "evil.txt").write_text(f"{evil} wrote the film {evil}.\n", encoding="utf-8")
    script = ScriptedModel(rules=[Rule(evil)])
    result = hoptree.ask(f"Who wrote {evil}?", corpus=tmp_path / "evil.txt", model=script, method="oner", cache=None)
    assert "<script" not in result._repr_html_() and "&lt;script&gt;" in result._repr_html_()


def test_the_notebook_of_the_tutorials_runs(tmp_path: Path) -> None:
    """Its code cells, one after the other, as a notebook runs them: with `await` outside of functions."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    script = tmp_path / "notebook.py"
    script.write_text(
        f"import asyncio\n\nasync def notebook():\n{textwrap.indent(code, '    ')}\n\nasyncio.run(notebook())\n"
    )
    replies = {"replies": [{"contains": "director of the film The Hourglass", "reply": "Łódź"}, {"reply": "Łódź"}]}
    (tmp_path / "model.json").write_text(json.dumps(replies), encoding="utf-8")
    environment = os.environ | {"HOPTREE_MODEL": "scripted/model.json", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert "Answer: Łódź" in done.stdout and "searched for" in done.stdout
