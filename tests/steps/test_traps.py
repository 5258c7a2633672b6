"""Titles, names, numbers and negations that sound like something else, through every parser.

The table holds what was written down, and answers and titles of the public data sets drawn by rule: those with a
negation, or with a word by which refusals are known. With HOPTREE_DATA naming a folder of data sets, all of these go
through the parsers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hoptree.core.values import Answer
from hoptree.engine.engine import drop_refusal
from hoptree.methods.hop.reading import parse_reading
from hoptree.methods.steps.evidence_box import read_verdict
from hoptree.methods.steps.graph_exploration import read_enough
from hoptree.methods.steps.logic_tree import answer_of
from hoptree.methods.steps.mentions import read_mentions
from hoptree.text.loose_json import read_json
from hoptree.text.parse import (
    clean_answer,
    find_refusal,
    question_key,
    read_conclusion,
    read_questions,
    read_yes_no,
    retrieval_trigger,
    says_unknown,
)
from hoptree.text.parse_dialogue import read_answer, read_self_knowledge
from hoptree.text.parse_labels import read_numbers, read_relevance
from hoptree.text.parse_method_replies import read_action, read_cited, read_deduced, read_final

ROWS = [line.split("\t") for line in Path(__file__).with_name("traps.tsv").read_text(encoding="utf-8").splitlines()]


def of_kind(kind: str) -> list[str]:
    return [text for name, text in ROWS if name == kind]


ASKED = "How many of them are there, and what are they called?"
READERS: dict[str, Callable[[str], str]] = {
    "clean_answer": clean_answer,
    "in quotes": lambda text: clean_answer(f'"{text}"'),
    "settle": lambda text: drop_refusal(Answer(text)).text,
    "read_answer": lambda text: read_answer(text).text,
    "read_conclusion": lambda text: read_conclusion(f"It is a film. So the answer is: {text}.").text,
    "read_cited": lambda text: read_cited(json.dumps({"answer": text, "citation": f"It is called {text}."})).answer,
    "read_final": lambda text: read_final(f"It is known.\nFinal answer: {text}").text,
    "read_enough": lambda text: read_enough(f"Enough: Yes\nAnswer: {text}").answer,
    "read_action": lambda text: read_action(f"<answer>{text}</answer>").text,
    "read_deduced": lambda text: read_deduced(f"FINISH[{text}]").final,
    "read_self_knowledge": lambda text: read_self_knowledge(f"Yes. The answer is {text}.", ASKED).answer,
    "read_verdict": lambda text: (
        read_verdict(
            read_json(json.dumps({"isTrue": False, "reason": "It is another.", "correct_answer": text})), ASKED
        ).correction
    ),
    "answer_of": lambda text: answer_of(text, ASKED),
    "parse_reading": lambda text: parse_reading(f"Answer: {text}\nSentence: It is {text}.")[0],
}
"""Every parser that reads an answer out of a reply, with a reply of the kind it reads."""


def same(read: str, text: str) -> bool:
    """Whether nothing but marks around the text is lost."""
    return question_key(read) == question_key(text) if question_key(text) else read.strip(" .") == text.strip(" .")


@pytest.mark.parametrize("text", of_kind("answer"))
def test_an_answer_stays_one(text: str) -> None:
    assert {name: read for name, reader in READERS.items() if not same(read := reader(text), text)} == {}
    assert (find_refusal(text), retrieval_trigger(text), says_unknown(text)) == ("", "", False)


@pytest.mark.parametrize("text", [text for text in of_kind("answer") if re.match(r"\S+ [A-Z]", text)])
def test_a_name_is_a_mention_and_no_yes_or_no(text: str) -> None:
    assert read_mentions(json.dumps([text])) == (text.strip("\"'"),) or text.startswith(("'", '"'))
    assert read_yes_no(text) is None


@pytest.mark.parametrize("text", of_kind("refusal"))
def test_a_refusal_is_no_answer(text: str) -> None:
    assert find_refusal(text)
    assert drop_refusal(Answer(clean_answer(text))).text == ""
    assert read_answer(text).text == ""
    assert read_conclusion(f"So the answer is: {text}").text == ""
    assert read_cited(text).answer == ""


@pytest.mark.parametrize("text", of_kind("question"))
def test_what_asks_is_a_sub_question(text: str) -> None:
    assert read_questions(f"1. {text}\n2. Who is that?") == (text, "Who is that?")
    assert read_questions(json.dumps({"query": [text]})) == (text,)


@pytest.mark.parametrize("text", of_kind("no question"))
def test_what_does_not_ask_is_none(text: str) -> None:
    assert read_questions(f"{text}\n1. Who is that?") == ("Who is that?",)
    assert read_questions(text) == ()


@pytest.mark.parametrize(("kind", "text"), [row for row in ROWS if row[0].endswith("relevant")])
def test_relevance_is_read_through_negations(kind: str, text: str) -> None:
    assert read_relevance(text) is (kind == "relevant")


def test_numbers_are_read_through_negations() -> None:
    assert read_numbers("[1] is not irrelevant. [2] is irrelevant.", 2) == (1,)


@pytest.mark.parametrize(("kind", "text"), [row for row in ROWS if row[0] in ("yes", "no")])
def test_yes_and_no_are_read(kind: str, text: str) -> None:
    assert read_yes_no(text) is (kind == "yes")


def test_there_are_enough_traps() -> None:
    assert len(ROWS) == len(set(map(tuple, ROWS))) >= 300


_SOUNDS_LIKE = re.compile(
    r"\b(?:not|no|cannot|without|none|neither|nor|found|find|information|answers?|yes|true|false|know|nothing|sorry)\b"
    r"|n['’]t\b|^\d{1,2}\.\s",
    re.IGNORECASE,
)


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*/dev*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                yield from (*row.get("answers", ()), *row.get("supporting_titles", ()))


@pytest.mark.skipif("HOPTREE_DATA" not in os.environ, reason="HOPTREE_DATA names no folder of data sets")
def test_the_answers_of_the_data_sets_stay_answers() -> None:
    names = {name for name in _names(Path(os.environ["HOPTREE_DATA"])) if _SOUNDS_LIKE.search(name)}
    lost = sorted(name for name in names if find_refusal(name) or not same(clean_answer(name), name))
    assert names
    assert [name for name in lost if not re.match(r"1\. .* 2\. ", name)] == []
