"""Put generated passages on a search server, and ask it known-item questions through Hoptree's retriever.

    python benchmarks/remote.py milvus://HOST:19530/million --passages 1000000

Loading and searching are timed; the ten best passages count. Questions are asked one after another.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.synthetic import Corpus

from hoptree.core.errors import EndpointError
from hoptree.core.values import Passage
from hoptree.retrieval.remote import load, open_remote
from hoptree.retrieval.retriever import Retriever

__all__ = ["measure"]


async def measure(url: str, passages: int, questions: int, *, loaded: bool = False) -> None:
    """Print seconds to load, share of questions whose passage was found, and milliseconds a search.

    The first search, which opens the collection, does not count.
    """
    corpus = Corpus(passages)
    if not loaded:
        began = time.perf_counter()
        rows = (Passage(*row) for row in corpus.rows())
        await load(url, rows, lambda count: print(count, end="\r", file=sys.stderr, flush=True))
        took = time.perf_counter() - began
        print(f"{passages:,} passages: {took:,.0f} s to load, {passages / took:,.0f} a second", flush=True)
    retriever = open_remote(url)
    hits = 0
    milliseconds: list[float] = []
    try:
        for item in corpus.questions(questions):
            while not milliseconds and not await _answers(retriever, item.question):
                pass
            asked = time.perf_counter()
            best = await retriever.search(item.question, k=10)
            milliseconds.append((time.perf_counter() - asked) * 1000)
            hits += any(passage.id == item.passage for passage in best)
    finally:
        await retriever.aclose()
    milliseconds.sort()
    p50, p95 = (milliseconds[int(len(milliseconds) * share)] for share in (0.5, 0.95))
    found = f"{hits / questions:.3f} found in ten"
    print(f"{passages:,} passages, {questions} questions: {found}, p50 {p50:,.1f} ms, p95 {p95:,.1f} ms")


async def _answers(retriever: Retriever, question: str) -> bool:
    """Tell whether the server answers in time, which it may not while it opens a collection."""
    try:
        await retriever.search(question, k=10)
    except EndpointError as error:
        if not error.retryable:
            raise
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--loaded", action="store_true", help="they are there already")
    given = parser.parse_args()
    asyncio.run(measure(given.url, given.passages, given.questions, loaded=given.loaded))
    return 0


if __name__ == "__main__":
    sys.exit(main())
