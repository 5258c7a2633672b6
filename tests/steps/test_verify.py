"""Verdicts, references and clues out of whatever a model wrote: unknown in any shape is never supported."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.graph.facts import Fact, Qualifier, Term
from hoptree.methods.steps.evidence_box import (
    Cited,
    EvidenceBox,
    Verdict,
    read_clue,
    read_references,
    read_verdict,
    validate,
)
from hoptree.methods.steps.link import names_in
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.text.answer_fit import explain_type_mismatch
from hoptree.text.loose_json import read_json

JAVA = Passage("Java_0_1", "Java", "Jakarta is on Java's northwestern coast.")
JAKARTA = Passage("Jakarta_5_1", "Jakarta", "Jakarta is situated on the northwest coast of Java.")
CAPITAL = Fact(Term("Q1", "Jakarta"), Term("P1", "capital of"), Term("Q2", "Indonesia"))
ISLAND = Fact(Term("Q1", "Jakarta"), Term("P2", "located in/on physical feature"), Term("Q3", "Java"))
BOX = EvidenceBox((JAVA, JAKARTA), (CAPITAL, ISLAND))


def read(text: str) -> Verdict:
    return read_verdict(read_json(text))


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ('{"isTrue": true}', "supported"),
        ('{"isTrue": True}', "supported"),
        ('{"is_true": true, "fact_sufficient": false}', "supported"),
        ('```json\n{"isTrue": true,}\n```', "supported"),
        ('[{"isTrue": true}]', "supported"),
        ('{"isTrue": false, "fact_sufficient": true}', "refuted"),
        ('{"isTrue": False, "reason": "It is Nusantara."}', "refuted"),
        ('{"isTrue": false, "fact_sufficient": "unknown"}', "refuted"),
        ('{"isTrue": false, "fact_sufficient": false}', "unknown"),
        ('{"isTrue": false, "fact_sufficient": "false"}', "unknown"),
        ('{"isTrue": "unknown"}', "unknown"),
        ('{"isTrue": unknown}', "unknown"),
        ('{"isTrue": "true"}', "unknown"),
        ('{"isTrue": 1}', "unknown"),
        ('{"isTrue": true, "isTrue": false}', "unknown"),
        ('[{"isTrue": true}, {"isTrue": false}]', "unknown"),
        ('[{"isTrue": true}, {"isTrue": true}]', "supported"),
        ('{"isTrue": true} Wait, no: {"isTrue": "unknown"}', "unknown"),
        ('```json\n{"isTrue": true}\n```\nOn second thought:\n```json\n{"isTrue": false}\n```', "unknown"),
        ('{"isTrue": true}\n\nQuestion: Who else?\n{"isTrue": false}', "supported"),
        ('{"isTrue": true} Here {"ref": ["T1"]} is it.', "supported"),
        ('{"isTrue": true, "fact_sufficient": false, "ref": "No Information provided."}', "unknown"),
        ('{"isTrue": true, "fact_sufficient": false, "reason": "The texts do not mention it."}', "unknown"),
        ('{"isTrue": true, "fact_sufficient": false, "reason": "no information", "ref": []}', "unknown"),
        ('{"isTrue": true, "fact_sufficient": true, "reason": "None", "ref": "No Information provided."}', "supported"),
        ('{"fact_sufficient": true}', "unknown"),
        ("{}", "unknown"),
        ("yes", "unknown"),
    ],
)
def test_the_rules_of_the_verdict(reply: str, label: str) -> None:
    assert read(reply).label == label


def test_a_refuted_verdict_tells_why_and_what_is_right() -> None:
    verdict = read('{"isTrue": false, "reason": "It is Nusantara now.", "correct_answer": "Nusantara", "ref": ["T1"]}')
    assert (verdict.reason, verdict.correction, verdict.references) == ("It is Nusantara now.", "Nusantara", ("T1",))
    verdict = read('{"isTrue": true, "reason": "<None>", "correct_answer": "Jakarta"}')
    assert verdict == Verdict("supported"), "what is right is no correction then"


@pytest.mark.parametrize(("question", "correction"), [("How many of them survived?", "None"), ("Who was it?", "")])
def test_none_corrects_only_what_was_counted(question: str, correction: str) -> None:
    reply = '{"isTrue": false, "fact_sufficient": true, "correct_answer": "None"}'
    assert read_verdict(read_json(reply), question).correction == correction


@pytest.mark.parametrize(
    ("hypothesis", "label"),
    [
        ("Java", "supported"),
        ("", "unknown"),
        ("I don't know", "unknown"),
        ("unknown (not in evidence)", "unknown"),
        ("not available in the provided information", "unknown"),
        ("None", "unknown"),
    ],
)
def test_what_says_that_it_is_not_known_is_never_supported(hypothesis: str, label: str) -> None:
    reply = '{"isTrue": true, "fact_sufficient": true, "ref": ["T1"]}'
    ctx = Context(method="treeqa", model=ScriptedModel(rules=[Rule(reply)]), calls=Calls(None), trace=Trace("test"))
    verdict = asyncio.run(validate(ctx, "On which island is Jakarta?", hypothesis, BOX, attempt=1))
    assert (verdict.label, verdict.cited.passages) == (label, (JAVA,) if label == "supported" else ())


@pytest.mark.parametrize(
    ("question", "hypothesis", "fits"),
    [
        ("Where was Ada Moor born?", "30 March 1967", False),
        ("In which city was Ada Moor born?", "1967", False),
        ("Where was Ada Moor born?", "Ghent", True),
        ("Where was Ada Moor born?", "Ghent, 1967", True),
        ("When was Ada Moor born?", "Ghent", False),
        ("When was Ada Moor born?", "in Ghent", False),
        ("When was Ada Moor born?", "30 March 1967", True),
        ("When was Ada Moor born?", "during World War II", True),
        ("When was Ada Moor born?", "the Middle Ages", True),
        ("When was Ada Moor born?", "shortly after Bob Hale", True),
        ("Which player of the year was born where Ada Moor was?", "Ghent", True),
    ],
)
def test_a_place_is_not_asked_for_by_when_nor_a_date_by_where(question: str, hypothesis: str, fits: bool) -> None:
    assert ("is asked for" in explain_type_mismatch(question, hypothesis)) is not fits


NOT_TRUE = st.none() | st.text() | st.integers() | st.floats() | st.lists(st.booleans()) | st.just(False)


@given(
    is_true=NOT_TRUE,
    sufficient=st.booleans() | st.text(max_size=5),
    ref=st.text(max_size=9) | st.lists(st.text(max_size=5)),
)
def test_nothing_but_a_boolean_true_is_supported(is_true: Any, sufficient: Any, ref: Any) -> None:
    text = json.dumps({"isTrue": is_true, "fact_sufficient": sufficient, "ref": ref})
    verdict = read(text)
    assert verdict.label != "supported"
    assert (verdict.label == "refuted") == (is_true is False and str(sufficient).strip().casefold() != "false")


@given(text=st.text(max_size=60) | st.text(alphabet='{}[]":,truefalsknwi T1', max_size=60))
def test_no_reply_makes_the_readers_fail(text: str) -> None:
    assert read(text).label in ("supported", "refuted", "unknown")
    assert len(read_clue(text)) <= 300
    assert len(names_in(text)) <= 12


GOOD = '{"isTrue": true, "fact_sufficient": true, "reason": "None", "ref": {"wikipedia": ["T1"], "Wikidata": ["F2"]}}'


@given(
    start=st.integers(0, 120), end=st.integers(0, 120), put=st.sampled_from(["", "{", "}", '"', "unknown", "\n", ","])
)
def test_damage_to_a_verdict_never_turns_unknown_into_supported(start: int, end: int, put: str) -> None:
    unknown = GOOD.replace("true", '"unknown"', 1).replace("true", "false")
    damaged = unknown[:start] + put + unknown[max(start, end) :]
    assert read(damaged).label != "supported"


# References


@pytest.mark.parametrize(
    ("reference", "passages", "facts"),
    [
        ("T1", [JAVA], []),
        ("[T2]", [JAKARTA], []),
        ("T1, T2", [JAVA, JAKARTA], []),
        ("T1 F1", [JAVA], [CAPITAL]),
        ("T1: Java", [JAVA], []),
        ("t1", [JAVA], []),
        ("1", [JAVA], []),
        ("[2]", [JAKARTA], []),
        ("Text 1", [JAVA], []),
        ("Text 2: Jakarta is situated", [JAKARTA], []),
        ("T1 and T2", [JAVA, JAKARTA], []),
        ("Texts 1 and 2, F2", [JAVA, JAKARTA], [ISLAND]),
        ("F1 and 2", [], [CAPITAL, ISLAND]),
        ("fact 2", [], [ISLAND]),
        ("Java_0_1", [JAVA], []),
        ("java", [JAVA], []),
        ("Jakarta_5_1||The Greater Jakarta area includes three bordering regencies", [JAKARTA], []),
        ("F2", [], [ISLAND]),
        ("Jakarta-capital of-Indonesia", [], [CAPITAL]),
        ("Jakarta | located in/on physical feature | Java", [], [ISLAND]),
        ("[F1] Jakarta | capital of | Indonesia", [], [CAPITAL]),
        ("No Information provided.", [], []),
        ("None", [], []),
        ("", [], []),
    ],
)
def test_what_a_reference_names(reference: str, passages: list[Passage], facts: list[Fact]) -> None:
    cited = BOX.cited([reference])
    assert (list(cited.passages), list(cited.facts), cited.fabricated) == (passages, facts, ())


@pytest.mark.parametrize(
    "reference",
    ["T3", "t3", "Text 3", "9", "12 Angry Men", "F9", "T0", "Bali_0_0", "Jakarta-capital of-Java", "Nobody knows"],
)
def test_what_is_not_in_the_evidence_is_fabricated(reference: str) -> None:
    cited = BOX.cited([reference, "T1"])
    assert (cited.fabricated, cited.passages) == ((reference,), (JAVA,))


@pytest.mark.parametrize("quoted", ["A | rel | B (end time: 1900)", "(A | rel | B (end time: 1900))", "A-rel-B"])
def test_a_fact_may_be_quoted_as_it_is_shown(quoted: str) -> None:
    ended = Qualifier(Term("q", "end time"), Term("", "1900"))
    fact = Fact(Term("a", "A"), Term("p", "rel"), Term("b", "B"), (ended,))
    assert fact.text == "A | rel | B (end time: 1900)"
    assert EvidenceBox((), (fact,)).cited([quoted]) == Cited((), (fact,))


@pytest.mark.parametrize(
    ("value", "references"),
    [
        ("T1", ["T1"]),
        (["T1", "F1"], ["T1", "F1"]),
        ({"wikipedia": ["T1"], "Wikidata": ["F1"]}, ["T1", "F1"]),
        ({"wikipedia": "T1", "Wikidata": None}, ["T1"]),
        (["T1", "T2", "T3"], ["T1", "T2", "T3"]),
        ({"Wikidata": [["Jakarta", "capital of", "Indonesia"]]}, ["Jakarta | capital of | Indonesia"]),
        ([{"head": "Jakarta", "relation": "capital of", "tail": "Indonesia"}], ["Jakarta | capital of | Indonesia"]),
        (None, []),
        (True, []),
        (7, ["7"]),
    ],
)
def test_references_come_in_all_shapes(value: Any, references: list[str]) -> None:
    assert read_references(value) == references


def test_evidence_adds_up_with_the_newest_first_and_each_once() -> None:
    newer = EvidenceBox((JAKARTA,), (ISLAND,)).over(BOX)
    assert (newer.passages, newer.facts) == ((JAKARTA, JAVA), (ISLAND, CAPITAL))
    assert not EvidenceBox() and newer


def test_evidence_is_shown_with_its_tags() -> None:
    ctx = Context(method="treeqa", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("test"))
    texts, facts = BOX.shown(ctx)
    assert texts.splitlines()[1] == "[T2] Jakarta: Jakarta is situated on the northwest coast of Java."
    assert facts == "[F1] Jakarta | capital of | Indonesia\n[F2] Jakarta | located in/on physical feature | Java"
    assert EvidenceBox().shown(ctx) == ("(none)", "(none)")


# Clues and names


@pytest.mark.parametrize(
    ("reply", "clue"),
    [
        ('{"new_clue": "capital relocation of Indonesia"}', "capital relocation of Indonesia"),
        ('```json\n{"New Clue": ["Nusantara", "Borneo"]}\n```', "Nusantara, Borneo"),
        ('{"clue": "Nusantara"}', "Nusantara"),
        ('{"anything": "Nusantara"}', "Nusantara"),
        ("Nusantara", "Nusantara"),
        ("The answer is: Nusantara.", "Nusantara"),
        ('["Nusantara"]', "Nusantara"),
        ("{}", ""),
        ("", ""),
        ('{"new_clue": ""}', ""),
        ('{"new_clue": "unknown"}', ""),
        ('{"new_clue": "half a', "half a"),
    ],
)
def test_a_clue_is_the_value_and_never_the_json(reply: str, clue: str) -> None:
    assert read_clue(reply) == clue


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is the capital of Indonesia? Jakarta", ["Indonesia", "Jakarta"]),
        ("When did Apollo 14 land?", ["Apollo 14", "Apollo"]),
        ("the Apollo program by NASA", ["Apollo", "NASA", "Apollo program"]),
        ("Japan's head is Emperor Naruhito.", ["Japan", "Emperor Naruhito", "Naruhito"]),
        (
            "Who was the President of the United States in December 1968?",
            ["President of the United States", "President", "United States"],
        ),
        ('Who sang "nothing compares 2 u"?', ["nothing compares 2 u"]),
        ("Who is Damien Chazelle's mother?", ["Damien Chazelle", "Chazelle"]),
        ("where is it?", []),
        ("February 5", []),
        ("The Moon", ["The Moon", "Moon"]),
        ("Who directed The Hourglass Sanatorium?", ["The Hourglass Sanatorium", "Hourglass Sanatorium"]),
    ],
)
def test_the_names_in_a_query(text: str, names: list[str]) -> None:
    assert list(names_in(text)) == names


@pytest.mark.parametrize("text", ["-" * 200_000 + "x", "T1 " * 70_000, "No " * 70_000, "A " * 100_000])
def test_endless_texts_are_read_in_no_time(text: str) -> None:
    with cpu_limit():
        BOX.cited(read_references([text, [text]]))
        read(json.dumps({"isTrue": False, "reason": text, "ref": text}))
        read_clue(text)
        names_in(text[:3_000])  # a question and a hypothesis are no longer
