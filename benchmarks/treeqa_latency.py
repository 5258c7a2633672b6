"""How long TreeQA takes for a question: node after node, level by level, or all nodes at once.

Every call of the model takes 100 ms and everything else none: the clock is that of the event loop, and it leaps to the
next reply, so that figures are exact and a second takes none. Trees have the shape of those that TreeQA's authors
published: 246 of 320 have one node at the top, they have 3.6 nodes on average and three levels at most. A node takes
four calls: the names in its query, the entities to keep, the relations to keep, the verdict. What the model says
depends on nothing but what it is asked, so that all ways through a tree must end with the same one; the program fails
where they do not.

Verdicts refute 0.3 or 1.2 hypotheses a tree, about what the paper's Table 7 has for easy and for hard questions. Two
shares are assumptions, and set how much foresight pays: in how many queries the names that the model reads add nothing
to the entities that the query's own words give (`--foreseen`), and how often the children of a rebuilt node are the old
ones with the right name put in (`--carried`). With unknowns, 7 % of the nodes are settled neither by the first evidence
nor by that of a clue, as 80 of 1,156 published ones.

Figures come last; goals are judged without unknowns, and the exit code is 1 where one is missed or a tree differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import selectors
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.treeqa_world import TREES, Names, Player, Shelf, World, grown

from hoptree.engine.engine import Engine
from hoptree.engine.result import Result, TreeNode

QUICK = 64
NODES = 3.6
UNKNOWN = 80 / 1156
PAPER_LEVEL = 152.9 / 109.6
WAYS = ("serial", "level", "speculative")
GOALS = {0.3: (2.5, 1.3), 1.2: (1.7, 1.6)}
"""By refutations a tree: how many times as fast as serial at least, and how many times its tokens at most."""


class _Leap(selectors.DefaultSelector):
    """Waits for nothing: where nobody has anything to do, the clock is put forward to when somebody has."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop in which sleeping takes no time, but counts."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        return self._leap.now


@dataclass(frozen=True, slots=True)
class Way:
    """What one way through the trees took a question, on average."""

    way: str
    seconds: float
    calls: float
    tokens: float
    refutations: float
    unknown: float


