"""RA-ISF as in the paper: self-knowledge, passages, sub-questions."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.ra_isf_asked import FIRST, ROOT, SECOND, Run, deeper, knows, listed, rules

from hoptree.engine.result import TreeNode
from hoptree.models.scripted import Rule

# Self-knowledge


def test_what_is_known_is_answered_without_looking_it_up() -> None:
    run = Run(rules(know="Yes"))
    assert (run.result.answer, run.steps, run.shelf.asked) == ("direct answer", ["know", "direct"], [])
    assert (run.root.id, run.root.source, run.root.children) == (0, "internal", [])
    node = run.node(0)
    assert (node["branch"], node["know"], node["know_raw"], node["depth"]) == ("self-knowledge", True, "Yes", 0)
    assert "relevance" not in node and "passages" not in node


def test_an_answer_given_with_the_yes_is_not_asked_for_again() -> None:
    run = Run(rules(know="Yes. The answer is Celia Martin."))
    assert (run.result.answer, run.steps) == ("Celia Martin", ["know"])
    assert run.root.source == "internal"


def test_a_yes_in_other_words_is_asked_for_its_answer() -> None:
    run = Run(rules(know="Yes, I am familiar with this topic.", direct="Celia Martin"))
    assert (run.result.answer, run.steps) == ("Celia Martin", ["know", "direct"])


def test_where_yes_or_no_is_asked_for_the_yes_is_in_the_answer() -> None:
    run = Run(rules(know="Yes, they are both Polish."), question="Are Has and Polanski both Polish?")
    assert (run.result.answer, run.steps) == ("Yes", ["know"])
    assert run.of("final")[0]["raw"] == "Yes, they are both Polish"


@pytest.mark.parametrize("reply", ["No", "unknow", "Perhaps", ""])
def test_everything_but_a_yes_leads_to_passages(reply: str) -> None:
    run = Run(rules(know=reply, relevance="relevance"))
    assert run.shelf.asked == [(ROOT, 5)]
    assert run.of("decision", kind="know", value=False)


# Passages


def test_only_the_relevant_passages_are_read() -> None:
    run = Run(rules(Rule("relevance", step="relevance", contains="Celia"), read="Celia Martin"))
    (read,) = run.texts("read")
    assert "Celia Martin" in read and "directed" not in read and "swimming" not in read
    assert (run.result.answer, run.root.source, run.root.evidence) == ("Celia Martin", "external", ("p2",))
    node = run.node(0)
    assert node["relevance"] == [["p1", False], ["p2", True], ["p3", False]]
    assert (node["branch"], node["sub_questions"], node["unknown"]) == ("passages", 0, False)
    assert [name for name, _ in node["passages"]] == ["p1", "p2", "p3"]
    assert Counter(run.steps) == {"know": 1, "relevance": 3, "read": 1}


def test_irrelevance_is_not_relevance() -> None:
    run = Run(rules(relevance="irrelevance"), no_decomposition=True)
    assert "read" not in run.steps and run.node(0)["relevance"] == [["p1", False], ["p2", False], ["p3", False]]


def test_listwise_judges_all_passages_in_one_call() -> None:
    run = Run(rules(relevance="Relevant paragraphs: [1], [2]\nNot relevant: [3]"), relevance="listwise")
    assert Counter(run.steps) == {"know": 1, "relevance": 1, "read": 1}
    assert "[1] Whiplash was" in run.texts("relevance")[0] and "[3] An" in run.texts("relevance")[0]
    assert "swimming" not in run.texts("read")[0]
    assert run.of("decision", kind="relevance")[0]["how"] == "listwise"


def test_a_search_that_finds_nothing_leads_to_sub_questions() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), shelf=Shelf())
    assert "relevance" not in run.steps and run.root.why.startswith("nothing was found")
    assert run.result.answer == "combined answer"


def test_a_reader_that_finds_nothing_ends_it_as_in_the_paper() -> None:
    run = Run(rules(relevance="relevance", read="The passages do not mention the answer."))
    assert (run.result.answer, run.result.abstained, "decompose" in run.steps) == ("", True, False)
    assert (run.node(0)["branch"], run.node(0)["unknown"]) == ("passages", True)


def test_with_fallthrough_it_goes_on_to_sub_questions() -> None:
    script = rules(knows(FIRST), knows(SECOND), relevance="relevance", read="The passages do not mention the answer.")
    run = Run(script, fallthrough=True)
    assert run.result.answer == "combined answer"
    assert "without the answer" in run.root.why
    assert run.result.fidelity == "approx"


@pytest.mark.parametrize("k", [1, 2])
def test_as_many_passages_are_asked_for_as_k_says(k: int) -> None:
    run = Run(rules(relevance="relevance"), k=k)
    assert run.shelf.asked == [(ROOT, k)] and run.steps.count("relevance") == k


def test_the_last_words_of_a_question_are_searched_for() -> None:
    run = Run(rules(relevance="relevance"), query_length=3)
    assert [asked for asked, _ in run.shelf.asked] == [" ".join(ROOT.split()[-3:])] and len(ROOT.split()) > 3


@pytest.mark.parametrize(("options", "shown"), [({"titles": True}, True), ({}, False)])
def test_titles_are_shown_when_asked_for(options: dict[str, Any], shown: bool) -> None:
    """To those who judge and to those who read."""
    run = Run(rules(relevance="relevance"), **options)
    for step in ("relevance", "read"):
        assert ("Damien Chazelle: Damien" in "".join(run.texts(step))) is shown, step


# Sub-questions


def test_what_neither_knows_is_split_and_combined() -> None:
    script = rules(
        knows(FIRST),
        Rule("relevance", step="relevance", regex=f"(?s)Celia.*{re.escape(SECOND)}"),
        direct="Damien Chazelle",
        read="Celia Martin",
    )
    run = Run(script)
    assert run.result.answer == "combined answer"
    first, second = run.root.children
    assert [(node.id, node.question, node.answer, node.source) for node in (run.root, first, second)] == [
        (0, ROOT, "combined answer", "synthesis"),
        (1, FIRST, "Damien Chazelle", "internal"),
        (2, SECOND, "Celia Martin", "external"),
    ]
    assert run.root.why == "0 of 3 passages relevant; 2 sub-questions, 0 unknown"
    (combine,) = run.texts("combine")
    assert f"1. {FIRST}\nDamien Chazelle\n2. {SECOND}\nCelia Martin" in combine and f"Question: {ROOT}" in combine
    assert (run.node(0)["branch"], run.node(0)["sub_questions"]) == ("sub-questions", 2)
    assert [run.node(n)["depth"] for n in (0, 1, 2)] == [0, 1, 1]


def test_unknown_sub_answers_are_marked_as_such() -> None:
    run = Run(rules(knows(FIRST)), depth=1, depth_rule="prune")
    assert f"2. {SECOND}\n[unknown]" in run.texts("combine")[0]
    assert run.root.why.endswith("2 sub-questions, 1 unknown")
    assert (run.root.children[1].state, run.root.children[1].answer) == ("unanswered", "")


def test_a_combination_that_says_unknown_is_no_answer() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND), combine="unknown"))
    assert (run.result.answer, run.result.abstained) == ("", True)


@pytest.mark.parametrize("reply", ["", "I cannot split this.", "1. One step"])
def test_what_cannot_be_split_is_unknown(reply: str) -> None:
    run = Run(rules(decompose=reply))
    assert (run.result.answer, run.root.children, run.steps.count("combine")) == ("", [], 0)
    assert run.root.why.endswith("no new sub-question")


def test_all_sub_questions_are_asked_unless_there_is_a_cap() -> None:
    numbered = [f"Who is number {n}?" for n in range(6)]
    script = rules(know="Yes", decompose=listed(*numbered))
    run = Run(script, no_self_knowledge=True, depth=1)
    assert [node.question for node in run.root.children] == numbered
    assert (run.result.fidelity, run.of("decision", kind="split", node=0)[0]["beyond"]) == ("exact", [])
    run = Run(script, no_self_knowledge=True, depth=1, max_sub_questions=4)
    assert [node.question for node in run.root.children] == numbered[:4]
    assert run.result.fidelity == "approx"
    assert run.of("decision", kind="split", node=0)[0]["beyond"] == ["Who is number 4?", "Who is number 5?"]


def test_a_sub_question_that_was_asked_on_the_way_down_is_cut() -> None:
    """The paper's code would go round for ever; here neither the parent nor any other ancestor comes again."""
    script = rules(
        Rule(listed("Who is B?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("who is  A", "Who is B", "Who is C?"), step="decompose", contains="Question: Who is B?"),
        knows("Who is C?"),
    )
    run = Run(script, question="Who is A?", depth=9)
    (b,) = run.root.children
    assert [node.question for node in b.children] == ["Who is C?"]
    assert run.of("decision", kind="split", node=1)[0]["loops"] == ["who is A", "Who is B"]


def test_a_question_that_only_leads_back_to_itself_is_unknown() -> None:
    run = Run(rules(decompose=listed(ROOT.upper())))
    assert (run.result.answer, run.root.children) == ("", [])


def levels(node: TreeNode) -> int:
    return 1 + max((levels(child) for child in node.children), default=-1)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
def test_depth_counts_levels_from_0_to_the_threshold(depth: int) -> None:
    """Algorithm 1 asks at levels 0 to D_th, and splits the last of them into what is unknown without being asked."""
    run = Run(deeper(depth), question="Who is number 0?", depth=depth)
    assert Counter(run.steps) == {
        "know": depth + 1,
        "relevance": 3 * (depth + 1),
        "decompose": depth + 1,
        "combine": depth + 1,
    }
    assert levels(run.root) == depth + 1
    last = run.of("node", depth=depth + 1)[0]
    assert (last["why"], last["spent"]["calls"]) == (f"deeper than {depth}", 0)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
def test_prune_does_not_split_at_the_threshold(depth: int) -> None:
    run = Run(deeper(depth), question="Who is number 0?", depth=depth, depth_rule="prune")
    calls = Counter(run.steps)
    assert (calls["know"], calls["decompose"], calls["combine"]) == (depth + 1, depth, depth)
    assert levels(run.root) == depth
