"""Write the reference pages from the code: commands, events, HTTP routes, methods, and what of the papers is here.

    python docs/generate.py            # write the pages of docs/reference
    python docs/generate.py --check    # exit 1 where one of them is not up to date

`methods_page.py` makes the page of the methods.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "reference"
_HEADER = "<!-- Written by docs/generate.py: edit the code, not this page. -->\n\n"


def main() -> int:
    pages: dict[str, Callable[[], Iterator[str]]] = {
        "cli.md": commands,
        "events.md": events,
        "http.md": routes,
        "methods.md": methods,
        "papers.md": papers,
    }
    stale = []
    for name, page in pages.items():
        text = _HEADER + "\n".join(page()) + "\n"
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    for name in stale:
        print(f"docs/reference/{name} is not up to date: python docs/generate.py")
    return int(bool(stale))


def commands() -> Iterator[str]:
    """Every command with its help and its options."""
    import typer.main

    from hoptree.cli.main import app

    yield "# Commands\n"
    yield "Every command has `--help`; those that print results have `--json`.\n"
    yield from _command(typer.main.get_command(app), "hoptree")


def _command(command: Any, name: str) -> Iterator[str]:
    if name != "hoptree":
        yield f"## {name}\n"
        lines = inspect.cleandoc(command.help or "").replace("\b\n", "").splitlines()
        yield "\n".join(f"    {line}" if line.startswith("hoptree ") else line for line in lines) + "\n"
        options = [part for part in command.params if getattr(part, "help", None) and not part.hidden]
        if options:
            yield "| option | |\n|---|---|"
            for part in options:
                flags = ", ".join(f"`{flag}`" for flag in (*part.opts, *part.secondary_opts))
                yield f"| {flags} | {_cell(part.help)} |"
            yield ""
    for child in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _command(command.get_command(None, child), f"{name} {child}")


def events() -> Iterator[str]:
    """Every type of event with its fields, decisions by the module that defines them."""
    from hoptree.engine.events import Decision, Event
    from hoptree.engine.registry import list_methods

    list_methods()  # imports every method, and with it the decisions that it takes
    yield "# Events\n"
    yield "One JSON object a line; every event has `event`, `run` and `t` (seconds since the question was asked).\n"
    yield "`sum`, the last field of a line, is the CRC-32 of what stands before it.\n"
    kinds = {cls for cls in _subclasses(Event) if cls.event and not issubclass(cls, Decision)}
    yield from _table("event", {cls: cls.event for cls in kinds})
    yield "\n## Decisions\n"
    yield 'A decision is `{"event": "decision", "kind": …, "value": …}` with its grounds.\n'
    decisions = {cls: cls.kind for cls in _subclasses(Decision) if isinstance(cls.__dict__.get("kind"), str)}
    yield from _table("kind", decisions)


def _table(head: str, classes: dict[Any, str]) -> Iterator[str]:
    """A row for each class; several may have one name."""
    yield f"| {head} | type | meaning | fields |\n|---|---|---|---|"
    for cls, name in sorted(classes.items(), key=lambda pair: (pair[1], pair[0].__name__, pair[0].__module__)):
        fields = ", ".join(f"`{part.name}`" for part in dataclasses.fields(cls) if part.name not in ("run", "t"))
        module = cls.__module__.removeprefix("hoptree.").replace(".", "/")
        yield f"| `{name}` | `{cls.__name__}` in `{module}.py` | {_cell(inspect.getdoc(cls) or '')} | {fields} |"


def _cell(text: str) -> str:
    """The first paragraph in one line, with bars escaped."""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def _subclasses(cls: type) -> Iterator[Any]:
    for child in cls.__subclasses__():
        if dataclasses.is_dataclass(child) and child is getattr(sys.modules[child.__module__], child.__name__, None):
            yield child
        yield from _subclasses(child)


def routes() -> Iterator[str]:
    """Every route of the server, from its OpenAPI document."""
    from hoptree.server.app import create_app
    from hoptree.server.settings import Settings

    settings = Settings({"model": "openai/model"}, base_urls={"model": "http://127.0.0.1:1/v1"}, cache=None)
    document = create_app(settings).openapi()
    yield "# HTTP routes\n"
    yield "`GET /openapi.json` of a running server has the schemas. [How to serve](../how-to/serve.md).\n"
    yield "| route | | statuses |\n|---|---|---|"
    for path, operations in sorted(document["paths"].items()):
        for verb, operation in operations.items():
            text = operation.get("description") or operation.get("summary") or ""
            yield f"| `{verb.upper()} {path}` | {_cell(text)} | {', '.join(sorted(operation['responses']))} |"


def methods() -> Iterator[str]:
    """Every method with its needs, costs, options and prompts."""
    from methods_page import methods_page

    yield methods_page().rstrip("\n")


def papers() -> Iterator[str]:
    """Every step, hyperparameter, ablation, table, figure and claim of the papers, and how it is here."""
    from hoptree.evaluation.paper_tables import PAPERS, read_paper

    yield "# The papers, item by item\n"
    yield "`same` is as the paper has it; what differs or is not here says why. `hoptree paper PAPER TABLE` makes a"
    yield "table, `hoptree paper list` says what it needs, and `hoptree paper PAPER claims` judges the claims. From the"
    yield "`paper.toml` beside the [experiment files](../../experiments/README.md), these files and the methods.\n"
    for name, title in PAPERS.items():
        yield f"## {title}\n"
        yield from _paper(read_paper(name))


def _paper(paper: Any) -> Iterator[str]:
    from hoptree.engine.registry import find_method
    from hoptree.evaluation.paper_runs import read_claims
    from hoptree.training.lora.dataset import PAPER_RATES, Recipe

    method = find_method(paper.method)
    recipe = Recipe(learning_rate=PAPER_RATES.get(paper.name, Recipe().learning_rate))
    defaults = {option.name: option.default for option in method.options}
    yield "| step of the algorithm | here |\n|---|---|"
    for step in paper.steps:
        yield f"| {_cell(step['name'])} | {_how(step)} |"
    yield "\n| hyperparameter | paper | default here | here |\n|---|---|---|---|"
    for fact in paper.hyperparameters:
        option, setting = fact.get("option"), fact.get("setting")
        value = defaults[option] if option else getattr(recipe, setting) if setting else ""
        wanted = None if fact.get("unset") else fact.get("paper", "")
        if wanted != value and "differs" not in fact:
            raise SystemExit(f"{paper.name}: {fact['name']} is {value!r} here, not {wanted!r}: say why it differs.")
        named = f"`{option or setting}={_value(value)}`" if option or setting else ""
        yield f"| {fact['name']} | {_value(fact.get('paper', 'not given'))} | {named} | {_how(fact)} |"
    yield "\n| ablation | run | here |\n|---|---|---|"
    for fact in paper.ablations:
        yield f"| {fact['name']} | {fact['run']} | {_how(fact)} |"
    yield "\n| table or figure | shows | made by | here |\n|---|---|---|---|"
    first: dict[Path, str] = {}
    for part in paper.parts.values():
        title = part.title.partition(", ")[2]
        same_runs = first.setdefault(part.file, title) if part.file else title
        how = _how_made(part) if same_runs == title else f"differs because it is drawn of the runs of {same_runs}"
        yield f"| {title} | {part.about} | {_maker(part)} | {how} |"
    yield "\n| claim | rests on | decided by |\n|---|---|---|"
    for claim in read_claims(paper):
        yield f"| {_cell(claim.says)} | {claim.table} | {_cell(claim.rule)} |"
    yield f"\n| option of `{method.name}` that leaves the paper | why it is there |\n|---|---|"
    leaving = method.deviations({})
    for option, reason in method.deviating_options.items():
        yield f"| `{option}`{' (the default)' if option in leaving else ''} | {_cell(reason)} |"
    if method.always_deviates:
        yield f"| always | {_cell(method.always_deviates)} |"
    yield ""


def _maker(part: Any) -> str:
    from hoptree.evaluation.plan import read_plan

    if part.file is None:
        command = part.command or (f"hoptree paper {part.paper} {part.name}" if part.counts else "")
        return f"`{command}`" if command else ""
    runs = len(read_plan(part.file, Path("DATA")))
    place = f"experiments/{part.paper}/{part.file.name}"
    return f"[{part.file.name}](../../{place}), {runs} runs"


def _how_made(part: Any) -> str:
    from hoptree.evaluation.paper_tables import differences

    reasons = "; ".join(line.rstrip(".") for line in differences(part)) if part.file else part.differs
    return _how({"absent": part.absent} if part.absent else {"differs": reasons} if reasons else {})


def _how(fact: Any) -> str:
    if fact.get("absent"):
        return f"not here because {_cell(fact['absent'])}"
    return f"differs because {_cell(fact['differs'])}" if fact.get("differs") else "same"


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
