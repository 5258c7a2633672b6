"""What a table says of questions that their budget ended: they count, as far as they came."""

from __future__ import annotations

from collections.abc import Iterable

from hoptree.evaluation.report.runs import Run

__all__ = ["stopped_note"]


def stopped_note(runs: Iterable[Run]) -> tuple[str, ...]:
    """How many questions of each run were stopped, in one note; none where none was."""
    counts = [(run, sum(bool(row.stopped_by) for row in run.rows)) for run in runs]
    told = ", ".join(f"{run.named} {count:,} of {len(run.rows):,}" for run, count in counts if count)
    if not told:
        return ()
    return (
        f"Stopped by their budget: {told}. They count as far as they came: nodes without a verdict by then are left "
        "out, and where nothing was concluded the answer is the draft that nothing was held against, or none.",
    )
