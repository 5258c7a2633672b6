"""Putting many questions to something, some of which fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from hoptree.errors import HoptreeError
from hoptree.runtime.schedule import together

__all__ = ["ask_all"]

T = TypeVar("T")
Q = TypeVar("Q")

_HOPELESS = 8
"""Questions that fail before any is answered, until it is believed that none will be."""


async def ask_all(
    questions: Sequence[Q],
    ask: Callable[[Q], Awaitable[tuple[T, HoptreeError | None]]],
    *,
    at_once: int,
    on_done: Callable[[], None] = lambda: None,
) -> list[T]:
    """What came of every question, in their order; `ask` also gives the failure of one that failed.

    If the first ones all fail, what they fail by is raised.
    """
    found: dict[int, T] = {}
    waiting = iter(range(len(questions)))
    answered = 0
    failures: list[HoptreeError] = []

    async def work() -> None:
        nonlocal answered
        for place in waiting:
            found[place], failure = await ask(questions[place])
            if failure is None:
                answered += 1
            else:
                failures.append(failure)
                if not answered and len(failures) >= _HOPELESS:
                    raise failures[0]
            on_done()

    await together(work() for _ in range(min(at_once, len(questions))))
    if failures and not answered:
        raise failures[0]
    return [found[place] for place in range(len(questions))]
