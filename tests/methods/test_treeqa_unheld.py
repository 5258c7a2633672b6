"""TreeQA beyond its paper: what stands in nothing that was found is no answer where something was read."""

from __future__ import annotations

from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import Run, node, tree, verdict

from hoptree.models.scripted import Rule
from hoptree.runtime.budget import Budget
from hoptree.values import Passage

WHEN = "When was the director of the film of 1961 about grass born?"
WHO, BORN = "Who directed Splendor in the Grass?", "When was Elia Kazan born?"
PAGES = (
    Passage("a", "Splendor in the Grass", "Splendor in the Grass was directed by Elia Kazan."),
    Passage("f", "Elia Kazan", "Elia Kazan was born in 1909."),
)


def asked(final: str, budget: Budget | None = None) -> Run:
    script = [
        Rule(tree(node(WHO, "Elia Kazan"), node(BORN, "1909"), question=WHEN, answer="1909"), step="build"),
        Rule(verdict(True, "T1"), step="validate", contains=f"Question: {WHO}"),
        Rule(verdict(True, "T1", correct="1909"), step="validate", contains=f"Question: {BORN}"),
        Rule(final, step="final"),
        Rule(["1910", "1909", "1908"], step="read"),
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
