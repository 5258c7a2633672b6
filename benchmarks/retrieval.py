"""Hoptree's text index beside bm25s and Pyserini: build, memory, disk, opening, searching; then changes and kills.

All start from the same JSONL file of generated passages (`synthetic.py`) and end with an index on disk, passages
included, from which a fresh process answers known-item questions with the ten best passages. Every measurement is a
process of its own. BM25 is Lucene's, k1 1.2 and b 0.75, with English stop words and stemming, in all of them.

The rivals get their best reasonable setting. bm25s: texts read line by line, scipy where it is there, searched with its
index mapped and loaded, with numba and numpy, and compared by the best of these. Pyserini: the file is put into the
form it reads, in two parts for its two threads, before the clock starts. Hoptree has links off, as the rivals have
none; with links it is measured as well.

Peak memory is all resident memory, pages of mapped files included; anonymous memory leaves those out. Opening is from
the start of a process to its first answer, with the index in the page cache, and once evicted from it (Python and its
packages stay there). Figures, ratios and goals come last; the exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.changes import TOLERANCE, Changed, Kills, change_and_compare, kill_and_repeat
from benchmarks.processes import Failed, Measured, disk_bytes, evict, measured
from benchmarks.synthetic import BYTES_A_PASSAGE, Corpus, KnownItem, write_corpus

MILLION = 1_000_000
QUICK = 50_000
KILLED = 100_000
THREADS = 2
WARM_UP = 50
GIB = 2**30
_SEED = 7


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure with the limit it has to keep; one that does not decide is only shown."""

    name: str
    value: float
    limit: float
    unit: str = ""
    at_least: bool = False
    decides: bool = True
    note: str = ""

    @property
    def missed(self) -> bool:
        return not (self.value >= self.limit if self.at_least else self.value <= self.limit)

    def line(self) -> str:
        verdict = ("MISS" if self.missed else "PASS") + ("" if self.decides else " (not counted)")
        limit = f"{'at least' if self.at_least else 'at most'} {self.limit:g}{self.unit}"
        return f"{self.name:<62} {self.value:>9.3f}{self.unit:<4} {limit:<16} {verdict}  {self.note}".rstrip()


@dataclass(frozen=True, slots=True)
class Built:
    """What building took: seconds of wall and processor, bytes of memory and disk."""

    name: str
    wall: float
    cpu: float
    peak: int
    anonymous: int
    disk: int


@dataclass(frozen=True, slots=True)
class Asked:
    """What answering took; seconds, questions a second, bytes, and the share of passages found that were meant."""

    name: str
    system: str
    open_evicted: float | None
    open_warm: float
    p50: float
    p95: float
    rate: float
    peak: int
    anonymous: int
    recall: float


@dataclass(frozen=True, slots=True)
class Bench:
    """What all measurements share."""

    folder: Path
    corpus: Path
    extra: Path
    items: list[KnownItem]
    quick: bool = False

    @property
    def questions(self) -> list[str]:
        return [item.question for item in self.items]

    def build(self, system: str, name: str, *, links: bool = False) -> tuple[Built, Path]:
        index = self.folder / name.replace(" ", "-")
        shutil.rmtree(index, ignore_errors=True)
        source = self._two_parts() if system == "pyserini" else self.corpus
        say(f"{name}: building")
        took = measured("build", system=system, corpus=str(source), index=str(index), links=links)
        if source != self.corpus:
            shutil.rmtree(source)
        return Built(name, took.wall, took.cpu, took.peak, took.anonymous, disk_bytes(index)), index

    def _two_parts(self) -> Path:
        """The corpus in BEIR's form, which Pyserini reads, with a file for each of its threads."""
        target = self.folder / "beir"
        target.mkdir()
        with (
            self.corpus.open(encoding="utf-8") as rows,
            (target / "one.jsonl").open("w", encoding="utf-8") as one,
            (target / "two.jsonl").open("w", encoding="utf-8") as two,
        ):
            for number, row in enumerate(rows):
                (two if number % 2 else one).write(row.replace('{"id"', '{"_id"', 1))
        return target

    def ask(self, system: str, name: str, index: Path, variant: str) -> Asked:
        say(f"{name}: asking")
        warm_up, items = self.items[:WARM_UP], self.items[WARM_UP:]
        first = [item.question for item in warm_up]
        same = {"system": system, "index": str(index), "variant": variant}
        cold = None
        if not self.quick:
            evict(index)
            cold = measured("ask", **same, warm_up=first[:1], questions=[])
        took = measured("ask", **same, warm_up=first, questions=[item.question for item in items], threads=THREADS)
        found = took.result["found"]
        hits = sum(item.passage in {name for name, _ in hits} for item, hits in zip(items, found, strict=True))
        speed = (took.result["p50"], took.result["p95"], took.result["rate"])
        opened = (_opened(cold) if cold else None, _opened(took))
        return Asked(name, system, *opened, *speed, took.peak, took.anonymous, hits / len(items))


