"""ToG: a beam search over a graph, led by scores, that ends in an answer whatever the model says."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.methods.graph_asked import BORN, FILM, Run, films, scored, so

from hoptree.cli.render import show_result
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

NO = "Enough: No\nAnswer: unknown"
YES = "Enough: Yes\nAnswer: Providence"
RELATIONS = [
    Rule(scored(director=0.8, composer=0.2), step="score_relations", contains="Whiplash | composer"),
    Rule(scored(place_of_birth=0.9, spouse=0.1), step="score_relations", contains="Damien Chazelle | spouse"),
    Rule("[1] (Score: 0.5)", step="score_relations"),
]


def asked(*rules: Rule, **given: object) -> Run:
    return Run("tog", [*rules, *RELATIONS], **given)  # type: ignore[arg-type]


def test_paths_grow_until_they_are_enough() -> None:
    run = asked(Rule([NO, YES], step="enough"))
    assert (run.result.answer, run.values("ended")) == ("Providence", ["enough"])
    assert run.steps == ["mentions", "score_relations", "enough", "score_relations", "enough"]
    first, second = run.texts("enough")
    assert "Whiplash | director | Damien Chazelle" in first and "Providence" not in first
    assert (
        "Whiplash | director | Damien Chazelle" in second and "Damien Chazelle | place of birth | Providence" in second
    )
    assert run.values("hops")[1] == [
        "Damien Chazelle | place of birth | Providence",
        "Damien Chazelle | spouse | Olivia Hamilton",
    ]


def test_exploring_samples_and_judging_does_not() -> None:
    run = asked(Rule([NO, YES], step="enough"))
    assert {request.temperature for request in run.sent("score_relations")} == {0.4}
    assert {request.temperature for request in run.sent("enough")} == {0.0}
    again = asked(Rule([NO, YES], step="enough"))
    assert [event["value"] for event in run.of("decision")] == [event["value"] for event in again.of("decision")]


def test_nobody_is_shown_where_a_relation_leads_before_it_is_chosen() -> None:
    run = asked(Rule(YES, step="enough"))
    (text,) = run.texts("score_relations")
    assert "Whiplash | director | ?" in text and "Damien" not in text


def test_the_way_back_is_no_way_on() -> None:
    run = asked(Rule([NO, YES], step="enough"))
    second = run.texts("score_relations")[1]
    assert "? | director | Damien Chazelle" in second  # La La Land, and not the film it came from
    back = films(("Whiplash", "director", "Damien Chazelle"), ("Damien Chazelle", "spouse", "Olivia Hamilton"))
    run = asked(Rule(NO, step="enough"), Rule("Providence", step="final"), graph=back)
    assert run.values("hops") == [
        ["Whiplash | director | Damien Chazelle"],
        ["Damien Chazelle | spouse | Olivia Hamilton"],
        [],
    ]


def test_an_end_counts_its_own_score_times_that_of_its_relation() -> None:
    graph = films(("Whiplash", "actor", "A"), ("Whiplash", "actor", "B"), ("Whiplash", "director", "C"))
    run = asked(
        Rule(scored(actor=0.6, director=0.4), step="score_relations"),
        Rule("[1] A (Score: 0.5)\n[2] B (Score: 0.9)", step="score_entities"),
        Rule(YES, step="enough"),
        graph=graph,
        width=2,
    )
    (event,) = run.of("decision", kind="hops")
    assert event["value"] == ["Whiplash | actor | B", "Whiplash | director | C"]
    assert event["scores"] == [0.54, 0.4] and event["candidates"] == 3


def test_a_relation_that_is_alone_is_followed_without_asking() -> None:
    graph = films(("Whiplash", "director", "Damien Chazelle"))
    run = asked(Rule(YES, step="enough"), graph=graph)
    (event,) = run.of("decision", kind="hops")
    assert (event["value"], event["scores"]) == (["Whiplash | director | Damien Chazelle"], [1.0])
    assert "score_relations" not in run.steps


def test_what_scores_nothing_is_no_path() -> None:
    run = asked(Rule(scored(director=0.0, composer=0.0), step="score_relations"), Rule(so("Providence"), step="think"))
    assert (run.values("ended"), run.steps[-1], run.result.answer) == (["no paths"], "think", "Providence")


def test_of_many_ends_five_are_drawn_and_the_same_ones_again() -> None:
    def shown(count: int) -> list[str]:
        graph = films(*(("Whiplash", "actor", f"Actor {number}x") for number in range(count)))
        rules = [Rule("[1] (Score: 0.5)", step="score_entities"), Rule(YES, step="enough")]
        (text,) = asked(*rules, graph=graph).texts("score_entities")
        return [line for line in text.splitlines() if line.startswith("[")]

    assert len(shown(19)) == 19 and len(shown(20)) == 5
    assert shown(30) == shown(30)


def test_where_paths_lead_on_to_nothing_the_answer_comes_from_them() -> None:
    run = asked(
        Rule(NO, step="enough"),
        Rule("Damien Chazelle", step="final"),
        graph=films(("Whiplash", "director", "Damien Chazelle")),
    )
    assert (run.values("ended"), run.result.answer) == (["no candidates"], "Damien Chazelle")
    assert run.steps[-1] == "final" and "think" not in run.steps
    assert "Whiplash | director | Damien Chazelle" in run.texts("final")[0]


def test_at_the_end_of_the_depth_the_model_reasons_without_paths() -> None:
    run = asked(Rule(NO, step="enough"), Rule(so("Paris", "He was born there."), step="think"), depth=2)
    assert (run.values("ended"), run.result.answer) == (["depth"], "Paris")
    assert run.steps.count("enough") == 2 and "final" not in run.steps
    assert run.texts("think") == [f"Question: {BORN}"]


def test_without_an_entity_the_model_reasons_alone() -> None:
    run = asked(Rule(so("4"), step="think"), question="How much is two and two?")
    assert (run.result.answer, run.values("ended"), run.steps) == ("4", ["no paths"], ["mentions", "think"])


@pytest.mark.parametrize("reply", ["Enough: Yes", "{Yes}", "Enough: Yes\nAnswer: unknown"])
def test_enough_without_an_answer_asks_for_it(reply: str) -> None:
    run = asked(Rule(reply, step="enough"), Rule("Providence", step="final"))
    assert (run.result.answer, run.steps[-1]) == ("Providence", "final")


@pytest.mark.parametrize("reply", ["", "Perhaps.", "<think>", "Providence"])
def test_what_is_not_called_enough_is_not(reply: str) -> None:
    run = asked(Rule([reply, YES], step="enough"))
    assert (run.values("enough"), run.result.answer) == ([False, True], "Providence")
    assert run.unread("enough") == ["neither yes nor no"]


@pytest.mark.parametrize("reply", ["", "I cannot say.", "{} {} {}", "(Score: 0.5)"])
def test_scores_that_cannot_be_read_keep_the_first(reply: str) -> None:
    run = asked(Rule(reply, step="score_relations"), Rule(YES, step="enough"), width=2)
    assert run.values("hops") == [[" | ".join(triple) for triple in FILM[:2]]]
    assert len(run.unread("score_relations")) == 1


def test_dates_are_ends_of_paths_and_lead_nowhere() -> None:
    graph = films(("Whiplash", "publication date", "2014"))
    run = asked(Rule(NO, step="enough"), Rule("2014", step="final"), graph=graph)
    assert (run.result.answer, run.values("hops")) == ("2014", [["Whiplash | publication date | 2014"], []])


def test_a_budget_that_ends_leaves_the_answer_so_far() -> None:
    spent = asked(Rule("Enough: No\nAnswer: Boston", step="enough"), budget=Budget(calls=3))
    assert (spent.result.stopped_by, spent.result.answer) == ("calls", "Boston")
    assert len(spent.steps) == 3


@pytest.mark.parametrize(("reply", "unread"), [("[]", []), ('["Whiplash"]', []), ("", ["no name"])])
def test_names_that_cannot_be_read_are_counted(reply: str, unread: list[str]) -> None:
    run = asked(Rule(reply, step="mentions"), Rule(YES, step="enough"))
    assert (run.unread("mentions"), run.result.answer) == (unread, "Providence")


@pytest.mark.parametrize(("reply", "unread"), [("[1]", []), ("None", []), ("Hm.", ["no number of the list"])])
def test_entities_that_cannot_be_read_are_counted(reply: str, unread: list[str]) -> None:
    rules = Rule(reply, step="entities"), Rule(YES, step="enough"), Rule(so("Providence"), step="think")
    run = asked(*rules, question="Did Damien Chazelle, Justin Hurwitz or Whiplash come first?", width=1)
    assert (run.unread("entities"), run.result.answer) == (unread, "Providence")


def test_whom_the_question_names_is_gone_out_from_whatever_the_model_chooses() -> None:
    rules = Rule("None", step="entities"), Rule(YES, step="enough"), Rule(so("Providence"), step="think")
    run = asked(*rules, question="Did Damien Chazelle, Justin Hurwitz or Whiplash come first?", width=2)
    (topics,) = run.of("decision", kind="topics")
    assert len(topics["value"]) == 2 and set(topics["value"]) < {"Damien Chazelle", "Justin Hurwitz", "Whiplash"}


def drawn(run: Run) -> str:
    file = io.StringIO()
    show_result(Console(file=file, width=200), run.result)
    return file.getvalue()


def test_the_path_that_an_answer_was_found_by_is_its_evidence() -> None:
    run = asked(Rule([NO, YES], step="enough"), width=1)
    path = (("Whiplash", "director", "Damien Chazelle"), ("Damien Chazelle", "place of birth", "Providence"))
    (root,) = run.result.tree
    assert (root.facts, root.source, root.answer) == (path, "external", "Providence")
    assert run.result.as_dict()["tree"][0]["facts"] == [list(fact) for fact in path]
    text = drawn(run)
    assert "Providence  [from the graph: " in text
    assert "fact  Damien Chazelle | place of birth | Providence" in text.partition("Evidence")[2]


def test_an_answer_that_stands_on_no_path_is_a_guess_without_evidence() -> None:
    run = asked(Rule("Enough: Yes\nAnswer: Boston", step="enough"))
    (root,) = run.result.tree
    assert (run.result.answer, root.source, root.facts) == ("Boston", "fallback", ())
    assert "[guess: " in drawn(run) and "Evidence" not in drawn(run)


def test_what_is_thought_without_paths_comes_from_the_model() -> None:
    run = asked(Rule(NO, step="enough"), Rule(so("Boston"), step="think"), depth=1)
    (root,) = run.result.tree
    assert (run.result.answer, root.source, root.facts) == ("Boston", "internal", ())


def test_yes_stands_nowhere_and_follows_from_the_path() -> None:
    run = asked(Rule("Enough: Yes\nAnswer: yes", step="enough"), question="Was Whiplash directed by Damien Chazelle?")
    assert (run.result.answer, run.result.tree[0].source) == ("yes", "external") and run.result.tree[0].facts
