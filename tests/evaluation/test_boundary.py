"""Boundary awareness measured: both settings asked, counted by hand, gone on with after a stop, and judged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, Response, Seen, refused, said

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.files import without_sum
from hoptree.engine.context import Budget
from hoptree.evaluation.boundary import BOUNDARY, Pair, measure, measure_all, planned_for, read_pairs
from hoptree.evaluation.experiment import BoundaryExperiment, Experiment
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.run_folder import RESULTS, TRACES, read_run
from hoptree.evaluation.running import RunOptions
from hoptree.models.scripted import Rule, ScriptedModel

# Of six: 0 right in both settings, 1 right and then wrong, 2 wrong in both, 3 wrong and refused, 4 right and refused,
# 5 refused in other words.
REPLIES: list[dict[str, Any]] = [
    {"step": "taikc/confident", "contains": "number 0?", "reply": "answer 0"},
    {"step": "taikc/confident", "contains": "number 1?", "reply": "Milan"},
    {"step": "taikc/confident", "contains": "number 2?", "reply": "Oslo"},
    {"step": "taikc/confident", "contains": "number 5?", "reply": "I don't know."},
    {"step": "taikc/confident", "reply": "RAG_REQUIRED"},
    {"step": "taikc/direct", "regex": "number [014]\\?", "reply": "the answer", "logprob": -0.1},
    {"step": "taikc/direct", "contains": "number 2?", "reply": "Oslo", "logprob": -0.1},
    {"step": "taikc/direct", "reply": "Lima", "logprob": -3},
]


def questions(path: Path, count: int = 6) -> Path:
    rows = [
        {"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}", "the answer"]}
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def script(path: Path, replies: Iterable[dict[str, Any]]) -> str:
    path.write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")
    return f"scripted/{path}"


def measured(folder: Path, model: str, *, files: Sequence[str] = ("nq",), **more: Any) -> dict[str, Any]:
    ways = RunOptions(**{"cache": None, **more.pop("ways", {})})
    more = {"options": {"strict": False}, **more}
    data = [questions(folder / f"{name}.jsonl") for name in files]
    planned = planned_for(data, BoundaryExperiment(data[0], model=model, **more))
    (found,) = asyncio.run(measure_all(planned, folder / "out", ways))
    return found


def test_both_settings_are_asked_and_counted(tmp_path: Path) -> None:
    found = measured(tmp_path, script(tmp_path / "m.json", REPLIES))["sets"]["nq"]
    assert (found["questions"], found["answered"], found["refused"], found["failed"]) == (6, 3, 3, 0)
    assert found["refused_share"] == 0.5
    assert found["direct_em"] == pytest.approx(3 / 6) and found["confident_em"] == pytest.approx(1 / 3)
    assert found["kept_em"] == pytest.approx(2 / 3) and found["knowledge_gap_em"] == pytest.approx(1 / 3)
    assert found["gap_f1"] == pytest.approx(0) and found["gap_f1_plus_minus"] > 0.1
    assert found["consistency_f1"] == pytest.approx((2 / 3 + 0 + 1) / 3), "'answer 0' and 'answer' share one word"
    assert (found["precision"], found["overconfident"], found["underconfident"]) == (pytest.approx(1 / 3), 2, 1)
    assert [(flip["id"], flip["direct"], flip["confident"]) for flip in found["flips"]] == [
        ("q1", "the answer", "Milan")
    ]
    assert found["flips"][0]["question"] == "What is number 1?" and found["flips"][0]["direct_correct"] is True
    assert not found["usable"] and "sure of 3 questions and refused 3: too few to tell" in found["verdict"]
    kept = json.loads((tmp_path / "out" / "nq" / BOUNDARY).read_text(encoding="utf-8"))
    assert without_sum(kept) == json.loads(json.dumps(found)), "what the report reads"


def test_the_probability_is_that_of_the_direct_answer(tmp_path: Path) -> None:
    by = measured(tmp_path, script(tmp_path / "m.json", REPLIES))["sets"]["nq"]["probability"]
    # Sure (0.905): 0, 1, 2 and 4, of which three are right; unsure (0.05): 3 and 5, both wrong.
    assert (by["questions"], by["from_memory"], by["overconfident"], by["underconfident"]) == (6, 4, 1, 0)
    assert [(point["answered"], point["precision"]) for point in by["curve"]] == [(4, 0.75), (6, 0.5)]
    assert by["ece"] == pytest.approx((4 * (0.9048 - 0.75) + 2 * 0.0498) / 6, abs=1e-3)


def test_a_failed_question_is_wrong_if_asked_directly_and_neither_sure_nor_refused(tmp_path: Path) -> None:
    broken = [{"step": "taikc/confident", "contains": "number 0?", "fault": "401"}]
    before = measured(tmp_path, script(tmp_path / "m.json", [*broken, *REPLIES]))["sets"]["nq"]
    assert (before["questions"], before["answered"], before["refused"], before["failed"]) == (6, 2, 3, 1)
    assert before["direct_em"] == pytest.approx(2 / 6) and before["confident_em"] == 0
    assert before["refused_share"] == pytest.approx(3 / 5) and before["overconfident"] == 2
    assert before["consistency_f1"] == pytest.approx(1 / 2) and before["probability"]["questions"] == 5
    assert len(before["flips"]) == 1 and before["verdict"] == "1 failed: --retry-failed first."
    model = script(tmp_path / "m.json", REPLIES)
    after = measured(tmp_path, model, ways={"retry_failed": True, "anyway": True})["sets"]["nq"]
    assert after["failed"] == 0 and after["direct_em"] == pytest.approx(3 / 6)


def test_the_same_command_asks_nothing_twice(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.on("taikc/direct", said("Lima", logprobs=[("Lima", -0.5)]))
        endpoint.on("taikc/confident", "RAG_REQUIRED")
        first = measured(tmp_path, "openai/x", base_url=endpoint.url)
        assert len(endpoint.requests) == 12
        assert all(seen.body["temperature"] == 0 for seen in endpoint.requests)
        assert measured(tmp_path, "openai/x", base_url=endpoint.url) == first
        path = tmp_path / "out" / "nq" / RESULTS
        path.write_bytes(path.read_bytes()[:-9])  # as a kill leaves it
        assert measured(tmp_path, "openai/x", base_url=endpoint.url) == first
        assert len(endpoint.requests) == 14, "the one that was cut off"


def test_replies_are_remembered_beyond_a_folder(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.on("", said("Lima", logprobs=[("Lima", -0.5)]))
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            cache = {"cache": tmp_path / "replies.sqlite"}
            measured(tmp_path / folder, "openai/x", base_url=endpoint.url, ways=cache)
        assert len(endpoint.requests) == 12


def test_an_endpoint_without_log_probabilities_is_asked_without(tmp_path: Path) -> None:
    def refuse(seen: Seen) -> Response | None:
        return refused(400, "logprobs are not supported") if "logprobs" in seen.body else None

    with Endpoint() as endpoint:
        endpoint.before = refuse
        endpoint.on("", "Lima")
        found = measured(tmp_path, "openai/x", base_url=endpoint.url)["sets"]["nq"]
    assert (found["failed"], found["answered"], found["probability"]) == (0, 6, None)
    assert found["gap_f1"] is None and found["verdict"].startswith("It refused nothing")


def test_several_data_sets_have_a_section_each_and_are_taken_together(tmp_path: Path) -> None:
    always_right = {"step": "taikc/direct", "contains": "number 3?", "reply": "the answer", "logprob": -0.1}
    found = measured(tmp_path, script(tmp_path / "m.json", REPLIES), files=("nq", "popqa"))
    assert list(found["sets"]) == ["nq", "popqa"] and found["all"]["questions"] == 12
    assert found["mean"]["direct_f1"] == found["sets"]["nq"]["direct_f1"] == found["all"]["direct_f1"]
    assert [flip["id"] for flip in found["all"]["flips"]] == ["nq/q1", "popqa/q1"]
    (tmp_path / "one").mkdir()
    one = measured(tmp_path / "one", script(tmp_path / "m.json", [always_right, *REPLIES]))
    assert (one["all"], one["mean"]) == (None, None) and one["sets"]["nq"]["direct_em"] == pytest.approx(4 / 6)


def test_judged(tmp_path: Path) -> None:
    judge = [
        {"step": "evaluation/judge", "regex": "number [01]\\?", "reply": "Yes"},
        {"step": "evaluation/judge", "contains": "number 4?", "reply": "perhaps"},
        {"step": "evaluation/judge", "reply": "No"},
    ]
    model = script(tmp_path / "m.json", REPLIES)
    found = measured(tmp_path, model, files=("nq", "popqa"), judge=script(tmp_path / "j.json", judge))
    one = found["sets"]["nq"]
    assert one["direct_judged"] == pytest.approx(2 / 6) and one["confident_judged"] == pytest.approx(2 / 3)
    assert one["knowledge_gap_judged"] == 0 and one["consistency_judged"] == pytest.approx(2 / 3)
    assert one["direct_correct"] == pytest.approx(3 / 6), "right by the letter stays right"
    assert one["flips"] == [], "Milan means the same to this judge"
    assert one["judge"]["direct"]["judge_unparsed"] == 1 and found["all"]["judge"]["same"]["questions"] == 6
    assert found["all"]["consistency_judged"] == pytest.approx(2 / 3)


def test_what_it_rests_on_is_on_record_and_a_change_is_noticed(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", REPLIES)
    measured(tmp_path, model)
    run = read_run(tmp_path / "out" / "nq")
    assert run["rests_on"]["method"] == "boundary" and run["name"] == f"{model} on nq"
    assert run["rests_on"]["options"]["prompt"].startswith("shared/confident@")
    with pytest.raises(InputError, match="rests on something else"):
        measured(tmp_path, model, options={"strict": True})
    with pytest.raises(ConfigError, match="no option 'strikt'"):
        measured(tmp_path, model, options={"strikt": True})
    with pytest.raises(ConfigError, match="is not possible"):
        measured(tmp_path, model, options={"prompt": "shared/confident@00000000"})


def test_only_the_identifier_is_a_refusal_unless_strict_is_off(tmp_path: Path) -> None:
    found = measured(tmp_path, script(tmp_path / "m.json", REPLIES), options={})
    assert found["sets"]["nq"]["refused"] == 2


def test_a_lost_trace_is_named(tmp_path: Path) -> None:
    measured(tmp_path, script(tmp_path / "m.json", REPLIES))
    folder = tmp_path / "out" / "nq"
    (folder / TRACES).unlink()
    with pytest.raises(InputError, match="both answers to question q0"):
        read_pairs(folder)


def test_files_are_told_apart_and_not_asked_twice(tmp_path: Path) -> None:
    for name in ("dev", "dev_open"):
        (tmp_path / "nq").mkdir(exist_ok=True)
        rows = [{"id": "q", "dataset": "nq", "question": "What?", "answers": ["x"]}]
        (tmp_path / "nq" / f"{name}.jsonl").write_text(json.dumps(rows[0]) + "\n", encoding="utf-8")
    files = [tmp_path / "nq" / "dev.jsonl", tmp_path / "nq" / "dev_open.jsonl"]
    wanted = BoundaryExperiment(files[0])
    assert [one.data_name for one in planned_for(files, wanted)] == ["nq dev", "nq dev_open"]
    with pytest.raises(InputError, match="given twice"):
        planned_for([files[0], files[0]], wanted)


def test_other_runs_are_not_measured(tmp_path: Path) -> None:
    other = Planned("nq", "mine", (), Experiment(questions(tmp_path / "nq.jsonl"), method="direct"))
    with pytest.raises(ConfigError, match="'mine' is a run of direct"):
        asyncio.run(measure_all([other], tmp_path / "out", RunOptions()))


def pairs(kept: Sequence[bool], refused_ones: Sequence[bool]) -> list[Pair]:
    """Questions that were kept and refused, each right or wrong in both settings."""
    said_right = {True: "x", False: "y"}
    sure = [Pair(f"k{n}", "?", ("x",), said_right[right], said_right[right]) for n, right in enumerate(kept)]
    return sure + [Pair(f"r{n}", "?", ("x",), said_right[right], None) for n, right in enumerate(refused_ones)]


@pytest.mark.parametrize(
    ("kept", "refused_ones", "usable", "words"),
    [
        ([True] * 90 + [False] * 10, [False] * 100, True, "90.0 % of what it was sure of is right (± 5.9)"),
        ([True] * 90 + [False] * 10, [False] * 100, True, "90.0 points of F1 (± 6.9): this model knows what it knows"),
        ([True] * 50 + [False] * 50, [True] * 50 + [False] * 50, False, "lie 0.0 points of F1 (± 13.9), and 15 are"),
        (
            [True] * 150 + [False] * 850,
            [False] * 700,
            False,
            "15.0 % of what it was sure of is right (± 2.2), and 50 % are",
        ),
        ([True] * 12 + [False] * 52, [False] * 1500, False, "wanted: this model shows no usable boundary"),
        ([True] * 30 + [False] * 20, [False] * 50, None, "60.0 % of what it was sure of is right (± 13.7)"),
        ([True] * 30 + [False] * 20, [False] * 50, None, "too close to tell"),
        ([True] * 90, [True] * 72 + [False] * 18, None, "20.0 points of F1 (± 9.2), and 15 are wanted: too close"),
        ([True] * 3 + [False] * 7, [False] * 10, None, "too close to tell"),
        ([True], [False], None, "It was sure of 1 question and refused 1: too few to tell"),
        ([True] * 9, [False] * 90, None, "It was sure of 9 questions and refused 90: too few to tell"),
        ([True] * 90, [False] * 9, None, "sure of 90 questions and refused 9: too few to tell"),
        ([True] * 4, [], False, "It refused nothing: this model shows no usable boundary; use source=external."),
        ([], [True] * 4, False, "It answered nothing"),
        ([], [], None, "No question has an outcome yet."),
    ],
)
def test_verdicts(kept: list[bool], refused_ones: list[bool], usable: bool | None, words: str) -> None:
    found = measure(pairs(kept, refused_ones))
    assert found["usable"] is usable and words in found["verdict"]
    json.dumps(found, allow_nan=False)


def test_there_is_no_verdict_while_a_question_has_failed() -> None:
    """A hundred failures looked like a hundred answers that the model was sure of."""
    usable = pairs([True] * 20, [False] * 80)
    failed = [Pair(f"f{n}", "?", ("x",), "", "", failed=True) for n in range(100)]
    assert measure(usable)["usable"]
    found = measure([*failed, *usable])
    assert not found["usable"] and found["verdict"] == "100 failed: --retry-failed first."
    assert (found["questions"], found["answered"], found["refused"], found["failed"]) == (200, 20, 80, 100)
    assert found["gap_f1"] == measure(usable)["gap_f1"] == 1.0 and found["direct_f1"] == pytest.approx(0.1)
    nothing = measure(failed)
    assert (nothing["answered"], nothing["overconfident"], nothing["precision"]) == (0, 0, None)


def test_a_failed_question_is_judged_only_as_a_direct_answer(tmp_path: Path) -> None:
    broken = [{"step": "taikc/confident", "contains": "number 0?", "fault": "401"}]
    judge = script(tmp_path / "j.json", [{"step": "evaluation/judge", "reply": "Yes"}])
    model = script(tmp_path / "m.json", [*broken, *REPLIES])
    found = measured(tmp_path, model, files=("nq", "popqa"), judge=judge)
    one = found["sets"]["nq"]
    assert one["judge"]["direct"]["questions"] == 6 and one["direct_judged"] == pytest.approx(5 / 6)
    assert one["judge"]["confident"]["questions"] == 2 and one["confident_judged"] == 1.0
    assert found["all"]["failed"] == 2 and found["all"]["answered"] == 4


def test_a_question_that_its_budget_stopped_can_be_asked_again(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", REPLIES)
    stopped = measured(tmp_path, model, budget=Budget(calls=1))["sets"]["nq"]
    assert stopped["verdict"] == "6 failed: --retry-failed first."
    again: dict[str, Any] = {"ways": {"retry_failed": True, "anyway": True}, "budget": Budget(calls=2)}
    assert measured(tmp_path, model, **again)["sets"]["nq"]["failed"] == 0


def test_a_scripted_model_sees_the_steps_of_taikc(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule(**reply) for reply in REPLIES])

    async def ask() -> None:
        wanted = BoundaryExperiment(questions(tmp_path / "nq.jsonl"), model="any")
        async with wanted.open_engine(cache=None, concurrency=None, model=model) as engine:
            await engine.ask("What is number 0?")

    asyncio.run(ask())
    assert sorted(step for step, _ in model.requests) == ["taikc/confident", "taikc/direct"]