def _opened(took: Measured) -> float:
    return float(took.result["first"]) - took.began


@dataclass(slots=True)
class Report:
    """All that was measured."""

    built: list[Built]
    asked: list[Asked]
    changed: list[Changed]
    kills: Kills | None = None

    def tables(self) -> Iterator[str]:
        if self.built:
            yield f"{'BUILD':<28} {'wall s':>9} {'CPU s':>9} {'peak MB':>9} {'anon. MB':>9} {'disk MB':>9}"
        for built in self.built:
            memory = f"{built.peak / 1e6:>9,.0f} {built.anonymous / 1e6:>9,.0f} {built.disk / 1e6:>9,.0f}"
            yield f"{built.name:<28} {built.wall:>9.1f} {built.cpu:>9.1f} {memory}"
        if self.asked:
            times = f"{'open ms':>9} {'evicted':>9} {'p50 ms':>9} {'p95 ms':>9}"
            yield f"{'SEARCH':<28} {times} {'q/s x' + str(THREADS):>9} {'peak MB':>9} {'anon. MB':>9} {'R@10':>6}"
        for asked in self.asked:
            evicted = "-" if asked.open_evicted is None else f"{1e3 * asked.open_evicted:,.0f}"
            times = f"{1e3 * asked.open_warm:>9,.0f} {evicted:>9}"
            times += f" {1e3 * asked.p50:>9.2f} {1e3 * asked.p95:>9.2f}"
            memory = f"{asked.peak / 1e6:>9,.0f} {asked.anonymous / 1e6:>9,.0f}"
            yield f"{asked.name:<28} {times} {asked.rate:>9,.0f} {memory} {asked.recall:>6.3f}"
        yield from self._ratios()
        for changed in self.changed:
            yield from _change_lines(changed)
        if self.kills is not None:
            yield f"KILLS: {self.kills.hits} of {self.kills.tries} hit a running process"
            yield f"  {self.kills.resumed} of 2 repetitions resumed, with {self.kills.kept:,} passages indexed before"
            yield from (f"  wrong: {sentence}" for sentence in self.kills.wrong)

    def _ratios(self) -> Iterator[str]:
        """Every rival as a multiple of Hoptree."""
        for built in self.built[1:]:
            yield f"RATIO build, {built.name} / Hoptree: {_ratios(built, self.built[0])}"
        for asked in self.asked[1:]:
            yield f"RATIO search, {asked.name} / Hoptree: {_ratios(asked, self.asked[0])}"


def _ratios(other: Built | Asked, ours: Built | Asked) -> str:
    """Each figure of one as a multiple of the other's."""
    pairs = [(known.name, getattr(other, known.name), getattr(ours, known.name)) for known in fields(other)]
    return ", ".join(
        f"{name} {left / right:.2f}" for name, left, right in pairs if isinstance(left, int | float) and left and right
    )


def _change_lines(changed: Changed) -> Iterator[str]:
    kind = "with links" if changed.links else "without links"
    yield (
        f"CHANGES {kind}: build {changed.build:.1f} s, add 1 % {changed.add:.2f} s, "
        f"remove 1 % {changed.remove:.2f} s, compact {changed.compact:.1f} s"
    )
    for when, seen in (("before compaction", changed.before), ("after compaction", changed.after)):
        yield (
            f"  {when}, {seen.questions} questions beside a fresh build: {seen.same_sets:.1%} of the top tens hold the "
            f"same passages, scores differ by at most {seen.worst:.2%}{', identical' if seen.identical else ''}"
        )


