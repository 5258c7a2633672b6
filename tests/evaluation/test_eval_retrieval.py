"""`hoptree eval retrieval` on a small corpus, and what it makes of questions that fail."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hoptree.__main__ import main
from hoptree.cli.console import chance
from hoptree.core.errors import CorpusError, EndpointError
from hoptree.core.values import Passage
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.retrieval import QuestionSet, RetrievalRun, SearchResult, evaluate, read_questions
from hoptree.retrieval.indexing import build_index
from hoptree.retrieval.retriever import open_retriever

PASSAGES = [
    ("p1", "Red Kite", "Red Kite is a film directed by Ada Moor."),
    ("p2", "Ada Moor", "Ada Moor is a director. She was born in Skagen."),
    ("p3", "Skagen", "Skagen is a town in Denmark."),
    ("p4", "Blue Heron", "Blue Heron is a film directed by Jan Dahl."),
    ("p5", "Jan Dahl", "Jan Dahl was born in Bergen."),
    ("p6", "Bergen", "Bergen is a city in Norway."),
]
ROWS: list[dict[str, Any]] = [
    {"id": "q1", "question": "Who directed the film Red Kite?", "supporting_ids": ["p1"]},
    {"id": "q2", "question": "Where was the director of Red Kite born?", "supporting_ids": ["p1", "p2", "p2"]},
    {"id": "q3", "question": "In which country was the director of Blue Heron born?", "supporting_ids": ["p4", "p6"]},
    {"id": "q4", "question": "zzz qqq", "supporting_ids": ["p3"]},
    {"id": "q5", "question": "Is there anything?", "supporting_ids": []},
]
KEYS = ("recall@2", "recall@5", "recall@10", "all@5", "mrr", "ndcg@10")

Outcome = tuple[int, str, str]
Command = Callable[..., Outcome]


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `hoptree eval retrieval` in a folder with an index and questions: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    write_rows(tmp_path / "corpus.jsonl", [{"id": a, "title": b, "text": c} for a, b, c in PASSAGES])
    build_index(tmp_path / "corpus.jsonl", tmp_path / "small.idx")
    write_rows(tmp_path / "dev.jsonl", ROWS)
    capsys.readouterr()

    def run(*arguments: str, data: str = "dev.jsonl", corpus: str = "small.idx") -> Outcome:
        call = ["hoptree", "eval", "retrieval", "--data", data, "--corpus", corpus, *arguments]
        monkeypatch.setattr(sys, "argv", call)
        with pytest.raises(SystemExit) as leaving:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert isinstance(leaving.value.code, int)
        return leaving.value.code, said.out, said.err

    return run


def result_of(outcome: Outcome) -> dict[str, Any]:
    code, out, err = outcome
    assert code == 0, err
    result = json.loads(out)
    assert isinstance(result, dict)
    return result


def test_one_retriever_is_one_object_that_agrees_with_a_count_by_hand(command: Command, tmp_path: Path) -> None:
    result = result_of(command("--json"))
    questions = read_questions(tmp_path / "dev.jsonl").questions
    assert [question.id for question in questions] == ["q1", "q2", "q3", "q4"] and questions[1].supporting_ids == (
        "p1",
        "p2",
    )
    index = open_retriever(str(tmp_path / "small.idx"), "bm25")
    ranked = [[passage.id for passage in asyncio.run(index.search(question.question, k=10))] for question in questions]
    for cut in (2, 5, 10):
        pairs = zip(questions, ranked, strict=True)
        shares = [
            len(set(question.supporting_ids) & set(ids[:cut])) / len(question.supporting_ids) for question, ids in pairs
        ]
        assert result[f"recall@{cut}"] == pytest.approx(sum(shares) / 4)
    complete = [set(question.supporting_ids) <= set(ids[:5]) for question, ids in zip(questions, ranked, strict=True)]
    assert ranked[3] == [] and result["all@5"] == sum(complete) / 4
    assert 0 < result["recall@5"] < 1
    assert (result["retriever"], result["rerank"], result["questions"]) == ("bm25", "", 4)
    assert (result["without_gold"], result["gold_missing"], result["failed"]) == (1, 0, 0)
    assert result["corpus"].startswith("bm25:")
    assert 0 < result["p50_ms"] <= result["p95_ms"] and result["queries_per_second"] > 0


def test_several_retrievers_stand_side_by_side_and_are_compared(command: Command) -> None:
    code, out, err = command("--retriever", "bm25", "--retriever", "linked", "--compare", "bm25")
    assert code == 0, err
    heading, bm25, linked, count, compared = out.splitlines()
    assert heading.split()[:7] == ["retriever", "R@2", "R@5", "R@10", "all@5", "MRR", "nDCG@10"]
    assert (bm25.split()[0], linked.split()[0]) == ("bm25", "linked")
    assert count.startswith("4 questions") and compared.startswith("linked against bm25: ")
    assert "1 question has no gold passages" in err


def test_the_comparison_in_json(command: Command) -> None:
    result = result_of(command("--retriever", "linked", "--compare", "bm25", "--json"))
    linked, bm25 = result["runs"]
    (compared,) = result["comparisons"]
    assert (compared["retriever"], compared["against"], compared["metric"]) == ("linked", "bm25", "recall@5")
    assert compared["difference"] == pytest.approx(linked["recall@5"] - bm25["recall@5"])
    assert compared["better"] + compared["worse"] + compared["same"] == 4
    assert 0 < compared["p_value"] <= 1


def test_gold_that_the_index_does_not_hold_is_told(command: Command, tmp_path: Path) -> None:
    write_rows(tmp_path / "far.jsonl", [{**ROWS[0], "supporting_ids": ["p1", "far away"]}])
    code, out, err = command("--json", data="far.jsonl")
    result = result_of((code, out, err))
    assert (result["recall@10"], result["gold_missing"]) == (0.5, 1)
    assert "far away" in err and "cannot reach 1" in err


def test_the_halves_share_no_question_and_make_up_the_whole(command: Command, tmp_path: Path) -> None:
    rows = [{**ROWS[0], "id": f"n{number}"} for number in range(40)]
    path = tmp_path / "many.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    halves = [{q.id for q in read_questions(path, half=half).questions} for half in ("first", "second")]
    assert halves[0] == {row["id"] for row in rows if hashlib.sha256(row["id"].encode()).digest()[0] % 2 == 0}
    assert not halves[0] & halves[1] and halves[0] | halves[1] == {row["id"] for row in rows}
    result = result_of(command("--half", "second", "--limit", "3", "--json", data="many.jsonl.gz"))
    assert result["questions"] == 3


def test_more_passages_give_one_more_recall(command: Command) -> None:
    assert result_of(command("-k", "20", "--json"))["recall@20"] >= 0
    assert command("-k", "5")[0] == 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"id": "a", "question": "Who?"}], "names gold passages"),
        ([{"id": "a", "supporting_ids": ["p1"]}], "Line 1 of bad.jsonl holds no question"),
        (["text"], "holds no question"),
        ([ROWS[0], {"id": "a", "question": "Who?", "supporting_ids": "p1"}], "Line 2 of bad.jsonl"),
        ([{"id": "a", "question": "Who?", "supporting_ids": [["p1"]]}], "not a list of names"),
        ([], "names gold passages"),
    ],
)
def test_questions_that_cannot_be_scored_are_refused(
    command: Command, tmp_path: Path, rows: list[Any], words: str
) -> None:
    write_rows(tmp_path / "bad.jsonl", rows)
    code, out, err = command(data="bad.jsonl")
    assert (code, out) == (2, "")
    assert words in err


def test_a_broken_line_is_not_passed_over(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(json.dumps(ROWS[0]) + '\n{"id": \n', encoding="utf-8")
    code, _, err = command(data="bad.jsonl")
    assert code == 2 and "Line 2 of bad.jsonl" in err and "--skip-broken" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--retriever", "bm26"), "Did you mean bm25?"),
        (("--compare", "bm25"), "with itself"),
        (("--compare", "best"), "no retriever 'best'"),
        (("--half", "third"), "Choose first or second"),
        (("--retriever", "dense"), "has no vectors"),
    ],
)
def test_wrong_options_are_refused(command: Command, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_missing_file_and_a_missing_index_are_refused(command: Command) -> None:
    assert command(data="none.jsonl")[0] == 2
    assert command(corpus="none.idx")[0] == 2


class Shaky:
    """A retriever that finds p1, p2 and so on, and fails where the query says how."""

    kind = identity = "shaky"
    remote = True

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if query == "away":
            raise EndpointError("The engine is away.")
        if query == "damaged":
            raise CorpusError("The index is damaged.")
        return tuple(Passage(f"p{number}", "", "") for number in range(1, 100))

    async def aclose(self) -> None:
        return None


def asked(*queries: str) -> QuestionSet:
    return QuestionSet(tuple(Example(query, query, supporting_ids=("p1",)) for query in queries), 0)


def test_a_search_that_fails_counts_as_nothing_found() -> None:
    done: list[None] = []
    questions = asked("here", "away", "there", "x" * 8_001)
    run = asyncio.run(evaluate(Shaky(), questions, k=10, on_done=lambda: done.append(None)))
    summary = run.as_dict()
    assert (summary["questions"], summary["failed"], len(done)) == (4, 2, 4)
    assert {summary[key] for key in KEYS} == {0.5}
    errors = [str(result.error or "")[:36] for result in run.results]
    assert errors == ["", "The engine is away.", "", f"The question '{'x' * 22}"]
    assert [len(result.ids) for result in run.results] == [10, 0, 10, 0]


def test_the_first_searches_are_scored_but_not_timed() -> None:
    times = [900.0] * 5 + [float(number) for number in range(1, 101)]
    run = RetrievalRun(
        "c", asked(*map(str, range(105))), tuple(SearchResult(("p1",), ms) for ms in times), {"mrr": [1.0] * 105}
    )
    summary = run.as_dict()
    assert (summary["questions"], summary["p50_ms"], summary["p95_ms"]) == (105, 50, 95)
    assert summary["queries_per_second"] == pytest.approx(1000 / 50.5)
    few = RetrievalRun(
        "c", asked("a", "b"), (SearchResult(("p1",), 2.0), SearchResult(("p1",), 4.0)), {"mrr": [1.0, 1.0]}
    ).as_dict()
    assert (few["p50_ms"], few["p95_ms"]) == (2, 4)


def test_every_question_is_searched_for_once() -> None:
    seen: list[str] = []

    class Counting(Shaky):
        async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
            seen.append(query)
            return await super().search(query, k=k)

    asyncio.run(evaluate(Counting(), asked("a", "b", "c"), k=10))
    assert seen == ["a", "b", "c"]


@pytest.mark.parametrize(("queries", "error"), [(("away", "away"), EndpointError), (("here", "damaged"), CorpusError)])
def test_nothing_but_failures_or_damage_is_an_error(queries: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(evaluate(Shaky(), asked(*queries), k=10))


def test_questions_of_another_corpus_are_refused(command: Command, tmp_path: Path) -> None:
    write_rows(tmp_path / "far.jsonl", [{**ROWS[0], "supporting_ids": ["far away"]}])
    code, out, err = command("--json", data="far.jsonl")
    assert (code, out) == (2, "") and "None of the 1 gold passages" in err


def test_ctrl_c_ends_it_at_once_although_it_never_waits(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small indexes are searched in the loop's own thread."""
    searched = 0

    def search_now(*args: object) -> tuple[Passage, ...]:
        nonlocal searched
        searched += 1
        if searched == 2:
            signal.raise_signal(signal.SIGINT)
        return ()

    monkeypatch.setattr("hoptree.retrieval.bm25.BM25.search_now", search_now)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code, out, err = command()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, out, searched) == (1, "", 2)
    assert "Stopped. There are no figures before all questions were searched for." in err


@pytest.mark.parametrize(
    ("value", "told"), [(0.0, "p < 0.0001"), (0.00009, "p < 0.0001"), (0.0001, "p = 0.0001"), (1.0, "p = 1.0000")]
)
def test_a_chance_is_never_told_as_none(value: float, told: str) -> None:
    assert chance(value) == told
