"""What names the gold behind an answer: sentences, passages, and which of them belongs to which step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hoptree.corpus.digests import digest_of, name_for
from hoptree.corpus.document import Document
from hoptree.evaluation.datasets.fields import Fields, spaced

__all__ = ["gold_facts", "hops_by_subject", "passage_name"]


def gold_facts(row: Fields) -> tuple[tuple[str, int], ...] | None:
    """The title and sentence number of each supporting fact; None if the row has none."""
    value = row.get("supporting_facts")
    pairs: list[tuple[Any, ...]]
    if isinstance(value, dict):
        inside = row.part("supporting_facts")
        titles, numbers = inside.items("title"), inside.items("sent_id")
        if len(titles) != len(numbers):
            raise row.wrong(': "supporting_facts" has not as many titles as sentences')
        pairs = list(zip(titles, numbers, strict=True))
    else:
        pairs = row.rows("supporting_facts", 2)
    if not all(isinstance(pair[0], str) and type(pair[1]) is int for pair in pairs):
        raise row.wrong(': "supporting_facts" is no list of titles with the numbers of sentences')
    return tuple(dict.fromkeys((spaced(pair[0]), pair[1]) for pair in pairs)) or None


def passage_name(title: str, text: str) -> str:
    """The id that an index made from the same file gives to a passage that comes with a question."""
    return name_for(title, digest_of(Document("", title, text, whole=True)))


def hops_by_subject(triples: Iterable[tuple[str, ...]], titles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The gold title of each fact's subject, once each in the order of the facts; several facts of a page are one step.

    Nothing unless every fact has just one such title and no title is left over.
    """
    by_name: dict[str, list[str]] = {}
    for title in titles:
        for name in {_folded(title), _folded(title.partition(" (")[0])}:
            by_name.setdefault(name, []).append(title)
    hops = tuple(tuple(by_name.get(_folded(triple[0]), ())) for triple in triples)
    clear = all(len(hop) == 1 for hop in hops) and {hop[0] for hop in hops} == set(titles)
    return tuple(dict.fromkeys(hops)) if clear else ()


def _folded(name: str) -> str:
    return spaced(name).casefold()
