"""States of fixed prompt beginnings, with real weights: the first layers of the smallest model of the catalogue."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.models.shallow_model import BLOCKS, write_shallow_model
from tests.models.small_adapters import lora_file
from tests.timing import TIMEOUT_S

import hoptree
from hoptree.engine.prompts import Filled, read_prompt
from hoptree.models import llama_cpp
from hoptree.models.catalogue import find_entry, is_complete, models_folder
from hoptree.models.llama_cpp import PromptStates, find_opening
from hoptree.models.local import LocalModel
from hoptree.models.model import Message, Reply, Request

ENTRY = find_entry("smollm")
assert not isinstance(ENTRY, Path)

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.skipif(not is_complete(ENTRY), reason="hoptree models pull smollm2-135m-instruct"),
]

READ = read_prompt(
    "test/read",
    "--- system\n"
    "You are given documents and a question. Reply with the exact answer to the question alone, without other words.\n"
    "--- user\nDocuments:\n{documents}\n\nQuestion: {question}",
)
FILLED = READ.fill(documents="Lodz is a city in Poland.", question="In which country is Lodz?")
OTHER = READ.fill(documents="Paris is a city in France.", question="In which country is Paris?")
BETWEEN = 35
"""Tokens: the opening of these prompts has more, and what follows it fewer."""
MODEL = "HOPTREE_TEST_MODEL"
"""The environment variable with the path of the model, for another process too."""
APART = "from tests.models.test_prompt_states import print_reply; print_reply()"


@pytest.fixture(autouse=True, scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    path = write_shallow_model(tmp_path_factory.mktemp("models") / "shallow.gguf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MODEL, str(path))
        yield
    path.unlink()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(llama_cpp, "states_folder", lambda: tmp_path / "states")
    return tmp_path / "states"


def ask(
    prompt: Filled = FILLED,
    *,
    then: Filled | None = None,
    states: bool = True,
    exact: bool = False,
    adapter: str = "none",
) -> Reply:
    """Ask a freshly loaded model, and once more for the prompt `then`."""
    model = LocalModel(os.environ[MODEL], n_ctx=512, threads=1, states=states, exact=exact, adapter=adapter)

    async def asked() -> Reply:
        try:
            for filled in (prompt, then or prompt):
                request = Request(filled.messages, 6, top_logprobs=2, opening=filled.opening, template=filled.template)
                reply = await model.generate(request, step="test")
                if then is None:
                    break
            return reply
        finally:
            await model.aclose()

    return asyncio.run(asked())


def evaluated(reply: Reply) -> int:
    return reply.usage.prompt - reply.usage.cached


def print_reply() -> None:
    reply = ask()
    sys.stdout.write(json.dumps([evaluated(reply), repr(reply.choices)]))


def test_the_opening_ends_where_the_variables_begin() -> None:
    system = READ.sections[0]
    assert READ.fill(documents="a", question="b").opening == (system, Message("user", "Documents:\n"))
    shots = [({"documents": "a", "question": "b"}, "c")]
    assert READ.fill(shots=shots, documents="a", question="b").opening == (system,)
    titled = read_prompt("test/titled", "--- system\nPages: {titles}\nReply.\n--- user\n{question}")
    assert titled.fill(titles="a", question="b").opening == (Message("system", "Pages: "),)
    assert FILLED.follow_up("x", "y").opening == FILLED.opening


def test_the_next_load_reads_only_what_follows_the_opening(folder: Path) -> None:
    first, second = ask(), ask()
    assert evaluated(first) == first.usage.prompt and evaluated(second) < BETWEEN < second.usage.cached
    assert second.choices == first.choices, "tokens and log-probabilities, to the last digit"
    other = ask(OTHER)
    assert evaluated(other) < BETWEEN
    assert [path.suffix for path in folder.iterdir()] == [".state"]


def test_with_an_adapter_too(folder: Path, tmp_path: Path) -> None:
    adapter = str(lora_file(tmp_path / "a.gguf", {"bases": {}, "templates": [FILLED.template]}, blocks=BLOCKS))
    untrained = replace(FILLED, template="other@1")
    first, second, base = ask(adapter=adapter), ask(adapter=adapter), ask(untrained, adapter=adapter)
    assert evaluated(second) < BETWEEN < second.usage.cached and second.choices == first.choices
    assert base.text == ask(states=False).text != first.text, "a state of the adapter is none of the base"
    mixed = ask(untrained, then=FILLED, adapter=adapter)
    assert mixed.choices == first.choices


def test_replies_are_those_of_a_model_without_states(folder: Path) -> None:
    plain = ask(states=False)
    assert not folder.exists() and evaluated(plain) == plain.usage.prompt
    ask()
    kept = ask()
    assert [token.text for token in kept.choices[0].tokens] == [token.text for token in plain.choices[0].tokens]
    assert kept.text == plain.text
    assert not LocalModel("smollm", exact=True)._settings.states


def test_another_process_uses_the_state(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(hoptree.__file__).parents[1]), str(root)]),
        "XDG_CACHE_HOME": str(tmp_path),
        "HOPTREE_MODELS": str(models_folder()),
    }

    def apart() -> list[object]:
        command = [sys.executable, "-c", APART]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, timeout=TIMEOUT_S, check=True)
        return list(json.loads(done.stdout.splitlines()[-1]))

    (first_tokens, first_reply), (second_tokens, second_reply) = apart(), apart()
    assert first_reply == second_reply
    assert isinstance(first_tokens, int) and isinstance(second_tokens, int) and second_tokens < first_tokens - 20
    assert len(list((tmp_path / "hoptree" / "states").iterdir())) == 1


def test_a_damaged_file_is_ignored_and_replaced(folder: Path) -> None:
    first = ask()
    (path,) = folder.iterdir()
    good = path.read_bytes()
    middle = len(good) // 2
    flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    for content in (good[:middle], b"", b"GGUF" * 999, flipped):
        path.write_bytes(content)
        assert not PromptStates(folder, "").restore(None, 0, path.stem), "llama.cpp is not asked to read it"
    again = ask()
    assert again.choices == first.choices and evaluated(again) == evaluated(first)
    assert path.read_bytes() == good


def test_a_state_of_another_opening_is_not_taken_for_it(folder: Path) -> None:
    longer = read_prompt(
        "test/longer", "--- system\n" + "Answer in one word and never explain. " * 4 + "\n--- user\n{q}"
    )
    ask()
    (path,) = folder.iterdir()
    opening = find_opening(Request(longer.fill(q="a").messages, opening=longer.fill(q="a").opening), "x")
    assert opening is not None and not PromptStates(folder, "").restore(None, 0, opening.key)
    path.rename(folder / f"{opening.key}.state")
    assert not PromptStates(folder, "").restore(None, 0, opening.key)


def test_the_opening_stays_in_its_slot_between_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restored: list[str] = []
    restore = PromptStates.restore

    def counted(states: PromptStates, server: object, slot: int, key: str) -> bool:
        restored.append(key)
        return restore(states, server, slot, key)

    monkeypatch.setattr(PromptStates, "restore", counted)
    reply = ask(then=OTHER)
    assert len(restored) == 1 and evaluated(reply) < BETWEEN


def test_keys_name_all_that_a_state_depends_on() -> None:
    request = Request(FILLED.messages, opening=FILLED.opening)
    other = Request(FILLED.messages, opening=FILLED.opening[:1])
    openings = [find_opening(request, "a"), find_opening(request, "b"), find_opening(other, "a")]
    assert len({opening.key for opening in openings if opening}) == 3
    assert find_opening(Request(FILLED.messages), "a") is None
    assert find_opening(Request(FILLED.messages, opening=(Message("system", "Answer."),)), "a") is None


class Written:
    """States whose server writes so many bytes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, max_bytes: int) -> None:
        def act(states: PromptStates, server: int, slot: int, action: str, name: str) -> bool:
            if action == "save":
                (folder / name).write_bytes(b"x" * server)
            return True

        monkeypatch.setattr(PromptStates, "_act", act)
        self.states, self.folder = PromptStates(folder, "", max_bytes=max_bytes), folder

    def save(self, name: str, size: int, *, age_s: int = 0) -> None:
        self.states.save(size, 0, name)
        if age_s and (path := self.folder / f"{name}.state").exists():
            os.utime(path, (path.stat().st_mtime - age_s,) * 2)

    def names(self) -> set[str]:
        return {path.stem for path in self.folder.iterdir()}


def test_the_oldest_are_deleted_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(tmp_path, monkeypatch, max_bytes=1000)
    left_over = tmp_path / "killed.part"
    left_over.write_bytes(b"x" * 100)
    os.utime(left_over, (0, 0))
    written.save("a", 200, age_s=300)
    written.save("b", 200, age_s=200)
    assert written.names() == {"killed", "a", "b"}
    assert written.states.restore(0, 0, "a"), "what was used is not the oldest any more"
    written.save("c", 600)
    assert written.names() == {"a", "c"}
    written.save("d", 2000)
    assert written.names() == set(), "no file is larger than the limit"


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(llama_cpp, "states_folder", lambda: tmp_path / "file" / "states")
    assert ask(states=True).text
