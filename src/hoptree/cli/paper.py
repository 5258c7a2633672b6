"""`hoptree paper`: make a table of a paper beside its own figures."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from hoptree.cli import options
from hoptree.cli.console import clean, counted, echo, print_json, run_to_end
from hoptree.cli.eval_linking import link_all
from hoptree.cli.progress import progress_bar, run_bars, show_judge
from hoptree.cli.run import leave_out_unlabelled, run_all, warn_unused_prompts
from hoptree.core.errors import InputError, OtherRun
from hoptree.engine.context import Budget
from hoptree.engine.own_prompts import open_prompts
from hoptree.engine.prompts import using_prompts
from hoptree.evaluation import paper_tables
from hoptree.evaluation.boundary import measure_all
from hoptree.evaluation.datasets.reading import read_examples
from hoptree.evaluation.datasets.releases import command_for
from hoptree.evaluation.experiment import LINKING_METHOD, BoundaryExperiment
from hoptree.evaluation.judge import read_judgements
from hoptree.evaluation.paper_runs import RunLocation, claims_table, planned_locations, stored_locations
from hoptree.evaluation.paper_tables import PaperPart
from hoptree.evaluation.plan import Planned, chosen, read_plan
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.figures import table_bars
from hoptree.evaluation.report.measures import DataGroup, read_groups
from hoptree.evaluation.report.page import make_figure_page, make_page, write_text
from hoptree.evaluation.report.tables import Table, TableRow, as_markdown, count
from hoptree.evaluation.running import JUDGE_PROMPTS, RunOptions, judge_run
from hoptree.models import open_model
from hoptree.models.model import Model

_LIST = "list"
_CLAIMS = "claims"


def paper(
    name: Annotated[str, Argument(metavar="PAPER|list", help="taikc, ra-isf, treeqa or mind; list names all tables.")],
    table: Annotated[str, Argument(help="table2, figure3, … or claims; with list, only those of this paper.")] = "",
    data: Annotated[Path, Option(help="The folder of the data sets.")] = Path("data"),
    model: Annotated[
        str,
        Option("--model", "-m", envvar="HOPTREE_MODEL", help="The model of all runs.  [default: the paper's own]"),
    ] = "",
    judge: Annotated[
        list[str],
        Option(metavar="MODEL", help="Who judges where the paper judges; several times for TAIKC's Table 7."),
    ] = [],
    limit: Annotated[int | None, Option(min=1, help="Only N questions of each data set, for a rehearsal.")] = None,
    only: options.Only = [],
    corpus: Annotated[
        str | None, Option(help="An index, in the place of the data sets' own; wikipedia=INDEX of that alone.")
    ] = None,
    graph: options.Graph = None,
    retriever: Annotated[str, Option(help=f"{options.RETRIEVER_HELP}  [default: the file's]")] = "",
    encoder: options.Encoder = "",
    rerank: options.Rerank = "",
    prompts: options.Prompts = None,
    base_url: options.BaseURL = "",
    budget: options.QuestionBudget = "",
    out: Annotated[Path | None, Option(help="The folder of the runs.  [default: runs/PAPER/TABLE/MODEL]")] = None,
    runs: Annotated[
        Path | None, Option(help="Print from the runs in DIR/…/PAPER/TABLE, and ask nothing.  [claims: runs]")
    ] = None,
    at_once: options.AtOnce = 1,
    retry_failed: options.RetryFailed = False,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a table or figure of a paper, beside the paper's own figures.

    It runs the experiment file of the table, judges where the paper judges, and names the differences in model,
    documents and questions. Without --judge the model itself judges. An interrupted command resumes. Files retrieve as
    the paper does if it says how; --rerank none and --retriever bm25 need no encoder. claims judges the paper's claims
    by the existing runs: which hold, which do not, and which remain open.

    \b
    hoptree paper list
    hoptree paper taikc table2 --data DATA --model openai/NAME --limit 20
    hoptree paper taikc table2 --data DATA --model openai/NAME --judge openai/JUDGE
    hoptree paper taikc table2 --data DATA --model openai/NAME --prompts FOLDER --rerank none
    hoptree paper ra-isf table1 --data DATA --model local/qwen2.5-1.5b --only HotpotQA --only RA-ISF --encoder minilm
    hoptree paper taikc claims --runs runs
    """
    if name == _LIST or not table:
        _list(table if name == _LIST else name, data, as_json=as_json)
        return
    if table == _CLAIMS:
        known = paper_tables.read_paper(name)
        claims = claims_table(known, f"{paper_tables.PAPERS[name]}: claims", runs or Path("runs"))
        _print(name, _CLAIMS, out or (runs or Path("runs")) / name, [claims], as_json=as_json)
        return
    part = paper_tables.find_part(name, table)
    if part.counts:
        _count(part, data, as_json=as_json)
        return
    if part.file is None:
        if part.command:
            raise InputError(f"{part.title} ({part.about}) is made by another command.", f"Give {part.command}.")
        raise InputError(f"{part.title} is not here: {part.absent}.", "hoptree paper list names those that are.")
    if runs is not None:
        _show_stored(part, runs, out, as_json=as_json)
        return
    judges = judge or [model or part.judge] * bool(part.judges)
    if len(set(judges)) < part.judges or (part.judges and not all(judges)):
        least = counted(part.judges, "judge") if part.judges == 1 else f"at least {part.judges} judges"
        raise InputError(f"{part.title} needs {least}.", "Give each: --judge MODEL")
    settings = options.given(model=model, limit=limit, graph=graph, corpus=corpus, base_url=base_url)
    own_prompts = str(prompts.resolve()) if prompts else ""
    settings |= options.given(retriever=retriever, encoder=encoder, rerank=rerank, prompts=own_prompts)
    settings |= {"budget": Budget.parse(budget)} if budget else {}
    choices = [corpus or "", graph or "", budget, *filter(None, (retriever, encoder, rerank, own_prompts))]
    folder = out or _default_folder(part, model, limit, choices)
    if file := next((path for path in (folder, *folder.parents) if path.is_file()), None):
        raise InputError(f"{file} is a file.", "Give --out a folder: a new one, or that of earlier runs.")
    planned = read_plan(part.file, data, settings)
    planned = chosen(planned, only) if only else planned
    paper_tables.check_data(part, planned, data)
    planned = leave_out_unlabelled(planned)
    warn_unused_prompts(planned, judged=bool(judges))
    run_options = RunOptions(retry_failed=retry_failed, cache=None if no_cache else "default")
    work = _make(planned, folder, run_options, judges, at_once=at_once, base_url=base_url, quiet=as_json)
    try:
        run_to_end(work, "questions", cached=not no_cache)
    except OtherRun as error:  # rows of one table that rest on different things cannot be compared
        error.remedy = "Choose another --out."
        raise
    _show(part, planned_locations(part, planned, folder), folder, judges, as_json=as_json)


