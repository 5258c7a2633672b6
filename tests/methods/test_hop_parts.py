"""hop: what becomes of the parts of a question, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.cpu_limit import cpu_limit
from tests.methods.asked import Shelf
from tests.methods.hop_asked import (
    CHOOSER,
    EVERY,
    FOUND,
    HALF,
    ROOT,
    WEIGHTS,
    WHICH,
    Ask,
    Recorded,
    WithoutLogprobs,
    asking,
    chosen,
    plan,
    reads,
    standings,
    steps,
)

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.result import UNSUPPORTED
from hoptree.methods.hop.parts import operator_of
from hoptree.methods.steps.decompose import nearest_demonstrations
from hoptree.models.scripted import Rule


@pytest.fixture
def asked(tmp_path: Path) -> Ask:
    return asking(tmp_path)


def test_parts_are_asked_where_the_first_answer_is_in_doubt(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was_Damien_Chazelle="Providence"),
        Rule("Providence", step="final"),
    ]
    run = asked(script)
    assert run.result.answer == "Providence" and steps(run) == ["read", "decompose", "read", "read", "final"]
    assert [event["answer"] for event in run.of("node") if event["state"] == "answered"] == [
        "Damien Chazelle",
        "Providence",
    ]
    final = chosen(run)
    assert final["over"] and final["why"] and final["probability"] > final["over"][0][1]
    assert run.of("chain") and "the answers to its sub-questions were found in what was read" in final["why"]


@pytest.mark.parametrize("raw", [{}, [], {"query1": ROOT}])
def test_a_plan_of_one_part_is_no_plan(asked: Ask, raw: object) -> None:
    run = asked([plan(raw), *reads(In_which=("Boston", HALF))], **EVERY)
    assert run.of("decision", kind="no_plan") and steps(run) == ["read", "decompose"], "and it is asked for once"
    assert run.result.answer == "Boston" and run.result.tree == ()
    assert not any("plan" in warning for warning in run.result.warnings), "a simple question is no failed plan"


def test_a_reference_without_an_answer_has_other_quotes_inside(asked: Ask) -> None:
    second = {"question": "Where was #query1 born?", "children": {"query3": "When was #query2 founded?"}}
    chain = {"query1": {"question": "Who led it?", "children": {"query2": second}}}
    script = [plan(chain), *reads(In_which=("Boston", HALF), Who_led="unknown")]
    run = asked(script, **EVERY)
    shown = {event["id"]: event["resolved"] for event in run.of("node") if event.get("resolved")}
    assert shown[3] == """When was the answer to "Where was the answer to 'Who led it?' born?" founded?"""


def test_there_is_one_plan_even_where_a_part_has_no_answer(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which_city=("Boston", HALF), Who_directed="Damien Chazelle", Where_was="unknown"),
        Rule("Chicago", step="final", logprob=HALF),
    ]
    run = asked(script, **EVERY)
    assert run.node(2)["supported"] is False and steps(run).count("decompose") == 1
    assert [event["after"] for event in run.of("decision", kind="standings")] == ["read", "split"]


def test_comparisons_are_made_in_code(asked: Ask) -> None:
    script = [
        *reads(Which_film=("Whiplash", HALF), director_of_the_film_Whiplash="Damien Chazelle"),
        *reads(director_of_the_film_Vertigo="Alfred Hitchcock", When_was_Damien="1985", When_was_Alfred="1899"),
    ]
    run = asked(script, WHICH)
    assert run.result.answer == "Vertigo" and not {"decompose", "final"} & set(steps(run)), "planned and done in code"
    assert run.of("decision", kind="operator")[0]["value"] == "compare"
    assert chosen(run)["over"] == [["Whiplash", pytest.approx(chosen(run)["over"][0][1])]]
    assert "it was worked out" in chosen(run)["why"]


def test_parts_without_an_answer_say_nothing(asked: Ask) -> None:
    script = [plan(), *reads(In_which="unknown", Who_directed="unknown", Where_was="unknown")]
    run = asked(script, **EVERY)
    assert "decompose" in steps(run) and "final" not in steps(run) and not run.of("chain")
    assert run.result.answer == "" and run.result.abstained


def test_a_plan_that_copies_an_example_is_no_plan(asked: Ask) -> None:
    example = nearest_demonstrations(ROOT)[0]
    script = [plan(json.loads(example.plan)), *reads(In_which=("Boston", HALF))]
    run = asked(script, **EVERY)
    assert run.of("decision", kind="no_plan") and steps(run) == ["read", "decompose"]
    assert run.result.tree == () and run.result.answer == "Boston", "what is dropped is not drawn"


def test_a_date_is_no_answer_to_where(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle"),
        Rule(["1985", "Providence"], step="read", regex="Question: Where was Damien Chazelle born"),
        Rule("Providence", step="final"),
    ]
    run = asked(script, **EVERY)
    assert run.node(2)["answer"] == "Providence" and run.node(2)["supported"] is True


def test_no_answer_to_a_part_is_given_where_a_budget_ends(asked: Ask) -> None:
    script = [plan(), *reads(In_which="unknown", Who_directed="Damien Chazelle")]
    run = asked(script, **EVERY, budget=Budget(calls=3))
    assert run.result.stopped_by and run.result.answer == ""


def test_what_code_compared_is_told(asked: Ask) -> None:
    script = [
        *reads(Which_film=("Whiplash", HALF), director_of_the_film_Whiplash="Damien Chazelle"),
        *reads(director_of_the_film_Vertigo="Alfred Hitchcock", When_was_Damien="1985", When_was_Alfred="1899"),
    ]
    run = asked(script, WHICH)
    assert "compared: 1899 is before 1985" in run.result.why


class _Named(Shelf):
    """Gives the pages whose titles a query holds."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k))
        return tuple(passage for passage in self.passages if passage.title in query)[-k:]


