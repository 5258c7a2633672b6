"""Room for open files: every connection is one, and a system gives a process few unless it is asked."""

from __future__ import annotations

__all__ = ["make_room"]

_BESIDE = 256
"""Files beside connections: indexes, the cache, endpoints, uploads."""


def make_room(connections: int) -> str:
    """Have as many files open as the connections need; where the system does not allow that, a sentence about it."""
    try:
        import resource
    except ImportError:  # Windows, which has no such bound
        return ""
    wanted = connections + _BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ""
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # a bound of the system's that it does not tell
        most = soft
    if most >= wanted:
        return ""
    return (
        f"only {most} files may be open at once, too few for {connections} connections; raise that "
        f"(ulimit -n {wanted}) or lower this (--limits connections={max(1, most - _BESIDE)})."
    )
