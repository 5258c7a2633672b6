"""`hoptree report`: tables for a paper, and one page on which every question of the runs can be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import clean, print_json
from hoptree.cli.options import AsJson

if TYPE_CHECKING:
    from hoptree.evaluation.report import DataGroup, Table

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders that hold such folders.")],
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page.", show_default=False)] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables as Markdown.", show_default=False)] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the tables as LaTeX.", show_default=False)] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every figure, one a line.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Report on runs: tables with intervals, plots, and a browser for single questions with their trees.

    Runs over the same questions share a table. The best figure is bold only where it is better than each other by more
    than chance. A failed question counts as wrong; a run that is not finished is marked. Without a file, the tables are
    printed as Markdown.

    \b
    hoptree report runs/oner runs/taikc --html report.html
    hoptree report runs/table2 --latex table2.tex --csv table2.csv
    """
    from hoptree.evaluation.report import as_csv, as_latex, as_markdown, read_groups, tables_of, write_page
    from hoptree.evaluation.report.page import write_text

    groups = read_groups(runs)
    tables = tables_of(groups)
    for path, write in ((markdown, as_markdown), (latex, as_latex), (csv, as_csv)):
        if path is not None:
            write_text(path, write(tables))
    if html is not None:
        write_page(groups, html)
    written = [path for path in (html, markdown, latex, csv) if path is not None]
    if as_json:
        print_json(_told(groups, tables) | {"files": [str(path) for path in written]})
    elif written:
        for path in written:
            typer.echo(clean(f"{path}: {path.stat().st_size / 1e6:,.2f} MB"))
    else:
        typer.echo(clean(as_markdown(tables)), nl=False)


def _told(groups: list[DataGroup], tables: list[Table]) -> dict[str, Any]:
    runs = [
        {
            "id": run.id,
            "name": run.label,
            "data": group.name,
            "folder": str(run.folder),
            "questions": run.total,
            "finished": len(run.rows),
        }
        for group in groups
        for run in group.runs
    ]
    return {"runs": runs, "tables": [table.as_dict() for table in tables]}
