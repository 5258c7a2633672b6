"""GenGround: what the model answers by itself is corrected by the passages that it cites."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.continuation_asked import DUKES, Run, Search
from tests.steps.broken_texts import read_all

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule
from hoptree.text.parse_dialogue import DialogueTurn
from hoptree.text.parse_method_replies import CitedAnswer, cited_passage, read_cited, read_deduced

FATHER = "Who is the father of Charles Bretagne?"
BORN = "Where was Jean Bretagne born?"
DEDUCED = [f"Thought 1: {FATHER}\nAnswer 1: Louis", f"Thought 2: {BORN}\nAnswer 2: Thouars", "FINISH[Paris]"]
ONE_TURN = [DEDUCED[0], "FINISH[x]"]
JEAN = '{"answer": "Jean Bretagne", "citation": "Charles Bretagne Marie was the son of Jean Bretagne Charles."}'
PARIS = '{"answer": "Paris", "citation": "Jean Bretagne Charles de La Trémoille was born in Paris"}'
REVISED = [Rule(JEAN, step="revise", contains=FATHER), Rule(PARIS, step="revise")]
NOT_SAID = "None of the documents that were given mention who wrote it, when that was, or where it was done."
PROSE = (
    "Ada Lovelace wrote it. The first of the documents says that she did so in the year 1843, when she lived in London."
)
NINE = tuple(Passage(f"n{number}", f"Page {number}", f"word{number} stands here.") for number in range(1, 10))


def cite(number: int) -> Rule:
    """What a reader of the batch that begins with a page says: the second page of it."""
    reply = f"Answer: x\nCitation: word{number + 1} stands here."
    return Rule(reply, step="cite", contains=f"Documents:\npassage: word{number} ")


def test_each_guess_is_revised_by_documents_and_goes_on_as_revised() -> None:
    run = Run("genground", [Rule(DEDUCED, step="deduce"), *REVISED])
    assert (run.result.answer, run.queries) == ("Paris", [FATHER, BORN])
    assert [k for _, k in run.shelf.asked] == [9, 9]
    shown = [request.messages[-1].content for request in run.sent("deduce")]
    assert "Steps so far:\nnone\nNext:" in shown[0]
    assert shown[2].endswith(f"Answer 1: Jean Bretagne\nThought 2: {BORN}\nAnswer 2: Paris\nNext:")
    assert "Answer from memory: Louis" in run.sent("revise")[0].messages[-1].content
    assert [(node.answer, node.evidence) for node in run.result.tree[0].children] == [
        ("Jean Bretagne", ("p1",)),
        ("Paris", ("p2",)),
    ]
    assert run.result.tree[0].answer == "Paris"


def test_of_nine_passages_in_batches_of_three_the_cited_ones_are_left() -> None:
    script = [Rule(ONE_TURN, step="deduce"), cite(1), cite(4), cite(7), *REVISED]
    run = Run("genground", script, shelf=Search(*NINE))
    assert [event["value"] for event in run.of("decision", kind="cited")] == ["n2", "n5", "n8"]
    (revised,) = run.sent("revise")
    assert [f"word{number}" in revised.messages[-1].content for number in range(1, 10)] == [
        number in (2, 5, 8) for number in range(1, 10)
    ]


def test_batches_that_hold_nothing_are_dropped_and_the_last_is_not_read_before() -> None:
    rules = [Rule(ONE_TURN, step="deduce"), Rule("Insufficient information", step="cite"), *REVISED]
    run = Run("genground", rules, shelf=Search(*NINE))
    assert len(run.sent("cite")) == 2
    assert "word7" in run.sent("revise")[0].messages[-1].content
    assert all(event["ok"] for event in run.of("parse", step="cite"))


def test_what_is_cited_is_read_again_while_there_is_more_than_a_batch() -> None:
    script = [Rule(ONE_TURN, step="deduce"), cite(1), cite(3), cite(5), cite(7), cite(9), cite(4)]
    run = Run("genground", [*script, cite(8), *REVISED], shelf=Search(*NINE), batch=2)
    of = [event["of"] for event in run.of("decision", kind="cited")]
    assert of == [
        ["n1", "n2"],
        ["n3", "n4"],
        ["n5", "n6"],
        ["n7", "n8"],
        ["n9", "n2"],
        ["n4", "n6"],
        ["n8", "n9"],
    ]
    assert "word4 stands here.\npassage: word9" in run.sent("revise")[0].messages[-1].content


def test_a_batch_of_one_would_never_end() -> None:
    run = Run("genground", [Rule("x")], batch=1)
    assert run.result.error == "ConfigError" and "batch" in run.result.error_message


def test_a_revision_is_asked_for_three_times_and_then_the_guess_stands() -> None:
    long = '{"answer": "' + "word " * 21 + '", "citation": ""}'
    run = Run("genground", [Rule(ONE_TURN, step="deduce"), Rule(["", "{]", long, JEAN], step="revise")])
    assert [event["ok"] for event in run.of("parse", step="revise")] == [False] * 3
    assert run.result.tree[0].children[0].answer == "Louis"
    assert run.sent("revise")[1].messages[-1].content.startswith("That cannot be used: there is no answer in it.")
    assert "21 words" in run.of("parse", step="revise")[2]["error"]


def test_what_is_told_in_prose_is_found_but_is_no_revision() -> None:
    replies = (
        "The father of Charles Bretagne Marie was Jean Bretagne Charles de La Trémoille, of whom he was the only son."
    )
    prose = f"{replies} So it was Jean Bretagne."
    run = Run("genground", [Rule(ONE_TURN, step="deduce"), Rule(prose, step="cite"), Rule(JEAN)], batch=2)
    assert [event["value"] for event in run.of("decision", kind="cited")] == ["p1"]
    assert [(event["ok"], event["repairs"]) for event in run.of("parse", step="cite")] == [(True, ["prose"])]
    idle = Rule("and then some more words of no use " * 9, step="cite")
    run = Run("genground", [Rule(ONE_TURN, step="deduce"), idle, Rule(JEAN)], batch=2)
    assert [event["ok"] for event in run.of("parse", step="cite")] == [False]
    run = Run("genground", [Rule(ONE_TURN, step="deduce"), Rule([prose, JEAN], step="revise")])
    assert [event["ok"] for event in run.of("parse", step="revise")] == [False, True]


def test_a_guess_of_nothing_that_stays_nothing_is_no_answer() -> None:
    empty = '{"answer": "none", "citation": ""}'
    run = Run("genground", [Rule([f"Thought 1: {FATHER}", "FINISH[x]"], step="deduce"), Rule(empty, step="revise")])
    assert "Answer from memory: none" in run.sent("revise")[0].messages[-1].content
    assert run.result.tree[0].children[0].answer == ""


def test_a_second_try_counts() -> None:
    run = Run("genground", [Rule(ONE_TURN, step="deduce"), Rule(["…", JEAN], step="revise")])
    assert run.result.tree[0].children[0].answer == "Jean Bretagne" and len(run.sent("revise")) == 2


@pytest.mark.parametrize(
    "unsure", ["Insufficient information", '{"answer": "unknown"}', '{"answer": "Not mentioned."}']
)
def test_documents_that_say_nothing_leave_the_guess(unsure: str) -> None:
    run = Run("genground", [Rule(ONE_TURN, step="deduce"), Rule(unsure, step="revise")])
    assert run.result.tree[0].children[0].answer == "Louis" and len(run.sent("revise")) == 1


def test_a_guess_that_comes_back_with_a_citation_that_is_made_up_stays_a_guess() -> None:
    echo = '{"answer": "louis", "citation": "the sentence of the documents, word for word"}'
    run = Run("genground", [Rule(ONE_TURN, step="deduce"), Rule(echo, step="revise")])
    (node,) = run.result.tree[0].children
    assert (node.answer, node.source, node.evidence) == ("Louis", "internal", ())
    assert [event["grounded"] for event in run.of("decision", kind="revised")] == [False]


def test_nothing_found_leaves_the_guess() -> None:
    run = Run("genground", [Rule(DEDUCED, step="deduce")], shelf=Search())
    assert run.steps == ["deduce"] * 3 and [node.answer for node in run.result.tree[0].children] == ["Louis", "Thouars"]


def test_seven_turns_without_finish_are_put_together() -> None:
    several = [f"Thought {number}: Who is number {number}?\nAnswer {number}: Ada" for number in range(1, 20)]
    run = Run("genground", [Rule(several, step="deduce"), *REVISED, Rule("Armand", step="final")])
    assert len(run.sent("deduce")) == 7 and run.result.answer == "Armand"
    assert "Who is number 7? Paris" in run.sent("final")[0].messages[-1].content


@pytest.mark.parametrize("bad", ["", "garbage", "Thought 2:", "FINISH[]"])
def test_a_turn_that_is_none_ends_the_loop(bad: str) -> None:
    run = Run("genground", [Rule([DEDUCED[0], bad], step="deduce"), *REVISED, Rule("Armand", step="final")])
    assert (run.result.answer, run.queries) == ("Armand", [FATHER])
    assert [event["ok"] for event in run.of("parse", step="deduce")] == [True, False]


def test_a_thought_that_comes_again_ends_the_loop_but_could_be_read() -> None:
    again = f"Thought 2: {FATHER.upper()}\nAnswer 2: x"
    run = Run("genground", [Rule([DEDUCED[0], again], step="deduce"), *REVISED, Rule("Armand", step="final")])
    assert (run.result.answer, run.queries) == ("Armand", [FATHER])
    assert [event["ok"] for event in run.of("parse", step="deduce")] == [True, True]
    assert [event["value"] for event in run.of("decision", kind="nothing_new")] == [FATHER.upper()]


def test_turns_that_come_to_nothing_are_no_answer() -> None:
    run = Run("genground", [Rule(ONE_TURN[:1], step="deduce"), *REVISED, Rule("Not mentioned.", step="final")])
    assert (run.result.answer, run.result.abstained) == ("", True)
    run = Run("genground", [Rule("", step="deduce"), Rule("unknown", step="direct")])
    assert (run.result.answer, run.result.abstained) == ("", True)


def test_without_any_turn_the_question_is_answered_from_memory() -> None:
    run = Run("genground", [Rule("", step="deduce"), Rule("Armand", step="direct")])
    assert (run.result.answer, run.steps) == ("Armand", ["deduce", "direct"])


def test_the_whole_dialogue_in_one_go_counts_up_to_its_first_answer() -> None:
    dialogue = "\n".join(
        ["Thought 1: " + FATHER, "Answer 1: Louis", "Thought 2: Who is Louis?", "Answer 2: x", "FINISH[Henri]"]
    )
    run = Run("genground", [Rule([dialogue, *DEDUCED[1:]], step="deduce"), *REVISED])
    assert (run.result.answer, run.queries) == ("Paris", [FATHER, BORN])
    spent = Run("genground", [Rule(dialogue, step="deduce")], budget=Budget(calls=1))
    assert (spent.result.answer, spent.result.stopped_by) == ("Henri", "calls")


def test_a_spent_budget_leaves_no_answer_of_a_turn() -> None:
    unbounded = Run("genground", [Rule(DEDUCED, step="deduce"), *REVISED])
    calls = unbounded.steps.index("deduce", 1)  # as many as the first turn takes
    spent = Run("genground", [Rule(DEDUCED, step="deduce"), *REVISED], budget=Budget(calls=calls))
    assert (spent.result.answer, spent.result.stopped_by) == ("", "calls")
    assert spent.result.tree[0].children[0].answer


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("FINISH[Paris].", DialogueTurn(final="Paris")),
        ('finish["Paris (Texas)"]', DialogueTurn(final="Paris (Texas)")),
        ("FINISH[Smile [album]] and more", DialogueTurn(final="Smile [album]")),
        ("Final answer: Paris", DialogueTurn(final="Paris")),
        ("Thought 3: I know enough now.\nFINISH[no]", DialogueTurn(open="I know enough now.", final="no")),
        ("thought: Who? answer: Ada", DialogueTurn((("Who?", "Ada"),))),
        ("**Thought 1:** Who?\n**Answer 1:** Ada", DialogueTurn((("Who?", "Ada"),))),
        ("Thought 1: Who?", DialogueTurn(open="Who?")),
        ("Thought 1. Who?\nAnswer 1. Ada", DialogueTurn((("Who?", "Ada"),))),
        ("Step 2: Who?\nAnswer: Ada", DialogueTurn((("Who?", "Ada"),))),
        ("Question 2: Who?\nAnswer 2: Ada", DialogueTurn((("Who?", "Ada"),))),
        ("Who is it?\nAnswer 1: Ada", DialogueTurn((("Who is it?", "Ada"),))),
        ("Who is it?", DialogueTurn(open="Who is it?")),
        ("Question: Who is it?", DialogueTurn()),
        ("FINISH Paris", DialogueTurn(final="Paris")),
        ("FINISH{Paris}", DialogueTurn(final="Paris")),
        ("**FINISH**[Paris]", DialogueTurn(final="Paris")),
        ("FINISH", DialogueTurn()),
        ("Thought 1: Which was at the finish line first?", DialogueTurn(open="Which was at the finish line first?")),
    ],
)
def test_deductions_are_read_in_every_form(text: str, turn: DialogueTurn) -> None:
    assert read_deduced(text) == turn


def test_enough_is_known_without_a_further_question() -> None:
    run = Run("genground", [Rule([DEDUCED[0], "Thought 2: That is all.\nFINISH[no]"], step="deduce"), *REVISED])
    assert (run.result.answer, run.queries) == ("no", [FATHER])


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Answer: Ada\nCitation: Ada wrote it.", CitedAnswer("Ada", "Ada wrote it.")),
        ("answer: Ada citation: Ada wrote it.", CitedAnswer("Ada", "Ada wrote it.")),
        ('```json\n{"Answer": "Ada", "citation": null}\n```', CitedAnswer("Ada", "", repairs=("fence", "balanced"))),
        ('{"answer": true, "citation": ["a", 1]}', CitedAnswer("yes", "a, 1")),
        ("Ada", CitedAnswer("Ada", repairs=("bare",))),
        ("There is insufficient information.", CitedAnswer()),
        ("Answer: Insufficient information\nCitation: none", CitedAnswer()),
        ("", CitedAnswer(error="there is no answer in it", repairs=("bare",))),
        ("…", CitedAnswer(error="there is no answer in it", repairs=("bare",))),
        ("{}", CitedAnswer(error="there is no answer in it")),
        ("Citation: only this.", CitedAnswer(error="there is no answer in it")),
        ('{"citation": "only this"}', CitedAnswer(error="there is no answer in it")),
        ('{"answer": "", "citation": ""}', CitedAnswer()),
        ('{"answer": null, "citation": ""}', CitedAnswer()),
        ('{"answer": "none", "citation": ""}', CitedAnswer()),
        ('{"answer": "None", "citation": "None of them came."}', CitedAnswer("None", "None of them came.")),
        ("Answer: None\nCitation:", CitedAnswer()),
        ('[{"answer": "Ada", "citation": "She."}]', CitedAnswer("Ada", "She.")),
        (f"{NOT_SAID} So I would say that these documents do not help.", CitedAnswer()),
        (PROSE, CitedAnswer("Ada Lovelace wrote it", PROSE, repairs=("prose",))),
    ],
)
def test_citations_are_read_in_every_form(text: str, cited: CitedAnswer) -> None:
    assert read_cited(text) == cited


@pytest.mark.parametrize(
    "text",
    [
        '{\n"answer": "Ada",\n"citation": "She wrote "X" alone."\n}',
        '{"answer": "Ada", "citation": "She wrote "X" alone."}',
        '"answer": "Ada", "citation": "She wrote "X" alone."',
    ],
)
def test_quotation_marks_in_quotation_marks_are_read(text: str) -> None:
    cited = read_cited(text)
    assert (cited.answer, cited.citation, cited.error) == ("Ada", 'She wrote "X" alone.', "")


def test_a_citation_that_no_passage_shares_a_word_with_keeps_none() -> None:
    assert cited_passage(CitedAnswer("x", "Quite otherwise"), DUKES) is None
    assert cited_passage(CitedAnswer("x", "a town in western France"), DUKES) == DUKES[2]
    assert cited_passage(CitedAnswer("Thouars"), DUKES) == DUKES[2]
    assert cited_passage(CitedAnswer("Thouars", "they give you no instructions"), DUKES) == DUKES[2], (
        "copied from the prompt"
    )


@pytest.mark.parametrize("read", [read_deduced, read_cited, lambda text: read_cited(f'{{"answer": "{text}')])
def test_a_reply_of_any_length_is_read_in_time(read: Callable[[str], object]) -> None:
    read_all(read)


PARTS = ("Thought 1: ", "Answer: ", "Citation:", "FINISH[", "]", "\n", "Who?", '{"answer":', '"', "}", "**", " ")


@given(st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=5)), max_size=12))
def test_any_reply_can_be_read(parts: list[str]) -> None:
    text = "".join(parts)
    turn, cited = read_deduced(text), read_cited(text)
    assert all(question and answer for question, answer in turn.pairs)
    assert not (cited.answer and cited.error)
