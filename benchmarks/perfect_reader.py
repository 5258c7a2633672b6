"""hop with a reader that makes no mistake: what the engine itself loses, and whether a guesser fools it.

The reader is scripted from a data set's gold steps: it plans as the data set does, answers a sub-question if a gold
passage with the answer is in sight, and says NOT FOUND otherwise. The guesser says the title of the first passage
instead. Neither gives log-probabilities. Questions count whose steps are all known and whose facts are in the corpus.
Lists are those of experiments/treeqa/lists.jsonl, by list F1: the reader names what each condition's passages in sight
name, and the guesser adds a title to every list.

    python benchmarks/perfect_reader.py DATA [--quick]

Exit code 1 where the reader reaches less than 90 % of the questions of a set, or the guesser costs more than 5 points.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.engine.engine import Engine
from hoptree.evaluation.metrics import score_answer, score_list
from hoptree.models.model import Capability, Choice, Reply, Request
from hoptree.retrieval.indexing import build_index
from hoptree.text.grounding import stems
from hoptree.text.parse import question_key
from hoptree.training.plans.gold_trees import GoldTree, gold_tree, written
from hoptree.training.plans.sub_questions import LeftOut
from hoptree.training.questions import TrainingQuestion, read_training_questions

SETS = (
    ("2wikimultihopqa/dev_extra.jsonl", "corpus_extra.jsonl.gz"),
    ("musique/dev_pooled.jsonl", "corpus.jsonl.gz"),
    ("musique/dev.jsonl", "corpus.jsonl.gz"),  # no failure of these was looked at
)
LEAST_REACHED, MAX_FOOLED = 0.90, 0.05
_RIGHT_F1 = 0.8
_SAME_WORDS = 0.7
"""Share of words of two sub-questions from which they ask for the same fact."""
_QUESTION = re.compile(r"Question: (.*)")
_TITLE = re.compile(r"^passage: (.*?): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Known:
    """A question whose steps are known: its plan, and the texts of its gold passages."""

    question: TrainingQuestion
    tree: GoldTree
    texts: tuple[str, ...]


class PerfectReader:
    """A model that knows the gold plans, and reads gold passages without a mistake."""

    name = identity = endpoint = "perfect reader"
    slots = 64
    capabilities = frozenset[Capability]()

    def __init__(self, known: Sequence[Known], *, guesses: bool) -> None:
        self._guesses = guesses
        self._plans = {question_key(item.question.example.question): written(item.tree.plan) for item in known}
        self._facts: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        self._whole: dict[str, tuple[str, str]] = {}
        for item in known:
            for step in item.tree.steps.values():
                self._facts.setdefault(question_key(step.asked), []).append((step.answer, item.texts))
            last = item.tree.steps[max(item.tree.steps)]
            key = question_key(item.question.example.question)
            self._whole[key] = (last.answer, item.question.example.answers[0])

        self._stems = {key: stems(key) for key in self._facts}

    async def generate(self, request: Request, *, step: str) -> Reply:
        text = request.messages[-1].content
        asked = question_key(_QUESTION.findall(text)[-1])
        if step.endswith("decompose"):
            reply = "{}" if "Not found:" in text else self._plans.get(asked, "{}")
        else:
            reply = self._read(asked, text) or (self._guess(text) if self._guesses else "NOT FOUND")
        return Reply((Choice(reply),))

    async def aclose(self) -> None:
        return None

    def _read(self, asked: str, documents: str) -> str:
        """Return what a gold passage in sight states, or what follows from a chain of answered parts."""
        shown = question_key(documents)
        for answer, texts in self._facts.get(asked) or self._facts.get(self._nearest(asked)) or ():
            if any(question_key(text)[:80] in shown and question_key(answer) in question_key(text) for text in texts):
                return answer
        last, answer = self._whole.get(asked, ("", ""))
        chains = question_key(documents.split("passage: ")[0])
        return answer if last and f" {question_key(last)} " in f" {chains} " else ""

    def _nearest(self, asked: str) -> str:
        """Return the known sub-question in nearly the same words, "" where there is none."""
        words = stems(asked) if asked not in self._whole else frozenset[str]()
        shares = ((len(words & other) / len(words | other), key) for key, other in self._stems.items() if words & other)
        share, key = max(shares, default=(0.0, ""))
        return key if share >= _SAME_WORDS else ""

    def _guess(self, documents: str) -> str:
        titles = _TITLE.findall(documents)
        return titles[0] if titles else "NOT FOUND"


LISTS = Path(__file__).parents[1] / "experiments" / "treeqa" / "lists.jsonl"
LIST_CORPORA = ("hotpotqa", "musique", "2wikimultihopqa")
_NAMES = re.compile(r"\nNames: (.*)")
_BEGINNING_CHARS = 60


class PerfectLister:
    """A model that knows the conditions of one question for a list, and names all that passages in sight state."""

    name = identity = endpoint = "perfect lister"
    slots = 1
    capabilities = frozenset[Capability]()

    def __init__(self, row: Mapping[str, Any], texts: Mapping[str, str], *, guesses: bool) -> None:
        self._row, self._texts, self._guesses = row, texts, guesses

    async def generate(self, request: Request, *, step: str) -> Reply:
        shown = request.messages[-1].content
        asked, title = _QUESTION.findall(shown)[-1], (_TITLE.findall(shown) or ["nothing"])[0]
        guess = [title] if self._guesses else []
        if step.endswith("decompose"):
            says = [f"Which {self._row['type']} {condition['says']}?" for condition in self._row["conditions"]]
            return Reply((Choice(json.dumps({f"query{number}": part for number, part in enumerate(says, 1)})),))
        if not step.endswith("list"):
            return Reply((Choice(title if self._guesses else "NOT FOUND"),))
        among = question_key(" ".join(_NAMES.findall(shown)))
        names = [name for name in self._named(asked, shown) if not among or question_key(name) in among]
        return Reply((Choice("\n".join([*names, *guess]) or "NOT FOUND"),))

    async def aclose(self) -> None:
        return None

    def _named(self, asked: str, shown: str) -> list[str]:
        """Return the candidates of the condition that a question is nearest to, of passages in sight."""
        conditions = self._row["conditions"]
        words = [stems(condition["says"]) for condition in conditions]
        own = [len((each - frozenset.intersection(*words)) & stems(asked)) for each in words]
        condition = conditions[own.index(max(own))]
        passages, wanted = condition["passages"], [called[0] for called in self._row["wanted"]]
        names = condition.get("candidates") or wanted
        by_name = passages if isinstance(passages, dict) else dict.fromkeys(names, passages)
        return [name for name, ids in by_name.items() if any(self._texts[each] in shown for each in ids)]


async def list_f1(index: Path, texts: Mapping[str, str], *, guesses: bool) -> tuple[float, float, int]:
    """Return the mean list F1 at the default effort, the calls a question, and how many questions there are."""
    rows = [json.loads(line) for line in LISTS.read_text(encoding="utf-8").splitlines()]
    beginnings = {name: " ".join(text.split())[:_BEGINNING_CHARS] for name, text in texts.items()}
    scores, calls = 0.0, 0
    for row in rows:
        model = PerfectLister(row, beginnings, guesses=guesses)
        async with Engine(method="hop", model=model, corpus=index, retriever="auto", cache=None) as engine:
            result = await engine.ask(row["question"])
        scores += score_list(result.answer, row["wanted"])["list_f1"] or 0.0
        calls += result.usage.llm_calls
    return scores / len(rows), calls / len(rows), len(rows)


def read_known(questions: Path, texts: Mapping[str, str], limit: int) -> list[Known]:
    """Return the first questions whose steps are known, and whose answers stand in their gold passages."""
    known = []
    for question in read_training_questions([questions]):
        try:
            tree = gold_tree(question)
        except LeftOut:
            continue
        gold = tuple(texts[name] for name in question.example.supporting_ids if name in texts)
        held = [question_key(text) for text in gold]
        complete = len(gold) == len(question.example.supporting_ids) and bool(tree.steps)
        if complete and all(any(question_key(step.answer) in text for text in held) for step in tree.steps.values()):
            known.append(Known(question, tree, gold))
        if len(known) == limit:
            break
    return known


def read_texts(corpus: Path) -> dict[str, str]:
    content = gzip.decompress(corpus.read_bytes()) if corpus.suffix == ".gz" else corpus.read_bytes()
    return {row["id"]: row["text"] for row in map(json.loads, content.decode().splitlines())}


async def share_right(known: Sequence[Known], index: Path, *, guesses: bool) -> tuple[float, float]:
    """Return the share of questions answered rightly at the default effort, and the calls a question."""
    model = PerfectReader(known, guesses=guesses)
    async with Engine(method="hop", model=model, corpus=index, retriever="auto", cache=None) as engine:
        results = await asyncio.gather(*(engine.ask(item.question.example.question) for item in known))
    right = [
        (score_answer(result.answer, item.question.example.answers)["f1"] or 0.0) >= _RIGHT_F1
        for item, result in zip(known, results, strict=True)
    ]
    return sum(right) / len(known), sum(result.usage.llm_calls for result in results) / len(known)


def report(name: str, count: int, reached: float, fooled: float, calls: float) -> bool:
    """Print what was reached; return whether a goal was missed."""
    print(
        f"{name}: {count} questions; the perfect reader reaches {reached:.1%} (goal {LEAST_REACHED:.0%}) with "
        f"{calls:.1f} calls; the guesser {fooled:.1%} (goal: at most {MAX_FOOLED:.0%} less)"
    )
    return reached < LEAST_REACHED or reached - fooled > MAX_FOOLED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--quick", action="store_true", help="40 questions of each set")
    parsed = parser.parse_args()
    missed = 0
    for questions, corpus_name in SETS:
        file = parsed.data / questions
        corpus = file.with_name(corpus_name)
        known = read_known(file, read_texts(corpus), 40 if parsed.quick else 200)
        with tempfile.TemporaryDirectory() as place:
            index = Path(place) / "index"
            build_index([corpus], index)
            reached, calls = asyncio.run(share_right(known, index, guesses=False))
            fooled, _ = asyncio.run(share_right(known, index, guesses=True))
        missed += report(questions, len(known), reached, fooled, calls)
    corpora = [parsed.data / name / "corpus.jsonl.gz" for name in LIST_CORPORA]
    texts = {name: text for corpus in corpora for name, text in read_texts(corpus).items()}
    with tempfile.TemporaryDirectory() as place:
        index = Path(place) / "index"
        build_index(corpora, index)
        reached, calls, count = asyncio.run(list_f1(index, texts, guesses=False))
        fooled, *_ = asyncio.run(list_f1(index, texts, guesses=True))
    missed += report("lists", count, reached, fooled, calls)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
