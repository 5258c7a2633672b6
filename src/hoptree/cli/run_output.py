"""What `hoptree run` says of a run, and of what a sample of it tells."""

from __future__ import annotations

from typing import Any

import typer

from hoptree.cli.console import clean
from hoptree.evaluation.warned import Warned

__all__ = ["estimate", "report"]

_LISTS = ("list_f1", "list_precision", "list_recall", "candidate_recall")
_SHOWN = ("em", "f1", "contains", "judge", "support_f1", "joint_f1", "retrieval_recall", *_LISTS)


def estimate(summary: dict[str, Any], asked: int, seconds: float) -> dict[str, float | None]:
    """What all questions would take, from those that have an outcome; `asked` of them took the seconds just now.

    Nothing of it depends on what the cache held but the seconds that the sample took.
    """
    questions, usage = summary["questions"], summary["usage"]
    share = questions / max(summary["finished"], 1)
    return {
        "llm_calls": round(usage["llm_calls"]["total"] * share),
        "tokens": round(usage["tokens"]["total"] * share),
        "cost": usage["price"]["total"] * share,
        "seconds_one_by_one": round(usage["critical_path_seconds"]["total"] * share, 1),
        "seconds_like_the_sample": round(seconds * questions / asked, 1) if asked else None,
    }


def report(summary: dict[str, Any]) -> None:
    """How a run did, in a few lines."""
    usage, finished = summary["usage"], summary["finished"]
    where = f"in {summary['folder']}" if summary["folder"] else "none of it kept"
    typer.echo(clean(f"{summary['name']}: {finished:,} of {summary['questions']:,} questions, {where}"))
    for name in _SHOWN:
        if metric := summary["metrics"].get(name):
            fewer = f" (of {metric['questions']:,} questions)" if metric["questions"] < finished else ""
            typer.echo(f"  {name:17} {100 * metric['mean']:5.1f} ± {100 * metric['plus_minus']:.1f}{fewer}")
    if finished:
        typer.echo(
            f"  a question: {usage['llm_calls']['mean']:.1f} calls, {usage['prompt_tokens']['mean']:,.0f} + "
            f"{usage['completion_tokens']['mean']:,.0f} tokens, {usage['retrievals']['mean']:.1f} searches, "
            f"{usage['seconds']['mean']:.2f} s"
        )
    if left := summary.get("answer_filter"):
        typer.echo(
            f"  {left['left_out']:,} accepted answers were left out; {left['untouched']:,} questions keep all, as none "
            "of theirs was found"
        )
    for kind, count in summary["errors"].items():
        typer.echo(clean(f"  {count:,} failed with {kind}: they count as wrong; --retry-failed asks them again"))
    if summary["stopped"]:
        guesses = summary["stopped_guesses"]
        more = f"; {guesses:,} of them with a draft or a guess that nothing found confirms" if guesses else ""
        typer.echo(f"  {summary['stopped']:,} stopped by their budget, with what was found until then{more}")
    if summary["abstained"]:
        typer.echo(f"  {summary['abstained']:,} without an answer")
    for kind, told in summary["warned"].items():
        typer.echo(clean(f"  {Warned(**told).said_of(kind, finished)}"))
    if len(parts := summary["rests_on"]) > 1:
        (first, count), *others = parts.items()
        more = "".join(f", {count:,} on {other}" for other, count in others)
        typer.echo(clean(f"  {count:,} questions rest on {first}{more}: this is a mixture of runs (--anyway)"))
    for warning in summary["warnings"]:
        typer.echo(clean(f"  {warning}"))
    if told := summary.get("estimate"):
        _report_estimate(summary["questions"], told)


def _report_estimate(questions: int, estimate: dict[str, Any]) -> None:
    seconds = estimate["seconds_like_the_sample"]
    time_taken = f"{estimate['seconds_one_by_one']:,.0f} seconds one by one"
    time_taken += f", {seconds:,.0f} like the sample" if seconds is not None else ""
    typer.echo(
        f"  all {questions:,} would take about {estimate['llm_calls']:,} calls, {estimate['tokens']:,} tokens, "
        f"{estimate['cost']:.2f} in money, {time_taken}"
    )
