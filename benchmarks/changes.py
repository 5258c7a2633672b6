"""What happens to an index of Hoptree's when a little of the corpus changes, and when it is killed while it changes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import Failed, killed, measured
from benchmarks.systems import TOP

__all__ = ["TOLERANCE", "Agreement", "Changed", "Kills", "agreement", "change_and_compare", "kill_and_repeat"]

TOLERANCE = 0.02
"""How much a score may differ from that of a fresh build, as a share of it, before the index is compacted."""
Ranking = Sequence[tuple[str, float]]
"""Ids and scores, best first."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two indexes of the same passages answer alike.

    `lost` counts passages that stand clear of the cut in one ranking (by more than the tolerance) and are missing in
    the other.
    """

    questions: int
    same_sets: float
    worst: float
    lost: int
    identical: bool


def agreement(fresh: Sequence[Ranking], other: Sequence[Ranking]) -> Agreement:
    same = lost = 0
    worst = 0.0
    for one, two in zip(fresh, other, strict=True):
        first, second = ({name: score for name, score in ranking} for ranking in (one, two))
        same += first.keys() == second.keys()
        shared = [(score, second[name]) for name, score in first.items() if name in second]
        worst = max([worst, *(abs(left - right) / max(left, right) for left, right in shared)])
        lost += _missing(one, second) + _missing(two, first)
    identical = all(list(map(list, one)) == list(map(list, two)) for one, two in zip(fresh, other, strict=True))
    return Agreement(len(fresh), same / max(len(fresh), 1), worst, lost, identical)


def _missing(ranking: Ranking, other: dict[str, float]) -> int:
    clear = ranking[-1][1] * (1 + TOLERANCE) if len(ranking) >= TOP else 0.0
    return sum(1 for name, score in ranking if name not in other and score > clear)


@dataclass(frozen=True, slots=True)
class Changed:
    """Seconds of each change, and how the index answers after them beside a fresh build of the same passages."""

    links: bool
    build: float
    add: float
    remove: float
    compact: float
    before: Agreement
    after: Agreement

    @property
    def share(self) -> float:
        return (self.add + self.remove) / self.build


def change_and_compare(
    index: Path, corpus: Path, extra: Path, questions: list[str], *, links: bool, build: float
) -> Changed:
    """Add the extra passages to an index, remove as many others, compare with a fresh build; then compact and compare.

    The index is the one that `build` seconds were spent on; it is changed.
    """
    folder = index.parent
    names = [line.split('"', 4)[3] for line in _lines(corpus)]
    gone = set(random.Random(5).sample(names, sum(1 for _ in _lines(extra))))
    removed, remaining, fresh = folder / "removed.txt", folder / "remaining.jsonl", folder / "fresh"
    removed.write_text("\n".join(sorted(gone)), encoding="utf-8")
    with remaining.open("w", encoding="utf-8") as file:
        file.writelines(line for line in _lines(corpus) if line.split('"', 4)[3] not in gone)
        file.writelines(_lines(extra))
    add = measured("change", index=str(index), add=str(extra)).wall
    remove = measured("change", index=str(index), remove=str(removed)).wall
    measured("build", system="hoptree", corpus=str(remaining), index=str(fresh), links=links)
    remaining.unlink()
    wanted = _answers(fresh, questions, links)
    shutil.rmtree(fresh)
    before = agreement(wanted, _answers(index, questions, links))
    compact = measured("change", index=str(index), compact=True).wall
    after = agreement(wanted, _answers(index, questions, links))
    return Changed(links, build, add, remove, compact, before, after)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


def _answers(index: Path, questions: list[str], links: bool) -> list[Ranking]:
    variant = "linked" if links else "bm25"
    asked = measured("ask", system="hoptree", index=str(index), variant=variant, warm_up=[], questions=questions)
    found: list[Ranking] = asked.result["found"]
    return found


@dataclass(frozen=True, slots=True)
class Kills:
    """What killing came to: how often a run was killed while it worked, and what was wrong afterwards.

    `resumed` counts the last repetitions (of two) that went on with what a killed run had left, `kept` the passages
    they did not have to index again.
    """

    tries: int
    hits: int
    resumed: int
    kept: int
    wrong: tuple[str, ...]


def kill_and_repeat(folder: Path, corpus: Path, extra: Path, questions: list[str], *, times: int) -> Kills:
    """Kill a build with links and an addition at random moments, so often each, then let them come to their end.

    After every kill the index must be there as it was or as it should become; after the last repetition it must hold
    what an undisturbed one holds.
    """
    moments = random.Random(11)
    calm = folder / "calm"
    hits = resumed = kept = 0
    wrong: list[str] = []
    build = measured("build", system="hoptree", corpus=str(corpus), index=str(calm), links=True)
    built = _State.of(calm, questions)
    added = measured("change", index=str(calm), add=str(extra))
    whole = _State.of(calm, questions)
    shutil.rmtree(calm)
    struck = folder / "struck"
    steps: Iterable[tuple[str, dict[str, Any], float, _State | None, _State]] = (
        (
            "build",
            {"system": "hoptree", "corpus": str(corpus), "index": str(struck), "links": True},
            build.wall,
            None,
            built,
        ),
        ("change", {"index": str(struck), "add": str(extra)}, added.wall, built, whole),
    )
    for action, arguments, seconds, before, after in steps:
        for number in range(1, times + 1):
            at = seconds * moments.uniform(0.15, 0.95)
            hits += killed(action, at, **arguments)
            name = f"{action}, kill {number} after {at:.2f} s"
            wrong += _look(struck, questions, before, after, name)
        try:
            outcome = measured(action, **arguments).result
            resumed += outcome["resumed"]
            kept += outcome["unchanged"]
        except Failed as error:
            wrong.append(f"{action}, repeated: {error}")
            break
        wrong += _look(struck, questions, after, after, f"{action}, repeated to its end")
    shutil.rmtree(struck, ignore_errors=True)
    return Kills(2 * times, hits, resumed, kept, tuple(wrong))


@dataclass(frozen=True, slots=True)
class _State:
    """What an index holds and answers."""

    digest: str
    found: list[Ranking]

    @classmethod
    def of(cls, index: Path, questions: list[str]) -> _State:
        return cls(measured("holds", index=str(index)).result["digest"], _answers(index, questions, links=True))

    def same(self, other: _State) -> bool:
        """The same passages, found alike: scores may differ a little, as after any change."""
        seen = agreement(self.found, other.found)
        return self.digest == other.digest and not seen.lost and seen.worst <= TOLERANCE


def _look(index: Path, questions: list[str], before: _State | None, after: _State, name: str) -> list[str]:
    """What is wrong with an index that should be as it was before or as it should be after."""
    if before is None and not any(index.glob("*.json")):
        return []  # there was no index yet, and there is none
    try:
        now = _State.of(index, questions)
    except Failed as error:
        return [f"{name}: {str(error).splitlines()[-1]}"]
    fits = now.same(after) or (before is not None and now.same(before))
    return [] if fits else [f"{name}: the index holds or answers something else"]
