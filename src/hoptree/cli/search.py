"""`hoptree search`, and `eval retrieval`: recall of a retriever."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from hoptree.cli import options
from hoptree.cli.console import (
    chance,
    counted,
    echo,
    one_line,
    print_json,
    print_table,
    run_at_once,
    run_to_end,
    stoppable,
    warn,
)
from hoptree.cli.progress import counting, progress_bar
from hoptree.core.errors import ConfigError, InputError
from hoptree.core.values import split_part
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.retriever import DOCUMENT, TITLE

if TYPE_CHECKING:
    from hoptree.core.values import Passage
    from hoptree.evaluation.retrieval import QuestionSet, RetrievalRun
    from hoptree.evaluation.statistics import Comparison
    from hoptree.retrieval.retriever import Retriever


def search(
    query: Annotated[str, Argument(help="What to look for.")],
    place: Annotated[str, Argument(metavar="[CORPUS]", help="The corpus, as --corpus names it.")] = "",
    corpus: Annotated[str, Option(envvar="HOPTREE_CORPUS", help=options.CORPUS_HELP)] = "",
    k: Annotated[int, Option("-k", min=1, max=1000, help="How many passages.")] = 5,
    retriever: options.RetrieverKind = DEFAULT_RETRIEVER,
    rerank: options.Rerank = "",
    distinct: Annotated[bool, Option("--distinct", help="Leave out near duplicates.")] = False,
    where: Annotated[
        list[str],
        Option(metavar="NAME=VALUE", help="Only passages with this metadata; document and title are names, too."),
    ] = [],
    explain: Annotated[bool, Option("--explain", help="Show the score of each stage.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the best passages for a query, as a method would get them.

    \b
    hoptree search "Who directed X?" --corpus docs.idx --retriever linked --explain
    hoptree search "rate limits" --corpus docs.idx --where lang=en
    hoptree search "third landing on the Moon" --corpus wikipedia --where title="Apollo 14"
    """
    if not query.strip():
        raise InputError("The query is empty.", 'Search for something: hoptree search "…" --corpus DIR')
    if place and corpus not in ("", os.environ.get("HOPTREE_CORPUS")):
        raise InputError(f"Both {place} and --corpus {corpus} were given.", "Give one of them.")
    if not (place or corpus):
        raise InputError("There is no corpus.", 'Name one: hoptree search "…" docs.idx')
    from hoptree.engine.answer_sentence import cut_around

    conditions = options.read_named(where, "--where")

    async def find() -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
        async with aclosing(_open_corpus(place or corpus, retriever, rerank, distinct=distinct)) as opened:
            hits = await opened.search(query, k=k, where=conditions)
            return hits, () if hits or not conditions else await opened.search(query, k=_EXAMPLES)

    passages, others = run_to_end(find())
    if as_json:
        print_json([_row(passage, explain) for passage in passages])
        return
    if not passages:
        echo(
            f"Nothing was found: no passage that fits --where has a word of the query.{_describe(others, conditions)}"
            if where
            else "Nothing was found: no passage has a word of the query, or it has stop words only."
        )
    for passage in passages:
        echo(f"{passage.score:7.2f}  {one_line(passage.id)}  {one_line(passage.title)}")
        if explain:
            stages = "  ".join(f"{name} {score:g}" for name, score in passage.stages)
            place = (
                f"  characters {passage.start} to {passage.end} of {one_line(passage.document)}"
                if passage.document
                else ""
            )
            echo(f"         {stages}{place}")
        echo(f"         {cut_around(' '.join(passage.text.split()), '', _EXCERPT_CHARS, query)}")


def _open_corpus(corpus: str, kind: str, rerank: str = "", *, distinct: bool = False) -> Retriever:
    """Return the retriever over what --corpus names."""
    from hoptree.retrieval.retriever import open_retriever

    corpus = options.located(corpus) or corpus
    opened = open_retriever(corpus, kind, rerank=rerank, distinct=distinct)
    options.warn_without_links(corpus, kind)
    return opened


def _describe(passages: Sequence[Passage], conditions: Iterable[str]) -> str:
    """Return which values passages have of the names in --where, and which names."""
    fields = [(DOCUMENT, split_part(each.document or each.id)[0]) for each in passages]
    fields += [(TITLE, each.title) for each in passages] + [pair for each in passages for pair in each.metadata]
    known: dict[str, dict[str, None]] = {}
    for name, value in fields:
        known.setdefault(name, {})[value] = None
    sentences, names = [], ", ".join(known)
    for name in conditions if passages else ():
        values = ", ".join(f"{name}={value}" for value in known.get(name, ()))
        sentences.append(f" Without --where the best have {values or f'no {name}, but {names}'}.")
    return "".join(sentences)


def _row(passage: Passage, explain: bool) -> dict[str, object]:
    return passage.as_dict() | ({"stages": dict(passage.stages)} if explain else {})


_EXCERPT_CHARS = 200
_EXAMPLES = 5  # passages whose metadata a hint names
_METRIC = "recall@5"
_HEADINGS = {"p50_ms": "p50 ms", "p95_ms": "p95 ms", "queries_per_second": "per s", "mrr": "MRR"}


class _Row(NamedTuple):
    """A requested retriever: its kind, and what reranks its passages."""

    kind: str
    rerank: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind} + {self.rerank}" if self.rerank else self.kind


