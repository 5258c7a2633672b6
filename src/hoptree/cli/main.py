"""`hoptree`: the commands. Each imports what it needs when it runs, so that `--help` is instant."""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
from typing import NoReturn

import typer

from hoptree import __version__
from hoptree.cli import (
    align,
    annotate,
    ask,
    boundary,
    chooser,
    demo,
    eval_linking,
    eval_retrieval,
    graph,
    index,
    judge,
    machine,
    mcp,
    methods,
    report,
    reproduce,
    run,
    search,
    serve,
    show,
    tune,
)
from hoptree.cli import report as compare
from hoptree.cli.console import print_error
from hoptree.core.errors import HoptreeError, InternalError

app = typer.Typer(
    name="hoptree",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Answer questions that need several facts joined together, and show the tree behind the answer.

\b
First steps:
  hoptree demo                                     a real question over the packaged sample
  hoptree index docs/ --out docs.idx               make your documents searchable
  hoptree ask "Who …?" --corpus docs.idx           ask about them with the embedded model
  hoptree ask "Who …?" --corpus docs.idx -m openai/NAME --base-url http://localhost:8000/v1
""",
)
app.command("ask")(ask.ask)
app.command("show")(show.show)
app.add_typer(index.app, name="index")
app.command("search")(search.search)
app.add_typer(graph.app, name="graph")
app.command("serve")(serve.serve)
app.command("eval-retrieval")(eval_retrieval.eval_retrieval)
app.command("eval-linking")(eval_linking.eval_linking)
app.command("run")(run.run)
app.command("tune")(tune.tune)
app.command("boundary")(boundary.boundary)
app.add_typer(chooser.app, name="chooser")
app.command("judge")(judge.judge)
app.command("annotate")(annotate.annotate)
app.command("ratings")(annotate.ratings)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("reproduce")(reproduce.reproduce)
app.command("mcp")(mcp.mcp)
app.add_typer(align.app, name="align")
app.add_typer(methods.app, name="methods")
app.add_typer(machine.models_app, name="models")
app.command("doctor")(machine.doctor)
app.command("demo")(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hoptree {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of hoptree itself."""


def main() -> None:
    """Run a command; what goes wrong on purpose is one sentence and an exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal has no arrows, an answer is still an answer
    try:
        app()
    except SystemExit as leaving:
        _leave(leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0)
    except HoptreeError as error:
        print_error(error)
        _leave(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) went away: nothing is wrong. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(1)
    except Exception as error:
        if os.environ.get("HOPTREE_DEBUG"):
            raise
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        remedy = "Free some space, then run the same command: nothing paid is lost."
        print_error(HoptreeError("The disk is full.", remedy) if full else InternalError(error))
        _leave(1)


def _leave(code: int) -> NoReturn:
    """Exit, without waiting for an embedded model that is still reading a prompt nobody needs any more."""
    if any(thread.name.startswith("hoptree-local") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # replies and traces are on disk already
    sys.exit(code)