def _default_folder(part: PaperPart, model: str, limit: int | None, choices: Sequence[str]) -> Path:
    """Return the default folder, shared by the figures of one experiment file."""
    assert part.file is not None
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in model).strip("-.")
    digest = hashlib.sha256("\n".join(choices).encode("utf-8", "replace")).hexdigest()[:8] if any(choices) else ""
    name = "-".join(filter(None, (plain or "own-models", str(limit or ""), digest)))
    return Path("runs") / part.paper / part.file.stem / name


async def _make(
    planned: list[Planned],
    out: Path,
    run_options: RunOptions,
    judges: Sequence[str],
    *,
    at_once: int,
    base_url: str,
    quiet: bool,
) -> None:
    """Make all runs or measurements, and judge them; one model at a time."""
    for spec in judges:
        await _open_judge(spec, base_url).aclose()
    if any(isinstance(run.experiment, BoundaryExperiment) for run in planned):
        if judges:
            planned = [replace(run, experiment=replace(run.experiment, judge=judges[0])) for run in planned]
        with run_bars(quiet) as show:
            await measure_all(planned, out, run_options, on_progress=show)
        return
    if any(run.experiment.method == LINKING_METHOD for run in planned):
        await link_all(planned, out, run_options, quiet=quiet)
        return
    await run_all(planned, out, run_options, at_once=at_once, quiet=quiet)
    for spec in judges:
        async with aclosing(_open_judge(spec, base_url)) as judge:
            for run in planned:
                texts = open_prompts(run.experiment.prompts).texts
                with progress_bar(quiet) as bar, using_prompts(texts, JUDGE_PROMPTS):
                    progress = partial(show_judge, bar)
                    await judge_run(out / run.folder, judge, cache=run_options.cache, on_progress=progress)