def test_what_rests_on_a_guess_is_not_supported(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="Alfred Hitchcock", Where_was_Alfred_Hitchcock="London"),
        Rule("London", step="final"),
    ]
    run = asked([*script], **EVERY)
    assert (run.node(1)["source"], run.node(1)["supported"]) == ("fallback", False), "no page says so of Whiplash"
    assert (run.node(2)["answer"], run.node(2)["supported"]) == ("London", False), "though its own page says so"


BOTH = "Are Whiplash and Vertigo both films of 2014?"


def test_of_both_things_each_is_looked_at_alone(asked: Ask) -> None:
    script = [*reads(Are_Whiplash=("yes", HALF)), Rule(["Yes", "No"], step="bear_out")]
    run = asked(script, BOTH, **EVERY)
    assert steps(run) == ["read", "bear_out", "bear_out"] and run.result.answer == "no"
    assert (
        "it was worked out" in run.result.why
        and "the answers to its sub-questions were found in what was read" in run.result.why
    )
    assert "stand in what was read" not in run.result.why, "its own page does not say so"


def test_a_budget_that_ends_between_two_things_gives_nothing_that_was_not_weighed(asked: Ask) -> None:
    script = [*reads(Are_Whiplash=("yes", HALF)), Rule("No", step="bear_out")]
    run = asked(script, BOTH, **EVERY, budget=Budget(calls=2))
    assert steps(run) == ["read", "bear_out"] and run.result.stopped_by and run.result.answer == "yes"
    assert asked(script, BOTH, **EVERY, abstain=0.9, budget=Budget(calls=2)).result.answer == ""


def test_a_part_is_looked_up_on_the_page_of_the_answer_before_it(tmp_path: Path) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was="Providence")]
    run = asking(tmp_path, _Named)([*script, Rule("Providence", step="final")])
    (page,) = [event for event in run.of("retrieve", node=2) if event.get("where")]
    assert page["where"] == {"title": "Damien Chazelle"} and page["k"] == 1


