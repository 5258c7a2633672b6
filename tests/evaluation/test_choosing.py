"""Fitting and replaying courses of hop whose outcome is known by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.evaluation.test_experiments import FOLDER, SHARED

from hoptree.core.errors import InputError
from hoptree.engine.trace import read_events
from hoptree.evaluation.fit_chooser import (
    SHARE_OF_CALLS,
    Course,
    Moment,
    Stated,
    _moments,
    fit_chooser,
    fit_weights,
    judge,
    replay,
)
from hoptree.methods.hop.chooser import Effort, Logistic, MovePrediction, Weights, frozen_chooser
from hoptree.methods.hop.method import RankedAnswers

READS = Weights(
    Logistic({"confidence": 4.0}, -2.0),
    {
        "split": MovePrediction(Logistic({}, 0.0), 1000.0),
        "own": MovePrediction(Logistic({}, 0.0), 1000.0),
        "guess": MovePrediction(Logistic({}, -5.0), 1000.0),
    },
    {"low": 0.2, "medium": 0.0},
)
"""An answer is as likely as the model was sure; half of the answers are right after a move."""


def stated(way: str, sure: float, f1: float, **features: float) -> Stated:
    return Stated({"confidence": sure, **features}, (way,), f1)


def moment(move: str, *answers: Stated, calls: int = 1, tokens: int = 100) -> Moment:
    return Moment(move, answers, {"links": 0.5}, calls, tokens)


def course(sure: float, *, data: str = "films", number: int = 0) -> Course:
    """The first reading is wrong; its parts come to the right answer, and so does what the model knows."""
    first, parts = stated("read", sure, 0.0), stated("split", 0.99, 1.0)
    moments = (
        moment("read", first),
        moment("split", first, parts, calls=4, tokens=1000),
        moment("own", first, replace(parts, features={"confidence": 1.0}), calls=3, tokens=700),
    )
    return Course(f"q{number}", data, moments)


def outcome(asked: Course, effort: Effort) -> tuple[float, float, int, int, tuple[str, ...]]:
    replayed = replay(asked, READS, effort)
    return replayed.f1, round(replayed.probability, 3), replayed.calls, replayed.tokens, replayed.moves


def test_a_run_is_replayed_by_its_efforts() -> None:
    likely, unsure = course(0.9), course(0.3)
    assert outcome(likely, "medium") == (0.0, 0.832, 1, 100, ("read",)), "no move gains anything over 0.83"
    assert outcome(likely, "high")[-1] == ("read", "split", "own")
    assert outcome(unsure, "medium") == (1.0, 0.877, 5, 1100, ("read", "split"))
    assert outcome(unsure, "high") == (1.0, 0.881, 8, 1800, ("read", "split", "own"))
    half = course(0.4)  # likely right by 0.40, so that splitting gains 0.1 for a thousand tokens
    assert replay(half, READS, "medium").moves == ("read", "split")
    assert replay(half, READS, "low").moves == ("read",), "low effort asks for 0.2"


def test_a_move_is_taken_out_of_a_replay() -> None:
    unsure = course(0.3)
    assert replay(unsure, READS, "high", without=["own"]).calls == 5
    without = replay(unsure, READS, "high", without=["split"])
    assert without.moves == ("read", "own") and without.calls == 4
    assert replay(unsure, READS, "high", without=["split", "own"]).moves == ("read",)


def test_a_move_that_hop_no_longer_makes_is_left_out_of_stored_runs() -> None:
    path = Path(__file__).parents[1] / "engine" / "old_traces" / "hop_replan.jsonl"
    events = [*read_events(path)]
    *_, last = (event for event in events if isinstance(event, RankedAnswers))
    events.append(replace(last, after="guess"))
    moments = [*_moments(["Providence"], events)]
    assert [(moment.move, moment.calls) for moment in moments] == [("read", 1), ("split", 4), ("guess", 0)]
    assert {answer.ways for answer in moments[-1].answers} == {("read",), ("split",)}


def test_a_guess_is_made_where_there_is_no_answer_and_brings_itself_alone() -> None:
    parts = stated("split", 0.9, 1.0)
    guessed = (
        moment("read"),
        moment("split", parts, calls=4),
        moment("guess", parts, stated("guess", 0.1, 0.2), calls=1),
    )
    asked = Course("q", "films", guessed)
    never = replace(READS, min_gain={"medium": 9.0})
    assert replay(asked, never, "medium").moves == ("read", "guess"), "whatever it promises"
    assert replay(asked, never, "medium").f1 == 0.2, "the answer of the parts was not there then"
    assert replay(asked, READS, "medium").moves == ("read", "split"), "it promises nothing over an answer"
    assert replay(asked, READS, "high").f1 == 1.0


def test_what_is_judged_on_one_data_set() -> None:
    judged = judge([course(0.9), course(0.3)], READS)
    assert (judged.questions, judged.one_reading, judged.every_move, judged.oracle) == (2, 0.0, 1.0, 1.0)
    assert (judged.f1, judged.calls, judged.tokens, judged.split) == (0.5, 3.0, 600.0, 0.5)
    assert judged.every_calls == 8.0 and judged.kept == 1.0


def made(data: str, signal: str, *, size: int = 40) -> list[Course]:
    """Courses of which every other one is right at first, and only one signal tells which."""
    courses = []
    for number in range(size):
        right = number % 2 == 0
        first = stated("read", 0.5, float(right), **{signal: float(right)})
        parts = replace(first, ways=("read", "split"), f1=1.0)
        moments = (moment("read", first), moment("split", parts, calls=4, tokens=10_000))
        courses.append(Course(f"{data}-{number}", data, moments))
    return courses


def test_weights_are_fitted_to_what_tells_right_from_wrong() -> None:
    weights = fit_weights(made("films", "quoted"), logprobs=True)
    assert weights.right({"confidence": 0.5, "quoted": 1.0}) > weights.right({"confidence": 0.5, "quoted": 0.0}) + 0.2
    split = weights.after["split"]
    assert split.tokens == 10_000 and split.right({}) > 0.8, "everything is right after it"
    sure = [Course(str(n), "a", (moment("read", stated("read", n % 2, n % 2)),)) for n in range(40)]
    assert "confidence" in fit_weights(sure, logprobs=True).right.weights
    assert fit_weights(sure, logprobs=False).right.weights == {}, "it is not told without log-probabilities"


def test_each_data_set_counts_the_same() -> None:
    def of(data: str, f1: float, size: int) -> list[Course]:
        return [Course(f"{data}{n}", data, (moment("read", stated("read", 0.0, f1)),)) for n in range(size)]

    weights = fit_weights([*of("small", 1.0, 10), *of("large", 0.0, 1000)], logprobs=True)
    assert weights.right({}) == pytest.approx(0.5, abs=0.01)


def test_each_data_set_is_judged_by_weights_of_the_others() -> None:
    """`quoted` tells right from wrong in two sets and the reverse in the third: only who never saw that one errs."""
    films, towns, lakes = made("films", "quoted"), made("towns", "quoted"), made("lakes", "absent")
    reverse = [
        replace(
            c,
            moments=tuple(replace(m, answers=tuple(replace(a, f1=1 - a.f1) for a in m.answers)) for m in c.moments[:1]),
        )
        for c in made("lakes", "quoted")
    ]
    fitted = fit_chooser([*films, *towns, *lakes], made_from={"by": "hand"})
    assert fitted.chooser.made_from["by"] == "hand" and fitted.chooser.made_from["sets"] == 3
    medium = fitted.chooser.made_from["efforts"]["medium"]
    judged = fitted.left_out["medium"]
    assert medium["calls"] == round(sum(one.calls for one in judged) / 3, 2)
    assert medium["f1"] == round(sum(one.f1 for one in judged) / 3, 4)
    assert {effort: [one.data for one in judged] for effort, judged in fitted.left_out.items()} == {
        effort: ["films", "towns", "lakes"] for effort in ("low", "medium", "high")
    }
    left_out = fit_chooser([*films, *towns, *reverse], made_from={}).left_out["high"]
    errors = {one.data: one.error for one in left_out}
    assert errors["lakes"] > max(errors["films"], errors["towns"]) + 0.1, "its own rows would have told"


def test_efforts_lose_least_where_they_lose_most_within_their_share_of_calls() -> None:
    fitted = fit_chooser([*made("films", "quoted"), *made("towns", "quoted")], made_from={})
    for effort, share in SHARE_OF_CALLS.items():
        judged = fitted.left_out[effort]
        assert sum(one.calls / one.every_calls for one in judged) / len(judged) <= share + 1e-9
    low, medium, high = (fitted.left_out[effort][0] for effort in ("low", "medium", "high"))
    assert low.calls <= medium.calls <= high.calls == 5.0
    assert (medium.one_reading, medium.f1, medium.calls) == (0.5, 1.0, 3.0), "it splits where the first is wrong"
    assert (low.f1, low.calls) == (0.5, 1.0), "to split half of the questions takes too many calls for it"
    assert fitted.chooser.with_logprobs.min_gain["low"] > fitted.chooser.with_logprobs.min_gain["medium"]
    data = fitted.as_dict()
    assert json.loads(json.dumps(data)) == data and set(data) == {
        "left_out",
        "left_out_without_logprobs",
        "left_out_by_model",
        "chooser",
    }


def test_what_is_left_out_is_told_for_each_model_too() -> None:
    first = [replace(course, model="first") for course in made("films", "quoted")]
    second = [replace(course, model="second") for course in [*made("films", "quoted"), *made("towns", "quoted")]]
    fitted = fit_chooser([*first, *second], made_from={})
    rows = [(one.model, one.data, one.questions) for one in fitted.by_model]
    assert rows == [
        ("first", "films", len(first)),
        ("second", "films", len(first)),
        ("second", "towns", len(second) - len(first)),
    ]
    assert fitted.left_out["medium"][0].questions == 2 * len(first)


def test_questions_that_cost_no_calls_are_no_bad_end() -> None:
    def free(data: str) -> list[Course]:
        return [Course(f"{data}{n}", data, (replace(moment("read"), calls=0, tokens=0),)) for n in range(4)]

    assert fit_chooser([*free("a"), *free("b")], made_from={}).left_out["high"][0].f1 == 0.0


def test_one_data_set_cannot_be_left_out() -> None:
    with pytest.raises(InputError, match="cannot be left out"):
        fit_chooser(made("films", "quoted"), made_from={})


LISTS = sorted((FOLDER / "hop" / "fit").glob("*.txt"))
TABLE = FOLDER / "hop" / "small-model.yaml"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of data is not there")
@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_the_weights_were_fitted_to_no_question_of_a_table(path: Path) -> None:
    ids = path.read_text(encoding="utf-8").split()
    assert len(set(ids)) == len(ids) >= 100
    held_back = json.loads((SHARED / "not_for_training.json").read_text(encoding="utf-8"))
    assert not {name for names in held_back.values() for name in names} & {*ids}
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    if path.stem == "strategyqa":
        return  # no table of hop asks it
    data = table["data"][path.stem]
    limit = data.get("limit", table["every"]["limit"])
    lines = (SHARED / data["questions"]).read_text(encoding="utf-8").splitlines()
    asked = {json.loads(line)["id"] for line in lines[:limit]}
    assert len(asked) == limit == (200 if path.stem == "triviaqa" else 300)
    assert not asked & {*ids}


def test_there_are_rows_of_every_data_set_that_the_packaged_weights_name() -> None:
    runs = {run["name"].rpartition(" on ")[2]: run["questions"] for run in frozen_chooser().made_from["runs"]}
    assert runs == {path.stem: len(path.read_text(encoding="utf-8").split()) for path in LISTS}
