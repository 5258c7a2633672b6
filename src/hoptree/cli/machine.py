"""`hoptree models` and `hoptree doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hoptree.cli.console import AS_BEFORE, echo, print_json, stoppable
from hoptree.cli.options import AsJson
from hoptree.cli.progress import download_bar
from hoptree.core.errors import ConfigError
from hoptree.core.files import ADAPTER, find_weights

if TYPE_CHECKING:
    from pathlib import Path

    from hoptree.models.catalogue import Entry


models_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List the models that run inside Hoptree, and fetch them."
)


@models_app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the models Hoptree knows by name, and which of them are on this machine."""
    from hoptree.models.catalogue import CATALOGUE, is_complete, models_folder

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
            "file": str(models_folder() / entry.file),
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
    echo("    with entropy, attention and hidden states, which mind, dragin and seakr listen to.")
    echo("Any GGUF file works as local/FILE.gguf, any OpenAI-compatible endpoint as openai/NAME.")


@models_app.command()
@stoppable(AS_BEFORE)
def pull(name: Annotated[str, Argument(help="A name from hoptree models list.")] = "qwen") -> None:
    """Fetch a model; an interrupted pull goes on where it stopped."""
    from hoptree.models.catalogue import Entry, find_entry

    entry = find_entry(name.removeprefix("local/"))
    if not isinstance(entry, Entry):
        raise ConfigError(f"{name} is a file, not a model of the catalogue.", "hoptree models list shows the names.")
    echo(str(pull_with_progress(entry)))


def pull_with_progress(entry: Entry) -> Path:
    """Fetch a model, showing how far it is."""
    from hoptree.models import catalogue

    with download_bar(entry.alias, entry.size) as advance:
        return catalogue.pull(entry, on_progress=lambda now: advance(now.done, now.total))


@stoppable(AS_BEFORE)
def doctor(
    speed: Annotated[
        bool, Option("--speed", help="Also measure how fast the embedded model reads and writes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is missing or slow on this machine, and how to mend it."""
    from hoptree.models.catalogue import DEFAULT_NAME, locate_weights
    from hoptree.models.local import measure_speed
    from hoptree.models.machine import examine

    checks = [asdict(check) for check in examine()]
    if speed:
        read, write = measure_speed(locate_weights(DEFAULT_NAME))
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
