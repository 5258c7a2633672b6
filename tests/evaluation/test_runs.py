"""Runs: every question once, on disk when it is done, refused when what they rest on changed."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, refused, said
from tests.traced import event

from hoptree.core.errors import ConfigError, EndpointError, InputError, TraceError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine import registry
from hoptree.engine.context import Context, Prices
from hoptree.engine.registry import list_methods, method
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.experiment import Experiment, cited_sentences, failed_row
from hoptree.evaluation.run_folder import METRICS, RESULTS, RUN, TRACES, read_rows, read_run, summarise, trace_of
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.retrieval.indexing import index_passages


def questions(path: Path, count: int = 6) -> Path:
    rows = [
        {
            "id": f"q{n}",
            "question": f"What is number {n}?",
            "answers": [f"answer {n}"],
            "type": ["even", "odd"][n % 2],
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def script(path: Path, replies: Iterable[dict[str, Any]]) -> str:
    path.write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")
    return f"scripted/{path}"


def right(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [{"contains": f"number {n}?", "reply": f"answer {n}"} for n in numbers]


def experiment(folder: Path, model: str, **more: Any) -> Experiment:
    return Experiment(questions(folder / "data.jsonl"), method="direct", model=model, **more)


def run(wanted: Experiment, out: Path, **more: Any) -> dict[str, Any]:
    hear = more.pop("on_progress", lambda progress: None)
    return asyncio.run(run_experiment(wanted, out, RunOptions(cache=None, **more), on_progress=hear))


def test_right_is_who_gives_no_answer_where_there_is_none(tmp_path: Path, no_backoff: None) -> None:
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [], "answerable": False} for n in range(3)]
    rows.append({"id": "q3", "question": "What is number 3?", "answers": ["answer 3"]})
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    replies = [{"contains": "number 0?", "reply": "unknown"}, {"contains": "number 1?", "reply": "answer 1"}]
    replies += [{"contains": "number 2?", "fault": "broken"}, *right([3])]
    run(Experiment(data, method="direct", model=script(tmp_path / "m.json", replies)), tmp_path / "out")
    found = {row.id: (row.scores["em"], row.scores["f1"]) for row in read_rows(tmp_path / "out")}
    assert found == {"q0": (1.0, 1.0), "q1": (0.0, 0.0), "q2": (0.0, 0.0), "q3": (1.0, 1.0)}, "a failure is no answer"


def test_a_run_keeps_answers_scores_traces_and_what_they_rest_on(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", [*right(range(4)), {"reply": "nonsense"}])
    summary = run(experiment(tmp_path, model), tmp_path / "run")
    assert (summary["questions"], summary["finished"], summary["failed"]) == (6, 6, 0)
    assert summary["metrics"]["em"]["mean"] == pytest.approx(4 / 6) and summary["metrics"]["em"]["questions"] == 6
    assert summary["by_type"]["even"]["metrics"]["em"]["mean"] == pytest.approx(2 / 3)
    assert json.loads((tmp_path / "run" / METRICS).read_text())["metrics"] == summary["metrics"]
    rows = read_rows(tmp_path / "run")
    assert [row.id for row in rows] == [f"q{n}" for n in range(6)], "in the order of the data"
    assert [row.scores["em"] for row in rows] == [1, 1, 1, 1, 0, 0]
    assert all(row.usage["llm_calls"] == 1 for row in rows)
    events = trace_of(tmp_path / "run", rows[2])
    assert events[0].as_dict()["question_id"] == "q2" and events[-1].as_dict()["answer"] == "answer 2"
    kept = read_run(tmp_path / "run")
    assert kept["questions"] == [f"q{n}" for n in range(6)] and kept["rests_on"]["prompts"]
    assert kept["data_name"] == "data"


def test_the_same_command_asks_nothing_twice(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", right(range(6)))
    first = run(experiment(tmp_path, model), tmp_path / "run", only=2)
    assert first["finished"] == 2
    before = (tmp_path / "run" / RESULTS).read_bytes()
    asked: list[int] = []
    second = run(experiment(tmp_path, model), tmp_path / "run", on_progress=lambda now: asked.append(now.asked))
    assert second["finished"] == 6 and asked[-1] == 4
    assert (tmp_path / "run" / RESULTS).read_bytes().startswith(before)
    third = run(experiment(tmp_path, model), tmp_path / "run")
    assert third["metrics"] == second["metrics"] and len(read_rows(tmp_path / "run")) == 6


def test_a_failed_question_is_a_row_counts_as_wrong_and_can_be_asked_again(tmp_path: Path) -> None:
    broken = [{"contains": "number 3?", "fault": "401"}]
    model = script(tmp_path / "m.json", [*broken, *right(range(6))])
    summary = run(experiment(tmp_path, model), tmp_path / "run")
    assert summary["errors"] == {"EndpointError": 1} and summary["metrics"]["em"]["mean"] == pytest.approx(5 / 6)
    failed = read_rows(tmp_path / "run")[3]
    assert (failed.error, failed.answer, failed.scores["f1"]) == ("EndpointError", "", 0.0) and failed.error_message
    model = script(tmp_path / "m.json", right(range(6)))
    with pytest.raises(InputError, match="rests on something else: model"):
        run(experiment(tmp_path, model), tmp_path / "run", retry_failed=True)
    mended = run(experiment(tmp_path, model), tmp_path / "run", retry_failed=True, anyway=True)
    assert mended["failed"] == 0 and mended["metrics"]["em"]["mean"] == 1.0
    assert read_run(tmp_path / "run")["changes"], "the change is on record"


def test_what_must_be_changed_first_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        run(experiment(tmp_path, "nonsense/x"), tmp_path / "run")
    wanted = Experiment(tmp_path / "data.jsonl", method="oner", model=script(tmp_path / "m.json", right([1])))
    with pytest.raises(InputError, match="no corpus"):
        run(wanted, tmp_path / "run")
    assert not (tmp_path / "run" / RESULTS).exists() or not read_rows(tmp_path / "run")


def test_one_question_that_is_refused_at_once_does_not_end_the_run(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.on("", lambda seen: said(f"answer {seen.text.partition('number ')[2][0]}", delay=0.1))
        endpoint.on("", refused(400, "the context is too long"), contains="number 3?")
        wanted = experiment(tmp_path, "openai/m", base_url=endpoint.url)
        summary = run(wanted, tmp_path / "run")
    assert (summary["finished"], summary["errors"]) == (6, {"EndpointError": 1})
    assert summary["metrics"]["em"]["mean"] == pytest.approx(5 / 6)


def test_an_endpoint_that_refuses_everything_ends_the_run_soon(tmp_path: Path) -> None:
    questions(tmp_path / "many.jsonl", 200)
    with Endpoint() as endpoint:
        endpoint.on("", refused(401, "no such key"))
        wanted = Experiment(tmp_path / "many.jsonl", method="direct", model="openai/m", base_url=endpoint.url)
        with pytest.raises(EndpointError, match="refused the key"):
            run(wanted, tmp_path / "run", concurrency=4)
        assert len(endpoint.requests) < 20
    assert not read_rows(tmp_path / "run")


@pytest.mark.parametrize("what", ["data", "limit", "options"])
def test_a_changed_question_file_or_option_is_noticed(tmp_path: Path, what: str) -> None:
    model = script(tmp_path / "m.json", right(range(9)))
    wanted = experiment(tmp_path, model)
    run(wanted, tmp_path / "run")
    if what == "data":
        text = wanted.data.read_text(encoding="utf-8").replace("answer 5", "answer five")
        wanted.data.write_text(text, encoding="utf-8")
        changed = Experiment(wanted.data, method="direct", model=model)
    elif what == "limit":
        changed = experiment(tmp_path, model, limit=3)
    else:
        changed = Experiment(wanted.data, method="taikc", model=model, options={"source": "internal"})
    with pytest.raises(InputError, match="rests on something else"):
        run(changed, tmp_path / "run")


@pytest.mark.parametrize("cut", [1, 7])
def test_a_line_cut_off_by_a_kill_is_asked_again(tmp_path: Path, cut: int) -> None:
    model = script(tmp_path / "m.json", right(range(6)))
    whole = run(experiment(tmp_path, model), tmp_path / "run")
    for name in (RESULTS, TRACES):
        data = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_bytes(data[:-cut])
    assert len(read_rows(tmp_path / "run")) == (6 if cut == 1 else 5)
    again = run(experiment(tmp_path, model), tmp_path / "run")
    assert again["metrics"] == whole["metrics"] and again["finished"] == 6


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run")
    path = tmp_path / "run" / RESULTS
    path.write_bytes(path.read_bytes().replace(b'{"id": "q1"', b'{"id" "q1"', 1))
    with pytest.raises(InputError, match="Line 2 "):
        read_rows(tmp_path / "run")


def test_outcomes_of_another_run_are_refused(tmp_path: Path) -> None:
    """Each line is as it was written: only the id of the run tells that the file was swapped."""
    model = script(tmp_path / "m.json", right(range(6)))
    run(experiment(tmp_path, model), tmp_path / "run")
    run(experiment(tmp_path, model, limit=3), tmp_path / "other")
    (tmp_path / "run" / RESULTS).write_bytes((tmp_path / "other" / RESULTS).read_bytes())
    with pytest.raises(InputError, match=r"Line 1 of .* is of another run"):
        read_rows(tmp_path / "run")
    with pytest.raises(InputError, match="is of another run"):
        run(experiment(tmp_path, model), tmp_path / "run")


def test_outcomes_and_traces_of_a_run_of_the_same_settings_are_refused(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", right(range(6)))
    here, other = tmp_path / "run", tmp_path / "other"
    assert run(experiment(tmp_path, model), here)["run"] == run(experiment(tmp_path, model), other)["run"]
    shutil.copytree(here, tmp_path / "copied")
    assert summarise(tmp_path / "copied") == summarise(here)
    shutil.copy(other / METRICS, here)
    with pytest.raises(InputError, match=r"metrics.json is damaged: it is of another run"):
        read_rows(here)
    (here / METRICS).unlink()
    (here / TRACES).write_bytes((other / TRACES).read_bytes())
    warned = summarise(here)["warned"]["trace"]
    assert warned["questions"] == 6 and "traces.jsonl is of another run." in warned["message"]
    with pytest.raises(TraceError, match="is of another run"):
        run(experiment(tmp_path, model), here, max_cost=1.0)
    (here / RESULTS).write_bytes((other / RESULTS).read_bytes())
    with pytest.raises(InputError, match=r"Line 1 of .* is of another run"):
        read_rows(here)


def test_a_damaged_summary_is_noticed_and_made_again(tmp_path: Path) -> None:
    model, here = script(tmp_path / "m.json", right(range(6))), tmp_path / "run"
    summary = run(experiment(tmp_path, model), here)
    written = (here / METRICS).read_text(encoding="utf-8")
    (here / METRICS).write_text(written.replace('"finished": 6', '"finished": 7'), encoding="utf-8")
    with pytest.raises(InputError, match=r"metrics.json is damaged: it is not what was written. Delete it"):
        summarise(here)
    shutil.copy(here / RUN, here / METRICS)
    with pytest.raises(InputError, match=r"metrics.json is damaged: it is of another run. Delete it"):
        summarise(here)
    (here / METRICS).unlink()
    assert run(experiment(tmp_path, model), here) == summary
    assert json.loads((here / METRICS).read_text(encoding="utf-8")) == json.loads(written)


def test_a_damaged_trace_is_told_with_the_metrics(tmp_path: Path) -> None:
    model, here = script(tmp_path / "m.json", right(range(6))), tmp_path / "run"
    run(experiment(tmp_path, model), here)
    lines = (here / TRACES).read_bytes()
    (here / TRACES).write_bytes(lines.replace(b'"event": "llm"', b'"event": "lln"', 1))
    warned = summarise(here)["warned"]["trace"]
    assert "traces.jsonl is not what was written. What interrupted questions cost is not known." in warned["message"]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="something else"):
        run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_a_limit_of_money_ends_the_run_in_order(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", right(range(6)))
    wanted = experiment(tmp_path, model, prices=Prices(1e6, 1e6))
    cost = run(wanted, tmp_path / "one", only=1)["usage"]["cost"]["total"]
    assert cost > 0
    cut = run(wanted, tmp_path / "run", max_cost=cost * 1.5)
    assert 0 < cut["finished"] < 6
    assert run(wanted, tmp_path / "run")["finished"] == 6


def test_progress_counts_what_is_there_and_what_is_new(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def hear(progress: Progress) -> None:
        seen.append((progress.total, len(progress.rows)))

    run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run", on_progress=hear)
    assert seen[0] == (6, 0) and seen[-1] == (6, 6)
    assert (tmp_path / "run" / RUN).exists()


@pytest.fixture
def citing() -> Iterator[None]:
    """A method that cites sentences for question 0, says nothing of them for 1, fails on 2, and cites badly for 3."""
    list_methods()
    before = dict(registry._registered)

    async def cite(question: Question, ctx: Context) -> Answer:
        """Cite."""
        await ctx.search(question.text, k=1)
        if question.id == "q0":
            ctx.decide("cited_sentences", [["Tosca ", 0], ["Tosca", 1]])
        if question.id == "q2":
            raise InputError("It broke down.")
        if question.id == "q3":
            ctx.decide("cited_sentences", ["Tosca, 0"])
        return Answer("Puccini", support=("p1",))

    method("cite", title="Cites", needs=("corpus",))(cite)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def supported(folder: Path, name: str) -> dict[str, Any]:
    """A run over five questions with gold passages, the first four also with gold sentences."""
    facts = {"supporting_facts": [["Tosca", 0], ["Giacomo  Puccini", 2]]}
    rows = [
        {"id": f"q{n}", "question": f"Who wrote Tosca, {n}?", "answers": ["Puccini"], "supporting_ids": ["p1", "p2"]}
        | (facts if n < 4 else {})
        for n in range(5)
    ]
    path = folder / "facts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if not (folder / "index").exists():
        index_passages([Passage("p1", "Tosca", "Tosca is by Puccini.")], folder / "index")
    model = script(folder / "m.json", [{"reply": "Puccini"}])
    return run(Experiment(path, method=name, model=model, corpus=str(folder / "index")), folder / name)


def test_cited_sentences_are_scored_and_who_cites_none_scores_nothing(tmp_path: Path, citing: None) -> None:
    metrics = supported(tmp_path, "cite")["metrics"]
    rows = read_rows(tmp_path / "cite")
    # Question 0: one of two cited sentences is gold, one of two gold ones is cited; the answer is right.
    assert (rows[0].scores["support_f1"], rows[0].scores["support_em"], rows[0].scores["joint_f1"]) == (0.5, 0, 0.5)
    # Question 1 says nothing of sentences, 2 failed, 3 cites what is no sentence; 4 has no gold ones.
    assert [row.scores["support_f1"] for row in rows[1:4]] == [0, 0, 0] and "support_f1" not in rows[4].scores
    assert metrics["support_f1"] == {"mean": 0.125, "plus_minus": pytest.approx(0.245), "questions": 4}
    assert (metrics["joint_em"]["mean"], metrics["joint_recall"]["questions"]) == (0, 4)
    # MuSiQue's: one passage cited, one of two; the failed question found it, and cites what was found.
    assert rows[0].scores["passage_support_f1"] == pytest.approx(2 / 3)
    assert metrics["passage_support_f1"]["questions"] == 5


def test_a_method_that_cites_no_sentences_has_no_support_score(tmp_path: Path) -> None:
    summary = supported(tmp_path, "oner")
    assert "support_f1" not in summary["metrics"] and "passage_support_f1" in summary["metrics"]
    assert read_rows(tmp_path / "oner")[0].scores["joint_f1"] is None


def test_a_method_that_never_searches_has_no_scores_of_searching(tmp_path: Path) -> None:
    """Documents are at hand, but none of them is wanted: 0 would look like a bad search."""
    assert "retrieval_recall" in supported(tmp_path, "oner")["metrics"]
    assert (
        not {"retrieval_recall", "citation_recall", "passage_support_f1"}
        & supported(tmp_path, "direct")["metrics"].keys()
    )


def test_without_documents_nothing_can_be_cited(tmp_path: Path) -> None:
    run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run")
    assert not [name for name in read_rows(tmp_path / "run")[0].scores if "support" in name or "citation" in name]


@pytest.mark.parametrize(
    ("said", "cited"), [([], None), ([[["A", 1]]], (("A", 1),)), ([[["A", 1]], []], ()), ([5], ()), ([[["A"]]], ())]
)
def test_the_last_word_on_sentences_counts(said: list[Any], cited: Any) -> None:
    events = [event("decision", kind="cited_sentences", value=value) for value in said]
    assert cited_sentences([event("start"), event("decision", kind="grounded", value=1), *events]) == cited


def trivia(folder: Path) -> Path:
    """Two questions: one with an answer that the documents give, one without any."""
    index_passages([Passage("p1", "The Falkland Islands", "Argentina invaded them in 1982.")], folder / "index")
    rows = [
        {"id": "q0", "question": "Who invaded the Falkland Islands?", "answers": ["Argie", "Argentina", "Argentyna"]},
        {"id": "q1", "question": "What is the number of the Falkland Islands?", "answers": ["answer 1", "one"]},
    ]
    path = folder / "trivia.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_answers_that_no_document_gives_can_be_left_out(tmp_path: Path) -> None:
    path = trivia(tmp_path)
    model = script(tmp_path / "m.json", [{"reply": "Argie"}])
    given: dict[str, Any] = {"method": "direct", "model": model, "corpus": str(tmp_path / "index")}
    loose = run(Experiment(path, **given), tmp_path / "loose")
    summary = run(Experiment(path, filter_answers=10, retriever="linked", **given), tmp_path / "run")
    assert (loose["metrics"]["em"]["mean"], summary["metrics"]["em"]["mean"]) == (0.5, 0.0)
    assert (summary["answer_filter"]["left_out"], summary["answer_filter"]["untouched"]) == (2, 1)
    assert [row.answers for row in read_rows(tmp_path / "run")] == [("Argentina",), ("answer 1", "one")]
    first, second = (read_run(tmp_path / name)["rests_on"] for name in ("loose", "run"))
    assert second["answer_filter"].startswith("10 passages of bm25:") and "answer_filter" not in first
    assert first["data"] != second["data"]
    with pytest.raises(InputError, match="rests on something else: answer_filter"):
        run(Experiment(path, filter_answers=9, retriever="linked", **given), tmp_path / "run")
    assert summarise(tmp_path / "run")["answer_filter"] == summary["answer_filter"]


def test_answers_cannot_be_filtered_without_documents(tmp_path: Path) -> None:
    wanted = experiment(tmp_path, script(tmp_path / "m.json", right(range(6))), filter_answers=10)
    with pytest.raises(InputError, match="without documents"):
        run(wanted, tmp_path / "run")
    for number in (0, True, "all"):
        with pytest.raises(ConfigError, match="filter_answers: 1000"):
            experiment(tmp_path, "scripted/x", filter_answers=number)


def test_a_question_nobody_could_be_asked_has_a_bill_of_nothing(tmp_path: Path) -> None:
    row = failed_row(Example("q", "Who?", ("Ada",)), InputError("Nobody there."), searchable=False)
    assert row.usage["llm_calls"] == 0 and row.scores["f1"] == 0.0


def test_a_run_without_outcomes_has_no_means(tmp_path: Path) -> None:
    run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run")
    (tmp_path / "run" / RESULTS).write_text("")
    summary = summarise(tmp_path / "run")
    assert summary["usage"]["llm_calls"] == {"total": 0.0, "mean": None, "median": None, "p95": None}
    assert summary["metrics"] == {} and summary["judges"] == {}


def test_questions_with_broken_answers_are_not_scored_and_the_run_says_so(tmp_path: Path) -> None:
    wanted = experiment(tmp_path, script(tmp_path / "model.json", right(range(6))))
    broken = {"id": "q6", "question": "Which company?", "answers": ["[", "'", "A", "p", "l", "e", "]"]}
    with wanted.data.open("a", encoding="utf-8") as file:
        file.write(json.dumps(broken) + "\n")
    summary = run(wanted, tmp_path / "run")
    assert summary["questions"] == 6 and summary["metrics"]["em"]["mean"] == 1
    assert any("a printed list split into characters" in warning and "q6" in warning for warning in summary["warnings"])
    assert summary["warnings"] == json.loads((tmp_path / "run" / METRICS).read_text(encoding="utf-8"))["warnings"]
