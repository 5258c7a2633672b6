"""TreeQA beyond its paper: what stands in nothing that was found is no answer where something was read."""

from __future__ import annotations

from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import Run, node, tree, verdict

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

WHEN = "When was the director of the film of 1961 about grass born?"
WHO, BORN = "Who directed Splendor in the Grass?", "When was Elia Kazan born?"
PAGES = (
    Passage("a", "Splendor in the Grass", "Splendor in the Grass was directed by Elia Kazan."),
    Passage("f", "Elia Kazan", "Elia Kazan was born in 1909."),
)


GUESS = "what was read does not hold the answer: it is a guess that documents do not support"


def asked(final: str, budget: Budget | None = None, read: tuple[str, ...] = ("1910", "1909", "1908")) -> Run:
    script = [
        Rule(tree(node(WHO, "Elia Kazan"), node(BORN, "1909"), question=WHEN, answer="1909"), step="build"),
        Rule(verdict(True, "T1"), step="validate", contains=f"Question: {WHO}"),
        Rule(verdict(True, "T1", correct="1909"), step="validate", contains=f"Question: {BORN}"),
        Rule(final, step="final"),
        Rule(list(read), step="read"),
        Rule("[]", step="mentions"),
        Rule("no", step="conditions"),
    ]
    return Run(
        script, question=WHEN, pages=Pages(*PAGES), graph=SmallGraph(), budget=budget, robust=True, evidence="text"
    )


def test_a_tree_is_not_read_as_what_nothing_holds() -> None:
    run = asked("1832")
    assert run.result.answer in ("1910", "1909", "1908"), "of verified nodes that say 1909, 1832 is no reading"


def test_a_tree_is_read_as_what_its_nodes_say() -> None:
    run = asked("1909")
    assert run.result.answer == "1909"


def test_a_reading_that_is_done_is_ready_when_the_budget_ends() -> None:
    run = asked("1909", Budget(calls=3))
    assert run.result.stopped_by and run.result.answer in ("1910", "1909", "1908")


def test_a_reading_that_no_passage_holds_is_called_a_guess_wherever_the_result_is_told() -> None:
    run = asked("1832", read=("1832", "1832", "1832"))
    assert run.result.answer == "1832" and run.result.warnings == (GUESS,)
    root, final = run.result.tree[0], run.of("final")[0]
    assert (root.source, root.evidence) == (final["source"], tuple(final["support"])) == ("fallback", ())


def test_a_reading_that_a_passage_holds_is_none() -> None:
    run = asked("1832", read=("1909", "1909", "1909"))
    assert (run.result.answer, run.result.warnings, run.result.tree[0].source) == ("1909", (), "external")


def test_a_reading_that_a_budget_leaves_is_called_a_guess_too() -> None:
    run = asked("1909", Budget(calls=4), read=("1832", "1832", "1832"))
    assert run.result.stopped_by and run.result.answer == "1832" and run.of("final")[0]["source"] == "fallback"
    assert any("a guess that nothing found until then confirms" in warning for warning in run.result.warnings)


def test_a_reading_that_a_tree_bears_out_is_no_guess_though_its_passages_do_not_hold_it() -> None:
    """The page that the tree leads to shares no word with the question."""
    when = "Since what year has the director of Splendor lived?"
    nodes = [node("Who directed Splendor?", "Elia Kazan", node("When was Kazan born?", "1909"))]
    script = [
        Rule(tree(*nodes, question=when, answer="1909"), step="build"),
        *(Rule(verdict(True, "T1"), step="validate"), Rule("1909", step="read"), Rule("no", step="conditions")),
        *(Rule("[]", step="mentions"), Rule("unknown", step="final"), Rule("{}", step="clue")),
    ]
    pages = Pages(
        Passage("a", "Splendor", "Splendor had as its director Elia Kazan."),
        Passage("f", "Kazan", "Kazan was born 1909."),
    )
    run = Run(script, question=when, pages=pages, graph=SmallGraph(), robust=True, evidence="text")
    (read,) = [event["passages"] for event in run.of("retrieve") if event["query"] == when]
    assert [passage["id"] for passage in read] == ["a"], "what was read tells no year"
    assert (run.result.answer, run.result.warnings, run.result.tree[0].source) == ("1909", (), "synthesis")
    assert [one.id for one in run.result.evidence] == ["a", "f"]
