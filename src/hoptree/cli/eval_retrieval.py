"""`hoptree eval retrieval`: how much of what a question needs is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import chance, clean, print_json, run_at_once, say, stoppable
from hoptree.cli.options import AsJson
from hoptree.cli.search import Rerank, open_corpus
from hoptree.core.errors import ConfigError, InputError

if TYPE_CHECKING:
    from hoptree.evaluation.retrieval import QuestionSet, RetrievalRun
    from hoptree.evaluation.statistics import Comparison
    from hoptree.retrieval.retriever import Retriever


_BY = "recall@5"
_HEADINGS = {"p50_ms": "p50 ms", "p95_ms": "p95 ms", "queries_per_second": "per s", "mrr": "MRR"}


@dataclass(frozen=True, slots=True)
class _Row:
    """A retriever as it was asked for: a kind, and what orders its passages anew."""

    kind: str
    rerank: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind} + {self.rerank}" if self.rerank else self.kind


@stoppable(lambda options: "There are no figures before all questions were searched for.")
def eval_retrieval(
    data: Annotated[
        Path,
        typer.Option(
            help="Questions with gold passages: JSON Lines, the files of HotpotQA, 2WikiMultihopQA, MuSiQue and others "
            "as they are given out, or a folder in BEIR's form; gzip too."
        ),
    ],
    corpus: Annotated[
        str,
        typer.Option(help="An index made by hoptree index, 'sample', or elasticsearch://… or milvus://… addresses."),
    ],
    retriever: Annotated[
        list[str], typer.Option(help="bm25, linked, dense, hybrid or hippo; give several to see them side by side.")
    ] = ["bm25"],  # noqa: B006 - typer copies it
    rerank: Rerank = "",
    compare: Annotated[
        str,
        typer.Option(
            metavar="RETRIEVER",
            help="Test the difference in recall@5 to this one (without --rerank), and run it too.",
            show_default=False,
        ),
    ] = "",
    gold: Annotated[
        str,
        typer.Option(
            metavar="ids|titles", help="What names gold passages: ids (supporting_ids) or titles (supporting_titles)."
        ),
    ] = "ids",
    half: Annotated[
        str,
        typer.Option(
            metavar="first|second",
            help="Only the first or second half of the questions, split by their ids: choose settings on one half, "
            "show them on the other.",
            show_default=False,
        ),
    ] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.", show_default=False)] = None,
    k: Annotated[int, typer.Option("-k", min=10, max=1000, help="Passages to ask for; above 10 adds recall@k.")] = 10,
    per_question: Annotated[
        Path | None, typer.Option(help="Write what each question got to this JSON Lines file.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much of what questions need a retriever finds, and how fast.

    \b
    R@N      share of a question's gold passages among the first N, mean over all questions
    all@5    share of questions with every gold passage among the first five
    MRR      one over the place of the first gold passage, 0 beyond the tenth
    nDCG@10  gain of the gold passages, less for lower places, as a share of the best possible

    Searches are made one at a time; the first five warm up and are not timed. A search that fails counts as 0.

    \b
    hoptree eval retrieval --data dev.jsonl --corpus docs.idx --retriever bm25 --retriever linked
    hoptree eval retrieval --data dev.jsonl --corpus docs.idx --retriever linked --compare bm25 --half second
    """
    from hoptree.evaluation.retrieval import read_questions

    rows = _rows(retriever, rerank, compare)
    asked = read_questions(data, gold_by=gold, half=half, limit=limit)
    if per_question is not None:
        write_rows(per_question, [], "a")
    missing = _warn(corpus, asked)
    with _shown(len(rows) * len(asked.questions), as_json) as show:
        runs = run_at_once(_run_all(corpus, rows, asked, k, show))
    for row, run in runs.items():
        _warn_of_failures(row, run)
    if per_question is not None:
        write_rows(
            per_question, [{"retriever": row.label, **one} for row, run in runs.items() for one in run.rows()], "w"
        )
    results = {row: {"retriever": row.kind, "rerank": row.rerank, **run.as_dict()} for row, run in runs.items()}
    for result in results.values():
        result["gold_missing"] = missing
    comparisons = _comparisons(runs, _Row(compare)) if compare else {}
    _report(results, comparisons, compare, as_json)


def _rows(kinds: Sequence[str], rerank: str, compare: str) -> list[_Row]:
    rows = dict.fromkeys([_Row(kind, rerank) for kind in kinds])
    if compare:
        rows.setdefault(_Row(compare))
        if len(rows) == 1:
            raise ConfigError(f"'{compare}' cannot be compared with itself.", "Name another one with --compare.")
    return list(rows)


