"""Evidence is what supports an answer; the rest was only read. Steps and the question follow the same rule."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from tests.traced import event

from hoptree.cli.render import show_result
from hoptree.engine.answer_sentence import state_answer
from hoptree.engine.registry import find_method
from hoptree.engine.result import Result, read_result
from hoptree.engine.result_text import result_html, result_text

MAIL_HEAD = "From: Ada Moor <ada@x.org>\nTo: team@x.org\nDate: Mon, 03 Feb 2025\n\n"
TEXTS = {
    "team.mbox#1": ("Bearings", f"{MAIL_HEAD}Hello all,\n\nfour bearings failed at Lund Park in January.\n\nAda"),
    "turbines.xlsx#1": (
        "turbines",
        "Turbine: Skua 4; Power: 4.2; Lead: Ada Moor\nTurbine: Petrel 2; Power: 2.1; Lead: Bo Ek",
    ),
    "scada.log.gz#1": ("scada.log", "2025-01-09 ERROR main bearing too hot\n2025-01-10 INFO production normal"),
    "nano.1#8": ("NANO(1) › OPTIONS", "-L, --nonewlines\nDo not add a newline.\n-M, --trimblanks\nSnip blanks."),
    "travel.docx#1": ("Travel", "The daily allowance in Poland is 210 PLN."),
    "people.md#1": ("People", "Owen Pryce was born in Brecon. Harrow Brewery was founded in 1881 by Edith Marlowe."),
    "sued.md#1": ("Projekt Südwind", "Das Projekt Südwind hat ein Budget von 800.000 Euro."),
}
PASSAGES = [{"id": name, "title": title, "text": text, "score": 1.0} for name, (title, text) in TEXTS.items()]


def asked(
    question: str, answer: str, *steps: tuple[str, str, str, list[str]], support: list[str] | None = None
) -> Result:
    """Return the result of an answer; a step is a question, its answer, its source and what it cites."""
    find_method("hop")
    nodes: list[dict[str, Any]] = [
        {"id": n, "question": step[0], "parent": None, "refs": []} for n, step in enumerate(steps, 1)
    ]
    final: dict[str, Any] = {"source": "external", "support": list(TEXTS) if support is None else support}
    settled = [
        event("node", id=n, state="answered", question=step[0], answer=step[1], source=step[2], evidence=step[3])
        for n, step in enumerate(steps, 1)
    ]
    return read_result(
        [
            event("start", question=question, method="hop", model="m", fidelity="exact", options={}),
            event("plan", nodes=nodes, issues=[]),
            event("retrieve", t=0.1, passages=PASSAGES, issued=0.0, seconds=0.1),
            *settled,
            event("final", t=1.0, answer=answer, abstained=False, stopped_by="", **final),
        ]
    )


def level(result: Result) -> str:
    assert result.confidence is not None
    return result.confidence.level


def shown(result: Result) -> str:
    file = io.StringIO()
    show_result(Console(file=file, width=200), result)
    return file.getvalue()


def ids(result: Result) -> list[str]:
    return [passage.id for passage in result.evidence]


def test_an_option_that_stands_in_a_passage_is_no_guess() -> None:
    answered = asked("Which short option makes nano snip blanks?", "-M")
    assert level(answered) == "well supported" and ids(answered) == ["nano.1#8"]
    assert answered.sentence == "The answer is -M: “-M, --trimblanks” [1]"


@pytest.mark.parametrize("answer", ["-M, --trimblanks", "--trimblanks"])
def test_a_step_is_no_guess_where_the_same_answer_of_a_question_is_none(answer: str) -> None:
    question = "Which option follows -L in the manual of nano?"
    alone, step = asked(question, answer), asked("Which is it?", answer, (question, answer, "fallback", []))
    assert level(alone) == "well supported" == level(step)
    assert (step.tree[0].source, step.tree[0].evidence) == ("external", ("nano.1#8",))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which option follows -L in the manual of nano?", "-K"),
        ("Who made nano?", "nano"),
        ("Is nano an editor?", "Yes"),
        ("How many turbines does Bo Ek lead?", "4"),
    ],
)
def test_a_step_that_no_passage_states_stays_a_guess(question: str, answer: str) -> None:
    assert asked("Which is it?", answer, (question, answer, "fallback", [])).tree[0].source == "fallback"


def test_a_number_in_a_name_is_none_that_was_counted() -> None:
    answered = asked("How many main turbines does Lund Park have?", "4", support=["turbines.xlsx#1"])
    assert level(answered) == "partly supported"
    assert level(asked("Which power has the Skua?", "4.2", support=["turbines.xlsx#1"])) == "well supported"


def test_the_file_that_a_question_names_is_cited_if_it_was_read() -> None:
    question = "How many main bearing errors did scada.log report in January at Lund Park?"
    answered = asked(question, "4", support=["team.mbox#1"])
    assert answered.support == "partly supported: a passage names it, but nothing cited is from scada.log"
    other = asked(question.replace("scada.log", "other.log"), "4", support=["team.mbox#1"])
    assert level(other) == "well supported"


def test_the_head_of_an_email_is_quoted_only_if_nothing_else_has_the_answer() -> None:
    question = "Who leads the project of the turbine that failed at Lund Park?"
    answered = asked(question, "Ada Moor")
    assert "Lead: Ada Moor" in answered.sentence and "From:" not in answered.sentence
    assert "From: Ada Moor" in asked(question, "Ada Moor", support=["team.mbox#1"]).sentence


GUESSED: tuple[Any, ...] = (
    "What is the hotel limit in Poland minus the daily allowance?",
    "310 PLN",
    ("What is the hotel limit in Poland?", "520 PLN", "fallback", []),
    ("What is the daily allowance in Poland?", "210 PLN", "external", ["travel.docx#1"]),
)


def test_a_guess_has_no_evidence() -> None:
    guess = asked(*GUESSED, support=list(TEXTS)[:3])
    assert level(guess) == "a guess" and guess.evidence == ()
    assert [passage.id for passage in guess.consulted] == [*list(TEXTS)[:3], "travel.docx#1"]
    assert "Evidence" not in shown(guess) and "Read, but no evidence" in shown(guess)
    assert "What was read" in result_html(guess) and "[1]" not in result_text(guess)
    view = guess.as_dict()
    assert view["evidence"] == [] and len(view["consulted"]) == 4
    assert view["tree"][1]["evidence"] == ["travel.docx#1"]


def test_a_verdict_rests_on_its_steps_and_two_parts_on_theirs() -> None:
    higher = asked(
        "Has the Skua 4 more power than the Petrel 2?",
        "Yes",
        ("Which power has the Skua 4?", "4.2", "external", ["turbines.xlsx#1"]),
        ("Which power has the Petrel 2?", "2.1", "external", ["turbines.xlsx#1"]),
    )
    assert ids(higher) == ["turbines.xlsx#1"] and len(higher.consulted) == len(TEXTS)
    both = asked(
        "Who leads the Petrel 2, and what is the allowance in Poland?",
        "Bo Ek; 210 PLN",
        ("Who leads the Petrel 2?", "Bo Ek", "external", ["turbines.xlsx#1"]),
        ("What is the daily allowance in Poland?", "210 PLN", "external", ["travel.docx#1"]),
    )
    assert ids(both) == ["turbines.xlsx#1", "travel.docx#1"] and both.sentence.endswith("[1][2].")
    assert "Read, but no evidence" in shown(both)


@pytest.mark.parametrize(
    ("question", "answer", "sentence"),
    [
        ("Which setting has the short option -M?", "trimblanks", "The answer is trimblanks"),
        ("Which file has the settings of nano?", ".nanorc", ".nanorc has the settings of nano"),
        ("When was nano released?", "2000", "The answer is 2000"),
        ("When was the film released?", "2000", "The film was released in 2000"),
        ("Which ship has three masts?", "the Skua", "The Skua has three masts"),
    ],
)
def test_an_identifier_keeps_its_letters_where_a_sentence_begins(question: str, answer: str, sentence: str) -> None:
    assert state_answer(question, answer) == sentence


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Was Owen Pryce born in Brecon?", "well supported"),
        ("Was Owen Pryce born in Whitby?", "partly supported"),
    ],
)
def test_a_yes_needs_all_that_the_question_names(question: str, expected: str) -> None:
    step = (question, "Yes", "external", ["people.md#1"])
    assert level(asked(question, "Yes", step, support=["people.md#1"])) == expected


def test_a_step_needs_its_answer_beside_what_it_asks_about() -> None:
    founder = ("Who founded Kestrel Brewery?", "Edith Marlowe", "external", ["people.md#1"])
    assert level(asked("Who founded Kestrel Brewery?", "Edith Marlowe", founder)) == "partly supported"
    founder = ("Who founded Harrow Brewery?", "Edith Marlowe", "external", ["people.md#1"])
    assert level(asked("Who founded Harrow Brewery?", "Edith Marlowe", founder)) == "well supported"


@pytest.mark.parametrize(("project", "expected"), [("Südwind", "well supported"), ("Nordlicht", "partly supported")])
def test_a_german_noun_is_not_what_a_question_names(project: str, expected: str) -> None:
    assert level(asked(f"Wie hoch ist das Budget des Projekts {project}?", "800.000 Euro")) == expected
