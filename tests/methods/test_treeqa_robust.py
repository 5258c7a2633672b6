"""TreeQA beyond its paper: every part of `robust`, with a scripted model over a small graph and corpus."""

from __future__ import annotations

import json

import pytest
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import (
    LANDING,
    NIXON,
    PAGES,
    PRESIDENT,
    asked,
    node,
    robust_run,
    rules,
    says,
    tree,
    verdict,
)

from hoptree.core.values import Passage
from hoptree.models.scripted import Rule

WRONG = "Who was the President of the United States in December 1968?"
TREE = tree(node(LANDING, "December 1968", node(WRONG, "Lyndon Baines Johnson")))
NO_GRAPH = SmallGraph()


# What is refuted is replaced


def test_a_refuted_date_is_replaced_in_what_is_below_and_nothing_is_rebuilt() -> None:
    landed = verdict(False, "T1", reason="It was in 1971.", correct="February 5, 1971")
    elected = verdict(False, "T1", reason="It was Nixon.", correct="Richard Nixon")
    run = robust_run(rules(says(LANDING, landed), says(PRESIDENT, elected), build=TREE), graph=NO_GRAPH)
    assert "rebuild" not in run.steps
    assert list(dict.fromkeys(asked(run))) == [LANDING, PRESIDENT]
    (landing,) = run.tops
    (president,) = landing.children
    assert (landing.answer, landing.struck) == ("February 5, 1971", ("December 1968",))
    assert (president.resolved, president.answer, president.struck) == (PRESIDENT, "Richard Nixon", ())
    assert president.verdict == "unknown", "the passage with Nixon names nothing that is asked about"
    assert run.node(0)["fixes"] == 1


def test_what_is_below_and_does_not_name_the_wrong_answer_is_rebuilt() -> None:
    landed = verdict(False, "T1", reason="It was Apollo 14.", correct="Apollo 14")
    build = tree(node(LANDING, "Apollo 8", node("Who was President then?", "Johnson")))
    run = robust_run(rules(says(LANDING, landed), build=build), graph=NO_GRAPH)
    assert run.steps.count("rebuild") == 1


@pytest.mark.parametrize(
    "reply",
    [
        verdict(True, "T1", correct="Apollo 14"),
        verdict(False, "T1", reason="no", correct="Apollo 8"),
        verdict(False, "T1", reason="no", correct="Apollo 99"),
        verdict(True, "T1"),
    ],
    ids=["true and another answer", "false and the same answer", "an answer that stands nowhere", "of something else"],
)
def test_a_verdict_that_contradicts_itself_or_its_evidence_is_unknown(reply: str) -> None:
    pages = Pages(PAGES[0], Passage("x", "Borman", "Frank Borman flew Apollo 8."))
    question = "When did Alan Shepard make the third landing?"
    run = robust_run(rules(validate=reply, build=tree(node(question, "Apollo 8"))), graph=NO_GRAPH, pages=pages)
    assert set(run.verdicts(1)) == {"unknown"} and not run.tops[0].struck
    assert run.of("decision", kind="held")[0]["value"] == "unknown"


# Texts and facts


BOTH = tree(node(LANDING, "Apollo 14"))
TEXTS_SAY = Rule(verdict(True, "T1", correct="Apollo 14"), step="validate", contains="Facts:\n(none)")


def test_texts_and_facts_that_agree_are_heard_apart_and_cited_together() -> None:
    run = robust_run(rules(validate=verdict(True, "T1", "F1", correct="Apollo 14"), build=BOTH))
    assert run.steps.count("validate") == 2 and "weigh" not in run.steps
    assert run.tops[0].evidence == ("Apollo 14_0_0",) and run.tops[0].facts


def test_texts_and_facts_that_contradict_each_other_are_weighed() -> None:
    facts_say = verdict(False, "F1", reason="Facts say 15.", correct="Apollo 15")
    weighed = Rule(verdict(True, "T1", correct="Apollo 14"), step="weigh")
    run = robust_run(rules(TEXTS_SAY, weighed, validate=facts_say, build=BOTH))
    (text,) = run.texts("weigh")
    assert "What the facts were taken to say: Facts say 15." in text
    assert run.tops[0].verdict == "supported" and run.of("decision", kind="sources_disagree")


def test_one_source_that_says_nothing_leaves_it_to_the_other() -> None:
    run = robust_run(rules(TEXTS_SAY, validate=verdict("unknown"), build=BOTH))
    assert run.tops[0].verdict == "supported" and run.steps.count("validate") == 2


