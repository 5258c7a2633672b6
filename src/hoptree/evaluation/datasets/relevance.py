"""BEIR's folders: queries in one file, which passages are relevant to them in another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.fields import Fields
from hoptree.evaluation.datasets.rows import read_question_rows

_QUERIES = ("queries.jsonl", "queries.jsonl.gz")
_SPLITS = ("test", "dev", "train")
_SCORE = re.compile(r"-?\d{1,9}")
_JUDGED = ("query-id", "corpus-id", "score")


@dataclass(frozen=True, slots=True)
class BeirFiles:
    """A folder in BEIR's form."""

    folder: Path
    queries: Path
    judgements: Path


def find_beir(path: Path) -> BeirFiles | None:
    """The files that belong together, if `path` is such a folder, its queries or one of its tables in qrels.

    A folder stands for its test split, else for dev or train.
    """
    if path.is_dir():
        folder, tables = path, _tables(path)
    elif path.name in _QUERIES:
        folder, tables = path.parent, _tables(path.parent)
    elif path.is_file() and path.resolve().parent.name == "qrels":
        folder, tables = path.resolve().parent.parent, [path]
    else:
        return None
    queries = [folder / name for name in _QUERIES if (folder / name).is_file()]
    if queries and tables:
        return BeirFiles(folder, queries[0], tables[0])
    if not path.is_dir():
        return None
    raise InputError(
        f"{path} is a folder without BEIR's queries.jsonl and qrels.",
        "Give a file of questions, or a folder with them.",
    )


def _tables(folder: Path) -> list[Path]:
    named = [folder / "qrels" / f"{split}.tsv{packed}" for split in _SPLITS for packed in ("", ".gz")]
    return [table for table in named if table.is_file()]


def with_relevant(examples: Sequence[Example], files: BeirFiles) -> Iterator[Example]:
    """The examples that were judged, with the passages relevant to them; others belong to another split."""
    relevant: dict[str, dict[str, None]] = {}
    places: dict[str, str] = {}
    for line, row in read_question_rows(files.judgements):
        where = f"Line {line} of {files.judgements.name}"
        fields = Fields(row, where, "beir")
        query, passage, score = (fields.text(name) for name in _JUDGED)
        if not query or not passage or not _SCORE.fullmatch(score):
            raise fields.wrong("is no judgement with query-id, corpus-id and a whole score")
        places.setdefault(query, where)
        found = relevant.setdefault(query, {})
        if int(score) > 0:
            found[passage] = None
    known = {example.id for example in examples}
    if unknown := [query for query in relevant if query not in known]:
        raise InputError(
            f"{places[unknown[0]]} judges the query '{unknown[0]}', which is not in {files.queries.name}.",
            "Give files that belong together.",
        )
    for example in examples:
        if example.id in relevant:
            yield replace(example, supporting_ids=tuple(relevant[example.id]))