async def _run_all(
    corpus: str, rows: Sequence[_Row], asked: QuestionSet, k: int, show: Callable[[str], None]
) -> dict[_Row, RetrievalRun]:
    from hoptree.evaluation.metrics import RankingMetrics
    from hoptree.evaluation.retrieval import evaluate

    runs: dict[_Row, RetrievalRun] = {}
    opened: dict[_Row, Retriever] = {}
    try:
        for row in rows:  # all of them first: what cannot be opened should not cost the time of those before it
            opened[row] = open_corpus(corpus, row.kind, row.rerank)
        metrics = RankingMetrics()
        for row, retriever in opened.items():
            runs[row] = await evaluate(retriever, asked, metrics, k=k, on_done=partial(show, row.label))
    finally:
        for retriever in opened.values():
            await retriever.aclose()
    return runs


def _comparisons(runs: dict[_Row, RetrievalRun], against: _Row) -> dict[_Row, Comparison]:
    from hoptree.evaluation.statistics import compare

    base = runs[against].scores[_BY]
    return {row: compare(run.scores[_BY], base) for row, run in runs.items() if row != against}


def _warn(corpus: str, asked: QuestionSet) -> int | None:
    """Say what keeps the figures from telling all; how many gold passages are missing, where that can be known."""
    from hoptree.evaluation.retrieval import missing_gold
    from hoptree.retrieval.remote import is_remote

    if asked.without_gold:
        what = "question has" if asked.without_gold == 1 else "questions have"
        say(f"{asked.without_gold:,} {what} no gold passages; left out.")
    if is_remote(corpus):
        return None
    if corpus == "sample":
        from hoptree.sample import sample_index

        corpus = str(sample_index())
    missing = missing_gold(Path(corpus), asked)
    if len(missing) == len({name for question in asked.questions for name in question.gold}):
        raise InputError(
            f"None of the {len(missing):,} gold passages is in {corpus} (the first: {missing[0]}).",
            "Give the index of the corpus these questions belong to"
            f"{', or --gold titles if ids differ' if asked.gold_by == 'ids' else ''}.",
        )
    if missing:
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        what = "gold passage is" if len(missing) == 1 else "gold passages are"
        say(f"{len(missing):,} {what} not in {corpus} ({some}): recall cannot reach 1.")
    return len(missing)


def _warn_of_failures(row: _Row, run: RetrievalRun) -> None:
    if run.failed:
        first = next(found.error for found in run.found if found.error is not None)
        say(f"{row.label}: {run.failed:,} of {len(run.found):,} searches failed and count as 0. The first: {first}")


def write_rows(path: Path, rows: Sequence[dict[str, Any]], mode: str) -> None:
    """One JSON object a line, into a file that a person named."""
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}.", "Give --per-question a file that can."
        ) from error


@contextmanager
def _shown(total: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar on the terminal only."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("searching", total=total)
        yield lambda label: bar.update(task, advance=1, description=label)


def _report(
    results: dict[_Row, dict[str, Any]], comparisons: dict[_Row, Comparison], against: str, as_json: bool
) -> None:
    if as_json:
        runs = list(results.values())
        compared = [
            {"retriever": row.kind, "rerank": row.rerank, "against": against, "metric": _BY, **comparison.as_dict()}
            for row, comparison in comparisons.items()
        ]
        print_json({"runs": runs, **({"comparisons": compared} if compared else {})} if len(runs) > 1 else runs[0])
        return
    _print_table(results)
    for row, comparison in comparisons.items():
        typer.echo(
            clean(
                f"{row.label} against {against}: {comparison.difference:+.4f} recall@5, {chance(comparison.p_value)}; "
                f"better on {comparison.better:,} questions, worse on {comparison.worse:,}, "
                f"the same on {comparison.same:,}"
            )
        )


def _print_table(results: dict[_Row, dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    first = next(iter(results.values()))
    figures = [name for name, value in first.items() if isinstance(value, float)]
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column("retriever", no_wrap=True)
    for name in figures:
        table.add_column(_heading(name), justify="right", no_wrap=True)
    for row, result in results.items():
        table.add_row(Text(clean(row.label)), *(_figure(name, result[name]) for name in figures))
    Console(width=200).print(table)  # a narrow terminal folds the lines; rich would cut the figures off
    typer.echo(f"{first['questions']:,} questions; searched one at a time")


def _heading(name: str) -> str:
    return _HEADINGS.get(name, name.replace("recall@", "R@").replace("ndcg", "nDCG"))


def _figure(name: str, value: float) -> str:
    if name == "queries_per_second":
        return f"{value:,.0f}"
    return f"{value:.2f}" if name.endswith("_ms") else f"{value:.4f}"
