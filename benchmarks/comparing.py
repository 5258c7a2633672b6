"""How well code tells questions that compare from those that do not, and how well it compares what it is given.

The data sets label their questions: "comparison" and "bridge_comparison" compare, the others do not; StrategyQA has no
labels, so only what fires is counted and shown. Where a row carries its evidence as triples, the facts of each operand
are taken from them, and the answer that code concludes is set against the row's. Beside this it is counted how many
questions are planned by their own words alone, and how many of these plans have as many parts as the row has hops.

Figures come last, one a line with its goal: false alarms under 2 % on every set; the exit code is 1 where it is missed.
`--rows test` looks at the first rows of each set, which nothing was tuned on, `--rows dev` at the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.text.comparison import conclude
from hoptree.text.comparison_plans import plan_comparison
from hoptree.text.comparison_questions import Comparison, detect_comparison

GOAL = 0.02
COMPARING = ("comparison", "bridge_comparison")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DataSet:
    """One file of questions; the first `test` rows are those that published figures are made of."""

    name: str
    file: str
    test: int
    labelled: bool = True


SETS = (
    DataSet("2wikimultihopqa", "2wikimultihopqa/dev.jsonl", 300),
    DataSet("2wikimultihopqa extra", "2wikimultihopqa/dev_extra.jsonl", 0),
    DataSet("hotpotqa", "hotpotqa/dev.jsonl", 250),
    DataSet("musique", "musique/dev.jsonl", 250),
    DataSet("strategyqa", "strategyqa/dev.jsonl", 250, labelled=False),
    DataSet("nq", "nq/dev.jsonl", 200),
    DataSet("popqa", "popqa/dev.jsonl", 200),
)


@dataclass(slots=True)
class Score:
    """What was counted on one data set.

    `pairs` are comparing questions found with two operands that stand in them, `told` those whose row has the facts of
    all operands; `planned` are questions that their words plan, and `fitting` those of them in as many parts as hops.
    `missed`, `alarms` and `wrong` are for people to look at.
    """

    name: str
    labelled: bool
    questions: int = 0
    positives: int = 0
    hits: int = 0
    pairs: int = 0
    told: int = 0
    concluded: int = 0
    right: int = 0
    planned: int = 0
    fitting: int = 0
    missed: list[str] = field(default_factory=list)
    alarms: list[tuple[str, Comparison]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def false_alarm_rate(self) -> float:
        return len(self.alarms) / max(self.questions - self.positives, 1)

    @property
    def failed(self) -> bool:
        return self.labelled and self.false_alarm_rate >= GOAL

    def line(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common())
        planned = f"planned by words {self.planned}, as many parts as hops {_share(self.fitting, self.planned)}"
        if not self.labelled:
            return f"{self.name:<22} {self.questions:>5} questions, fires on {len(self.alarms)} ({kinds})  {planned}"
        fired = self.hits + len(self.alarms)
        alarms = f"false alarms {100 * self.false_alarm_rate:.2f} % ({len(self.alarms)})"
        return (
            f"{self.name:<22} {self.questions:>5} questions, {self.positives:>4} compare:"
            f"  precision {_share(self.hits, fired)}  recall {_share(self.hits, self.positives)}"
            f"  {alarms} {'FAIL' if self.failed else 'pass'}  two operands {_share(self.pairs, self.positives)}"
            f"  concluded {self.concluded} of {self.told}, right {_share(self.right, self.concluded)}"
            f"  ({kinds})  {planned}"
        )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "n/a"


def rows_of(folder: Path, data: DataSet, part: str) -> Iterator[Row]:
    """The rows of the part asked for; a file that is not there has none."""
    path = folder / data.file
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if part == "all" or (number < data.test) == (part == "test"):
                yield json.loads(line)


def score(data: DataSet, rows: Iterator[Row]) -> Score:
    result = Score(data.name, data.labelled)
    for row in rows:
        question = row["question"]
        parts = sum(map(len, plan_comparison(question) or ()))
        result.planned += parts > 0
        result.fitting += parts > 0 and parts == row.get("hops")
        found = detect_comparison(question)
        compares = row.get("type") in COMPARING
        result.questions += 1
        result.positives += compares
        if found is None:
            if compares:
                result.missed.append(question)
            continue
        result.kinds[found.kind] += 1
        if not compares:
            result.alarms.append((question, found))
            continue
        result.hits += 1
        result.pairs += len(found.operands) == 2 and all(operand in question for operand in found.operands)
        _conclude(result, row, found)
    return result


def _conclude(result: Score, row: Row, found: Comparison) -> None:
    facts = [fact_of(operand, row.get("evidence_triples") or []) for operand in found.operands]
    result.told += all(facts)
    conclusion = conclude(found, dict(zip(found.operands, facts, strict=True)))
    if conclusion is None:
        return
    result.concluded += 1
    if conclusion.answer.casefold() in {answer.casefold() for answer in row["answers"]}:
        result.right += 1
    else:
        result.wrong.append(
            f"{row['question']} {facts} -> {conclusion.answer} ({conclusion.why}), not {row['answers'][0]}"
        )


def fact_of(operand: str, triples: Sequence[Sequence[str]]) -> str:
    """All objects at the end of the chain of triples that begins at the operand, or nothing."""
    name, found = _plain(operand.removeprefix("director of film ")), ""
    for _ in triples:
        steps = [triple[2] for triple in triples if _plain(triple[0]) == name]
        if not steps:
            break
        name, found = _plain(steps[0]), "; ".join(steps)
    return found


def _plain(name: str) -> str:
    return name.partition(" (")[0].casefold()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder that holds the data sets' folders")
    parser.add_argument("--rows", choices=("all", "dev", "test"), default="all")
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="list up to N questions of each kind of mistake"
    )
    arguments = parser.parse_args()
    scores = [score(data, rows_of(arguments.data, data, arguments.rows)) for data in SETS]
    for result in scores:
        for question in result.missed[: arguments.show]:
            print(f"missed  {result.name}: {question}")
        shown = arguments.show if result.labelled else max(arguments.show, 10)
        for question, found in result.alarms[:shown]:
            print(f"fired   {result.name}: {question} -> {found.kind} {found.wanted} {found.of} {found.operands}")
        for mistake in result.wrong[: arguments.show]:
            print(f"wrong   {result.name}: {mistake}")
    for result in scores:
        print(result.line() if result.questions else f"{result.name:<22} no rows")
    if not any(result.questions for result in scores):
        print(f"No data sets under {arguments.data}.", file=sys.stderr)
        return 2
    return int(any(result.failed for result in scores))


if __name__ == "__main__":
    sys.exit(main())
