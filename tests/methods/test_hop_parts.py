"""hop: what becomes of the parts of a question, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.methods.asked import Asked, Shelf
from tests.methods.hop_asked import CHAIN, CHOOSER, FOUND, HALF, ROOT, WHICH, Ask, asking, chosen, plan, reads, steps

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule


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
    run = asked(script, question, deepen=True, **options)
    (below,) = [event for event in run.of("plan") if event.get("under")]
    assert (below["under"], [node["id"] for node in below["nodes"]]) == (1, [101, 102])
    assert below["nodes"][1] == {"id": 102, "question": "Where was #query101 born?", "parent": 101, "refs": [101]}
    assert run.node(1)["answer"] == "Providence" and run.node(1)["supported"] is True
    assert not any(event.get("under") for event in asked(script, question, **options).of("plan")), "off unless set"
    script[4:] = reads(In_which_country="unknown", Who_directed="unknown", What_is_the_anthem="unknown")
    run = asked(script, question, deepen=True, **options)
    asked_for = [event.get("node") for event in run.of("llm", step="decompose")]
    assert asked_for == [None, 1], "what rests on an answer that was not found has no parts of its own"


def test_a_plan_of_a_part_that_copies_an_example_is_no_plan(asked: Ask) -> None:
    copied = {
        "query1": {"question": "Who was the wife of Niels Bohr?", "children": {"query2": "Where was #query1 born?"}}
    }
    script = [
        Rule(json.dumps(copied), step="decompose", regex="In which country was the director of the film Whiplash born"),
        plan(DEEPER),
        *reads(What_is_the_anthem=("none", HALF), In_which_country="unknown", wife_of="Damien Chazelle"),
        *reads(Where_was_Damien_Chazelle="Providence"),
    ]
    options = {"plain": True, "again": False, "own": False, "deepen": True, "sure": 0.99, "worth": 0.0}
    run = asked(script, "What is the anthem of the country that the director of Whiplash comes from?", **options)
    assert steps(run).count("decompose") > 1 and run.node(1)["answer"] == ""
    assert not any("wife of Niels Bohr" in text for step, text in run.model.requests if step.endswith("read"))
    assert [child.id for child in run.result.tree[0].children] == [2], "what is dropped is not drawn"


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
        self.asked.append((query, k))
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


OPTIONS = {"again": False, "own": False, "sure": 0.99, "worth": 0.0}


def test_what_rests_on_a_guess_is_not_supported(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="Alfred Hitchcock", Where_was_Alfred_Hitchcock="London"),
        Rule("London", step="final"),
    ]
    run = asked(script, **OPTIONS)
    assert (run.node(1)["source"], run.node(1)["supported"]) == ("fallback", False), "no page says so of Whiplash"
    assert (run.node(2)["answer"], run.node(2)["supported"]) == ("London", False), "though its own page says so"


BOTH = "Are Whiplash and Vertigo both films of 2014?"


def test_of_both_things_each_is_looked_at_alone(asked: Ask) -> None:
    script = [*reads(Are_Whiplash=("yes", HALF)), Rule(["Yes", "No"], step="bear_out")]
    run = asked(script, BOTH, **OPTIONS)
    assert steps(run) == ["read", "bear_out", "bear_out"] and run.result.answer == "no"
    assert "code concluded it" in run.result.why and "its parts were answered from what was read" in run.result.why
    assert "stand in what was read" not in run.result.why, "its own page does not say so"


def test_a_budget_that_ends_between_two_things_gives_nothing_that_was_not_weighed(asked: Ask) -> None:
    script = [*reads(Are_Whiplash=("yes", HALF)), Rule("No", step="bear_out")]
    run = asked(script, BOTH, **OPTIONS, budget=Budget(calls=2))
    assert steps(run) == ["read", "bear_out"] and run.result.stopped_by and run.result.answer == "yes"
    assert asked(script, BOTH, **OPTIONS, abstain=0.9, budget=Budget(calls=2)).result.answer == ""


def test_a_part_that_nothing_answers_is_recalled(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="unknown", Where_was_Damien_Chazelle="Providence"),
        Rule("RAG_REQUIRED", step="confident", contains="In which city"),
        Rule("Damien Chazelle", step="confident"),
        Rule("Providence", step="final"),
    ]
    run = asked(script, **OPTIONS | {"own": True})
    first = run.node(1)
    assert (first["answer"], first["source"], first["supported"]) == ("Damien Chazelle", "internal", False)
    assert run.result.answer == "Providence", "one of its parts was read"
    assert asked(script, **OPTIONS).node(1)["answer"] == "", "not without own knowledge"


def test_an_answer_of_nothing_but_recalled_parts_is_none_without_a_boundary(asked: Ask, tmp_path: Path) -> None:
    script = [
        *reads(Which_film="unknown", Who_is="unknown", When_was="unknown"),
        Rule("RAG_REQUIRED", step="confident", contains="born earlier"),
        Rule("1985", step="confident", contains="When was Damien"),
        Rule("1899", step="confident", contains="When was Alfred"),
        Rule("Damien Chazelle", step="confident", contains="Whiplash"),
        Rule("Alfred Hitchcock", step="confident", contains="Vertigo"),
    ]
    options = OPTIONS | {"own": True, "worded": True}
    run = asked(script, WHICH, **options)
    assert chosen(run)["value"] == "Vertigo" and run.node(1)["source"] == "internal"
    assert run.result.answer == "" and run.result.why.endswith("only the model's own knowledge is behind it")
    file = tmp_path / "boundary.json"
    file.write_text(json.dumps({"confident_correct": 0.9, "usable": True}))
    assert asked(script, WHICH, **options, boundary=str(file)).result.answer == "Vertigo"


def test_a_part_is_looked_up_on_the_page_of_the_answer_before_it(tmp_path: Path) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was="Providence")]
    run = asking(tmp_path, _Named)(script, **OPTIONS)
    (page,) = [event for event in run.of("retrieve", node=2) if event.get("where")]
    assert page["where"] == {"title": "Damien Chazelle"} and page["k"] == 1


class _Once(_Named):
    """Finds pages for the whole question alone."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await super().search(query, k=k, where=where) if query == ROOT else ()


def test_what_the_whole_question_found_is_read_for_a_part_that_names_it(tmp_path: Path) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was="unknown")]
    first = asking(tmp_path, _Once)(script, **OPTIONS).node(1)
    assert (first["answer"], first["supported"]) == ("Damien Chazelle", True)


def test_what_a_part_does_not_find_is_looked_for_in_the_words_of_the_part_before_it(tmp_path: Path) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was="unknown")]
    run = asking(tmp_path, _Named)(script, **OPTIONS)
    queries = [event["query"] for event in run.of("retrieve", node=2) if not event.get("where")]
    first = "Where was Damien Chazelle born?"
    assert queries == [first, f"{first} Who directed the film Whiplash?"]
    templates = [event["template"].split("@")[0] for event in run.of("llm", node=2)]
    assert templates == ["shared/read", "shared/read_or_not_found"], "only the second time it may say NOT FOUND"