class _Once(_Named):
    """Finds pages for the whole question alone."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await super().search(query, k=k, where=where) if query == ROOT else ()


def test_what_the_whole_question_found_is_read_for_a_part_that_names_it(tmp_path: Path) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was="unknown")]
    first = asking(tmp_path, _Once)([*script, Rule("Boston", step="final")], **EVERY).node(1)
    assert (first["answer"], first["supported"]) == ("Damien Chazelle", True)


def test_what_a_part_does_not_find_is_looked_for_in_the_words_of_the_part_before_it(tmp_path: Path) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was="unknown")]
    run = asking(tmp_path, _Named)([*script, Rule("Boston", step="final")], **EVERY)
    assert not run.result.error
    queries = [event["query"] for event in run.of("retrieve", node=2) if not event.get("where")]
    first = "Where was Damien Chazelle born?"
    assert queries == [first, f"{first} Who directed the film Whiplash?", first], "further ones of both"
    templates = [event["template"].split("@")[0] for event in run.of("llm", node=2, step="read")]
    assert templates == ["shared/read", "shared/read_or_not_found"], "only the second time it may say NOT FOUND"


def test_trained_asks_by_the_short_prompts_and_reads_the_copied_sentence(asked: Ask) -> None:
    born = "He was born in 1985 in the city of Providence."
    script = [
        plan(),
        Rule(["NOT FOUND", "Boston"], step="read", regex="Question: In which city"),
        *reads(Who_directed="Damien Chazelle\nSentence: It was directed by Damien Chazelle."),
        *reads(Where_was="NOT FOUND"),
        Rule(f"Providence\nSentence: {born}", step="final", logprob=[-0.01, HALF, HALF]),
    ]
    run = asked(script, **EVERY, trained=True)
    templates = [event["template"].split("@")[0] for event in run.of("llm")]
    assert templates[:3] == ["hop/trained_read", "hop/trained_plan", "hop/trained_read"]
    assert templates[-1] == "hop/trained_guess", "it may not say NOT FOUND"
    short = {"hop/trained_read", "hop/trained_plan"}
    assert set(templates[:-1]) == {*short, "hop/trained_guess"}, "for a part that was not found"
    assert run.node(1)["answer"] == "Damien Chazelle" and run.node(1)["supported"] is True
    by_way = {tuple(row["ways"]): row for row in standings(run)[-1]}
    assert by_way[("split",)]["quoted"] == {"passage": "c", "text": born}
    assert by_way[("split",)]["features"]["confidence"] == pytest.approx(0.99, abs=0.01), "of its own words alone"
    assert (by_way[("guess",)]["answer"], by_way[("guess",)]["features"]["guess"]) == ("Boston", 1)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("Providence", "Providence"), ("Boston", ""), ("yes", "")],
    ids=["stated", "not stated", "yes"],
)
def test_what_a_trained_model_overlooked_counts_where_a_sentence_states_it(asked: Ask, reply: str, answer: str) -> None:
    script = [
        plan(),
        *reads(In_which="NOT FOUND", Who_directed="Damien Chazelle"),
        Rule(["NOT FOUND", reply, "NOT FOUND"], step="read", regex="Question: Where was"),
        Rule("NOT FOUND", step="final"),
    ]
    run = asked(script, trained="on")
    read = [event["template"].split("@")[0] for event in run.of("llm", node=2, step="read")]
    assert read[:2] == ["hop/trained_read", "hop/trained_guess"]
    assert (run.node(2)["answer"], run.node(2)["supported"]) == (answer, bool(answer))


def test_without_trained_there_is_no_guess(asked: Ask) -> None:
    script = [plan({}), *reads(In_which="NOT FOUND")]
    assert steps(asked(script, **EVERY)) == ["read", "decompose"]
    run = asked(script, **EVERY, trained=True)
    assert steps(run) == ["read", "decompose", "read"] and run.result.answer == ""
    rules = [plan({}), *reads(In_which=("Providence\nSentence: It is.", HALF))]
    assert steps(asked(rules, **EVERY, trained=True)) == ["read", "decompose"], "the first reading found something"


def test_what_only_a_guess_says_is_no_supported_answer(asked: Ask) -> None:
    script = [plan({}), Rule(["NOT FOUND", "Boston"], step="read")]
    run = asked(script, trained=True)
    assert run.result.answer == "Boston" and UNSUPPORTED in run.result.warnings, "it is made whatever it promises"
    assert asked([plan({}), Rule(["NOT FOUND", "Boston"], step="read")], trained=True, abstain=0.9).result.answer == ""


class _Pages(Shelf):
    """Finds a page of films and as many others as are asked for, always in the same order."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k))
        others = [Passage(f"p{number}", f"Page {number}", f"Page {number} is of nothing.") for number in range(20)]
        return () if where else tuple([self.passages[0], *others][:k])


