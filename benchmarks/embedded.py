"""How much faster the embedded model answers the sample's questions by short prompts and kept states.

The plain path asks by the long prompts, and reads every prompt from its start. The other asks by
the short prompts that a model is trained on, and keeps the states of prompt beginnings on disk. Each
question has a freshly loaded model on either path, one after the other, as two commands would; loading is not counted.
The folder of states is empty at first, and writing them is counted.

Figures come last; the exit code is 1 where the ratio of the seconds is above the goal. `--quick` takes two questions.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoptree.engine.engine import Engine
from hoptree.evaluation.metrics import best_overlap
from hoptree.models.catalogue import models_folder
from hoptree.models.model import DEFAULT_MODEL
from hoptree.sample import sample_questions

GOAL = 0.35
"""The seconds of the default path, as a share of those of the plain one."""


@dataclass(slots=True)
class Setup:
    """A way of asking, and what it took so far; `evaluated` are the prompt tokens that no state or slot held.

    `processor` are the processor's seconds, which tell more where other programs share it.
    """

    name: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    calls: int = 0
    prompt: int = 0
    evaluated: int = 0
    decoded: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    f1: list[float] = field(default_factory=list)

    async def ask(self, row: Mapping[str, Any]) -> str:
        """Ask one question of a freshly loaded model."""
        async with Engine(model=self.model, corpus="sample", options=self.options, cache=None) as engine:
            if load := getattr(engine.model, "load", None):
                await load()
            began, worked = time.perf_counter(), time.process_time()
            result = await engine.ask(row["question"])
            seconds = time.perf_counter() - began
            self.processor += time.process_time() - worked
        if result.error:
            raise SystemExit(f"{self.name}: {result.error}")
        usage = result.usage
        self.calls += usage.llm_calls
        self.prompt += usage.prompt_tokens
        self.evaluated += usage.prompt_tokens - usage.cached_tokens
        self.decoded += usage.completion_tokens
        self.seconds += seconds
        if row["answers"]:
            self.f1.append(best_overlap(result.answer, row["answers"]).f1)
        tokens = f"{usage.prompt_tokens} + {usage.completion_tokens} tokens"
        return f"{self.name} {seconds:.1f} s, {usage.llm_calls} calls, {tokens}: {result.answer or 'no answer'}"

    def figures(self) -> str:
        score = sum(self.f1) / len(self.f1) if self.f1 else 0.0
        return (
            f"{self.name:8} {self.calls:5} {self.prompt:13} {self.evaluated:16} {self.decoded:14} "
            f"{self.seconds:8.1f} {self.processor:10.1f} {score:5.3f}"
        )


async def _measure(setups: list[Setup], limit: int | None) -> None:
    for number, row in enumerate(sample_questions()[:limit], 1):
        for setup in setups if number % 2 else setups[::-1]:  # neither always finds the weights warm
            print(f"{number}. {await setup.ask(row)}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="the model as it is by default")
    parser.add_argument("--plain", help="the model of the plain path (default: the same, without adapter and states)")
    parser.add_argument("--quick", action="store_true", help="two questions")
    chosen = parser.parse_args()
    plain = chosen.plain or f"{chosen.model}{'&' if '?' in chosen.model else '?'}adapter=none&states=0"
    setups = [
        Setup("plain", plain, {"trained": "off"}),
        Setup("default", chosen.model, {}),
    ]
    os.environ["HOPTREE_MODELS"] = str(models_folder())
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch  # where states are kept
        asyncio.run(_measure(setups, 2 if chosen.quick else None))
    print("path     calls prompt tokens evaluated tokens decoded tokens  seconds  processor    F1")
    print("\n".join(setup.figures() for setup in setups))
    return _judge(*setups)


def _judge(plain: Setup, default: Setup) -> int:
    ratio = default.seconds / plain.seconds
    print(f"ratio of seconds {ratio:.3f}, goal {GOAL}: {'PASS' if ratio <= GOAL else 'MISS'}")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
