"""What a person and a machine see of RA-ISF's tree."""

from __future__ import annotations

import io
import json
import re

from rich.console import Console
from tests.methods.ra_isf_asked import FIRST, ROOT, SECOND, Run, deeper, knows, rules

from hoptree.cli.ask import EventLines
from hoptree.cli.render import draw_svg, show_result
from hoptree.models.scripted import Rule


def drawn(run: Run) -> str:
    console = Console(record=True, width=200, force_terminal=True, file=io.StringIO())
    show_result(console, run.result)
    return console.export_text()


def test_a_person_sees_at_each_node_which_module_answered_and_why() -> None:
    script = rules(
        knows(FIRST), Rule("relevance", step="relevance", regex=f"(?s)Celia.*{re.escape(SECOND)}"), read="Celia Martin"
    )
    run = Run(script)
    text = drawn(run)
    assert (
        f"{ROOT}  → combined answer  [from its sub-questions; says that it does not know; "
        "0 of 3 passages relevant; 2 sub-questions, 0 unknown]" in text
    )
    assert f"1. {FIRST}  → direct answer  [from the model's own knowledge; the model says that it knows]" in text
    assert (
        f"2. {SECOND}  → Celia Martin  [from documents: p2; says that it does not know; 1 of 3 passages relevant]"
        in text
    )
    assert text.count(ROOT) == 1, "the question is drawn once"
    assert "Celia&#160;Martin" in draw_svg([run.result])


def test_the_tree_is_told_in_lines_while_it_grows() -> None:
    run = Run(deeper(1), question="Who is number 0?", depth=1)
    file = io.StringIO()
    lines_of_events = EventLines(file)
    for event in run.events:
        lines_of_events(event)
    lines = file.getvalue().splitlines()
    assert "  0. Who is number 0?" in lines and "plan: 1 sub-question" in lines and "plan of 1: 1 sub-question" in lines
    assert "  11. → ? [no answer found; deeper than 1]" in lines


def test_the_result_as_json_holds_the_reasons() -> None:
    data = json.loads(json.dumps(Run(rules(know="Yes")).result.as_dict()))
    assert data["tree"][0]["why"] == "the model says that it knows"


def test_a_node_knows_what_its_subtree_cost() -> None:
    run = Run(rules(knows(FIRST)), depth=1, depth_rule="prune")
    assert {n: run.node(n)["spent"]["calls"] for n in (0, 1, 2)} == {0: len(run.steps), 1: 2, 2: 4}
    assert run.node(0)["spent"]["retrievals"] == run.result.usage.retrievals == 2
    assert run.node(0)["spent"]["tokens"] == run.result.usage.prompt_tokens + run.result.usage.completion_tokens
