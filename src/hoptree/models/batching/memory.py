"""Telling a device that is full from other failures."""

from __future__ import annotations

import errno
import importlib
from typing import Any

__all__ = ["is_memory"]

torch: Any = importlib.import_module("torch")


def is_memory(error: BaseException) -> bool:
    """Whether the device was full; only CUDA's allocator says so by the kind of its error."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and ("t allocate memory" in str(error) or "ALLOC_FAILED" in str(error))