def test_after_not_found_only_passages_are_read_that_were_not_read_before(tmp_path: Path) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="NOT FOUND", Where_was="NOT FOUND")]
    run = asking(tmp_path, _Pages)([*script, Rule("Boston", step="final")], **EVERY, k=3)
    searches = [event["k"] for event in run.of("retrieve", node=1)]
    assert searches == [3, 6], "twice as many the second time"
    first, second = [
        text for step, text in run.model.requests if step == "hop/read" and "Question: Who directed" in text
    ]
    shown = [{number for number in range(20) if f"Page {number} is" in text} for text in (first, second)]
    assert shown == [{0, 1}, {2, 3, 4}], "no more than at first"


def test_a_reader_that_may_refuse_sees_twice_as_many_passages_in_the_end() -> None:
    script = [
        plan(),
        *reads(In_which="NOT FOUND", Where_was="NOT FOUND"),
        Rule(["NOT FOUND", "NOT FOUND", "Page 9"], step="read", regex="Question: Who directed"),
    ]
    run = WithoutLogprobs("hop", script, ROOT, _Pages(*FOUND), options={**EVERY, "k": 3})
    prompts = [text for step, text in run.model.requests if step == "hop/read" and "Question: Who directed" in text]
    shown = [{number for number in range(20) if f"Page {number} is" in text} for text in prompts]
    assert shown == [{0, 1}, {2, 3, 4}, {5, 6, 7, 8, 9, 10}]
    assert (run.node(1)["answer"], run.node(1)["supported"]) == ("Page 9", True)


def test_a_reader_that_may_refuse_looks_no_further_where_it_answered() -> None:
    answer = Rule("Boston", step="read", regex="Question: Who directed")  # in no passage
    script = [plan(), *reads(In_which="NOT FOUND", Where_was="NOT FOUND"), answer]
    run = WithoutLogprobs("hop", script, ROOT, _Pages(*FOUND), options={**EVERY, "k": 3})
    prompts = [text for step, text in run.model.requests if step == "hop/read" and "Question: Who directed" in text]
    assert len(prompts) == 1


def test_a_part_needs_a_sentence_that_states_its_answer(asked: Ask) -> None:
    parts = {"query1": {"question": "Who composed the music?", "children": {"query2": "Where was #query1 born?"}}}
    script = [plan(parts), *reads(In_which=("Boston", HALF), Who_composed="Damien Chazelle")]
    run = asked([*script, *reads(Where_was="Providence"), Rule("Providence", step="final")], **EVERY)
    first = run.node(1)
    assert (first["answer"], first["source"], first["supported"]) == ("Damien Chazelle", "fallback", False)
    assert run.node(2)["supported"] is False, "it rests on that"


@pytest.mark.parametrize(("asks", "last"), [(WithoutLogprobs, []), (Recorded, ["final"])])
def test_what_a_first_reading_and_the_last_part_say_is_not_read_a_third_time(
    asks: type[Recorded], last: list[str]
) -> None:
    script = [plan(), *reads(In_which_city="Providence", Who_directed="Damien Chazelle", Where_was="Providence")]
    run = asks("hop", [*script, Rule("Providence", step="final")], ROOT, Shelf(*FOUND), options=EVERY)
    assert steps(run) == ["read", "decompose", "read", "read", *last] and len(run.of("chain")) == 1
    (stood,) = run.of("decision", kind="standings")[-1]["value"]
    assert (stood["answer"], stood["ways"], stood["features"]["supported"]) == ("Providence", ["read", "split"], 1)