def test_the_answer_is_taken_from_whichever_source_tells_it() -> None:
    texts = Rule(verdict(False, "T1", reason="Not so."), step="validate", contains="Facts:\n(none)")
    facts = verdict(False, "F1", reason="Facts say 14.", correct="Apollo 14")
    build = tree(node(LANDING, "Apollo 8", node("Who flew Apollo 8?", "Borman")))
    run = robust_run(rules(texts, validate=facts, build=build))
    assert run.tops[0].answer == "Apollo 14" and "rebuild" not in run.steps
    assert run.tops[0].children[0].resolved == "Who flew Apollo 14?"


def test_a_correction_of_several_parts_may_stand_apart_in_the_evidence() -> None:
    said = verdict(False, "T1", reason="It was in 1971.", correct="Apollo 14, on 5 February 1971")
    run = robust_run(rules(validate=said, build=tree(node(LANDING, "Apollo 8"))), graph=NO_GRAPH)
    assert run.tops[0].answer == "Apollo 14, on 5 February 1971"


def test_what_rests_on_nothing_that_is_there_is_not_supported() -> None:
    said = verdict(True, "T77", "F99", correct="Apollo 14")
    run = robust_run(rules(validate=said, build=tree(node(LANDING, "Apollo 14"))), graph=NO_GRAPH)
    assert set(run.verdicts(1)) == {"unknown"}


# Where to look


def test_the_question_is_searched_for_without_its_hypothesis_too() -> None:
    run = robust_run(rules(build=tree(node(LANDING, "Apollo 8"))), graph=NO_GRAPH)
    queries = [query for query, _ in run.shelf.asked]
    assert LANDING in queries and f"{LANDING} Apollo 8" in queries


def test_what_the_evidence_mentions_is_followed_before_a_clue_is_asked_for() -> None:
    pages = Pages(
        Passage("a", "Third landing", "The third landing was made by Alan Shepard."),
        Passage("b", "Alan Shepard", "Alan Shepard commanded Apollo 14."),
    )
    build = tree(node("Who made the third landing?", "Neil Armstrong"))
    said = [verdict("unknown"), verdict("unknown"), verdict("unknown")]
    run = robust_run(rules(validate=said, build=build), graph=NO_GRAPH, pages=pages)
    (followed,) = run.of("decision", kind="followed")
    assert followed["value"] == ["Alan Shepard"]
    first, second = run.texts("validate")[:2]
    assert "commanded Apollo 14" not in first and "[T1] Alan Shepard" in second, "what is new comes first"
    assert run.steps.count("clue") == 1


def test_a_page_that_is_followed_is_looked_for_by_its_name_too() -> None:
    """A page that shares no word with the question is found by none of its words."""
    pages = Pages(Passage("a", "Third landing", "The third landing was made by Alan Shepard in Apollo 14."))
    run = robust_run(rules(validate=verdict("unknown"), build=tree(node(LANDING, "1968"))), graph=NO_GRAPH, pages=pages)
    looked = [title for query, title in pages.asked if title and query == f"{LANDING} {title}"]
    assert "Alan Shepard" in looked and "Shepard" not in looked, "a word of a name has no page of its own"
    assert run.of("decision", kind="followed")[0]["value"] == []


@pytest.mark.parametrize("rebuilt", [json.dumps(node(LANDING, "Apollo 12")), "no tree at all"])
def test_what_only_the_reason_says_is_not_borne_out(rebuilt: str) -> None:
    said = says(LANDING, verdict(False, "T1", reason="It was Apollo 12, in November 1969."))
    script = rules(said, build=TREE, rebuild=rebuilt, final="Spiro Agnew")
    read = Rule("Richard Nixon", step="read")
    run = robust_run([*script, read], graph=NO_GRAPH)
    assert run.result.answer == "Richard Nixon" and "final" not in run.steps, "a guess has no say beside passages"


def test_an_answer_out_of_guesses_alone_is_called_one() -> None:
    silent = Rule("unknown", step="read")
    run = robust_run(rules(silent, validate=verdict("unknown"), build=TREE, final="Tom Cruise"), graph=NO_GRAPH)
    assert run.result.answer == "Tom Cruise" and run.result.evidence == ()
    assert any("guesses that nothing found confirms" in warning for warning in run.result.warnings)
    assert run.of("final")[0]["source"] == "fallback"


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_no_more_clues_are_asked_for_than_attempts_allow(attempts: int) -> None:
    build = tree(node(LANDING, "Apollo 8"))
    run = robust_run(rules(validate=verdict("unknown"), build=build), graph=NO_GRAPH, max_attempts=attempts)
    assert run.steps.count("clue") <= attempts - 1


