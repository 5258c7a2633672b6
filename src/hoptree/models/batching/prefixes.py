"""Which prompts begin alike, so that their beginning is read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Group", "common_length", "groups"]


@dataclass(frozen=True, slots=True)
class Group:
    """Prompts, by their numbers, whose first `length` tokens are the same."""

    members: tuple[int, ...]
    length: int


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two prompts begin with in common."""
    low, high = 0, min(len(one), len(other))
    # Slices are compared by the interpreter itself, many times faster than token by token.
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def groups(prompts: Sequence[tuple[int, ...]]) -> list[Group]:
    """Put prompts together that share at least half of the most that either shares with any other.

    Without that half, the few tokens with which every prompt of a chat template begins would join all of them.
    """
    order = sorted(range(len(prompts)), key=lambda number: prompts[number])
    # Sorted, so that the prompt that shares most with another stands beside it.
    shared = [common_length(prompts[one], prompts[other]) for one, other in pairwise(order)]
    most = [max(shared[max(0, place - 1) : place + 1], default=0) for place in range(len(order))]
    found: list[Group] = []
    begin = 0
    for place in range(1, len(order) + 1):
        if place < len(order) and 2 * shared[place - 1] >= max(most[place - 1], most[place], 1):
            continue
        members = tuple(order[begin:place])
        length = min(shared[begin : place - 1]) if len(members) > 1 else 0
        found.append(Group(members, length))
        begin = place
    return found
