"""Recall@5 on two-hop questions over the manuals of Git, SQLite and PostgreSQL: BM25, links, ranker and dense.

Debian and its kin install the manuals: apt-get install git-doc sqlite3-doc postgresql-doc-15. Others give the folders
of the HTML files: --git, --sqlite, --postgresql. Only HTML is indexed, since some packages hold the sources as well.

Each row of documentation.jsonl names two gold passages, the one that leads on and the one with the answer, by their
file and a few words that stand in them. The script checks that they do, and the answer. A manual of another version
may lack some: those questions are named and left out. Even ids are for development; odd ones are the last test.

`both@5` counts questions with both gold passages among the first five. `--quick` leaves dense retrieval out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Passage
from hoptree.retrieval.encoder import open_encoder
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import build_index, encode_index
from hoptree.retrieval.ranker import installed_ranker
from hoptree.retrieval.retriever import open_retriever

QUESTIONS = Path(__file__).with_suffix(".jsonl")
PACKAGES = {
    "git": ("git-doc", "/usr/share/doc/git-doc", "git-gc.html"),
    "sqlite": ("sqlite3-doc", "/usr/share/doc/sqlite3", "lang_vacuum.html"),
    "postgresql": ("postgresql-doc-15", "/usr/share/doc/postgresql-doc-*/html", "sql-vacuum.html"),
}
"""The package of each manual, where it puts the pages (the last match counts), and one of them."""
_K = 5


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer; gold passages are pairs of a file and words that stand in the passage."""

    id: str
    text: str
    answer: str
    gold: tuple[tuple[str, str], ...]

    @property
    def manual(self) -> str:
        return self.id.rpartition("-")[0]

    @property
    def half(self) -> str:
        return "last" if int(self.id[-1]) % 2 else "development"

    def found(self, passages: Iterable[Passage]) -> list[bool]:
        """Tell for each gold passage whether it is among these."""
        held = [(passage.document, _spaced(passage.text)) for passage in passages]
        return [any(name == file and _spaced(words) in text for name, text in held) for file, words in self.gold]

    def answered(self, passages: Iterable[Passage]) -> bool:
        """Tell whether the answer stands in a passage with the words of the second gold passage."""
        file, words = self.gold[-1]
        texts = (_spaced(passage.text) for passage in passages if passage.document == file)
        return any(_spaced(words) in text and _spaced(self.answer) in text for text in texts)


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())


def read_questions(path: Path = QUESTIONS) -> list[Question]:
    """Read the questions, one a line."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Question(row["id"], row["question"], row["answer"], tuple((file, words) for file, words in row["gold"]))
        for row in rows
    ]


def usable(questions: Sequence[Question], passages: Sequence[Passage]) -> tuple[list[Question], list[str]]:
    """Return the questions whose gold passages and answers are there, and the ids of the others."""
    good = [each for each in questions if all(each.found(passages)) and each.answered(passages)]
    return good, [each.id for each in questions if each not in good]


def _place(manual: str, given: Path | None) -> Path | None:
    _, pattern, page = PACKAGES[manual]
    places = [given] if given else sorted(Path("/").glob(pattern.lstrip("/")))
    return next((place for place in reversed(places) if (place / page).is_file()), None)


def _pages_only(source: Path, target: Path) -> Path:
    """Copy the HTML files of a folder."""
    for page in source.rglob("*.html"):
        if page.is_file():
            copy = target / page.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, copy)
    return target


async def _search(folder: Path, kind: str, questions: Sequence[Question]) -> list[list[bool]]:
    retriever = open_retriever(folder, kind)
    try:
        return [each.found(await retriever.search(each.text, k=_K)) for each in questions]
    finally:
        await retriever.aclose()


def _opens(encoder: str) -> bool:
    try:
        asyncio.run(open_encoder(encoder).aclose())
    except HoptreeError as error:
        print(f"without dense retrieval: {error}", file=sys.stderr)
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for manual, (package, pattern, _) in PACKAGES.items():
        parser.add_argument(f"--{manual}", type=Path, help=f"folder of the pages; else {pattern} of {package}")
    parser.add_argument("--half", choices=("development", "last", "all"), default="development")
    parser.add_argument("--encoder", default="minilm", help="for dense retrieval (default: minilm)")
    parser.add_argument("--show", action="store_true", help="print what each retriever found of each question")
    parser.add_argument("--quick", action="store_true", help="no dense retrieval")
    chosen = parser.parse_args()
    places = {manual: _place(manual, getattr(chosen, manual)) for manual in PACKAGES}
    if missing := [manual for manual, place in places.items() if place is None]:
        packages = " ".join(PACKAGES[manual][0] for manual in missing)
        folders = " ".join(f"--{manual} FOLDER" for manual in missing)
        parser.error(f"no pages of {', '.join(missing)}; install them (apt-get install {packages}) or give {folders}")
    kinds = ["bm25", "linked"] + ["ranked"] * (installed_ranker() is not None)
    kinds += ["dense"] * (not chosen.quick and _opens(chosen.encoder))
    questions = [each for each in read_questions() if chosen.half in (each.half, "all")]
    results: dict[str, dict[str, list[list[bool]]]] = {}
    by_half: dict[str, dict[str, list[list[bool]]]] = {}
    for manual, place in places.items():
        assert place is not None
        with tempfile.TemporaryDirectory() as scratch:
            index = Path(scratch, "index")
            build_index(_pages_only(place, Path(scratch, "pages")), index)
            if "dense" in kinds:
                encode_index(index, chosen.encoder)
            passages = [passage for _, _, passage in Index(index).texts.scan()]
            asked, lost = usable([each for each in questions if each.manual == manual], passages)
            if lost:
                print(f"not in this version of the manual, left out: {', '.join(lost)}", file=sys.stderr)
            results[manual] = {kind: asyncio.run(_search(index, kind, asked)) for kind in kinds}
            for number, each in enumerate(asked):
                found = {kind: rows[number] for kind, rows in results[manual].items()}
                for kind, row in found.items():
                    by_half.setdefault(each.half, {}).setdefault(kind, []).append(row)
                if chosen.show:
                    marks = "  ".join(f"{kind} {''.join('-+'[hit] for hit in row)}" for kind, row in found.items())
                    print(f"{each.id:14} {marks}  {each.text}", file=sys.stderr)
    together = {kind: [row for part in results.values() for row in part[kind]] for kind in kinds}
    results |= {**(by_half if len(by_half) > 1 else {}), "together": together}
    print(f"half: {chosen.half}".ljust(24) + "".join(f"{kind:>18}" for kind in kinds))
    print(f"{'manual':14} {'questions':9}" + f"{'recall@5':>10}{'both@5':>8}" * len(kinds))
    for manual, by_kind in results.items():
        cells = "".join(f"{_recall(rows):10.3f}{_both(rows):8.3f}" for rows in by_kind.values())
        print(f"{manual:14} {len(by_kind['bm25']):9}{cells}")
    return 0


def _recall(rows: Sequence[Sequence[bool]]) -> float:
    return fmean(fmean(row) for row in rows) if rows else 0.0


def _both(rows: Sequence[Sequence[bool]]) -> float:
    return fmean(all(row) for row in rows) if rows else 0.0


if __name__ == "__main__":
    sys.exit(main())