def test_a_node_without_a_hypothesis_is_answered_from_evidence() -> None:
    said = verdict("unknown", "T1", enough=True, reason="It says so.", correct="Apollo 14")
    run = robust_run(rules(validate=said, build=tree({"sub_question": LANDING})), graph=NO_GRAPH)
    assert "direct" not in run.steps
    (landing,) = run.tops
    assert (landing.answer, landing.verdict, landing.struck) == ("Apollo 14", "supported", ())
    assert landing.evidence == ("Apollo 14_0_0",)


# Siblings and ancestors


def test_a_sibling_that_names_what_was_refuted_is_asked_anew() -> None:
    build = tree(node(LANDING, "Apollo 8"), node("Who commanded Apollo 8?", "Frank Borman"))
    landed = verdict(False, "T1", reason="It was Apollo 14.", correct="Apollo 14")
    run = robust_run(rules(says(LANDING, landed), build=build), graph=NO_GRAPH)
    assert asked(run)[-1] == "Who commanded Apollo 14?"
    assert run.of("decision", kind="sibling_revised")[0]["value"] == 2
    assert [top.resolved for top in run.tops] == [LANDING, "Who commanded Apollo 14?"]


def test_what_the_main_question_names_is_no_reason_to_ask_anew() -> None:
    build = tree(node(LANDING, "the Moon"), node("How far is the Moon?", "near"))
    landed = verdict(False, "T1", reason="It was Apollo 14.", correct="Apollo 14")
    run = robust_run(rules(says(LANDING, landed), build=build), graph=NO_GRAPH)
    assert not run.of("decision", kind="sibling_revised")


def test_an_unverified_node_is_brought_in_line_with_what_was_corrected_below() -> None:
    above = "Who was President at the third landing?"
    build = tree(node(above, "Lyndon Baines Johnson", node(PRESIDENT, "Lyndon Baines Johnson")))
    elected = verdict(False, "T1", reason="It was Nixon.", correct="Richard Nixon")
    script = rules(says(above, verdict("unknown")), says(PRESIDENT, elected), build=build, clue="{}")
    run = robust_run(script, graph=NO_GRAPH, pages=Pages(*PAGES, NIXON))
    (top,) = run.tops
    assert (top.answer, top.struck) == ("Richard Nixon", ()), "nothing refuted what it was before"
    assert run.of("decision", kind="aligned")[0]["before"] == "Lyndon Baines Johnson"
    assert [event["node"] for event in run.of("llm", step="align")] == [top.id], "what it took is the node's"
    assert [event["node"] for event in run.of("decision", kind="answered") if event["step"] == "align"] == [top.id]
    assert run.node(top.id)["stages"]["align"] > 0


def test_what_nothing_bears_out_brings_nothing_in_line() -> None:
    """The page of the correction has but a part of the name that is asked about."""
    above = "Who was President at the third landing?"
    build = tree(node(above, "Lyndon Baines Johnson", node(PRESIDENT, "Lyndon Baines Johnson")))
    elected = verdict(False, "T1", reason="It was Nixon.", correct="Richard Nixon")
    run = robust_run(rules(says(above, verdict("unknown")), says(PRESIDENT, elected), build=build, clue="{}"))
    (top,) = run.tops
    assert (top.answer, top.children[0].answer) == ("Lyndon Baines Johnson", "Richard Nixon")
    assert not run.of("decision", kind="aligned") and "align" not in run.steps


# The last word


def test_the_surest_reading_has_the_last_word() -> None:
    run = robust_run(rules(Rule("Apollo 14", step="read", logprob=-0.001), final="Nixon"), graph=NO_GRAPH)
    assert run.steps.count("read") == 3 and run.result.answer == "Apollo 14"


def test_facts_alone_are_read_without_passages() -> None:
    run = robust_run(rules(), evidence="graph")
    assert "read" not in run.steps and run.result.answer == "Richard Nixon"


def test_a_tree_that_evidence_does_not_bear_out_is_not_read_beside_passages() -> None:
    """However sure a model is of what it guessed."""
    read = Rule("Apollo 14", step="read", logprob=-1.0)
    unsure = robust_run(rules(read, validate=verdict("unknown"), final="Nixon"), graph=NO_GRAPH)
    assert unsure.result.answer == "Apollo 14" and "final" not in unsure.steps
    (last,) = [event for event in unsure.of("decision", kind="surest") if event["when"] == "final"]
    assert len(last["answers"]) == 3
    silent = robust_run(rules(Rule("unknown", step="read"), validate=verdict("unknown"), final="Nixon"), graph=NO_GRAPH)
    assert silent.result.answer == "Nixon", "where passages say nothing, the tree is all there is"