def test_there_is_no_guess_beside_an_answer_whose_parts_are_all_supported() -> None:
    script = [plan(), *reads(In_which_city="NOT FOUND", Who_directed="Damien Chazelle", Where_was="Providence")]
    run = WithoutLogprobs("hop", [*script, Rule("Providence", step="final")], ROOT, Shelf(*FOUND), options=EVERY)
    assert steps(run) == ["read", "decompose", "read", "read", "final"] and run.result.answer == "Providence"


@pytest.mark.parametrize(
    ("asked_last", "reply", "supported"),
    [
        ("Which country is #query1 from?", "England", True),
        ("When was #query1 born?", "August 13, 1899", True),
        ("Which country is #query1 from?", "Iceland", False),
        ("When was #query1 born?", "August 14, 1899", False),
    ],
)
def test_a_part_may_be_answered_in_another_form_than_it_is_written(
    asked_last: str, reply: str, supported: bool
) -> None:
    page = Passage("h", "Alfred Hitchcock", "Alfred Hitchcock (born 13 August 1899) was an English director.")
    chain = {"query1": {"question": "Who directed Vertigo?", "children": {"query2": asked_last}}}
    replies = {"Who_directed": "Alfred Hitchcock", asked_last.partition(" #")[0].replace(" ", "_"): reply}
    script = [plan(chain), *reads(**replies), Rule("NOT FOUND", step="read"), Rule(reply, step="final")]
    run = WithoutLogprobs("hop", script, "Who is behind it?", Shelf(FOUND[2], page), options=EVERY)
    assert run.node(2)["supported"] is supported and run.node(2)["answer"] == reply
    assert [event["node"] for event in run.of("llm", step="read") if event.get("node")] == [1, 2]


@pytest.mark.parametrize(("asks", "splits"), [(WithoutLogprobs, False), (Recorded, True)])
def test_who_may_refuse_is_not_asked_for_parts_where_two_sentences_answer(
    tmp_path: Path, asks: type[Recorded], splits: bool
) -> None:
    weights = {**WEIGHTS, "after": {}}  # so that only doubt splits a question
    file = tmp_path / "chooser.json"
    file.write_text(json.dumps({"format": 2, "with_logprobs": weights, "without_logprobs": weights}))
    film = Passage("w", "Whiplash", "The director of the film Whiplash is Damien Chazelle.")
    page = Passage("c", "Damien Chazelle", "Damien Chazelle (Providence, 1985) has one sister.")
    script = [plan({}), *reads(In_which_city="Providence")]
    run = asks("hop", script, ROOT, Shelf(film, page), options={"chooser": str(file)})
    assert ("decompose" in steps(run)) is splits and run.result.answer == "Providence"


@pytest.mark.parametrize("refusal", ["NOT FOUND", ""])
def test_the_end_of_a_supported_chain_is_the_answer_if_all_other_readings_refuse(refusal: str, tmp_path: Path) -> None:
    def ask(question: str = ROOT, born: str = "Providence", first: str = "NOT FOUND", guess: str = refusal) -> str:
        script = [
            plan(),
            *reads(Who_directed="Damien Chazelle", Where_was_Damien=born),
            Rule(refusal, step="final"),
            Rule(first, step="read", contains="NOT FOUND"),
            Rule(guess, step="read"),
        ]
        file = tmp_path / "chooser.json"
        file.write_text(json.dumps(CHOOSER))
        options = {"chooser": str(file), **EVERY}
        run = WithoutLogprobs("hop", script, question, Shelf(*FOUND), options=options)
        if run.result.answer:
            assert run.result.confidence is not None and run.result.confidence.level != "a guess"
        return run.result.answer

    assert ask() == "Providence"
    assert ask(born="NOT FOUND") == "", "the chain has no end"
    assert ask(first="Boston") == "Boston" and ask(guess="Boston") == "Boston", "as before"
    assert ask("When was the director of the film Whiplash born?") == "", "a city is no date"
    assert ask("Was the director of the film Whiplash born in Providence?") == "", "nor a yes"


@pytest.mark.parametrize("unit", [". ", ". who ", "; in ", ": which and ", "Who A and B "])
def test_the_form_of_a_long_question_is_told_in_linear_time(unit: str) -> None:
    with cpu_limit():
        for _ in range(30):
            operator_of((unit * 2_000)[:2_000])
