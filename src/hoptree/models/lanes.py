"""Which of llama.cpp's sequences a call takes, so that each kind of prompt finds its beginning already read."""

from __future__ import annotations

import threading
from dataclasses import dataclass

__all__ = ["Lane", "Lanes"]


@dataclass(slots=True)
class Lane:
    """One sequence of llama.cpp's memory, and the prompt it read last."""

    number: int
    step: str = ""
    prompt: str = ""
    used: int = 0
    busy: bool = False


class Lanes:
    """Which lane a call takes: one that its step used before, else the one that was idle longest.

    llama.cpp would choose by itself, by how much of the prompt matches; but then the few words with which every prompt
    of a chat template begins are enough to give one step's lane away to another while others lie empty.
    """

    def __init__(self, count: int) -> None:
        self._lanes = [Lane(number) for number in range(count)]
        self._lock = threading.Lock()
        self._clock = 0

    def take(self, step: str, prompt: str) -> Lane:
        with self._lock:
            idle = [lane for lane in self._lanes if not lane.busy]
            if same := [lane for lane in idle if lane.step == step]:
                lane = max(same, key=lambda lane: _shared(lane.prompt, prompt))
            else:
                lane = min(idle, key=lambda lane: lane.used)
            self._clock += 1
            lane.step, lane.prompt, lane.used, lane.busy = step, prompt, self._clock, True
            return lane

    def give_back(self, lane: Lane) -> None:
        with self._lock:
            lane.busy = False


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
