"""What TreeQA's trace tells of its nodes beyond the paper: what each took, what it rests on, and why it says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import LANDING, NIXON, PAGES, PRESIDENT, Run, node, rules, tree, verdict

from hoptree.core.values import Passage
from hoptree.methods.treeqa.method import golden_tree
from hoptree.models.scripted import Rule

BEYOND = [Rule("{}", step="conditions"), Rule("[]", step="mentions"), Rule("not stated", step="read")]
FILM = "Who starred in Night Train and also studied at Bard College?"
CONDITIONS = Rule(
    json.dumps({"asked": "actors", "conditions": ["starred in Night Train", "studied at Bard College"]}),
    step="conditions",
)
CAST = Passage("n", "Night Train", "Night Train stars Ada Moor and Cora Lind.")
ALUMNI = Passage("c", "Bard College", "Bard College has among its students Cora Lind and Dan Roe.")
STARRED = Rule('["Ada Moor", "Cora Lind"]', step="candidates", contains="said: starred in Night Train")
UNKNOWN = verdict("unknown")


# A list that came to nothing


def came_to_nothing(**given: Any) -> Run:
    studied = Rule('["Dan Roe"]', step="candidates", contains="said: studied at Bard College")
    build = tree(node("Who starred in Night Train?", "Ada Moor"), node("Who studied there?", "Dan Roe"), question=FILM)
    script = rules(CONDITIONS, STARRED, studied, validate=UNKNOWN, clue="{}", build=build)
    return Run([*script, *BEYOND], robust=True, question=FILM, graph=SmallGraph(), pages=Pages(CAST, ALUMNI), **given)


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_what_a_list_took_is_not_told_of_the_tree_that_follows(traversal: str) -> None:
    run = came_to_nothing(traversal=traversal)
    assert run.of("decision", kind="intersected")[0]["value"] == [], "the list was tried"
    for number in (1, 2):
        told = run.node(number)
        assert "validate" in told["stages"]
        assert "candidates" not in told["stages"], "nodes of the list had these numbers before"
        assert told["tokens"] == sum(told["stages"].values()) > 0


# Nodes that were brought in line


ABOVE = "Who was President at the third landing?"


def brought_in_line() -> Run:
    build = tree(node(ABOVE, "Lyndon Baines Johnson", node(PRESIDENT, "Lyndon Baines Johnson")))
    elected = verdict(False, "T1", reason="It was Nixon.", correct="Richard Nixon")
    unsaid = Rule(UNKNOWN, step="validate", contains=f"Question: {ABOVE}")
    refuted = Rule(elected, step="validate", contains=f"Question: {PRESIDENT}")
    pages = Pages(*PAGES, NIXON)
    return Run([*rules(unsaid, refuted, build=build, clue="{}"), *BEYOND], robust=True, graph=SmallGraph(), pages=pages)


def test_a_node_in_line_with_what_is_below_says_so_and_strikes_nothing_out() -> None:
    run = brought_in_line()
    (top,) = run.tops
    assert (top.answer, top.verdict, top.struck, top.source) == ("Richard Nixon", "unknown", (), "synthesis")
    assert top.why == "it follows from what was corrected below; the guess was: Lyndon Baines Johnson"
    told = run.node(1)
    assert (told["hypothesis"], told["hypothesis_before"]) == ("Richard Nixon", "Lyndon Baines Johnson")
    assert top.children[0].struck == ("Lyndon Baines Johnson",), "that one was refuted"


def test_a_node_in_line_is_not_called_verified() -> None:
    (top,) = golden_tree(brought_in_line().result)["logic_tree"]["children"]
    assert (top["hypothesis_answer"], top["verdict"]) == ("Richard Nixon", "unknown")


# What was searched for


def test_what_was_followed_is_no_clue() -> None:
    pages = Pages(
        Passage("a", "Third landing", "The third landing was made by Alan Shepard."),
        Passage("b", "Alan Shepard", "Alan Shepard commanded Apollo 14."),
        Passage("c", "Fra Mauro", "Fra Mauro is a crater."),
    )
    build = tree(node("Who made the third landing?", "Neil Armstrong"))
    script = rules(validate=UNKNOWN, clue='{"new_clue": "Fra Mauro"}', build=build)
    run = Run([*script, *BEYOND], robust=True, graph=SmallGraph(), pages=pages)
    told = run.node(1)
    assert run.of("decision", kind="followed")[0]["value"] == ["Alan Shepard"]
    assert len(told["attempts"]) == 3 and told["clues"] == ["Fra Mauro"]


def test_a_clue_of_the_paper_is_told() -> None:
    run = Run(rules(validate=UNKNOWN, build=tree(node(LANDING, "Apollo 8"))), pages=Pages(*PAGES))
    assert run.node(1)["clues"] == ["Apollo 14"] and len(run.node(1)["attempts"]) == 2


# What conditions rest on


FACTS = SmallGraph(
    ("Night Train", "cast member", "Cora Lind"),
    ("Night Train", "cast member", "Ada Moor"),
    ("Bard College", "student", "Cora Lind"),
    ("Bard College", "founded", "1860"),
)


def test_conditions_tell_the_facts_that_gave_their_candidates() -> None:
    studied = Rule('["Cora Lind"]', step="candidates", contains="said: studied at Bard College")
    script = rules(CONDITIONS, STARRED, studied, validate=UNKNOWN)
    run = Run([*script, *BEYOND], robust=True, question=FILM, graph=FACTS, evidence="graph")
    assert run.result.answer == "Cora Lind"
    starred, college = run.tops
    assert set(starred.facts) == {
        ("Night Train", "cast member", "Cora Lind"),
        ("Night Train", "cast member", "Ada Moor"),
    }
    assert college.facts == (("Bard College", "student", "Cora Lind"),), "of a name that it gave, and nothing else"


# Why a node is not verified


def overruled(first: str, **given: Any) -> Run:
    build = tree(node(PRESIDENT, "Lyndon Baines Johnson"))
    script = rules(Rule(first, step="validate"), build=build, clue="{}")
    pages = Pages(Passage("a", "Third landing", "The third landing was that of Apollo 14."))
    return Run([*script, *BEYOND], robust=True, graph=SmallGraph(), pages=pages, evidence="text", **given)


def test_where_code_overruled_the_model_the_node_tells_why() -> None:
    run = overruled(verdict(False, "T1", reason="It was Ford.", correct="Gerald Ford"))
    (held, *_) = run.of("decision", kind="held")
    assert (held["value"], held["said"]) == ("unknown", "refuted")
    (top,) = run.tops
    assert top.verdict == "unknown" and top.why == f"{held['why']}, 1 attempt"
    assert held["why"] == "what should be right is not in the evidence"


def test_what_code_held_against_an_earlier_attempt_is_told_where_the_last_says_nothing() -> None:
    build = tree(node(PRESIDENT, "Lyndon Baines Johnson"))
    said = [verdict(False, "T1", reason="It was Ford.", correct="Gerald Ford"), UNKNOWN]
    script = rules(Rule(said, step="validate"), build=build, clue='{"new_clue": "Fra Mauro"}')
    pages = Pages(
        Passage("a", "Third landing", "The third landing was that of Apollo 14."),
        Passage("c", "Fra Mauro", "Fra Mauro is a crater."),
    )
    run = Run([*script, *BEYOND], robust=True, graph=SmallGraph(), pages=pages, evidence="text")
    assert run.verdicts(1) == ["unknown", "unknown"]
    assert run.tops[0].why == "what should be right is not in the evidence, 2 attempts"


def test_of_texts_and_facts_the_overruled_one_is_told_of() -> None:
    supports = Rule(verdict(True, "T1"), step="validate", contains="Facts:\n(none)")
    build = tree(node("What is the Moon?", "Gerald Ford"))
    pages = Pages(Passage("m", "Moon", "The Moon is a rock."))
    script = rules(supports, build=build, validate=UNKNOWN, clue="{}")
    run = Run([*script, *BEYOND], robust=True, graph=SmallGraph(("Moon", "colour", "grey")), pages=pages)
    assert [one["said"] for one in run.of("decision", kind="held")][:1] == ["supported"]
    assert run.tops[0].why.startswith("nothing that was found says so of what was asked about, ")


def test_where_the_model_says_so_itself_nothing_found_says_so() -> None:
    run = overruled(UNKNOWN)
    assert run.tops[0].why == "nothing found says so, 1 attempt" and not run.of("decision", kind="held")
