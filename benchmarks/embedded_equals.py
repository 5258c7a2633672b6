"""Whether the embedded model answers as on a GPU: llama.cpp Q4 with the adapter against transformers in bf16 with it.

Both answer the same 50 questions (20 of 2WikiMultihopQA, 15 of HotpotQA, 15 of MuSiQue) by hop, with the adapter of
hoptree-weights. Printed are the share of questions with the same answer, and the F1 of both with its difference.

    python benchmarks/embedded_equals.py DATA --out runs/equal                     # both models on one machine
    python benchmarks/embedded_equals.py DATA --out runs/equal --model local/qwen  # one of them; the runs of the
    python benchmarks/embedded_equals.py DATA --out runs/equal --model 'hf/FOLDER?adapter=hoptree&dtype=bf16'  # other
                                                                                   # may come from another machine
    python benchmarks/embedded_equals.py DATA --out runs/quick --quick             # two questions of each set

An interrupted run goes on. Exit code 1 where one of the two models has not answered every question.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hoptree.core.errors import HoptreeError
from hoptree.engine.context import Budget
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.metrics import normalise
from hoptree.evaluation.plan import index_for
from hoptree.evaluation.run_folder import Row, read_rows
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.evaluation.statistics import compare_pair

SETS = {"2wikimultihopqa": 20, "hotpotqa": 15, "musique": 15}
MODELS = ("local/qwen", "hf/qwen?adapter=hoptree&dtype=bf16")
KINDS = ("local", "hf")
_QUICK_QUESTIONS = 2


def ask(data: Path, out: Path, model: str, sets: Mapping[str, int]) -> None:
    """Answer the questions that have no answer yet, in a folder for each kind of model and data set."""
    kind = model.partition("/")[0]
    for name, questions in sets.items():
        experiment = Experiment(
            data / name / "dev.jsonl",
            model=model,
            corpus=str(index_for(data / name / "corpus.jsonl.gz", out / "indexes")),
            limit=questions,
            budget=Budget(calls=60),
        )

        def show(now: Progress, name: str = name) -> None:
            print(f"\r{kind} {name} {len(now.rows)}/{now.total}", end="", file=sys.stderr, flush=True)

        ways = RunOptions(cache=out / "replies.sqlite", retry_failed=True)
        asyncio.run(run_experiment(experiment, out / kind / name, ways, on_progress=show))
        print(file=sys.stderr)


def read(out: Path, kind: str, sets: Mapping[str, int]) -> dict[str, list[Row]] | None:
    """Return the rows of every data set; None where one is missing or not finished."""
    try:
        rows = {name: read_rows(out / kind / name) for name in sets}
    except HoptreeError:
        return None
    return rows if all(len(rows[name]) == questions for name, questions in sets.items()) else None


def report(embedded: Mapping[str, Sequence[Row]], gpu: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return a line for each data set and one for all."""
    lines = [f"{'':18}questions  same answer  F1 embedded  F1 bf16  difference (95 %)"]
    parts = {name: (list(embedded[name]), list(gpu[name])) for name in embedded}
    parts["all"] = (
        [row for rows, _ in parts.values() for row in rows],
        [row for _, rows in parts.values() for row in rows],
    )
    for name, (ours, theirs) in parts.items():
        answers = {row.id: normalise(row.answer) for row in theirs}
        same = sum(normalise(row.answer) == answers[row.id] for row in ours)
        f1 = [{row.id: row.scores.get("f1") or 0.0 for row in rows} for rows in (theirs, ours)]
        means = [100 * sum(scores.values()) / len(scores) for scores in f1]
        change = compare_pair(*f1)
        low, high = 100 * change.interval.low, 100 * change.interval.high
        lines.append(
            f"{name:18}{len(ours):9} {same / len(ours):12.0%} {means[1]:12.1f} {means[0]:8.1f} "
            f"{100 * change.difference:+6.1f} ({low:+.1f} to {high:+.1f})"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the runs")
    parser.add_argument("--model", action="append", help="one model alone; else both")
    parser.add_argument("--quick", action="store_true", help="two questions of each set")
    chosen = parser.parse_args()
    sets = dict.fromkeys(SETS, _QUICK_QUESTIONS) if chosen.quick else SETS
    for path in (chosen.data / name / file for name in sets for file in ("dev.jsonl", "corpus.jsonl.gz")):
        if not path.is_file():
            parser.error(f"there is no {path}")
    try:
        for model in chosen.model or MODELS:
            ask(chosen.data, chosen.out, model, sets)
    except HoptreeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    embedded, gpu = (read(chosen.out, kind, sets) for kind in KINDS)
    if embedded is None or gpu is None:
        print(f"{chosen.out} lacks answers of {'local/…' if embedded is None else 'hf/…'}: nothing to compare")
        return 1
    print("\n".join(report(embedded, gpu)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