def _open_judge(spec: str, base_url: str) -> Model:
    return open_model(spec, base_url=base_url if spec.startswith("openai/") else "")


def _show_stored(part: PaperPart, root: Path, out: Path | None, *, as_json: bool) -> None:
    """Print a table from the runs below a folder."""
    assert part.file is not None
    locations = stored_locations(part, root)
    if not locations:
        where = root / part.paper / part.file.stem
        raise InputError(f"There is no run of {part.title} in {where}, or deeper in {root}.", f"Make it: --out {where}")
    judges = dict.fromkeys(known.judge.name for location in locations for known in read_judgements(location.folder))
    _show(part, locations, out or root / part.paper, list(judges), as_json=as_json)


def _show(
    part: PaperPart, locations: Sequence[RunLocation], out: Path, judges: Sequence[str], *, as_json: bool
) -> None:
    """Print the table or the report's tables, and write them to a file."""
    tables = [paper_tables.paper_table(part, locations, judges)] if part.rows else []
    pages: dict[str, str] = {}
    missing: list[str] = []
    if part.rows and part.name.startswith("figure"):
        of_links = all(measure.startswith(("entities:", "relations:")) for measure in part.measures.values())
        axis = "recall, %" if of_links else ", ".join(part.measures)
        pages[f"{part.name}.html"] = make_figure_page(part.title, [table_bars(tables[0], axis)], tables)
    elif part.name.startswith("figure"):
        groups = read_groups([location.folder for location in locations])
        tables += [table for table in tables_of(groups) if any(title in table.title for title in part.report)]
        missing = _missing(part, tables, groups)
        pages["report.html"] = make_page(groups)
    paper_text = [f"The paper's text: {part.says}."] if part.says and not part.rows else []
    _print(part.paper, part.name, out, tables, paper_text, missing, pages, as_json=as_json)
    if not as_json:
        for command in part.then:
            echo(f"then: {command.replace('OUT', str(out))}")


def _print(
    paper_name: str,
    name: str,
    out: Path,
    tables: Sequence[Table],
    paper_text: Sequence[str] = (),
    missing: Sequence[str] = (),
    pages: Mapping[str, str] | None = None,
    *,
    as_json: bool,
) -> None:
    """Print tables, and write them and further pages to files."""
    text = as_markdown(tables) + "".join(f"\n{sentence}\n" for sentence in (*paper_text, *missing))
    written = {out / f"{name}.md": text, **{out / page: content for page, content in (pages or {}).items()}}
    with suppress(OSError):  # writing reports the reason
        out.mkdir(parents=True, exist_ok=True)
    for path, page_text in written.items():
        write_text(path, page_text)
    if as_json:
        content = {
            "tables": [table.as_dict() for table in tables],
            "missing": list(missing),
            "files": [str(path) for path in written],
        }
        print_json({"paper": paper_name, "name": name, "folder": str(out), **content})
        return
    echo(clean(text))
    for path in written:
        echo(f"wrote {path}")


def _count(part: PaperPart, data: Path, *, as_json: bool) -> None:
    """Print the sizes of data sets beside the paper's numbers."""
    places = {name: data / file for name, file in part.counts.items()}
    ours = [count(len(read_examples(path).examples)) if path.exists() else None for path in places.values()]
    theirs = [count(part.questions[name]) for name in places] if not isinstance(part.questions, int) else []
    missing = [
        f"{places[name]} is not here: {command_for(file, data)}"
        for name, file in part.counts.items()
        if not places[name].exists()
    ]
    rows = (TableRow("Questions", "here", tuple(ours)), TableRow("Questions", "paper", tuple(theirs)))
    table = Table(f"{part.title}: {part.about}", tuple(places), rows, (f"What differs: {part.differs}.", *missing))
    if as_json:
        print_json({"paper": part.paper, "name": part.name, "tables": [table.as_dict()], "missing": missing})
    else:
        echo(clean(as_markdown([table])))


