"""What the operating system says of processor and memory."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_memory", "cpu_flags", "physical_cores"]


def cpu_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str] | None:
    """The processor's features as Linux names them, or None where the system does not say."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            return frozenset(value.split())
    return None


def physical_cores() -> int:
    """The cores this process may use, hyper-threads counted once: llama.cpp gains nothing from the second ones."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        blocks = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")
    except OSError:
        return usable
    cores = set()
    for block in blocks:
        facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.splitlines())}
        if "core id" in facts:
            cores.add((facts.get("physical id", "0"), facts["core id"]))
    return min(usable, len(cores)) if cores else usable


def available_memory() -> int | None:
    """Bytes of memory that can be had without swapping, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes[0]) * 1024 if kilobytes else None
