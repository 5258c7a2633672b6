"""`hoptree eval linking`: recall of entities and relations in a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Option

from hoptree.cli.console import echo, percent, print_report, print_table, run_at_once, stoppable, warn, what_stays
from hoptree.cli.graph import Graph
from hoptree.cli.options import AsJson, BaseURL, Concurrency, Half, Limit, NoCache, OtherModel
from hoptree.cli.progress import counting, progress_bar
from hoptree.core.errors import InputError
from hoptree.engine.calls import open_calls
from hoptree.evaluation import linking
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.running import RunOptions
from hoptree.graph import open_graph
from hoptree.graph.entity_linking import MentionModelCandidates, check_linker, open_candidates, open_mention_model
from hoptree.methods.steps.link import ByEncoder, ByModel, ByWords, RelationRanking
from hoptree.models import open_model
from hoptree.retrieval.encoder import open_encoder


@stoppable(lambda options: f"No figures before all are looked up. {what_stays(cached=not options['no_cache'])}")
def eval_linking(
    data: Annotated[
        Path, Option(help="SimpleQuestions, or JSON Lines with subject_qid and property or evidence_triples.")
    ],
    graph: Graph,
    model: OtherModel = "",
    linker: Annotated[
        str,
        Option(
            metavar="KIND:NAME_OR_FOLDER",
            help="Have gliner:… or relik:… mark the names; those not here are fetched from the hub.",
        ),
    ] = "",
    relations: Annotated[
        list[str], Option(metavar="words|dense|llm", help="How relations are ranked; several times for several ways.")
    ] = ["words"],
    among: Annotated[
        str, Option(metavar="entity|graph", help="Whose relations are ranked: the entity's, or all of the graph.")
    ] = "entity",
    encoder: Annotated[str, Option(help="For dense: minilm, static/FOLDER, onnx/FOLDER or openai/NAME.")] = "minilm",
    half: Half = "",
    limit: Limit = None,
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Measure the recall of the entity and the relation of questions in a graph.

    \b
    linker   the index of the graph's names alone, over all words of the question; what --linker finds, if it is given
    index    the index alone, if --linker is given
    model    the same index, searched for the names that the model finds in the question
    union    either of them within its first K
    kept     what the model keeps of both

    Recall is that of 1, 3 and 5 entities, and of 1, 3 and 6 relations. Relations are ranked by the words of their
    names, by an encoder (dense), or by the model (llm). Figures are over all questions, and over those whose entity or
    relation is in the graph, since no others can be found. Each has a 95 % confidence interval. What fails counts as
    missed.

    \b
    hoptree eval linking --data simplequestions.jsonl --graph kg
    hoptree eval linking --data simplequestions.jsonl --graph kg --relations words --relations dense --among graph
    hoptree eval linking --data simplequestions.jsonl --graph wikidata -m openai/NAME --relations llm --limit 300
    hoptree eval linking --data simplequestions.jsonl --graph kg --linker gliner:models/gliner-small
    """
    options = linking.LinkingOptions(graph, model, linker, tuple(relations), cast("linking.Among", among), encoder)
    asked = linking.read_linking_questions(data, half=half, limit=limit)
    if asked.without_entity:
        warn(f"{asked.without_entity:,} questions name no entity; left out.")
    run_options = RunOptions(cache=None if no_cache else "default", concurrency=concurrency)
    result = run_at_once(_evaluate(asked, options, run_options, base_url, quiet=as_json))
    if result.failed:
        first = next(linked.error for linked in result.linked if linked.error)
        warn(f"{result.failed:,} of {len(result.linked):,} questions failed and count as missed. The first: {first}")
    figures = {"graph": graph, "model": model or None, "linker": linker or None, "among": among, **result.as_dict()}
    print_report(figures, _report, as_json=as_json)


async def _evaluate(
    asked: linking.LinkingSet, options: linking.LinkingOptions, run_options: RunOptions, base_url: str, *, quiet: bool
) -> linking.LinkingRun:
    total = len(asked.questions)
    with progress_bar(quiet) as update_bar:
        async with AsyncExitStack() as opened:
            parts = _open(
                opened,
                options,
                run_options,
                base_url,
                lambda names: update_bar(0, total, lambda: f"indexing names: {names:,}"),
            )
            return await linking.evaluate_linking(asked, parts, on_done=partial(counting(update_bar, total), "linking"))


