"""Figures of training sets beside those of the paper, for `hoptree align build` and `train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import typer

__all__ = ["print_beside_the_paper"]


def print_beside_the_paper(lines: Sequence[Mapping[str, Any]], unit: Literal["words", "tokens"]) -> None:
    """Counts and mean lengths, which only tokens can be held against the paper's."""
    if not lines:
        return
    typer.echo(
        f"  {f'mean {unit}':14}{'rows':>8}{'prompt':>9}{'target':>9}   {'TAIKC: rows':>12}{'prompt':>9}{'target':>9}"
    )
    for line in lines:
        paper = line["paper"]
        typer.echo(
            f"  {line['part']:14}{line['rows']:>8,}{line['instruction']:>9.1f}{line['output']:>9.1f}   "
            f"{paper['rows']:>12,}{paper['instruction']:>9.1f}{paper['output']:>9.1f}  Table {paper['table']}"
        )
    if unit == "words":
        typer.echo("  (the paper counts tokens, as it seems: hoptree align train --dry-run says how many there are)")