def _missing(part: PaperPart, tables: Sequence[Table], groups: Sequence[DataGroup]) -> list[str]:
    """Explain each table of a figure that these runs lack."""
    if not part.report and not tables:
        return [f"{part.title} has no table: its plots are in report.html."]
    reasons = {
        "by type": "the questions that were asked have no types, or all the same",
        "by hops": "the questions that were asked have no number of hops, or all the same",
        "data sets": f"the runs are of {counted(len(groups), 'data set')}, or none is of all",
    }
    sentences = []
    for title in part.report:
        if not any(title in table.title for table in tables):
            reason = next((why for end, why in reasons.items() if title.endswith(end)), "the runs have nothing for it")
            sentences.append(f"The table '{title}' is missing: {reason}. Ask more: fewer --only, a higher --limit.")
    return sentences


def _list(only: str, data: Path, *, as_json: bool) -> None:
    parts = [
        part
        for paper in paper_tables.PAPERS
        if only in ("", paper)
        for part in paper_tables.read_paper(paper).parts.values()
    ]
    rows = [_state(part, data) for part in parts or paper_tables.read_paper(only).parts.values()]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        echo(f"{row['paper']} {row['name']}: {row['about']}")
        echo("; ".join((f"    {row['state']}: {row['how']}", *_needs(row))))
    states = Counter(f"by {row['state']}" if row["state"] == "another command" else row["state"] for row in rows)
    counts = ", ".join(f"{number:,} {state}" for state, number in states.most_common())
    echo(f"{counted(len(rows), 'table or figure', 'tables and figures')}: {counts}")
    if missing := dict.fromkeys(command for row in rows for command in row["get"]):
        echo(f"{sum(bool(row['missing']) for row in rows):,} of them need data that is not in {data}:")
        for command in missing:
            echo(f"    {command}")
    echo("To replace what a file names: --model; --encoder and --rerank, which may be none; --graph and --corpus.")


def _needs(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield, in a few words each, what a table needs that may be missing."""
    if row["missing"]:
        yield f"needs data: {', '.join(dict.fromkeys(file.partition('/')[0] for file in row['missing']))}"
    if row["gpu"]:
        yield f"needs a GPU for {', '.join(row['gpu'])}"
    if row["encoders"]:
        yield f"needs {', '.join(row['encoders'])}"
    for package in row["packages"]:
        yield f"needs the package {package} for some runs, which are left out without it"
    if row["network"]:
        yield f"needs the network for {' and '.join(row['network'])}"


def _state(part: PaperPart, data: Path) -> dict[str, Any]:
    """Describe a table: how it is made, and what it needs that may be missing."""
    needed = paper_tables.data_needed(part)
    missing = [file for file in needed if not (data / file).exists()]
    commands = dict.fromkeys(command_for(file, data) or f"{file}, which no release has" for file in missing)
    file = f"{part.paper}/{part.file.name}" if part.file else ""
    plan = part.plan()
    runs = [run for run in (plan.get("runs") or {}).values() if run]
    settings = [plan.get("every") or {}, *runs]
    encoders = [(each.get("index") or {}).get("encoder") for each in settings]
    encoders += [str(each.get("rerank") or "").removeprefix("embed/") for each in settings]
    linkers = [str((run.get("options") or {}).get("linker") or "").partition(":")[0] for run in runs]
    places = (plan.get("data") or {}).values()
    asked = {str(place.get(name) or "") for place in places for name in ("graph", "corpus")}
    return {
        "paper": part.paper,
        "name": part.name,
        "about": part.about,
        "state": part.state,
        "how": file or part.command or part.absent or ", ".join(part.counts.values()),
        "data": sorted({file.partition("/")[0] for file in needed}),
        "missing": missing,
        "get": list(commands),
        "gpu": paper_tables.gpu_models(part),
        "encoders": list(dict.fromkeys(spec for spec in encoders if spec and spec != "minilm")),
        "packages": list(dict.fromkeys(filter(None, linkers))),
        "network": [name.capitalize() for name in ("wikidata", "wikipedia") if name in asked],
    }
