"""Waiting for asynchronous work from code that is not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["wait_for"]


def wait_for(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1) as beside:
        beside.submit(asyncio.run, work).result()
