"""What hop's option `cut` leaves out of passages, and how often an answer rests on it; no model is asked.

Five passages are retrieved for a question by ranked retrieval (hoptree-weights), and cut. Printed are the share of
words that is left, the questions whose answer still stands in a gold passage, and the gold sentences (HotpotQA) or
objects of gold facts (2WikiMultihopQA) that are left; for MuSiQue the same of its gold parts. What was not retrieved is
not counted.

Give the folder of the data sets. The rows that tables are made of are passed over, and the ids in `--exclude` files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall import _passages

from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.hop.reading import cut_passages
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval.indexing import index_passages
from hoptree.retrieval.retriever import open_retriever
from hoptree.text.parse import question_key

SETS = (
    ("2wikimultihopqa", "dev_extra.jsonl", "corpus_extra.jsonl.gz", 0),
    ("hotpotqa", "dev.jsonl", "corpus.jsonl.gz", 300),
    ("musique", "dev_pooled.jsonl", "corpus.jsonl.gz", 0),
    ("nq", "dev.jsonl", "corpus.jsonl.gz", 300),
    ("popqa", "dev.jsonl", "corpus.jsonl.gz", 300),
    ("triviaqa", "dev.jsonl", "corpus.jsonl.gz", 200),
)
"""Name, questions, passages, and the number of rows that tables are made of."""
_K, _MAX_ROWS = 5, 300


@dataclass(slots=True)
class Count:
    """How many of what was retrieved are left after the cut."""

    left: int = 0
    of: int = 0

    def add(self, left: int | bool, of: int = 1) -> None:
        self.left, self.of = self.left + left, self.of + of

    def __str__(self) -> str:
        return f"{self.left / self.of:.3f} of {self.of}" if self.of else "-"


@dataclass(slots=True)
class Kept:
    """The counts of one data set."""

    words: Count = field(default_factory=Count)
    answers: Count = field(default_factory=Count)
    evidence: Count = field(default_factory=Count)

    def add(
        self, answers: Sequence[str], row: dict[str, Any], found: Sequence[Passage], shown: Sequence[Passage]
    ) -> None:
        self.words.add(sum(map(_words, shown)), sum(map(_words, found)))
        gold = [pair for pair in zip(found, shown, strict=True) if pair[0].id in row["supporting_ids"]]
        if any(_holds(before, answer) for before, _ in gold for answer in answers):
            self.answers.add(any(_holds(after, answer) for _, after in gold for answer in answers))
        for before, after in gold:
            for text in _evidence(row, before):
                self.evidence.add(_holds(after, text))


def _evidence(row: dict[str, Any], passage: Passage) -> Iterator[str]:
    """Yield the gold sentences of a passage, and the objects of gold facts about what it is named for."""
    yield from (text for text in row.get("supporting_sentences") or () if _holds(passage, text))
    for subject, _, value in row.get("evidence_triples") or ():
        if question_key(subject) == question_key(passage.title) and _holds(passage, value):
            yield value


def _holds(passage: Passage, text: str) -> bool:
    key = question_key(text)
    return bool(key) and f" {key} " in f" {question_key(passage.text)} "


def _words(passage: Passage) -> int:
    return len(passage.title.split()) + len(passage.text.split())


def _parts(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the gold parts of a question, references filled in, with their answers."""
    answers = row.get("decomposition_answers") or ()
    for part, answer in zip(row.get("decomposition") or (), answers, strict=False):
        for number, known in enumerate(answers, 1):
            part = part.replace(f"#{number}", known)
        yield part, answer


def _listed(paths: Sequence[Path]) -> frozenset[str]:
    """Return the ids in files: one a line, or JSON lists by data file."""
    ids: set[str] = set()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        ids |= {name for names in json.loads(text).values() for name in names} if text[0] == "{" else {*text.split()}
    return frozenset(ids)


async def _measure(index: Path, rows: Sequence[dict[str, Any]]) -> dict[str, Kept]:
    retriever = open_retriever(index, "ranked")
    ctx = Context(
        method="hop", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("cut"), retriever=retriever
    )
    kept = {"questions": Kept(), "parts": Kept()}
    for row in rows:
        asked = [("questions", row["question"], row["answers"])]
        asked += [("parts", part, [answer]) for part, answer in _parts(row)]
        for what, question, answers in asked:
            found = await retriever.search(question, k=_K)
            kept[what].add(answers, row, found, await cut_passages(ctx, question, found))
    return kept


def _rows(path: Path, first: int, excluded: Collection[str]) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[first:]]
    return [row for row in rows if row["id"] not in excluded][:_MAX_ROWS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--exclude", type=Path, nargs="+", default=[], help="files of ids")
    chosen = parser.parse_args()
    for path in (chosen.data / name / file for name, *files, _ in SETS for file in files):
        if not path.is_file():
            parser.error(f"there is no {path}")
    print(f"{'data set':16} {'asked':9}  words  answers        gold sentences or facts")
    for name, questions, corpus, first in SETS:
        rows = _rows(chosen.data / name / questions, first, _listed(chosen.exclude))
        with tempfile.TemporaryDirectory() as scratch:
            index_passages(_passages(chosen.data / name / corpus, titles=True), Path(scratch, "index"))
            for what, kept in asyncio.run(_measure(Path(scratch, "index"), rows)).items():
                if kept.words.of:
                    share = kept.words.left / kept.words.of
                    print(f"{name:16} {what:9}  {share:.3f}  {kept.answers!s:14} {kept.evidence}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
