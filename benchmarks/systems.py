"""The systems that `retrieval.py` compares, each built and asked in a process of its own.

    python systems.py ACTION ARGUMENTS.json RESULT.json

runs one action and writes what came out. All systems start from the same JSONL file and end with an index on disk from
which another process answers; an answer is the ten best passages with id, score and text.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

__all__ = ["ACTIONS", "TOP"]

TOP = 10
K1, B = 1.2, 0.75
Hit = tuple[str, float, str]
"""Id, score and text of a passage."""
Result = dict[str, Any]


class Searcher(Protocol):
    """An open index."""

    def search(self, question: str) -> list[Hit]: ...

    def search_all(self, questions: Sequence[str], threads: int) -> None:
        """Answer all questions on so many threads, in the quickest way the system has."""


class HoptreeSearcher:
    """Hoptree's index, searched by `bm25` or `linked`."""

    def __init__(self, index: Path, variant: str) -> None:
        from hoptree.retrieval.bm25 import BM25
        from hoptree.retrieval.index.folder import Index
        from hoptree.retrieval.linked import Linked

        opened = Index(index)
        self._retriever = Linked(opened) if variant == "linked" else BM25(opened)

    def search(self, question: str) -> list[Hit]:
        return [(found.id, found.score, found.text) for found in self._retriever.search_now(question, TOP)]

    def search_all(self, questions: Sequence[str], threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(self.search, questions):
                pass


class Bm25sSearcher:
    """bm25s with its corpus; `variant` is `mapped` or `loaded`, and `numba` or `numpy`."""

    def __init__(self, index: Path, variant: str) -> None:
        bm25s, snowball = import_module("bm25s"), import_module("Stemmer")
        where, backend = variant.split()
        self._stemmer = snowball.Stemmer("english")
        self._tokenize = bm25s.tokenize
        self._model = bm25s.BM25.load(
            str(index), mmap=where == "mapped", load_corpus=True, show_progress=False, backend=backend
        )

    def _found(self, questions: Sequence[str], threads: int) -> Any:
        words = self._tokenize(list(questions), stopwords="en", stemmer=self._stemmer, show_progress=False)
        return self._model.retrieve(words, k=TOP, show_progress=False, n_threads=threads)

    def search(self, question: str) -> list[Hit]:
        passages, scores = self._found([question], 0)
        return [
            (passage["id"], float(score), passage["text"])
            for passage, score in zip(passages[0], scores[0], strict=True)
        ]

    def search_all(self, questions: Sequence[str], threads: int) -> None:
        self._found(questions, threads)


class PyseriniSearcher:
    """Pyserini's searcher (Lucene), by the Java class it wraps: its Python wrapper would load torch as well."""

    def __init__(self, index: Path, variant: str) -> None:
        self._searcher = _java("io.anserini.search.SimpleSearcher")(str(index))
        self._searcher.set_bm25(K1, B)
        self._lists = _java("java.util.ArrayList")

    def search(self, question: str) -> list[Hit]:
        return [self._hit(found) for found in self._searcher.search(question, TOP)]

    def _hit(self, found: Any) -> Hit:
        return found.docid, float(found.score), json.loads(self._searcher.doc_raw(found.docid))["text"]

    def search_all(self, questions: Sequence[str], threads: int) -> None:
        asked, names = self._lists(), self._lists()
        for number, question in enumerate(questions):
            asked.add(question)
            names.add(str(number))
        found = self._searcher.batch_search(asked, names, TOP, threads)
        for number in range(len(questions)):
            for hit in found.get(str(number)):
                self._hit(hit)


def look(system: str) -> Result:
    """Whether a system can be run here, and in what version and settings."""
    if system == "bm25s":
        import_module("bm25s"), import_module("Stemmer")
        backends = ["numba", "numpy"] if find_spec("numba") else ["numpy"]
        return {"version": version("bm25s"), "backends": backends}
    if system == "pyserini":
        _java("io.anserini.search.SimpleSearcher")  # fails where Java is too old
        return {"version": version("pyserini"), "java": _java("java.lang.System").getProperty("java.version")}
    return {"version": version("hoptree"), "tantivy": version("tantivy")}


def build(system: str, corpus: str, index: str, links: bool = False) -> Result:
    """Build an index from a JSONL file and save it."""
    if system == "hoptree":
        from hoptree.retrieval.index.folder import Settings
        from hoptree.retrieval.indexing import build_index

        return _outcome(build_index(Path(corpus), Path(index), settings=Settings(links=links)))
    if system == "bm25s":
        return _build_bm25s(Path(corpus), Path(index))
    return _build_pyserini(Path(corpus), Path(index))


def _build_bm25s(corpus: Path, index: Path) -> Result:
    """As thrifty as bm25s can be used: texts and corpus are read line by line and never held as a whole."""
    bm25s = import_module("bm25s")
    stemmer = import_module("Stemmer").Stemmer("english")
    texts = (f"{row['title']} {row['text']}" for row in _rows(corpus))
    words = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    model = bm25s.BM25(method="lucene", k1=K1, b=B, backend="auto", csc_backend="auto")
    model.index(words, show_progress=False)
    del words
    model.save(str(index), corpus=_rows(corpus), show_progress=False)
    return {"passages": int(model.scores["num_docs"])}


def _build_pyserini(corpus: Path, index: Path) -> Result:
    indexer = _java("io.anserini.index.IndexCollection")
    options = {"collection": "BeirFlatCollection", "input": str(corpus), "index": str(index)}
    options |= {"generator": "DefaultLuceneDocumentGenerator", "threads": "2"}
    indexer.main([*chain.from_iterable((f"-{name}", value) for name, value in options.items()), "-storeRaw"])
    return {"passages": int(_java("io.anserini.search.SimpleSearcher")(str(index)).get_total_num_docs())}


def change(index: str, add: str = "", remove: str = "", compact: bool = False) -> Result:
    """Change an index of Hoptree's: add a file, remove the ids in a file, or compact."""
    from hoptree.retrieval.indexing import add_to_index, compact_index, remove_from_index

    if add:
        return _outcome(add_to_index([Path(add)], Path(index)))
    if remove:
        return _outcome(remove_from_index(Path(index), ids=Path(remove).read_text(encoding="utf-8").split()))
    assert compact
    return _outcome(compact_index(Path(index)))


def holds(index: str) -> Result:
    """What an index of Hoptree's holds, once it has been opened and checked."""
    from hoptree.retrieval.index.folder import Index

    manifest = Index(Path(index)).manifest
    return {"passages": manifest.passages, "digest": manifest.digest}


def ask(system: str, index: str, variant: str, warm_up: list[str], questions: list[str], threads: int = 0) -> Result:
    """Open an index and answer: first the warm-up, whose first answer is timed from outside, then the questions."""
    searcher = _SEARCHERS[system](Path(index), variant)
    for question in warm_up[:1]:
        searcher.search(question)
    first = time.monotonic()
    for question in warm_up[1:]:
        searcher.search(question)
    seconds: list[float] = []
    found: list[list[Hit]] = []
    for question in questions:
        began = time.perf_counter()
        hits = searcher.search(question)
        seconds.append(time.perf_counter() - began)
        found.append(hits)
    result: Result = {"first": first, "found": [[hit[:2] for hit in hits] for hits in found]}
    if questions:
        slow = statistics.quantiles(seconds, n=20, method="inclusive")
        result |= {"p50": statistics.median(seconds), "p95": slow[-1]}
    if questions and threads:
        searcher.search_all(warm_up, threads)
        began = time.perf_counter()
        searcher.search_all(questions, threads)
        result["rate"] = len(questions) / (time.perf_counter() - began)
    return result


def _java(name: str) -> Any:
    """A Java class out of Pyserini's jar."""
    return import_module("pyserini.pyclass").autoclass(name)


def _outcome(outcome: Any) -> Result:
    manifest = outcome.manifest
    return {
        "passages": manifest.passages,
        "digest": manifest.digest,
        "resumed": outcome.resumed,
        "unchanged": outcome.unchanged,
    }


def _rows(corpus: Path) -> Iterator[dict[str, str]]:
    with corpus.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


_SEARCHERS: dict[str, Callable[[Path, str], Searcher]] = {
    "hoptree": HoptreeSearcher,
    "bm25s": Bm25sSearcher,
    "pyserini": PyseriniSearcher,
}
ACTIONS: dict[str, Callable[..., Result]] = {"look": look, "build": build, "change": change, "holds": holds, "ask": ask}


def _peak_bytes() -> int:
    """The most memory this process had resident, mapped files included; since it began, not since its parent did."""
    with Path("/proc/self/status").open(encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def main() -> int:
    action, arguments, target = sys.argv[1:]
    result = ACTIONS[action](**json.loads(Path(arguments).read_text(encoding="utf-8")))
    Path(target).write_text(json.dumps(result | {"peak": _peak_bytes()}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