@stoppable("There are no figures before all questions were searched for.")
def eval_retrieval(
    data: Annotated[
        Path,
        Option(help="Questions with gold passages: JSON Lines, a data set's own file, or BEIR's folder; gzip too."),
    ],
    corpus: Annotated[
        str, Option(help="An index made by hoptree index, 'sample', or elasticsearch://… or milvus://… addresses.")
    ],
    retriever: Annotated[
        list[str], Option(help="bm25, linked, ranked, dense, hybrid or hippo; give several to see them side by side.")
    ] = ["bm25"],
    rerank: options.Rerank = "",
    compare: Annotated[
        str, Option(metavar="RETRIEVER", help="Test the difference in recall@5 to this one, without --rerank.")
    ] = "",
    half: options.Half = "",
    limit: options.Limit = None,
    k: Annotated[int, Option("-k", min=10, max=1000, help="Passages to ask for; above 10 adds recall@k.")] = 10,
    as_json: options.AsJson = False,
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
    from hoptree.evaluation.statistics import compare as compare_scores

    rows = list(dict.fromkeys(_Row(kind, rerank) for kind in retriever))
    if compare and _Row(compare) not in rows:
        rows.append(_Row(compare))
    if compare and len(rows) == 1:
        raise ConfigError(f"'{compare}' cannot be compared with itself.", "Name another one with --compare.")
    asked = read_questions(data, half=half, limit=limit)
    missing = _warn_of_gaps(corpus, asked)
    runs = run_at_once(_run_all(corpus, rows, asked, k, quiet=as_json))
    for row, outcome in runs.items():
        if outcome.failed:
            first = next(result.error for result in outcome.results if result.error is not None)
            failed = f"{outcome.failed:,} of {len(outcome.results):,} searches failed"
            warn(f"{row.label}: {failed} and count as 0. The first: {first}")
    results = {
        row: {"retriever": row.kind, "rerank": row.rerank, **outcome.as_dict(), "gold_missing": missing}
        for row, outcome in runs.items()
    }
    comparisons: dict[_Row, Comparison] = {}
    if compare:
        base = runs[_Row(compare)].scores[_METRIC]
        others = {row: outcome.scores[_METRIC] for row, outcome in runs.items() if row != _Row(compare)}
        comparisons = {row: compare_scores(scores, base) for row, scores in others.items()}
    _report(results, comparisons, compare, as_json)


async def _run_all(
    corpus: str, rows: Sequence[_Row], asked: QuestionSet, k: int, *, quiet: bool
) -> dict[_Row, RetrievalRun]:
    from hoptree.evaluation.retrieval import evaluate

    runs: dict[_Row, RetrievalRun] = {}
    opened: dict[_Row, Retriever] = {}
    try:
        for row in rows:  # all of them first: an error should not cost the time of earlier runs
            opened[row] = _open_corpus(corpus, row.kind, row.rerank)
        with progress_bar(quiet) as update_bar:
            on_done = counting(update_bar, len(rows) * len(asked.questions))
            for row, retriever in opened.items():
                runs[row] = await evaluate(retriever, asked, k=k, on_done=partial(on_done, row.label))
    finally:
        for retriever in opened.values():
            await retriever.aclose()
    return runs


def _warn_of_gaps(corpus: str, asked: QuestionSet) -> int | None:
    """Warn of missing gold; return how much is missing, if known."""
    from hoptree.evaluation.retrieval import missing_gold
    from hoptree.retrieval.retriever import is_remote

    if asked.without_gold:
        warn(f"{counted(asked.without_gold, 'question has', 'questions have')} no gold passages; left out.")
    if is_remote(corpus):
        return None
    corpus = options.located(corpus) or corpus
    missing = missing_gold(Path(corpus), asked)
    if len(missing) == len({name for question in asked.questions for name in question.supporting_ids}):
        cause = f"None of the {len(missing):,} gold passages is in {corpus} (the first: {missing[0]})."
        raise InputError(cause, "Give the index of the corpus these questions belong to.")
    if missing:
        examples = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        passages = counted(len(missing), "gold passage is", "gold passages are")
        warn(f"{passages} not in {corpus} ({examples}): recall cannot reach 1.")
    return len(missing)


def _report(
    results: dict[_Row, dict[str, Any]], comparisons: dict[_Row, Comparison], against: str, as_json: bool
) -> None:
    if as_json:
        runs = list(results.values())
        compared = [
            {"retriever": row.kind, "rerank": row.rerank, "against": against, "metric": _METRIC, **comparison.as_dict()}
            for row, comparison in comparisons.items()
        ]
        print_json({"runs": runs, **({"comparisons": compared} if compared else {})} if len(runs) > 1 else runs[0])
        return
    first = next(iter(results.values()))
    figures = [name for name, value in first.items() if isinstance(value, float)]
    rows = [[row.label, *(_figure(name, result[name]) for name in figures)] for row, result in results.items()]
    headings = [_HEADINGS.get(name, name.replace("recall@", "R@").replace("ndcg", "nDCG")) for name in figures]
    print_table(["retriever", *headings], rows, left=("retriever",))
    echo(f"{first['questions']:,} questions; searched one at a time")
    for row, comparison in comparisons.items():
        echo(
            f"{row.label} against {against}: {comparison.difference:+.4f} recall@5, {chance(comparison.p_value)}; "
            f"better on {comparison.better:,} questions, worse on {comparison.worse:,}, the same on {comparison.same:,}"
        )


def _figure(name: str, value: float) -> str:
    if name == "queries_per_second":
        return f"{value:,.0f}"
    return f"{value:.2f}" if name.endswith("_ms") else f"{value:.4f}"
