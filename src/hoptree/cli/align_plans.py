"""`hoptree align plans`: the plans that come with Hoptree, counted and checked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from hoptree.cli.align_build import Exclude
from hoptree.cli.console import clean, print_json
from hoptree.cli.options import AsJson

__all__ = ["plans"]

_SHOWN = 5


def plans(
    data: Annotated[
        list[Path],
        typer.Option(help="Questions that the plans are for; several times for several files.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    exclude: Exclude = [],  # noqa: B006 - typer copies it
    as_json: AsJson = False,
) -> None:
    """Count the plans that `align build gold` trains on, by data set and by how many sub-questions they have.

    With --data each is held against its question: TAIKC must be able to carry it out as it stands. With --exclude it
    is told which of these questions are evaluation questions, by id or by words. Either ends with exit code 1.

    \b
    hoptree align plans
    hoptree align plans --data 2wikimultihopqa/dev_open.jsonl --exclude 2wikimultihopqa/dev.jsonl
    """
    from hoptree.alignment.plans.by_hand import check_plans, packaged_plans
    from hoptree.alignment.questions.leakage import Excluded
    from hoptree.alignment.questions.reading import read_training_questions

    found = packaged_plans()
    sizes: dict[str, Counter[int]] = {}
    for plan in found.values():
        sizes.setdefault(plan.dataset, Counter())[plan.size] += 1
    by_set = {name: dict(sorted(counts.items())) for name, counts in sorted(sizes.items())}
    told = {"plans": len(found), "sub_questions": by_set}
    checked = check_plans(found, read_training_questions(data), Excluded(exclude)) if data else None
    if as_json:
        print_json({**told, **({"check": checked} if checked else {})})
    else:
        typer.echo(f"{len(found):,} plans, by the number of their sub-questions:")
        for name, counts in by_set.items():
            parts = ", ".join(f"{count:,} of {size}" for size, count in counts.items())
            typer.echo(clean(f"  {name:20} {sum(counts.values()):>4,}: {parts}"))
    if checked is None:
        return
    if not as_json:
        held, without = checked["checked"], checked["without_question"]
        typer.echo(f"  {held:,} held against their questions, {without:,} have none in --data")
        typer.echo(f"  checked against {checked['excluded_questions']:,} evaluation questions")
        for what, keys in (("cannot be carried out", "faults"), ("is an evaluation question", "evaluation_questions")):
            for key, why in list(checked[keys].items())[:_SHOWN]:
                typer.echo(clean(f"  {key} {what}: {why}"))
            if len(checked[keys]) > _SHOWN:
                typer.echo(f"  … and {len(checked[keys]) - _SHOWN:,} more (--json lists them)")
        if not checked["faults"] and not checked["evaluation_questions"]:
            typer.echo("  all can be carried out as they stand, and none is an evaluation question")
    if checked["faults"] or checked["evaluation_questions"]:
        raise typer.Exit(1)
