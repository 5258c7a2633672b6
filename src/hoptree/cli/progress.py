"""How far long work is, on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from hoptree.cli.console import say

if TYPE_CHECKING:
    from hoptree.evaluation.judge_run import JudgeProgress
    from hoptree.evaluation.running import Progress


Show = Callable[[int, int, Callable[[], str]], None]
"""Told how many of how many are done, and what else is to be said."""
_EVERY = 0.2
LINE_EVERY = 180.0
"""Seconds between two lines where there is no terminal: a log tells that work goes on, and is not filled by it."""


def on_terminal() -> bool:
    """Whether bars can be drawn on standard error."""
    from rich.console import Console

    return Console(stderr=True).is_terminal


@contextmanager
def shown(quiet: bool) -> Iterator[Show]:
    """One bar."""
    with bars(quiet) as bar, bar("") as show:
        yield show


@contextmanager
def bars(quiet: bool) -> Iterator[Callable[[str], AbstractContextManager[Show]]]:
    """Bars that come and go, each with a name before it, on the terminal only.

    What is said is made a few times a second at most: to sum up thousands of questions after each takes a while.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[named]}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as drawn:

        @contextmanager
        def bar(name: str) -> Iterator[Show]:
            task = drawn.add_task("starting", total=None, named=escape(name))
            next_time = 0.0

            def show(done: int, total: int, say: Callable[[], str]) -> None:
                nonlocal next_time
                if not drawn.disable and (time.monotonic() >= next_time or done == total):
                    drawn.update(task, completed=done, total=total, description=say())
                    next_time = time.monotonic() + _EVERY

            try:
                yield show
            finally:
                drawn.remove_task(task)

        yield bar


@contextmanager
def lines() -> Iterator[Callable[[str], AbstractContextManager[Show]]]:
    """What stands in the place of bars in a log: every few minutes a line, with the name of the work before it."""

    @contextmanager
    def line(name: str) -> Iterator[Show]:
        next_time = time.monotonic() + LINE_EVERY

        def show(done: int, total: int, say_more: Callable[[], str]) -> None:
            nonlocal next_time
            if done < total and time.monotonic() >= next_time:
                say(f"{name}: {done:,} of {total:,}, {say_more()}")
                next_time = time.monotonic() + LINE_EVERY

        yield show

    yield line


def describe_judge(progress: JudgeProgress) -> str:
    """How far a judge is, in a few words."""
    seconds = max(time.monotonic() - progress.began, 1e-3)
    right = f", {100 * progress.correct / progress.done:.1f} % right" if progress.done else ""
    return f"judging: {progress.new / seconds:.2f} answers/s{right}"


def describe(progress: Progress, max_cost: float | None = None) -> str:
    """How far a run is, in a few words."""
    from hoptree.evaluation.summary import half_width

    seconds = max(time.monotonic() - progress.began, 1e-3)
    parts = [f"{progress.asked / seconds:.2f} questions/s", f"{progress.tokens / seconds:,.0f} tokens/s"]
    if progress.calls:
        parts.append(f"{progress.cached / progress.calls:.0%} from cache")
    scores = [value for row in progress.rows if (value := row.scores.get("f1")) is not None]
    if scores:
        parts.append(f"F1 {100 * sum(scores) / len(scores):.1f} ± {100 * half_width(scores):.1f}")
    if failed := sum(bool(row.error) for row in progress.rows):
        parts.append(f"{failed} failed")
    if max_cost is not None:
        parts.append(f"spent {progress.spent:.2f} of {max_cost:.2f}")
    return ", ".join(parts)