def goals(report: Report, *, quick: bool, only: bool) -> list[Goal]:
    made: list[Goal] = []
    ours, mine = report.built[0], report.asked[0]
    rival = next((built for built in report.built if built.name == "bm25s"), None)
    others = [asked for asked in report.asked if asked.system == "bm25s"]
    if rival and others:
        best = min(others, key=lambda asked: asked.p50)
        made.append(Goal("build: peak memory / bm25s's", ours.peak / rival.peak, 0.25, "x"))
        speed = rival.wall / ours.wall
        made.append(Goal("build: times as fast as bm25s", speed, 3.0, "x", at_least=True, decides=not quick))
        made.append(Goal("search: p50 / bm25s's best p50", mine.p50 / best.p50, 1.0, "x", note=f"({best.name})"))
    if only:
        made.append(Goal("build: anonymous memory", ours.anonymous / GIB, 2.0, " GiB"))
        made.append(Goal("search: p50", 1e3 * mine.p50, 20.0, " ms"))
    for changed in report.changed:
        kind = "with links" if changed.links else "without links"
        name = f"changes {kind}: "
        made.append(Goal(f"{name}add and remove 1 % / build", 100 * changed.share, 5.0, " %", decides=not quick))
        made.append(Goal(f"{name}scores differ from a fresh build", 100 * changed.before.worst, 100 * TOLERANCE, " %"))
        made.append(Goal(f"{name}passages lost", changed.before.lost, 0))
        made.append(Goal(f"{name}identical once compacted", changed.after.identical, 1, at_least=True))
    return made


def measure(bench: Bench, report: Report, chosen: argparse.Namespace) -> None:
    """Build and ask everything, filling the report."""
    built, index = bench.build("hoptree", "Hoptree")
    report.built.append(built)
    report.asked.append(bench.ask("hoptree", "Hoptree", index, "bm25"))
    if "changes" not in chosen.without:
        report.changed.append(_change(bench, index, built, links=False))
    shutil.rmtree(index)
    if not chosen.only:
        for system in ("bm25s",) if bench.quick else ("bm25s", "pyserini"):
            _rival(bench, report, system)
    if "links" not in chosen.without:
        built, index = bench.build("hoptree", "Hoptree with links", links=True)
        report.built.append(built)
        report.asked.append(bench.ask("hoptree", "Hoptree with links", index, "linked"))
        if "changes" not in chosen.without:
            report.changed.append(_change(bench, index, built, links=True))
        shutil.rmtree(index)


def _change(bench: Bench, index: Path, built: Built, *, links: bool) -> Changed:
    say(f"Hoptree {'with' if links else 'without'} links: changing")
    questions = bench.questions[:200]
    return change_and_compare(index, bench.corpus, bench.extra, questions, links=links, build=built.wall)


def _rival(bench: Bench, report: Report, system: str) -> None:
    name = {"bm25s": "bm25s", "pyserini": "Pyserini"}[system]
    try:
        seen = measured("look", system=system).result
    except Failed as error:
        need = {"bm25s": "pip install bm25s PyStemmer numba", "pyserini": "pip install pyserini, and Java 21 or newer"}
        said = str(error).splitlines()
        cause = next((line for line in said if "Error: " in line), said[-1])
        print(f"{name} is not here ({cause}). It needs: {need[system]}")
        return
    print(f"{name}: {', '.join(f'{key} {value}' for key, value in seen.items())}")
    built, index = bench.build(system, name)
    report.built.append(built)
    variants = [f"{where} {backend}" for backend in seen.get("backends", []) for where in ("loaded", "mapped")]
    for variant in (variants[:1] if bench.quick else variants) or [""]:
        report.asked.append(bench.ask(system, f"{name} {variant}".strip(), index, variant))
    shutil.rmtree(index)