@dataclass(frozen=True, slots=True)
class Setting:
    """Three ways through the same trees, and at how many of them the last tree was another one."""

    rate: float
    unknowns: bool
    ways: tuple[Way, ...]
    different: int

    def times(self, way: str) -> tuple[float, float]:
        """How many times as fast as serial, and with how many times its tokens."""
        first, other = self.ways[0], self.ways[WAYS.index(way)]
        return first.seconds / other.seconds, other.tokens / first.tokens

    def lines(self) -> Iterator[str]:
        first = self.ways[0]
        yield (
            f"{self.rate:g} refutations a tree ({first.refutations:.2f} came out), "
            f"{100 * first.unknown:.1f} % of nodes unknown; different trees: {self.different}"
        )
        for one in self.ways:
            faster, dearer = self.times(one.way)
            yield (
                f"  {one.way:<12} {one.seconds:7.3f} s {one.calls:7.2f} calls {one.tokens:8,.0f} tokens"
                f"   {faster:5.2f} times as fast {dearer:5.2f} times the tokens"
            )


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure with what it has to reach, or to stay under."""

    name: str
    value: float
    goal: float
    most: bool = False

    @property
    def missed(self) -> bool:
        return self.value > self.goal if self.most else self.value < self.goal

    def line(self) -> str:
        bound = "at most" if self.most else "at least"
        return f"{self.name:<66} {self.value:7.3f}  {bound} {self.goal:g}  {'FAIL' if self.missed else 'pass'}"


def _shape(nodes: Sequence[TreeNode]) -> list[Any]:
    return [
        (one.id, one.question, one.answer, one.verdict, one.struck, one.evidence, one.facts, _shape(one.children))
        for one in nodes
    ]


def _all(nodes: Sequence[TreeNode]) -> Iterator[TreeNode]:
    for one in nodes:
        yield one
        yield from _all(one.children)


async def _walked(world: World, way: str, trees: int, on_done: Callable[[], None]) -> tuple[Way, list[Any]]:
    seconds: list[float] = []
    results: list[Result] = []
    options = {"traversal": way}
    async with Engine(
        method="treeqa", model=Player(world), corpus=Shelf(), graph=Names(), options=options, cache=None
    ) as engine:
        for number in range(trees):
            began = asyncio.get_running_loop().time()
            results.append(await engine.ask(f"Case {number}: what is it?"))
            seconds.append(asyncio.get_running_loop().time() - began)
            on_done()
    failed = [result for result in results if result.error]
    if failed:
        raise SystemExit(f"A question failed: {failed[0].error_message}")
    nodes = [node for result in results for node in _all(result.tree[0].children)]
    used = [result.usage for result in results]
    return Way(
        way,
        statistics.fmean(seconds),
        statistics.fmean(usage.llm_calls for usage in used),
        statistics.fmean(usage.prompt_tokens + usage.completion_tokens for usage in used),
        sum(node.verdict == "refuted" for node in nodes) / trees,
        sum(node.verdict == "unknown" for node in nodes) / len(nodes),
    ), [(_shape(result.tree[0].children), result.answer) for result in results]


def measure(world: World, rate: float, trees: int, on_done: Callable[[], None]) -> Setting:
    ways, last = [], []
    for way in WAYS:
        with asyncio.Runner(loop_factory=LeapingLoop) as runner:
            took, ended = runner.run(_walked(world, way, trees, on_done))
        ways.append(took)
        last.append(ended)
    different = sum(not (one == two == three) for one, two, three in zip(*last, strict=True))
    return Setting(rate, world.unknown > 0, tuple(ways), different)


def goals(settings: Sequence[Setting]) -> list[Goal]:
    made = [Goal("trees that are not those of serial", sum(one.different for one in settings), 0, most=True)]
    for one in settings:
        if not one.unknowns:
            faster, dearer = one.times("speculative")
            least, most = GOALS[one.rate]
            at = f"speculative, {one.rate:g} refutations a tree:"
            made += [Goal(f"{at} times as fast as serial", faster, least)]
            made += [Goal(f"{at} times the tokens of serial", dearer, most, most=True)]
    return made


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, help=f"how many (default {TREES}, with --quick {QUICK})")
    parser.add_argument("--quick", action="store_true", help="fewer trees: a look, not a measurement")
    parser.add_argument("--seed", type=int, default=14, help="of the trees and replies; 14 gives 3.60 nodes a tree")
    parser.add_argument("--foreseen", type=float, default=0.5, help="share of queries whose names add no entities")
    parser.add_argument(
        "--carried", type=float, default=0.5, help="share of rebuilt nodes whose children are carried on"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    chosen = parser.parse_args(given)
    chosen.trees = chosen.trees or (QUICK if chosen.quick else TREES)
    return chosen


def _describe(chosen: argparse.Namespace) -> str:
    trees = [grown(chosen.seed, number) for number in range(chosen.trees)]
    nodes = [one for tops in trees for top in tops for one in top.all()]
    parents = sum(1 for one in nodes if one.children) / len(nodes)
    one_top = sum(len(tops) == 1 for tops in trees)
    return (
        f"{chosen.trees} trees, {one_top} with one top node, {len(nodes) / chosen.trees:.2f} nodes on average, "
        f"{100 * parents:.0f} % of them with nodes below; names add no entities in {100 * chosen.foreseen:.0f} % of "
        f"queries, children are carried on in {100 * chosen.carried:.0f} % of rebuilt nodes"
    )


def main(given: Sequence[str] | None = None) -> int:
    chosen = _arguments(given)
    done, whole = 0, len(GOALS) * 2 * len(WAYS) * chosen.trees

    def on_done() -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r{done:,} of {whole:,} questions", end="" if done < whole else "\n", file=sys.stderr)

    found = [
        measure(World(chosen.seed, rate / NODES, unknown, chosen.foreseen, chosen.carried), rate, chosen.trees, on_done)
        for unknown in (0.0, UNKNOWN)
        for rate in GOALS
    ]
    print(_describe(chosen))
    print(f"level by level in the paper: {PAPER_LEVEL:.2f} times as fast (109.6 s against 152.9 s), 10,459 tokens")
    for setting in found:
        print(*setting.lines(), sep="\n")
    made = goals(found)
    print("GOALS")
    for goal in made:
        print(goal.line())
    if chosen.json:
        verdicts = [asdict(goal) | {"missed": goal.missed} for goal in made]
        told = {"trees": chosen.trees, "foreseen": chosen.foreseen, "carried": chosen.carried, "goals": verdicts}
        chosen.json.write_text(json.dumps(told | {"settings": list(map(asdict, found))}, indent=1), encoding="utf-8")
    return 1 if any(goal.missed for goal in made) else 0


if __name__ == "__main__":
    sys.exit(main())
