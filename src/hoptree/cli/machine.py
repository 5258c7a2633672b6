"""`hoptree models`, `doctor` and `demo`."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hoptree.cli import options
from hoptree.cli.ask import ask_and_show
from hoptree.cli.console import AS_BEFORE, clean, echo, print_error, print_json, print_table, run_to_end, stoppable
from hoptree.cli.progress import download_bar
from hoptree.core.config import KEY, VARIABLES
from hoptree.core.errors import ConfigError
from hoptree.core.files import ADAPTER, find_weights
from hoptree.core.http_client import without_password
from hoptree.engine.context import Budget
from hoptree.engine.registry import DEFAULT_METHOD, find_method
from hoptree.models import DEFAULT_MODEL, catalogue
from hoptree.models.catalogue import CATALOGUE, DEFAULT_NAME, Entry, find_entry, is_complete
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.retriever import check_kind

if TYPE_CHECKING:
    from pathlib import Path

    from hoptree.engine.engine import Engine
    from hoptree.engine.result import Result


models_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""List the models that run inside Hoptree, and fetch them.

\b
local/NAME, hf/NAME   models that run inside Hoptree: hoptree models list
openai/NAME           an OpenAI-compatible endpoint, with --base-url
scripted/FILE.json    replies by rule, for rehearsals and tests: {"replies": [{"step": "read", "reply": "Rome"}]}
""",
)


