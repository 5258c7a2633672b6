"""Trees for TAIKC from the steps of data sets: everything is asked after what it needs, and nothing is given away."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.evaluation.datasets.examples import Example
from hoptree.text.loose_json import read_json
from hoptree.text.question_tree import MAX_DEPTH, make_plan
from hoptree.training.plans.gold_trees import arranged, carried_out, facts_alone, gold_tree, written
from hoptree.training.plans.sub_questions import LeftOut, Step
from hoptree.training.questions import Fact, TrainingQuestion


def question(text: str, *steps: str, answers: tuple[str, ...] = (), facts: tuple[Fact, ...] = ()) -> TrainingQuestion:
    example = Example("q1", text, ("x",), dataset="d", decomposition=steps, decomposition_answers=answers)
    return TrainingQuestion(example, "train.jsonl", "train", facts)


FACTS: tuple[Fact, ...] = (
    ("Alpha", "director", "Kurt Land"),
    ("Beta", "director", "Ida Chase"),
    ("Kurt Land", "date of birth", "19 February 1913"),
    ("Ida Chase", "date of birth", "1893"),
)


def test_two_chains_are_written_one_after_the_other_and_numbered_from_top_to_bottom() -> None:
    tree = gold_tree(question("Which film has the older director, Alpha or Beta?", facts=FACTS))
    assert tree.plan == {
        "query1": {
            "question": "Who is the director of the film Alpha?",
            "children": {"query2": {"question": "When was #query1 born?"}},
        },
        "query3": {
            "question": "Who is the director of the film Beta?",
            "children": {"query4": {"question": "When was #query3 born?"}},
        },
    }
    assert [[step.asked for step in path] for path in tree.paths] == [
        ["Who is the director of the film Alpha?", "When was Kurt Land born?"],
        ["Who is the director of the film Beta?", "When was Ida Chase born?"],
    ]
    assert [step.states for step in tree.paths[0]] == [
        "the director of the film Alpha is Kurt Land",
        "Kurt Land was born on 19 February 1913",
    ]
    assert tree.steps[2].place == 2, "its place among the facts"


def test_a_film_is_released() -> None:
    facts = (("Alpha", "publication date", "1952"), ("Beta", "publication date", "1960"))
    tree = gold_tree(question("Which film came out earlier, Alpha or Beta?", facts=facts))
    assert tree.steps[1].asked == "When was the film Alpha released?"
    assert tree.steps[1].states == "the film Alpha was released in 1952"


def test_a_step_that_needs_two_answers_comes_after_both() -> None:
    asked = question(
        "In what region of the country of Châu Đức is the birthplace of John Phan?",
        "Châu Đức >> country",
        "John Phan >> place of birth",
        "In what region of the #1 is #2 located?",
        answers=("Vietnam", "Da Nang", "South Central Coast"),
    )
    tree = gold_tree(asked)
    below = tree.plan["query2"]["children"]["query3"]["question"]
    assert below == "In what region of #query1 is #query2 located?"
    assert tree.steps[3].asked == "In what region of Vietnam is Da Nang located?"


def test_names_are_written_as_the_question_writes_them() -> None:
    asked = question(
        "What is the label of the Rockstar singer from Germany?",
        "who sang rockstar",
        "what is the label of #1 in germany",
        answers=("Smash", "Records,"),
    )
    tree = gold_tree(asked)
    assert [step.asked for step in tree.steps.values()] == [
        "Who sang Rockstar?",
        "What is the label of Smash in Germany?",
    ]
    assert tree.steps[2].answer == "Records"


def test_words_that_are_no_names_stay_small_though_the_question_has_them_in_capitals() -> None:
    asked = question(
        "Where Did the actor Who played Charlie In the film Leave From The Wind live?",
        "who played charlie in leave from the wind",
        "where did #1 live",
    )
    texts = [node.question for node in gold_tree(asked).read.nodes]
    assert texts == ["Who played Charlie in Leave from the Wind?", "Where did #query1 live?"]


def test_what_somebody_plays_is_no_kind_of_work() -> None:
    facts = (("Big Stan", "director", "Ann Lee"), ("Ann Lee", "spouse", "Joe Day"))
    tree = gold_tree(question("Who is the spouse of the director of Big Stan, who plays in it?", facts=facts))
    assert tree.steps[1].asked == "Who is the director of Big Stan?"


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (("Who sang Alpha?", "#1 69 >> record label"), "adds words to a reference"),
        (("Who sang Gamma?", "#1 >> record label"), "the question does not name"),
        (("Gamma >> performer", "#1 >> record label"), "the question does not name"),
        (("What country is this landmark in?", "#1 >> capital"), "points at what is not there"),
        (("What country took part in these games?", "#1 >> capital"), "points at what is not there"),
        (
            ("Who sang Alpha?", "What witness wrote that people near #1 are staunch and quit?"),
            "words that the question does not have",
        ),
        (
            tuple(f"{of} >> located in the administrative territorial entity" for of in ("Alpha", "#1")),
            "without saying which",
        ),
        (("Who sang Alpha?",), "fewer than two"),
        (("Who sang Alpha?", "What is the label of the singer of Alpha?"), "the question itself"),
        (("Who sang Alpha?", "Who sang Alpha?", "#2 >> record label"), "twice"),
    ],
)
def test_what_makes_no_good_tree_is_left_out(steps: tuple[str, ...], why: str) -> None:
    with pytest.raises(LeftOut, match=why):
        gold_tree(question("What is the label of the singer of Alpha?", *steps))


def test_a_plan_is_known_without_answers_and_its_steps_are_not() -> None:
    asked = question("What is the label of the singer of Alpha?", "Who sang Alpha?", "#1 >> record label")
    tree = gold_tree(asked)
    assert tree.plan and not tree.steps and not tree.paths


def test_facts_are_read_alone_where_they_make_no_tree() -> None:
    asked = question("Who lived longer?", facts=(("Ida (artist)", "father", "Kurt"), ("Ida", "never known", "x")))
    with pytest.raises(LeftOut):
        gold_tree(asked)
    assert [(step.asked, step.answer) for step in facts_alone(asked)] == [
        ("Who is the father of Ida (artist)?", "Kurt")
    ]


@st.composite
def steps_that_rest_on_each_other(draw: st.DrawFn) -> list[Step]:
    count = draw(st.integers(2, 9))
    steps = []
    for place in range(count):
        needs = draw(st.lists(st.integers(1, place), max_size=2, unique=True)) if place else []
        steps.append(Step(" and ".join([f"what is thing {place}", *(f"#{number}" for number in needs)]) + "?"))
    return steps


@given(steps_that_rest_on_each_other())
def test_a_tree_says_what_the_steps_say_and_is_read_as_it_stands(steps: list[Step]) -> None:
    plan, places = arranged(steps)
    assert sorted(places) == list(range(len(steps)))
    read = make_plan(read_json(written(plan)).value, "a question")
    if any(issue.kind == "cap_depth" for issue in read.issues):
        assert len(steps) > MAX_DEPTH
        return
    assert read.issues == () and [node.id for node in read.nodes] == list(range(1, len(steps) + 1))
    for node, place in zip(read.nodes, places, strict=True):
        meant = {places[ref - 1] + 1 for ref in node.refs}
        assert {f"#{number}" for number in meant} == {
            word.strip("?") for word in steps[place].question.split() if "#" in word
        }
        assert all(ref < node.id for ref in node.refs) and (node.parent in node.refs if node.refs else not node.parent)
    assert carried_out(json.loads(written(plan)), "a question") == read
