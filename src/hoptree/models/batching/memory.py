"""Telling a device that is full from other failures."""

from __future__ import annotations

import errno
import importlib
import re
from typing import Any

__all__ = ["is_memory"]

torch: Any = importlib.import_module("torch")
_FULL = re.compile(r"out of memory|not enough memory|t allocate memory|ALLOC_FAILED", re.IGNORECASE)
"""What MPS, the drivers of CUDA and HIP, the allocators of processors and CUDA's libraries say."""


def is_memory(error: BaseException) -> bool:
    """Whether the device was full; only CUDA's allocator says so by the kind of its error."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and _FULL.search(str(error)) is not None