@models_app.command("list")
def list_models(base_url: options.BaseURL = "", as_json: options.AsJson = False) -> None:
    """List the models that Hoptree knows by name, or those of an endpoint.

    \b
    hoptree models list --base-url http://localhost:11434/v1
    """
    if base_url:
        _list_endpoint(base_url, as_json=as_json)
        return
    try:
        weights, damaged = find_weights(), ""
    except ConfigError as error:
        weights, damaged = None, str(error)
    rows: list[dict[str, Any]] = [
        {
            "name": f"local/{entry.name}",
            "alias": f"local/{entry.alias}",
            "whitebox": f"hf/{entry.alias}",
            "title": entry.title,
            "bytes": entry.size,
            "sha256": entry.sha256,
            "licence": entry.licence,
            "note": entry.note,
            "here": is_complete(entry),
            "file": str(catalogue.models_folder() / entry.file),
            "adapter": weights.files.get(ADAPTER) if weights and entry.sha256 in weights.bases else None,
        }
        for entry in CATALOGUE
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        echo(f"{row['name']}  ({row['alias']})  {row['bytes'] / 1e6:,.0f} MB  {row['licence']}")
        echo(f"    {row['title']}. {row['note']}")
        echo(f"    {'here: ' + row['file'] if row['here'] else 'not here: hoptree models pull ' + row['alias'][6:]}")
        if row["adapter"]:
            adapter = f"the adapter of hoptree-weights ({row['adapter'][:8]})"
            echo(f"    with {adapter}; without: {row['alias']}?adapter=none")
    if damaged:
        echo(damaged)
    inside = " and ".join(str(row["whitebox"]) for row in rows)
    echo(f"{inside} are the same files, read by transformers (pip install 'hoptree[whitebox]'): in batches, and")
    echo("    with entropy, attention and hidden states, which mind, dragin and seakr use.")
    echo("Any GGUF file works as local/FILE.gguf, any OpenAI-compatible endpoint as openai/NAME,")
    echo("    and a script of replies, for rehearsals and tests, as scripted/FILE.json.")


def _list_endpoint(base_url: str, *, as_json: bool) -> None:
    from hoptree.models.model import LOCAL_SERVERS
    from hoptree.models.openai import list_models as names_at

    names = run_to_end(names_at(base_url))
    kind = next((kind for kind, url in LOCAL_SERVERS.items() if url == base_url.rstrip("/")), "openai")
    if as_json:
        print_json([{"name": f"{kind}/{name}"} for name in names])
        return
    for name in names:
        echo(f"{kind}/{name}")
    if not names:
        echo("The endpoint answers, and offers no model.")


@models_app.command()
@stoppable(AS_BEFORE)
def pull(name: Annotated[str, Argument(help="A name from hoptree models list.")] = "qwen") -> None:
    """Fetch a model; an interrupted pull resumes."""
    entry = find_entry(name.removeprefix("local/"))
    if not isinstance(entry, Entry):
        raise ConfigError(f"{name} is a file, not a model of the catalogue.", "hoptree models list shows the names.")
    echo(str(pull_with_progress(entry)))


def pull_with_progress(entry: Entry) -> Path:
    """Fetch a model, showing the progress."""
    with download_bar(entry.alias, entry.size) as advance:
        return catalogue.pull(entry, on_progress=lambda now: advance(now.done, now.total))


@stoppable(AS_BEFORE)
def doctor(
    speed: Annotated[
        bool, Option("--speed", help="Also measure how fast the embedded model reads and writes.")
    ] = False,
    settings: Annotated[
        bool,
        Option("--settings", help="Only show the settings that hold, and where they come from. Short: hoptree config"),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find what is missing or slow on this machine, and how to fix it."""
    if settings:
        _show_settings(as_json=as_json)
        return
    from hoptree.models.local import measure_speed
    from hoptree.models.machine import examine

    checks = [asdict(check) for check in examine()]
    if speed:
        read, write = measure_speed(catalogue.locate_weights(DEFAULT_NAME))
        finding = f"{DEFAULT_NAME} reads {read:.0f} and writes {write:.0f} tokens a second"
        checks.append({"name": "speed", "ok": None, "finding": finding, "remedy": ""})
    if as_json:
        print_json(checks)
    else:
        for check in checks:
            mark = {True: "ok  ", False: "mend", None: "note"}[check["ok"]]
            echo(f"{mark}  {check['name']}: {check['finding']}")
            if check["remedy"] and not check["ok"]:
                echo(f"      {check['remedy']}")
    if any(check["ok"] is False for check in checks):
        raise typer.Exit(1)


def _show_settings(*, as_json: bool) -> None:
    """Show each setting with its value and where that came from."""
    config = options.current_config()
    usual = {"HOPTREE_MODEL": DEFAULT_MODEL, "HOPTREE_METHOD": DEFAULT_METHOD, "HOPTREE_RETRIEVER": DEFAULT_RETRIEVER}
    rows = [
        {"setting": name, "value": os.environ.get(variable) or usual.get(variable, ""), "variable": variable,
         "from": config.origins.get(variable, "default")}
        for name, variable in VARIABLES.items()
    ]  # fmt: skip
    current = {row["setting"]: row["value"] for row in rows}
    checked = ("method", "retriever", "budget", "prices")
    options.check_settings(config.options, **{name: current[name] for name in checked})
    find_method(current["method"])  # of the environment
    check_kind(current["retriever"])
    Budget.parse(current["budget"])
    rows.append({"setting": "key", "value": "set" if os.environ.get(KEY) else "", "variable": KEY,
                 "from": config.origins.get(KEY, "default")})  # fmt: skip
    for row in rows:
        if row["setting"] == "base_url":
            row["value"] = without_password(row["value"])
    if as_json:
        print_json({"settings": rows, "options": config.options, "files": list(config.files)})
        return
    print_table(("setting", "value", "from"), [(row["setting"], row["value"] or "-", row["from"]) for row in rows],
                left=("setting", "value", "from"))  # fmt: skip
    for method, chosen in config.options.items():
        echo(f"  [options.{method}]  {', '.join(f'{name} = {value}' for name, value in chosen.items())}")
    echo("An option counts before the environment, that before ./.env, ./hoptree.toml and the user's hoptree.toml.")


_DEMO_QUESTION = "q01"


@stoppable(AS_BEFORE)
def demo(
    every: Annotated[bool, Option("--all", help="Ask all 20 questions and print the score; resumes.")] = False,
    method: options.MethodName = DEFAULT_METHOD,
    settings: options.Settings = [],
    prompts: options.Prompts = None,
    model: options.Model = "",
    base_url: options.BaseURL = "",
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
) -> None:
    """Ask a multi-hop question over the packaged sample, and watch the tree grow.

    \b
    hoptree demo                                   one question; fetches the embedded model first (1.1 GB)
    hoptree demo --all                             all 20, with the score
    hoptree demo --all --method direct             the same model without documents, for comparison
    hoptree demo --all --method taikc              TAIKC as in its paper
    """
    from hoptree.engine.engine import Engine

    chosen = model or DEFAULT_MODEL
    entry = find_entry(DEFAULT_NAME)
    if chosen == DEFAULT_MODEL and isinstance(entry, Entry) and not is_complete(entry):
        typer.echo(f"Fetching {entry.title} ({entry.size / 1e6:,.0f} MB) once …", err=True)
        pull_with_progress(entry)
    engine = Engine(
        method=method,
        model=chosen,
        corpus="sample",
        options=options.read_settings(settings),
        cache=None if no_cache else "default",
        base_url=base_url,
        prompts=prompts,
    )
    options.warn_unused_prompts(prompts, engine.prompts.of(engine.method), method)
    work = _ask_all(engine, as_json) if every else _ask_one(engine, as_json)
    if code := run_to_end(work, cached=not no_cache):
        raise typer.Exit(code)


async def _ask_one(engine: Engine, as_json: bool) -> int:
    from hoptree.sample import sample_questions

    question = next(row for row in sample_questions() if row["id"] == _DEMO_QUESTION)
    result = await ask_and_show(engine, question["question"], as_json=as_json)
    if not as_json:
        echo(f"gold answer: {question['answers'][0]}")
    if result.failure:
        print_error(result.failure)
        return result.failure.exit_code
    return 0


async def _ask_all(engine: Engine, as_json: bool) -> int:
    """Ask every question and print the score; a failed question counts as wrong."""
    from hoptree.engine.schedule import together
    from hoptree.sample import sample_questions

    rows: dict[str, dict[str, Any]] = {}
    questions = sample_questions()

    async def ask(question: dict[str, Any]) -> None:
        row = _score(question, await engine.ask(question["question"]))
        rows[question["id"]] = row
        if not as_json:
            mark = "right" if row["right"] else "wrong"
            answer = clean(row["answer"]) or (f"({row['error']})" if row["error"] else "(no answer)")
            gold = (*question["answers"], "no answer")[0]
            echo(f"{len(rows):2}/{len(questions)} {mark}  {question['question']}")
            echo(f"             {answer}   gold: {gold}")

    async with engine:
        if engine.model.slots == 1 or engine.model.name.startswith("local/"):
            for question in questions:  # one by one: the common beginning of prompts stays in the model's memory
                await ask(question)
        else:
            await together(ask(question) for question in questions)
    ordered = [rows[question["id"]] for question in questions]
    right, exact = sum(row["right"] for row in ordered), sum(row["exact"] for row in ordered)
    names = {"method": engine.method.name, "model": engine.model.name}
    if as_json:
        print_json({**names, "right": right, "exact": exact, "questions": len(ordered), "rows": ordered})
    else:
        echo(f"{', '.join(names.values())}: {right} of {len(ordered)} right ({exact} word for word)")
    return 1 if all(row["error"] for row in ordered) else 0


def _score(question: dict[str, Any], result: Result) -> dict[str, Any]:
    """Score a demo result: right with up to two extra words, or if rightly none."""
    from hoptree.evaluation.metrics import contains, exact_match

    if question["answerable"]:
        short = [gold for gold in question["answers"] if len(result.answer.split()) <= len(gold.split()) + 2]
        right, exact = contains(result.answer, short), exact_match(result.answer, question["answers"])
    else:
        right = exact = result.abstained
    return {
        "id": question["id"],
        "question": question["question"],
        "answer": result.answer,
        "gold": question["answers"],
        "right": right,
        "exact": exact,
        "error": result.error,
        "usage": result.usage.as_dict(),
    }
