"""Rows as tokens: the prompt that inference writes, the reply with its end, and sequences that hold several."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.training.lora.small_sets import chat, many, write

from hoptree.core.errors import InputError
from hoptree.models.model import Message, Request
from hoptree.training.lora.dataset import TrainingRow, read_sets

pytest.importorskip("torch")
encoding: Any = importlib.import_module("hoptree.training.lora.learner")


def rows(tmp_path: Path, *said: dict[str, Any]) -> tuple[TrainingRow, ...]:
    (one,) = read_sets([write(tmp_path / "set.jsonl", said)], "")
    return one.rows


def test_the_prompt_is_what_inference_reads_and_the_reply_ends_where_inference_stops(
    base: Path, loaded: Any, tmp_path: Path
) -> None:
    hf: Any = importlib.import_module("hoptree.models.hf")
    (row,) = rows(tmp_path, chat("x", "who wrote the red hill", "blue town"))
    (example,) = encoding.encode([row], loaded, 512)
    model = hf.HFModel(str(base), device="cpu")
    ready = model._engine.ready()
    (asked,) = ready.text.rows(Request((Message("user", "who wrote the red hill"),)))
    assert list(example.tokens[: example.prompt]) == asked.prompt
    assert loaded.tokenizer.decode(example.tokens[example.prompt :]) == "blue town<|im_end|>"
    assert example.tokens[-1] in ready.batcher._end_tokens
    asyncio.run(model._engine.release())


def test_a_reply_ends_as_the_template_ends_it(loaded: Any) -> None:
    tokenizer = loaded.tokenizer
    end, start = (tokenizer.convert_tokens_to_ids(word) for word in ("<|im_end|>", "<|im_start|>"))
    assert encoding.end_of_turn(loaded) == end
    # A template that ends turns with another token than the one that ends texts; the model's makers list both.
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}!<|im_start|>{% endfor %}"
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=[end, start]))
    assert encoding.end_of_turn(SimpleNamespace(tokenizer=tokenizer, model=model)) == start
    model.generation_config.eos_token_id = None
    assert encoding.end_of_turn(SimpleNamespace(tokenizer=tokenizer, model=model)) == end


def test_examples_that_are_too_long_are_named_all_at_once(loaded: Any, tmp_path: Path) -> None:
    found = rows(tmp_path, *many(6, 4), chat("long", "river " * 400), chat("reply", reply="hill " * 400))
    with pytest.raises(InputError) as refused:
        encoding.encode(found, loaded, 300)
    said = refused.value.cause.splitlines()
    assert said[0].startswith("2 rows") and "(id long)" in said[1] and "(id reply)" in said[2]
    assert "300 are taken" in said[1] and "--max-length" in refused.value.remedy
    with pytest.raises(InputError, match="1,024 are taken") as refused:
        encoding.encode(rows(tmp_path, chat("long", "river " * 1200)), loaded, 5000)
    assert "the model takes no more" in refused.value.remedy


def test_what_the_template_or_the_model_does_not_take_is_named(loaded: Any, tmp_path: Path) -> None:
    loaded.tokenizer.add_tokens(["gnu"])
    with pytest.raises(InputError, match=r"\(id x\): the tokenizer writes 'gnu'"):
        encoding.encode(rows(tmp_path, chat("x", "a gnu")), loaded, 100)
    loaded.tokenizer.chat_template = "{{ raise_exception('no such talk') }}"
    with pytest.raises(InputError, match=r"\(id x\): .*no such talk"):
        encoding.encode(rows(tmp_path, chat("x")), loaded, 100)


def test_a_reply_that_holds_the_end_of_a_reply_is_named(loaded: Any, tmp_path: Path) -> None:
    found = rows(tmp_path, chat("x", reply="red<|im_end|> hill"), chat("y"))
    with pytest.raises(InputError, match=r"1 row .*\n.*\(id x\): its reply holds '<\|im_end\|>'"):
        encoding.encode(found, loaded, 100)


def test_a_remedy_is_that_of_the_fault(loaded: Any, tmp_path: Path) -> None:
    """Whoever had the end of a reply in one was told to give --max-length more."""
    long, ended = chat("long", "river " * 200), chat("x", reply="red<|im_end|> hill")
    with pytest.raises(InputError) as refused:
        encoding.encode(rows(tmp_path, ended), loaded, 100)
    remedy = refused.value.remedy
    assert "--max-length" not in remedy and "without" in remedy and "nothing was written" in remedy
    with pytest.raises(InputError) as refused:
        encoding.encode(rows(tmp_path, ended, long), loaded, 100)
    assert "--max-length" in refused.value.remedy and refused.value.remedy.count("nothing was written") == 1
    assert remedy.split(";")[0].strip() in refused.value.remedy
    loaded.tokenizer.chat_template = "{{ '' }}"
    with pytest.raises(InputError, match="empty prompt") as refused:
        encoding.encode(rows(tmp_path, chat("x")), loaded, 100)
    assert "--max-length" not in refused.value.remedy


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=25))
def test_sequences_hold_every_example_once(sizes: list[tuple[int, int]]) -> None:
    examples = [
        encoding.Example(str(number), tuple(range(100 * number, 100 * number + prompt + reply)), prompt)
        for number, (prompt, reply) in enumerate(sizes)
    ]
    places = encoding.pack(examples, 42)
    assert all(len(place.tokens) == len(place.positions) <= 42 for place in places)
    assert sorted(token for place in places for token in place.tokens) == sorted(
        token for example in examples for token in example.tokens
    )
    for place in places:
        begins = [number for number, position in enumerate(place.positions) if position == 0]
        assert all(place.tokens[begin] % 100 == 0 for begin in begins)
        assert [place.tokens[at + 1] for at in place.kept] == place.targets
        assert all(place.tokens[at] + 1 == token for at, token in zip(place.kept, place.targets, strict=True))
    assert sum(len(place.targets) for place in places) == sum(reply for _, reply in sizes)
    # First fit leaves at most one sequence that is not more than half full.
    assert sum(len(place.tokens) <= 21 for place in places) <= 1
