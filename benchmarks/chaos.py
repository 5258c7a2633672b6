"""Kill Hoptree at random steps and take its disk away; count what is lost, repeated or different afterwards.

    python -m benchmarks.chaos                  100 kills, and every other trouble for every job
    python -m benchmarks.chaos --quick          one kill a job, under a minute
    python -m benchmarks.chaos --jobs add,graph

A job is one command: `run`, `run --workers`, building and changing an index, loading a graph, uploads to a server, and
a training where PyTorch is installed. It is troubled once, and the same command is then given again. What is there at
its end must be what an undisturbed one leaves. Troubles: killed before its n-th step that touches a file, killed after
a share of its processor time, a full disk, a limit on the size of files, a read-only folder, a second process on the
same folder, and a clock that stands still. Needs the tests' folder, and the extras of `make test`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos_jobs import JOBS, Job, Kind, Parts, Trouble
from tests.forking import PROCESSES

from hoptree.core.errors import HoptreeError

__all__ = ["OTHERS", "Tally", "chaos"]

OTHERS: tuple[Kind, ...] = ("full", "size", "read-only", "two", "clock")


@dataclass(slots=True)
class Tally:
    """What became of the trials; `notes` says what was found where."""

    kills: int = 0
    troubles: int = 0
    lost: int = 0
    repeated: int = 0
    different: int = 0
    notes: list[str] = field(default_factory=list)

    def compare(self, what: str, parts: Parts, meant: Parts) -> None:
        """Count what is missing, there too often, or other than it should be."""
        here, there = Counter(name for name, _ in parts), Counter(name for name, _ in meant)
        values, wanted = dict(parts), dict(meant)
        for name in {*here, *there}:
            if here[name] != there[name]:
                self.note("lost" if here[name] < there[name] else "repeated", f"{what}: {name[:200]}")
            elif values[name] != wanted[name]:
                self.note("different", f"{what}: {name[:200]}")

    def note(self, verdict: str, text: str) -> None:
        setattr(self, verdict, getattr(self, verdict) + 1)
        self.notes.append(f"{verdict}: {text}")

    @property
    def clean(self) -> bool:
        return not (self.lost or self.repeated or self.different)


def chaos(names: Sequence[str], kills: int, others: Sequence[Kind], seed: int, place: Path) -> Tally:
    """Trouble each of these jobs, and compare what it leaves with what an undisturbed one leaves."""
    tally, rng = Tally(), random.Random(seed)
    for number, name in enumerate(names, 1):
        job, home = JOBS[name](), place / name
        (home / "start").mkdir(parents=True)
        job.make(home / "start")
        measured = Trouble(steps=PROCESSES.Value("i", 0), seconds=PROCESSES.Value("d", 0.0))
        whole = shutil.copytree(home / "start", home / "whole")
        ended = job.attempt(whole, measured)
        assert not ended.code, f"{name}: {ended.errors}"
        meant = job.read(whole)
        last: dict[Kind, float] = {
            "kill": measured.steps.value,
            "full": measured.steps.value,
            "time": measured.seconds.value,
            "size": 2**16,
        }
        todo = iter(others)
        while trouble := next(_kills(tally, kills * number // len(names)), None) or next(todo, None):
            at = rng.random() * last.get(trouble, 0.0) + 0.001
            folder = shutil.copytree(home / "start", home / "troubled")
            _try(job, Trouble(trouble, at), folder, f"{name} {trouble} at {at:.4g}", tally, meant)
            shutil.rmtree(folder)
        job.close()
    return tally


def _kills(tally: Tally, wanted: int) -> Iterator[Kind]:
    """The next kill, until there were enough; one that comes after the end of its process is none."""
    if tally.kills < wanted:
        yield "kill" if tally.troubles % 2 else "time"


def _try(job: Job, trouble: Trouble, folder: Path, what: str, tally: Tally, meant: Parts) -> None:
    """Trouble a job, give the command again, and compare; a change that is made already may be refused."""
    try:
        ends = [job.attempt(folder, each) for each in (trouble, Trouble())]
        tally.kills += (ends[0].code or 0) < 0
        tally.troubles += 1
        for ended in ends:
            if "Traceback" in ended.errors:
                tally.note("different", f"{what}: {ended.errors[-2000:]}")
        tally.compare(what, job.read(folder), meant)
    except (HoptreeError, OSError) as error:
        tally.note("different", f"{what}: {error!r}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", default=",".join(JOBS), help="of: %(default)s")
    parser.add_argument("--quick", action="store_true", help="one kill a job and one other trouble")
    given = parser.parse_args(arguments)
    names = given.jobs.split(",")
    kills, others = (len(names), OTHERS[:1]) if given.quick else (given.kills, OTHERS)
    with tempfile.TemporaryDirectory() as place:
        tally = chaos(names, kills, others, given.seed, Path(place))
    for note in tally.notes:
        print(note)
    print(f"{tally.kills} of {tally.troubles} troubles were kills")
    print(f"lost, repeated, different: {tally.lost}, {tally.repeated}, {tally.different}")
    return 0 if tally.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
