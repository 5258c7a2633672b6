"""Ctrl-C: what a command says of what stays is true, with a cache and without."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from tests.small_indexes import hoptree

from hoptree.cli import ask
from hoptree.core.values import Question

CALLS = "Finished calls are kept: the same command goes on from there."
NOTHING = "Nothing is kept without a cache: the same command begins again."
ASK = ("ask", "Who?", "--method", "direct", "-m", "scripted/m.json")
RUN = ("run", "--data", "data.jsonl", "--method", "direct", "-m", "scripted/m.json", "--out", "out")
BOUNDARY = ("eval", "boundary", "--data", "data.jsonl", "-m", "scripted/m.json", "--out", "out")
DEMO = ("demo", "--method", "direct", "-m", "scripted/m.json")
EXTRACT = ("graph", "extract", "corpus.jsonl", "-m", "scripted/m.json", "--out", "facts")
ALIGN = ("align", "build", "ra-isf-know", "--data", "data.jsonl", "-m", "scripted/m.json", "--out", "know.jsonl")


def both(what: str) -> str:
    return f"Finished {what} and calls are kept: the same command goes on from there."


def alone(what: str) -> str:
    return f"Finished {what} are kept, calls for others are not: the same command goes on from there."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    row = {"id": "q1", "question": "Who was it?", "answers": ["Ada"], "split": "train"}
    (tmp_path / "data.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "p", "text": "Ada was it."}) + "\n", encoding="utf-8")
    (tmp_path / "m.json").write_text(json.dumps({"replies": [{"reply": "Ada"}]}), encoding="utf-8")
    return tmp_path


class _Terminal:
    """Standard input of a person who types."""

    def isatty(self) -> bool:
        return True


class _Engine:
    async def aclose(self) -> None:
        return None


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt; a shell has jobs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("last", ["", "quit", "exit"])
def test_ctrl_c_ends_an_answer_of_a_conversation_and_not_all_of_it(
    last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, asked = iter(["Who?", "And where?", last]), []

    async def answer(engine: Any, question: Question, *, as_json: bool) -> Any:
        asked.append(question)
        if len(asked) == 1:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        return SimpleNamespace(failure=None, question=question.text, answer="There")

    monkeypatch.setattr(ask, "_ask", answer)
    monkeypatch.setattr("sys.stdin", _Terminal())
    monkeypatch.setattr("builtins.input", lambda _prompt: next(typed))
    assert ask.converse(_Engine(), "", as_json=False) == 0  # type: ignore[arg-type]
    assert [(question.text, question.history) for question in asked] == [("Who?", ()), ("And where?", ())]
    begun, stopped = capsys.readouterr().err.splitlines()
    assert "an empty line ends the conversation" in begun and stopped.endswith("Stopped.")


def stop(work: Coroutine[Any, Any, Any]) -> NoReturn:
    work.close()
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "cached", "uncached"),
    [
        (ASK, CALLS, NOTHING),
        (DEMO, CALLS, NOTHING),
        (ALIGN, CALLS, NOTHING),
        (RUN, both("questions"), alone("questions")),
        (BOUNDARY, both("questions"), alone("questions")),
        (EXTRACT, both("passages"), alone("passages")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_is_said_to_stay_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], cached: str, uncached: str
) -> None:
    monkeypatch.setattr("asyncio.run", stop)
    for more, message in (((), cached), (("--no-cache",), uncached)):
        done = hoptree(home, *arguments, *more)
        assert done.returncode == 1 and done.stderr.strip() == f"hoptree: Stopped. {message}"


def test_verdicts_of_a_judge_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hoptree(home, *RUN).returncode == 0
    monkeypatch.setattr("asyncio.run", stop)
    judge = ("eval", "judge", "out", "-m", "scripted/m.json")
    assert both("verdicts") in hoptree(home, *judge).stderr
    assert alone("verdicts") in hoptree(home, *judge, "--no-cache").stderr
    assert alone("questions") in hoptree(home, "eval", "reproduce", "out").stderr, "it never uses the cache"


def test_a_search_only_begins_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hoptree(home, "index", "corpus.jsonl", "--out", "idx").returncode == 0
    monkeypatch.setattr("asyncio.run", stop)
    done = hoptree(home, "search", "Ada", "--corpus", "idx")
    assert done.stderr == "hoptree: Stopped. The same command begins again.\n"
