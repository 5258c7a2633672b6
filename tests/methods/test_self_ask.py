"""Self-Ask: follow-ups are looked up one at a time, whatever else a model writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.continuation_asked import DUKES, Run, Search
from tests.methods.continuation_asked import GRANDFATHER as DUKE
from tests.steps.broken_texts import read_all

from hoptree.core.values import Answer
from hoptree.engine.context import Budget
from hoptree.methods.baselines.self_ask import LABELS, write_dialogue
from hoptree.models.scripted import Rule
from hoptree.text.parse_dialogue import DialogueTurn, read_dialogue

FATHER = "Who is the father of Charles Bretagne?"
GRANDFATHER = "Who is the father of Jean Bretagne?"
ASKED = [f" Yes.\nFollow up: {FATHER}\n", f"\nFollow up: {GRANDFATHER}\n", "\nSo the final answer is: Charles Armand"]
READ = [Rule("Jean Bretagne", step="read", contains=FATHER), Rule("Charles Armand René", step="read")]
HEAD = "Are follow up questions needed here:"


def test_follow_ups_are_looked_up_and_answered_until_the_final_answer() -> None:
    run = Run("self_ask", [Rule(ASKED, step="follow_up"), *READ])
    assert (run.result.answer, run.queries) == ("Charles Armand", [FATHER, GRANDFATHER])
    assert [k for _, k in run.shelf.asked] == [5, 5]
    prefixes = [request.prefix for request in run.sent("follow_up")]
    first = f"{HEAD} Yes.\nFollow up: {FATHER}\nIntermediate answer: Jean Bretagne"
    second = f"{first}\nFollow up: {GRANDFATHER}\nIntermediate answer: Charles Armand René"
    assert prefixes == [HEAD, f"{first}\n", f"{second}\n"], "the answer before is not written on"
    assert "Intermediate answer:" in run.sent("follow_up")[0].stop
    assert not run.sent("final")
    assert all(event["template"].startswith("shared/") for event in run.of("llm")), "other methods call it, too"


def test_the_follow_ups_are_nodes_of_a_tree() -> None:
    run = Run("self_ask", [Rule(ASKED, step="follow_up"), *READ])
    (root,) = run.result.tree
    assert [(node.question, node.answer, node.source) for node in root.children] == [
        (FATHER, "Jean Bretagne", "external"),
        (GRANDFATHER, "Charles Armand René", "external"),
    ]
    assert root.answer == "Charles Armand" and {p.id for p in run.result.evidence} == {"p1", "p2"}


@pytest.mark.parametrize("without", [frozenset(), frozenset({"prefix"})])
def test_a_model_that_writes_the_whole_dialogue_is_cut_at_its_first_own_answer(without: frozenset[str]) -> None:
    own = f"{HEAD} Yes.\nFollow up: {FATHER}\nIntermediate answer: Louis\nFollow up: Who is Louis?\n"
    dialogue = f"{own}Intermediate answer: a king\nSo the final answer is: Henri"
    run = Run("self_ask", [Rule([dialogue, *ASKED[1:]], step="follow_up"), *READ], without=without)
    assert (run.result.answer, run.queries) == ("Charles Armand", [FATHER, GRANDFATHER])
    assert all("Louis" not in str(request) for request in run.sent("follow_up"))


def test_a_model_that_cannot_continue_is_shown_the_dialogue_and_may_say_it_again() -> None:
    again = f"{HEAD} Yes.\nFollow up: {FATHER}\nIntermediate answer: Jean Bretagne{ASKED[1]}"
    script = [Rule([ASKED[0], again, again + "Intermediate answer: x\nFinal answer: Armand"], step="follow_up"), *READ]
    run = Run("self_ask", script, without=frozenset({"prefix"}))
    assert (run.result.answer, run.queries) == ("Armand", [FATHER, GRANDFATHER])
    shown = [request.messages[-1].content for request in run.sent("follow_up")]
    assert "Written so far:" not in shown[0] and "Intermediate answer: Jean Bretagne\nWrite only" in shown[1]
    assert all(request.prefix == "" for request in run.sent("follow_up"))


@pytest.mark.parametrize(
    ("bad", "read"),
    [
        ("", False),
        ("  \n", False),
        ("Yes.", False),
        ("I cannot say.", False),
        ("Follow up:", False),
        (f"Follow up: {FATHER}?", True),
        ("Follow up: None", True),
        ("No.", True),
    ],
)
def test_without_a_new_follow_up_the_final_answer_is_asked_for(bad: str, read: bool) -> None:
    run = Run("self_ask", [Rule([ASKED[0], bad], step="follow_up"), Rule(" Armand.", step="final"), *READ])
    assert (run.result.answer, run.queries) == ("Armand", [FATHER])
    (final,) = run.sent("final")
    assert final.prefix.endswith("Intermediate answer: Jean Bretagne\nSo the final answer is:")
    assert final.max_tokens == 20
    assert [event["ok"] for event in run.of("parse", step="follow_up")] == [True, read]
    assert len(run.of("decision", kind="nothing_new")) == read


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (" Armand.\nFollow up: Who is Armand?", "Armand"),
        (" **Armand** Follow up: Who is Armand?", "Armand"),
        ("So the final answer is: Armand", "Armand"),
        ("Follow up: Who is Armand?", ""),
        ("Follow up: Who is Armand?\nIntermediate answer: a duke", ""),
        ("", ""),
    ],
)
def test_a_follow_up_is_no_final_answer(reply: str, answer: str) -> None:
    run = Run("self_ask", [Rule("Yes.", step="follow_up"), Rule(reply, step="final")])
    assert (run.result.answer, run.result.abstained) == (answer, not answer)
    assert [event["ok"] for event in run.of("parse", step="final")] == [bool(answer)]


def test_a_model_that_needs_no_follow_up() -> None:
    run = Run("self_ask", [Rule(" No.\nSo the final answer is: Armand.", step="follow_up")])
    assert (run.result.answer, run.queries, run.steps) == ("Armand", [], ["follow_up"])


def test_a_model_that_asks_the_question_itself_has_it_looked_up_once() -> None:
    run = Run("self_ask", [Rule(f"Yes.\nFollow up: {DUKE}", step="follow_up"), *READ, Rule("Armand", step="final")])
    assert (run.result.answer, run.queries) == ("Armand", [DUKE])
    assert [event["value"] for event in run.of("decision", kind="nothing_new")] == [DUKE]


def test_five_follow_ups_at_most() -> None:
    several = [f"Follow up: Who is number {number}?" for number in range(20)]
    run = Run("self_ask", [Rule(several, step="follow_up"), Rule("Armand", step="final"), Rule("Jean", step="read")])
    assert len(run.queries) == 5 == len(run.sent("follow_up")) and run.result.answer == "Armand"


@pytest.mark.parametrize("shelf", [Search(), Search(*DUKES)])
def test_what_no_passage_holds_is_answered_from_memory_or_unknown(shelf: Search) -> None:
    memory = Rule(["Louis", "I do not know."], step="direct")
    script = [Rule(ASKED, step="follow_up"), Rule("The documents do not mention it.", step="read"), memory]
    run = Run("self_ask", script, shelf=shelf)
    last = run.sent("follow_up")[-1].prefix
    assert "Intermediate answer: Louis\n" in last and last.endswith("Intermediate answer: unknown\n")
    assert [node.source for node in run.result.tree[0].children] == ["internal", "none"]


def test_without_search_the_model_writes_the_dialogue_by_itself() -> None:
    own = f" Yes.\nFollow up: {FATHER}\nIntermediate answer: Jean.\nSo the final answer is: Armand\nQuestion: Who?"
    run = Run("self_ask", [Rule(own, step="follow_up")], search=False)
    assert (run.result.answer, run.queries, run.steps) == ("Armand", [], ["follow_up"])
    assert [(node.question, node.answer) for node in run.result.tree[0].children] == [(FATHER, "Jean")]
    assert run.sent("follow_up")[0].max_tokens == 256


def test_without_search_an_open_follow_up_is_answered_from_memory() -> None:
    run = Run("self_ask", [Rule(ASKED, step="follow_up"), Rule("Jean", step="direct")], search=False)
    assert (run.result.answer, run.steps) == ("Charles Armand", ["follow_up", "direct"] * 2 + ["follow_up"])


def test_a_spent_budget_leaves_the_models_own_final_answer_and_no_intermediate_one() -> None:
    own = f"Follow up: {FATHER}\nIntermediate answer: Jean\nSo the final answer is: Armand"
    run = Run("self_ask", [Rule(own, step="follow_up"), *READ], budget=Budget(calls=2))
    assert (run.result.answer, run.result.stopped_by) == ("Armand", "calls")
    run = Run("self_ask", [Rule(ASKED, step="follow_up"), *READ], budget=Budget(calls=2))
    assert (run.result.answer, run.result.stopped_by) == ("", "calls")
    assert run.result.tree[0].children[0].answer == "Jean Bretagne", "where it is an answer"


def test_a_spent_budget_leaves_what_a_follow_up_that_asks_the_question_itself_found() -> None:
    run = Run("self_ask", [Rule(f"Follow up: {DUKE}", step="follow_up"), *READ], budget=Budget(calls=2))
    assert (run.result.answer, run.result.stopped_by) == ("Charles Armand René", "calls")


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("Are follow up questions needed here: Yes.", DialogueTurn()),
        (
            "yes. follow-up: Who? INTERMEDIATE ANSWER: Ada. so the final answer is ada",
            DialogueTurn((("Who?", "Ada."),), "", "ada"),
        ),
        ("**Follow up:** Who is it?\n", DialogueTurn(open="Who is it?")),
        ("Follow up question 1: Who?\nFollow up question 2: When?", DialogueTurn(open="When?")),
        ("Follow up: Who?\nIntermediate answer:", DialogueTurn(open="Who?")),
        ("Follow up:\nIntermediate answer: Ada", DialogueTurn()),
        (
            "Follow up: Who?\nIntermediate answer:\nAda\nThe final answer: Bob",
            DialogueTurn((("Who?", "Ada"),), "", "Bob"),
        ),
        ("Therefore, the answer is: Bob.\nFollow up: Who?", DialogueTurn(final="Bob")),
        ("So the final answer is:", DialogueTurn()),
        ("Follow up questions:\n1. Who is it?\n2. When?", DialogueTurn(open="Who is it?")),
        ("Follow up: 1984 is by whom?", DialogueTurn(open="1984 is by whom?")),
        ("Yes.\nWho is the **father** of Ada?\nI ask this first.", DialogueTurn(open="Who is the **father** of Ada?")),
        ("Question: Who is it?", DialogueTurn()),
        ("I wonder.", DialogueTurn()),
    ],
)
def test_dialogues_are_read_in_every_form(text: str, turn: DialogueTurn) -> None:
    assert read_dialogue(text, LABELS) == turn


def test_a_reply_of_any_length_is_read_in_time() -> None:
    def read(text: str) -> None:
        run = Run("self_ask", [Rule(f"{text} x", step="follow_up"), Rule("Armand")], max_follow_ups=1)
        assert not run.result.error

    read_all(read)


PARTS = ("Follow up: ", "follow-up 2:", "Intermediate answer: ", "So the final answer is: ", "\n", "Who?", "**", " ")


@given(st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=5)), max_size=12))
def test_any_reply_can_be_read(parts: list[str]) -> None:
    turn = read_dialogue("".join(parts), LABELS)
    assert all(question and answer for question, answer in turn.pairs)


@given(st.lists(st.sampled_from(("Who is Ada", "When?", "Where was X born?", "Ist das so?")), unique=True))
def test_what_is_written_is_read_again(questions: list[str]) -> None:
    pairs = tuple((question, f"Answer {number}") for number, question in enumerate(questions))
    assert read_dialogue(
        write_dialogue([(follow_up, Answer(reply)) for follow_up, reply in pairs]), LABELS
    ) == DialogueTurn(pairs)
