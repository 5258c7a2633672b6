"""hop: what becomes of the parts of a question, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.methods.asked import Asked, Shelf
from tests.methods.hop_asked import CHAIN, CHOOSER, FOUND, HALF, ROOT, WHICH, Ask, asking, chosen, plan, reads, steps

from hoptree.models.scripted import Rule
from hoptree.runtime.budget import Budget
from hoptree.values import Passage


@pytest.fixture
def asked(tmp_path: Path) -> Ask:
    return asking(tmp_path)


def test_parts_are_asked_where_readings_differ(asked: Ask) -> None:
    script = [
        plan(),
        Rule(["Boston", "Paris"], step="read", regex="Question: In which", logprob=HALF),
        *reads(Who_directed="Damien Chazelle", Where_was_Damien_Chazelle="Providence"),
        Rule("Providence", step="final"),
        Rule("RAG_REQUIRED", step="confident"),
        Rule("1", step="which"),
    ]
    run = asked(script, sure=1.0, worth=0.0)
    assert run.result.answer == "Providence"
    assert steps(run)[:2] == ["read", "read"] and "decompose" in steps(run)
    assert [event["answer"] for event in run.of("node") if event["state"] == "answered"] == [
        "Damien Chazelle",
        "Providence",
    ]
    final = chosen(run)
    assert final["over"] and final["why"] and final["probability"] > final["over"][0][1]


def test_comparisons_are_made_in_code(asked: Ask) -> None:
    script = [
        *reads(Which_film=("Whiplash", HALF), director_of_the_film_Whiplash="Damien Chazelle"),
        *reads(director_of_the_film_Vertigo="Alfred Hitchcock", When_was_Damien="1985", When_was_Alfred="1899"),
    ]
    run = asked(script, WHICH, worded=True, again=False, own=False, sure=0.75)
    assert run.result.answer == "Vertigo" and not {"decompose", "final"} & set(steps(run)), "planned and done in code"
    assert run.of("decision", kind="operator")[0]["value"] == "compare"
    assert chosen(run)["over"] == [["Whiplash", pytest.approx(chosen(run)["over"][0][1])]]
    assert "code concluded it" in chosen(run)["why"]


def test_lists_are_intersected_in_code(asked: Ask) -> None:
    question = "Which actors starred in Whiplash and acted in Vertigo?"
    parts = {"query1": "Who starred in Whiplash?", "query2": "Who acted in Vertigo?"}
    script = [
        plan(parts),
        *reads(Which_actors=("Nobody", HALF), Who_starred="Kim Novak, J. K. Simmons and Miles Teller"),
        *reads(Who_acted="James Stewart; Kim Novak"),
        Rule("RAG_REQUIRED", step="confident"),
    ]
    run = asked(script, question, again=False, own=False, sure=0.99, worth=0.0)
    assert run.of("decision", kind="intersected")[0]["value"] == ["Kim Novak"]
    assert run.result.answer == "Kim Novak" and "final" not in steps(run)


def test_what_is_listed_is_counted_in_code(asked: Ask) -> None:
    question = "How many actors starred in Whiplash?"
    parts = {"query1": {"question": "Which film is Whiplash?", "children": {"query2": "Who starred in #query1?"}}}
    script = [
        plan(parts),
        *reads(How_many=("five", HALF), Which_film="Whiplash", Who_starred="Kim Novak and Miles Teller"),
        Rule("RAG_REQUIRED", step="confident"),
    ]
    run = asked(script, question, again=False, own=False, sure=0.99, worth=0.0)
    assert run.of("decision", kind="counted")[0]["value"] == 2
    assert "2" in {one["answer"] for one in run.of("decision", kind="standings")[-1]["value"]}


def test_a_plan_of_one_part_is_no_plan(asked: Ask) -> None:
    script = [plan({"query1": ROOT}), *reads(In_which=("Boston", HALF))]
    run = asked(script, again=False, own=False, sure=0.99, worth=0.0)
    assert run.of("decision", kind="no_plan") and steps(run) == ["read", "decompose"]
    assert run.result.answer == "Boston"


def test_parts_without_an_answer_say_nothing(asked: Ask) -> None:
    script = [plan(), *reads(In_which="unknown", Who_directed="unknown", Where_was="unknown")]
    run = asked(script, again=False, own=False, sure=0.99, worth=0.0)
    assert "decompose" in steps(run) and "final" not in steps(run) and not run.of("chain")
    assert run.result.answer == "" and run.result.abstained


def test_what_others_rest_on_is_checked_where_the_model_was_half_sure(asked: Ask) -> None:
    script = [
        plan(),
        Rule("Boston", step="read", regex="Question: In which", logprob=HALF),
        Rule("Damien Chazelle", step="read", regex="Question: Who directed", logprob=HALF),
        *reads(Where_was_Damien_Chazelle=("Providence", HALF)),
        Rule("No", step="check"),
        Rule("RAG_REQUIRED", step="confident"),
        Rule("Providence", step="final"),
    ]
    options = {"again": False, "own": False, "sure": 0.99, "worth": 0.0}
    run = asked(script, **options, check=True)
    checks = run.of("decision", kind="checked")
    assert [event["answer"] for event in checks] == ["Damien Chazelle"], "nothing rests on the last part"
    assert run.node(1)["supported"] is False
    assert not asked(script, **options).of("decision", kind="checked")


DEEPER = {
    "query1": {
        "question": "In which country was the director of the film Whiplash born?",
        "children": {"query2": "What is the anthem of #query1?"},
    }
}


def test_a_part_that_nothing_answers_is_split_once_more(asked: Ask) -> None:
    question = "What is the anthem of the country that the director of the film Whiplash comes from?"
    script = [
        Rule(json.dumps(CHAIN), step="decompose", regex=r"In which country was the director of the film Whiplash born"),
        Rule(json.dumps({"query1": "What is the anthem?"}), step="decompose", regex="the anthem of Providence"),
        plan(DEEPER),
        *reads(What_is_the_anthem_of_the_country=("none", HALF), In_which_country="unknown"),
        *reads(Who_directed="Damien Chazelle", Where_was_Damien_Chazelle="Providence"),
        *reads(What_is_the_anthem_of_Providence="unknown"),
        Rule("Something", step="final", logprob=HALF),
    ]
    options = {"again": False, "own": False, "sure": 0.99, "worth": 0.0}
    run = asked(script, question, **options)
    (below,) = [event for event in run.of("plan") if event.get("under")]
    assert (below["under"], [node["id"] for node in below["nodes"]]) == (1, [101, 102])
    assert below["nodes"][1] == {"id": 102, "question": "Where was #query101 born?", "parent": 101, "refs": [101]}
    assert run.node(1)["answer"] == "Providence" and run.node(1)["supported"] is True
    assert not [event for event in asked(script, question, deepen=False, **options).of("plan") if event.get("under")]


def test_the_words_of_a_question_tell_its_parts_without_a_planner(asked: Ask) -> None:
    script = [
        *reads(In_which=("Boston", HALF), Who_is_the_director_of_the_film_Whiplash="Damien Chazelle"),
        Rule("Providence", step="read", regex=r"Question: In which city was Damien Chazelle born"),
        Rule("Providence", step="final"),
    ]
    script.insert(0, script.pop(2))  # the part is more telling than the beginning that it shares with the question
    run = asked(script, worded=True, again=False, own=False, sure=0.99, worth=0.0)
    assert "decompose" not in steps(run) and run.result.answer == "Providence"
    (told,) = run.of("plan")
    assert [(node["question"], node["refs"]) for node in told["nodes"]] == [
        ("Who is the director of the film Whiplash?", []),
        ("In which city was #query1 born?", [1]),
    ]


def test_a_plan_that_copies_an_example_is_no_plan(asked: Ask) -> None:
    copied = {
        "query1": {"question": "Who was the wife of Niels Bohr?", "children": {"query2": "Where was #query1 born?"}}
    }
    script = [plan(copied), *reads(In_which=("Boston", HALF))]
    run = asked(script, plain=True, again=False, own=False, sure=0.99, worth=0.0)
    assert run.of("decision", kind="no_plan") and steps(run) == ["read", "decompose"]


def test_a_date_is_no_answer_to_where(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle"),
        Rule(["1985", "Providence"], step="read", regex="Question: Where was Damien Chazelle born"),
        Rule("Providence", step="final"),
    ]
    run = asked(script, again=False, own=False, sure=0.99, worth=0.0)
    assert run.node(2)["answer"] == "Providence" and run.node(2)["supported"] is True


def test_no_answer_to_a_part_is_given_where_a_budget_ends(asked: Ask) -> None:
    script = [plan(), *reads(In_which="unknown", Who_directed="Damien Chazelle")]
    run = asked(script, again=False, own=False, sure=0.99, worth=0.0, budget=Budget(calls=3))
    assert run.result.stopped_by and run.result.answer == ""


def test_what_rests_on_a_refuted_part_is_not_supported(asked: Ask) -> None:
    script = [
        plan(),
        Rule("Boston", step="read", regex="Question: In which", logprob=HALF),
        Rule("Damien Chazelle", step="read", regex="Question: Who directed", logprob=HALF),
        *reads(Where_was=("Providence", HALF)),
        Rule("No", step="check"),
        Rule("RAG_REQUIRED", step="confident"),
        Rule("Providence", step="final"),
    ]
    run = asked(script, again=False, own=False, check=True, sure=0.99, worth=0.0)
    first = run.node(1)
    assert (first["answer"], first["supported"]) == ("", False), "what was refuted is no guess"
    assert run.node(2)["supported"] is False


def test_a_plan_that_is_dropped_is_not_drawn(asked: Ask) -> None:
    copied = {
        "query1": {"question": "Who was the wife of Niels Bohr?", "children": {"query2": "Where was #query1 born?"}}
    }
    script = [plan(copied), *reads(In_which=("Boston", HALF))]
    run = asked(script, plain=True, again=False, own=False, sure=0.99, worth=0.0)
    assert run.result.tree == () and run.result.answer == "Boston"


def test_what_code_compared_is_told(asked: Ask) -> None:
    script = [
        *reads(Which_film=("Whiplash", HALF), director_of_the_film_Whiplash="Damien Chazelle"),
        *reads(director_of_the_film_Vertigo="Alfred Hitchcock", When_was_Damien="1985", When_was_Alfred="1899"),
    ]
    run = asked(script, WHICH, worded=True, again=False, own=False, sure=0.75)
    assert "compared in code: 1899 is before 1985" in run.result.why


class _Named(Shelf):
    """Gives the pages whose titles a query holds."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return tuple(passage for passage in self.passages if passage.title in query)[-k:]


def test_the_check_of_two_answers_sees_what_the_parts_read(tmp_path: Path) -> None:
    file = tmp_path / "chooser.json"
    file.write_text(json.dumps(CHOOSER))
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was_Damien_Chazelle="Providence"),
        Rule("Providence", step="final", logprob=HALF),
        Rule("1", step="which"),
    ]
    options = {"again": False, "own": False, "check": True, "sure": 0.99, "worth": 0.0, "close": 1.0, "worded": False}
    run = Asked("hop", script, ROOT, _Named(*FOUND), options={"chooser": str(file), **options})
    (shown,) = [prompt for step, prompt in run.model.requests if step.endswith("which")]
    assert "He was born in 1985 in the city of Providence." in shown
