"""What is told of RA-ISF's nodes with robust=on, and of those that a budget ended."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from tests.methods.asked import Shelf
from tests.methods.ra_isf_asked import FIRST, ROOT, Run, knows, listed, robust, rules
from tests.traced import changed

from hoptree.cli.ask import EventLines
from hoptree.cli.render import draw_svg, show_result
from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.events import NodeSettled
from hoptree.engine.result import TreeNode, read_result
from hoptree.methods.ra_isf import AnswerSoFar
from hoptree.models.scripted import Rule, ScriptedModel

BORN = ("When was Damien Chazelle born?", "When was Celia Martin born?")
OLDER = "Who was born first, Damien Chazelle or Celia Martin?"


def drawn(run: Run) -> str:
    console = Console(record=True, width=400, force_terminal=True, file=io.StringIO())
    show_result(console, run.result)
    return console.export_text()


def two_readings(one: tuple[str, float], other: tuple[str, float], *more: Rule, **given: Any) -> list[Rule]:
    """A script whose two readings of a question differ: one sees it before the passages, one only behind them."""
    first = Rule(one[0], step="read", regex=r"(?s)Whiplash\?.*Whiplash was directed", logprob=one[1])
    return rules(*more, first, Rule(other[0], step="read", logprob=other[1]), **given)


# A guess


def test_a_guess_is_called_one_everywhere() -> None:
    run = robust(rules(know="No", read="John Doe"), question=FIRST, no_decomposition=True)
    assert (run.node(0)["branch"], run.root.source, run.root.module) == ("guess", "fallback", "guess")
    assert "→ John Doe  [guess: the documents do not say" in drawn(run)
    assert run.result.as_dict()["tree"][0]["module"] == "guess"
    file = io.StringIO()
    lines = EventLines(file)
    for event in run.events:
        lines(event)
    assert "  0. → John Doe [guess; " in file.getvalue()


def test_a_guess_that_an_older_run_filed_under_passages_is_one() -> None:
    run = robust(rules(know="No", read="John Doe"), question=FIRST, no_decomposition=True)
    old = [
        changed(event, branch="passages") if isinstance(event, NodeSettled) and event.branch else event
        for event in run.events
    ]
    assert read_result(old).tree[0].module == "guess"


# What was read


@pytest.mark.parametrize(
    ("relevance", "read", "words"),
    [
        ("irrelevance", "Damien Chazelle", "0 of 3 passages relevant, but an answer stands in what was read"),
        ("relevance", "Damien Chazelle", "3 of 3 passages relevant, and an answer stands in what was read"),
        ("relevance", "John Doe", "3 of 3 passages relevant, but no answer stands in what was read"),
        ("irrelevance", "John Doe", "0 of 3 passages relevant, and no answer stands in what was read"),
    ],
)
def test_the_reason_says_what_came_of_the_passages(relevance: str, read: str, words: str) -> None:
    """Those that are called irrelevant are read all the same, and may hold an answer."""
    script = rules(Rule("irrelevance", step="relevance", contains=ROOT), relevance=relevance, read=read)
    run = robust(script, depth=1, depth_rule="prune")
    assert run.root.children[0].why.startswith(words)


# What decided


def test_of_two_readings_it_is_told_which_was_surer() -> None:
    run = robust(two_readings(("John Doe", -0.1), ("Jane Roe", -1.0)), question=FIRST, no_decomposition=True)
    said = sorted(run.of("decision", kind="surest", when="read")[0]["confidence"], reverse=True)
    words = f"surer of two readings: {said[0]:.2f} against “Jane Roe” {said[1]:.2f}"
    assert run.result.answer == "John Doe" and words in drawn(run)
    assert words in run.result.as_dict()["tree"][0]["why"]
    assert "surer&#160;of&#160;two&#160;readings" in draw_svg([run.result])


def test_without_probabilities_none_is_called_surer() -> None:
    class Silent(ScriptedModel):
        capabilities = frozenset()

    model = Silent(rules=two_readings(("John Doe", 0.0), ("Jane Roe", 0.0)))
    run = robust(rules(), question=FIRST, no_decomposition=True, roles={"answer": model})
    assert "taken of two readings: “John Doe” against “Jane Roe”" in run.root.why


def test_readings_that_say_the_same_agree() -> None:
    run = robust(rules(read="Damien Chazelle"), question=FIRST, no_decomposition=True)
    assert "two readings agree" in run.root.why and "surer" not in run.root.why


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (-0.01, "memory is surer than the guess: 0.99 against “John Doe” 0.37"),
        (-2.0, "two readings agree; the guess is surer than memory: 0.37 against “Jane” 0.14"),
    ],
)
def test_it_is_told_whether_memory_or_a_guess_was_surer(memory: float, words: str) -> None:
    script = [Rule("Jane", step="direct", logprob=memory), *rules(know="Yes", read="John Doe", logprob=-1.0)]
    run = robust(script, question=FIRST, no_decomposition=True)
    assert run.root.why.endswith(f"; not split any further; {words}")


def compared() -> list[Rule]:
    read = [
        Rule(said, step="read", contains=f"Question: {asked}")
        for asked, said in zip(BORN, ("1985", "1953"), strict=True)
    ]
    return rules(*read, read="Damien Chazelle", decompose=listed(*BORN))


def dated() -> Shelf:
    return Shelf(
        Passage("p1", "Damien Chazelle", "Damien Chazelle was born in 1985.", 2.0),
        Passage("p2", "Celia Martin", "Celia Martin was born in 1953.", 1.0),
    )


def test_what_code_compared_is_told() -> None:
    run = robust(compared(), question=OLDER, shelf=dated())
    assert run.result.answer == "Celia Martin"
    assert "2 sub-questions, 0 unknown; compared in code: " in drawn(run)
    assert "1953 is before 1985" in run.root.why and "surer" not in run.root.why


def test_what_could_not_be_compared_is_told() -> None:
    run = robust(rules(read="Damien Chazelle", decompose=listed(*BORN), combine="unknown"), question=OLDER)
    assert "what was found could not be compared in code" in run.root.why
    assert run.root.why.endswith("kept from before the split, as the sub-questions gave no answer")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (-0.1, -2.0, "kept from before the split, being surer: 0.90 against “Guy” 0.14 from the sub-questions"),
        (-2.0, -0.1, "surer than before the split: 0.90 against “Celia Martin” 0.14"),
    ],
)
def test_a_split_node_tells_whether_its_answer_is_from_before(before: float, after: float, words: str) -> None:
    question = "Which studio paid for Whiplash after La La Land was refused?"
    script = rules(
        Rule("Celia Martin", step="read", contains=question, logprob=before),
        Rule("Guy", step="combine", logprob=after),
        read="Damien Chazelle",
        decompose=listed(FIRST),
    )
    run = robust(script, question=question)
    assert words in run.root.why, run.root.why


# What a budget ended


def open_nodes(nodes: list[TreeNode]) -> list[TreeNode]:
    return [found for node in nodes for found in (node, *open_nodes(node.children)) if found.state == "stopped"]


def stopped(calls: int) -> Run:
    second = "Who is the mother of Damien Chazelle?"
    deeper = Rule(listed("Who is a son of Celia Martin?"), step="decompose", contains=f"Question: {second}")
    # The second sub-question is never settled: what is read for it stands in no passage.
    script = rules(
        knows(ROOT), deeper, Rule("Jane Doe", step="read", contains=second), read="Damien Chazelle", direct="Hinako"
    )
    return robust(script, budget=Budget(calls=calls))


def test_a_question_that_the_budget_ends_tells_what_it_had_and_from_where() -> None:
    run = stopped(24)
    assert run.result.stopped_by == "calls" and run.root.state == "stopped"
    text = drawn(run)
    assert (
        f"{ROOT}  → so far: Damien Chazelle  [from documents: p1, p2; 0 of 3 passages relevant, but an answer stands "
        "in what was read; only relevant passages settle the question; the budget of calls ended it]" in text
    )
    assert "→ so far: Jane Doe  [guess: the documents do not say; " in text
    assert "…\n" not in text.split("Evidence")[0] and "so&#160;far" in draw_svg([run.result])
    told = run.result.as_dict()["tree"][0]
    assert (told["state"], told["answer"], told["module"]) == ("stopped", "Damien Chazelle", "passages")


def test_a_node_that_had_read_nothing_says_that_it_was_not_answered() -> None:
    text = drawn(stopped(9))
    assert "→ not answered  [the budget of calls ended it]" in text


def test_a_run_that_does_not_note_what_it_has_before_a_split_tells_what_was_read() -> None:
    """As those of before do."""
    run = stopped(24)
    old = [event for event in run.events if not isinstance(event, AnswerSoFar)]
    (node,) = (one for one in open_nodes(list(read_result(old).tree)) if one.answer == "Jane Doe")
    assert node.why == "read, but not settled; the budget of calls ended it"


def test_what_is_still_being_asked_is_not_ended() -> None:
    """The tree is drawn from the same events while it grows."""
    events = [event for event in stopped(24).events if event.event != "final"]
    assert not open_nodes(list(read_result(events).tree))


SHELF = (
    Passage("p1", "Whiplash", "Whiplash was directed by Damien Chazelle.", 2.0),
    Passage("p2", "Hinako", "Hinako is the mother in the film Whiplash.", 1.0),
)


def elsewhere() -> Run:
    """A budget ends it when a sub-question rests on a passage that the question itself does not."""
    script = rules(
        Rule("Hinako", step="read", contains=ROOT),
        Rule("Jane Doe", step="read", contains="Who is the mother of Damien Chazelle?"),
        read="Damien Chazelle",
    )
    return robust(script, shelf=Shelf(*SHELF), budget=Budget(calls=16))


def test_every_passage_that_the_tree_names_stands_under_evidence() -> None:
    run = elsewhere()
    tree, _, evidence = drawn(run).partition("\nEvidence\n")
    assert (
        run.result.stopped_by
        and "so far: Hinako  [from documents: p2; " in tree
        and "[from documents: p1; says" in tree
    )
    assert "  [1] p2  Hinako: " in evidence and "  [2] p1  Whiplash: " in evidence
    assert [passage["id"] for passage in run.result.as_dict()["cited"]] == ["p1"]


def test_what_only_the_tree_cites_is_no_evidence_of_the_answer() -> None:
    """Scores of citations are about the answer."""
    run = elsewhere()
    assert [passage.id for passage in run.result.evidence] == run.of("final")[0]["support"] == ["p2"]