async def link_all(planned: Sequence[Planned], out: Path, run_options: RunOptions, *, quiet: bool) -> None:
    """Measure all runs of an experiment file that have no figures yet."""
    for run in _leave_out_uninstalled(planned):
        experiment, options = run.experiment, linking.LinkingOptions.of_run(run.experiment)
        asked = linking.read_linking_questions(experiment.data, half=experiment.half, limit=experiment.limit)
        if linking.is_linked(out / run.folder, asked, options, retry_failed=run_options.retry_failed):
            continue
        result = await _evaluate(asked, options, run_options, experiment.base_url, quiet=quiet)
        linking.write_linked(out / run.folder, options, result)


def _leave_out_uninstalled(planned: Sequence[Planned]) -> list[Planned]:
    """Leave out runs whose linker is not installed; raise an error if none is left."""
    missing: dict[Path, InputError] = {}
    for run in planned:
        try:
            if linker := run.experiment.options.get("linker"):
                check_linker(str(linker))
        except InputError as error:
            missing[run.folder] = error
    if len(missing) == len(planned):
        raise missing[planned[0].folder]
    for run in planned:
        if run.folder in missing:
            warn(f"{run.experiment.name} is left out. {missing[run.folder]}")
    return [run for run in planned if run.folder not in missing]


def _open(
    opened: AsyncExitStack,
    options: linking.LinkingOptions,
    run_options: RunOptions,
    base_url: str,
    on_progress: Callable[[int], None],
) -> linking.Parts:
    """Open all parts, to be closed with the stack."""
    graph = open_graph(options.graph, cached=run_options.cache is not None)
    opened.push_async_callback(graph.aclose)
    kind, _, where = options.linker.partition(":")
    if where and not Path(where).exists():
        warn(f"{where} is not a folder here: {kind} looks on the Hugging Face hub, and downloads what is missing.")
    reader = open_mention_model(options.linker) if options.linker else None
    model = open_model(options.model, base_url=base_url) if options.model else None
    calls = open_calls(run_options.cache if model else None, concurrency=run_options.concurrency)
    opened.callback(calls.close)
    if model is not None:
        opened.push_async_callback(model.aclose)
    if calls.cache_failure is not None:
        warn(f"{calls.cache_failure} Replies are not remembered in this run.")
    rankings: dict[str, RelationRanking] = {}
    for name in dict.fromkeys(options.relations):
        if name == "dense":
            texts = open_encoder(options.encoder)
            opened.push_async_callback(texts.aclose)
            rankings[f"dense {texts.name}"] = ByEncoder(texts)
        else:
            rankings[name] = ByWords() if name == "words" else ByModel(ByWords())
    candidates = open_candidates(graph, on_progress=on_progress)
    marked = MentionModelCandidates(reader, candidates) if reader else None
    return linking.Parts(graph, candidates, rankings, model, calls, options.among, marked)


def _report(figures: Mapping[str, Any]) -> None:
    questions = figures["questions"]
    _table("entities", figures["entities"], f"{questions:,} questions")
    if (there := figures["entity_in_graph"]) < questions:
        _table("entities", figures["entities_in_graph"], f"the {there:,} questions whose entity is in the graph")
    ranked = f"{figures['relations_ranked']:.1f} relations to choose from"
    _table("relations", figures["relations"], f"{questions:,} questions, {ranked}")
    if (there := figures["relation_in_graph"]) < questions:
        _table("relations", figures["relations_in_graph"], f"the {there:,} questions whose relation is one of them")


def _table(title: str, rows: Mapping[str, Mapping[str, Mapping[str, float]]], over: str) -> None:
    if not rows:
        return
    echo(f"{title}, {over}")
    depths = [depth.replace("recall", "R") for depth in next(iter(rows.values()))]
    cells = []
    for way, row in rows.items():
        figures = [tuple(percent(figure[name]) for name in ("recall", "low", "high")) for figure in row.values()]
        cells.append([way, *(f"{recall} ({low} to {high})" for recall, low, high in figures)])
    print_table(["", *depths], cells, left=("",))