def prepare(folder: Path, passages: int, *, quick: bool = False) -> Bench:
    """Write the corpus, or take the one that is there from an earlier run with the same numbers."""
    more = max(passages // 100, 1)
    corpus = Corpus(passages + more, seed=_SEED)
    bench = Bench(
        folder,
        folder / f"corpus-{passages}.jsonl",
        folder / f"extra-{passages}.jsonl",
        corpus.questions((200 if quick else 1_000) + WARM_UP, stop=passages),
        quick,
    )
    for path, start, stop in ((bench.corpus, 0, passages), (bench.extra, passages, passages + more)):
        if not path.exists():
            say(f"writing {stop - start:,} passages to {path}")
            fresh = path.with_suffix(".new")
            write_corpus(corpus, fresh, start, stop)
            fresh.rename(path)
    return bench


def kill(folder: Path, passages: int, times: int) -> Kills:
    bench = prepare(folder, passages, quick=True)
    most, rest = folder / "most.jsonl", folder / "rest.jsonl"
    with bench.corpus.open(encoding="utf-8") as rows, most.open("w") as one, rest.open("w") as two:
        for number, row in enumerate(rows):
            (two if number % 20 == 0 else one).write(row)
    say(f"killing {times} builds and {times} additions")
    kills = kill_and_repeat(folder, most, rest, bench.questions, times=times)
    most.unlink()
    rest.unlink()
    return kills


def say(sentence: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {sentence}", file=sys.stderr, flush=True)


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="hoptree-benchmark-") as name:
        yield Path(name)


def _check_disk(folder: Path, chosen: argparse.Namespace) -> None:
    """The corpus, one more of its size for what is compared or converted, and the largest index with its merges."""
    copies = 3.5 if chosen.only and {"links", "changes"} <= set(chosen.without) else 6.0
    needed = copies * BYTES_A_PASSAGE * chosen.passages
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SystemExit(
            f"{folder} has {free / 1e9:.1f} GB free and about {needed / 1e9:.1f} GB are needed. "
            "Choose another --folder, or fewer --passages."
        )


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--passages",
        type=int,
        help=f"how many passages (default {MILLION:,}; with --quick {QUICK:,}, --kill {KILLED:,})",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK:,} passages, fewer questions, bm25s in one setting, no Pyserini, no links",
    )
    parser.add_argument("--only", choices=["hoptree"], help="no rivals; goals are 2 GiB and 20 ms, as for 20,000,000")
    parser.add_argument("--without", nargs="*", choices=["links", "changes"], default=[], help="leave these parts out")
    parser.add_argument(
        "--kill", type=int, metavar="TIMES", help="only kill indexing runs, so many builds and so many additions"
    )
    parser.add_argument("--folder", type=Path, help="where to work; the corpus stays there for the next run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    chosen = parser.parse_args(given)
    if chosen.passages is None:
        chosen.passages = KILLED if chosen.kill else QUICK if chosen.quick else MILLION
    if chosen.quick:
        chosen.without = [*chosen.without, "links"]
    if chosen.passages < 1_000:
        parser.error("--passages is 1,000 or more")
    return chosen


def main(given: Sequence[str] | None = None) -> int:
    chosen = _arguments(given)
    report = Report([], [], [])
    made: list[Goal] = []
    with _folder(chosen.folder) as folder:
        _check_disk(folder, chosen)
        if chosen.kill:
            report.kills = kill(folder, chosen.passages, chosen.kill)
            made.append(Goal("kills: things wrong afterwards", len(report.kills.wrong), 0))
        else:
            bench = prepare(folder, chosen.passages, quick=chosen.quick)
            measure(bench, report, chosen)
            made = goals(report, quick=chosen.quick, only=bool(chosen.only))
    for line in report.tables():
        print(line)
    print("GOALS")
    for goal in made:
        print(goal.line())
    if chosen.json:
        verdicts = [asdict(goal) | {"missed": goal.missed} for goal in made]
        figures = {"passages": chosen.passages, **asdict(report), "goals": verdicts}
        chosen.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if any(goal.missed and goal.decides for goal in made) else 0


if __name__ == "__main__":
    sys.exit(main())
