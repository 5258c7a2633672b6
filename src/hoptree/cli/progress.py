"""Progress of long work: bars on a terminal, or occasional lines in a log."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from hoptree.cli.console import clean, counted, warn

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, Group
    from rich.live import Live
    from rich.spinner import Spinner

    from hoptree.engine.events import Event
    from hoptree.evaluation.plan import Planned
    from hoptree.evaluation.running import JudgeProgress, Progress
    from hoptree.retrieval.indexing.sources import Progress as IndexingProgress


UpdateBar = Callable[[int, int, Callable[[], str]], None]
"""Takes the number done, the total, and a function for the text beside the bar."""
Bars = Callable[[str], AbstractContextManager[UpdateBar]]
_REFRESH_S = 0.2
_MIN_QUESTIONS = 10  # questions from which on the progress of a run shows an interval
LOG_INTERVAL_S = 180.0  # between two lines of a log: often enough to see progress, without filling it


def on_terminal() -> bool:
    """Return whether bars can be drawn on standard error."""
    from rich.console import Console

    return Console(stderr=True).is_terminal


@contextmanager
def progress_bar(quiet: bool) -> Iterator[UpdateBar]:
    """Draw one bar."""
    with bars(quiet) as bar, bar("") as update_bar:
        yield update_bar


def counting(update_bar: UpdateBar, total: int) -> Callable[[str], None]:
    """Return a function that counts one more of `total` as done."""
    done = itertools.count(1)
    return lambda text: update_bar(next(done), total, lambda: text)


@contextmanager
def bars(quiet: bool) -> Iterator[Bars]:
    """Draw bars that come and go, each after its name, on a terminal only."""
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (
        TextColumn("{task.fields[named]}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with _new_progress(quiet, *columns) as progress:

        @contextmanager
        def bar(name: str) -> Iterator[UpdateBar]:
            task = progress.add_task("starting", total=None, named=escape(clean(name)))
            next_time = 0.0

            def update_bar(done: int, total: int, describe: Callable[[], str]) -> None:
                nonlocal next_time
                if not progress.disable and (time.monotonic() >= next_time or done == total):
                    progress.update(task, completed=done, total=total, description=clean(describe()))
                    next_time = time.monotonic() + _REFRESH_S

            try:
                yield update_bar
            finally:
                progress.remove_task(task)

        yield bar


@contextmanager
def lines() -> Iterator[Bars]:
    """Print a line every few minutes instead of drawing bars."""

    @contextmanager
    def line(name: str) -> Iterator[UpdateBar]:
        next_time = time.monotonic() + LOG_INTERVAL_S

        def update_bar(done: int, total: int, describe: Callable[[], str]) -> None:
            nonlocal next_time
            if done < total and time.monotonic() >= next_time:
                warn(f"{name}: {done:,} of {total:,}, {describe()}")
                next_time = time.monotonic() + LOG_INTERVAL_S

        yield update_bar

    yield line


@contextmanager
def run_bars(quiet: bool) -> Iterator[Callable[[Planned, Progress], None]]:
    """Draw a bar for each run under way."""
    with bars(quiet) as bar:
        open_bars: dict[Path, tuple[ExitStack, UpdateBar]] = {}

        def show(planned: Planned, now: Progress) -> None:
            if planned.folder not in open_bars:
                stack = ExitStack()
                open_bars[planned.folder] = stack, stack.enter_context(bar(planned.experiment.name))
            stack, update_bar = open_bars[planned.folder]
            update_bar(len(now.rows), now.total, lambda: describe_run(now))
            if len(now.rows) == now.total:
                stack.close()

        yield show


@contextmanager
def indexing_bar(quiet: bool) -> Iterator[Callable[[IndexingProgress], None]]:
    """Draw the progress of indexing."""
    with rate_bar(quiet, "passages") as advance:

        def show(now: IndexingProgress) -> None:
            bytes_done = now.stage in ("reading", "checking files")
            advance(now.stage, now.done, now.total, now.passages if bytes_done else now.done)

        yield show


@contextmanager
def rate_bar(quiet: bool, unit: str) -> Iterator[Callable[[str, int, int | None, int], None]]:
    """Draw a bar with the rate of `unit`; a new stage restarts it."""
    from rich.progress import BarColumn, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn(f"{{task.fields[count]:,}} {unit}"),
        TextColumn("{task.fields[rate]}"),
    )
    with _new_progress(quiet, *columns) as progress:
        task = progress.add_task("", total=None, count=0, rate="")
        current = ""

        def advance(stage: str, done: int, total: int | None, count: int) -> None:
            nonlocal current
            if stage != current:
                current = stage
                progress.reset(task, description=stage, total=total)
            elapsed = progress.tasks[0].elapsed or 0.0
            rate = f"{count / elapsed:,.0f} a second" if elapsed > 1 else ""
            progress.update(task, completed=done, total=total, count=count, rate=rate)

        yield advance


@contextmanager
def download_bar(name: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Draw a bar over the bytes of a download."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with _new_progress(False, *columns) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _new_progress(quiet: bool, *columns: Any) -> Any:
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)


def show_judge(update_bar: UpdateBar, now: JudgeProgress) -> None:
    """Show the progress of a judge."""

    def describe() -> str:
        seconds = max(time.monotonic() - now.began, 1e-3)
        right = f", {100 * now.correct / now.done:.1f} % right" if now.done else ""
        return f"judging: {now.new / seconds:.2f} answers/s{right}"

    update_bar(now.done, now.total, describe)


def describe_f1(mean: float, plus_minus: float, questions: int) -> str:
    """Return F1 in points, with its interval where the questions are enough for one."""
    interval = f" ± {100 * plus_minus:.1f}" if questions >= _MIN_QUESTIONS else ""
    return f"F1 {100 * mean:.1f}{interval}"


def describe_run(progress: Progress, max_cost: float | None = None) -> str:
    """Return the progress of a run in a few words."""
    from hoptree.evaluation.run_folder import half_width

    seconds = max(time.monotonic() - progress.began, 1e-3)
    parts = [f"{progress.asked / seconds:.2f} questions/s", f"{progress.tokens / seconds:,.0f} tokens/s"]
    if progress.calls:
        parts.append(f"{progress.cached / progress.calls:.0%} from cache")
    scores = [value for row in progress.rows if (value := row.scores.get("f1")) is not None]
    if scores:
        parts.append(describe_f1(sum(scores) / len(scores), half_width(scores), len(scores)))
    if failed := sum(bool(row.error) for row in progress.rows):
        parts.append(f"{failed} failed")
    if max_cost is not None:
        parts.append(f"spent {progress.spent:.2f} of {max_cost:.2f}")
    return ", ".join(parts)


def live_tree(console: Console, events: Sequence[Event]) -> Live:
    """Draw the tree of a question while its events come in."""
    from rich.live import Live
    from rich.spinner import Spinner

    began, spinner = time.monotonic(), Spinner("dots")
    return Live(
        console=console,
        transient=True,
        refresh_per_second=8,
        get_renderable=lambda: draw_progress(events, time.monotonic() - began, spinner),
    )


def draw_progress(events: Sequence[Event], seconds: float, spinner: Spinner) -> Group:
    """Draw what is known of a question that is being answered."""
    from rich.console import Group
    from rich.text import Text

    from hoptree.cli.render import draw_tree, draw_writing
    from hoptree.engine.result import read_result
    from hoptree.engine.trace import ModelCalled, ModelProgress, Retried

    result = read_result(events)
    calls = sum(isinstance(event, ModelCalled) for event in events)
    last = next((event for event in reversed(events) if isinstance(event, Retried | ModelCalled | ModelProgress)), None)
    doing = "answering" if result.tree else "writing" if result.writing else "planning"
    if isinstance(last, Retried):
        doing = f"waiting {last.wait:g} s: {last.error}"
    elif isinstance(last, ModelProgress):
        doing = f"{doing} · the model is {last.describe()}"
    spinner.update(text=Text(f" {clean(doing)} · {counted(calls, 'call')} · {seconds:.0f} s", style="dim"))
    text = [draw_writing(result.writing)] if result.writing else []
    return Group(draw_tree(result), *text, spinner)
