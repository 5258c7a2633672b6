"""Chat templates that open a thought in the prompt, as those of DeepSeek-R1's distillates do."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from hoptree.models.hf_text import DecoderPrompts, Text
from hoptree.models.model import Choice, Message, Request, close_thought, read_choice


class Letters:
    """A tokenizer whose tokens are characters, with a template that ends as it is told to."""

    chat_template = "there is one"

    def __init__(self, ending: str) -> None:
        self._ending = ending

    def apply_chat_template(self, said: list[dict[str, str]], **_: Any) -> str:
        return "".join(f"<{one['role']}>{one['content']}" for one in said) + f"<assistant>{self._ending}"

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(map(ord, text))

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        return {"input_ids": self.encode(text, add_special_tokens=False), "offset_mapping": _each(text)}

    def decode(self, tokens: list[int], **_: Any) -> str:
        return "".join(map(chr, tokens))


def _each(text: str) -> list[tuple[int, int]]:
    return [(place, place + 1) for place in range(len(text))]


def asking(**options: Any) -> Request:
    return Request((Message("user", "Who?"),), **options)


def prompted(ending: str, **options: Any) -> str:
    opening = DecoderPrompts(Letters(ending), 1000).opening(asking(**options))
    return "".join(map(chr, (*opening.prompt, *(opening.forced or ()))))


@pytest.mark.parametrize("tag", ["think", "thinking", "Thought"])
def test_a_prefix_stands_behind_the_thought_that_a_template_opens(tag: str) -> None:
    text = prompted(f"<{tag}>\n", prefix="She was born in Paris.")
    assert text == f"<user>Who?<assistant><{tag}>\n\n</{tag}>\n\nShe was born in Paris."


def test_words_whose_doubts_are_asked_for_are_no_thought() -> None:
    assert prompted("<think>\n", signals=frozenset({"entropy"})).endswith("<think>\n\n</think>\n\n")


def test_who_asks_for_an_answer_alone_lets_the_model_think() -> None:
    assert prompted("<think>\n") == "<user>Who?<assistant><think>\n"


@pytest.mark.parametrize("ending", ["", "\n", "<think>\n\n</think>\n\n"])
def test_other_templates_are_left_as_they_are(ending: str) -> None:
    assert prompted(ending, prefix="She") == f"<user>Who?<assistant>{ending}She"
    assert close_thought("What does <think> mean?") == "What does <think> mean?"


def test_a_prefix_that_is_only_looked_at_is_the_same() -> None:
    opening = DecoderPrompts(Letters("<think>\n"), 1000).opening(asking(prefix="She", max_tokens=0))
    assert opening.text == "<user>Who?<assistant><think>\n\n</think>\n\nShe"
    assert opening.forced == list(map(ord, "She")) and len(opening.spans) == len(opening.text)


def said(ending: str, written: str, **options: Any) -> Choice:
    """What is made of a reply."""
    text = Text(Letters(ending), DecoderPrompts(Letters(ending), 1000), 2000)
    request = asking(**options)
    (row,) = text.rows(request)
    row.output, row.finish = list(map(ord, written)), "length"
    return text.reply(request, [row]).choices[0]


def test_a_thought_that_does_not_come_to_its_end_says_nothing() -> None:
    choice = said("<think>\n", "Okay, it may be Paris")
    assert (choice.text, choice.reasoning, choice.tokens) == ("", "Okay, it may be Paris", ())
    choice = said("<think>\n", "Okay, Paris.\n</think>\n\nParis")
    assert (choice.text, choice.reasoning) == ("Paris", "Okay, Paris.")


def test_behind_a_closed_thought_all_is_said() -> None:
    assert said("<think>\n", " It is Paris", prefix="She").text == "It is Paris"
    assert said("", "It is Paris").text == "It is Paris"


def test_without_a_prompt_that_opens_a_thought_words_are_said() -> None:
    assert read_choice("It is Paris").text == "It is Paris"
    assert read_choice("It is Paris", opened=True).text == ""
