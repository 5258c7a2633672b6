"""Hoptree's own form of questions, FlashRAG's, and BEIR's."""

from __future__ import annotations

from collections.abc import Iterator

from hoptree.evaluation.datasets.aliases import Aliases
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.fields import Fields, distinct, spaced
from hoptree.evaluation.datasets.gold import gold_facts, hops_by_subject

__all__ = ["beir", "flashrag", "own"]


def own(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """A question with `answers` (or one `answer`) and, as far as known, the other fields under their own names.

    `wanted` is for answers that are lists: for each name a list of it and what else it may be called. A row with
    `"answerable": false` has no answer in the documents.
    """
    question = row.question("question")
    answerable = row.row.get("answerable") is not False
    named = row.texts("supporting_ids", of="names")
    titled = [spaced(title) for title in row.texts("supporting_titles", of="names")]
    ids, titles = distinct(named), distinct(titled)
    triples = [tuple(str(value) for value in triple[:3]) for triple in row.rows("evidence_triples", 3)]
    hop_titles = hops_by_subject(triples, titles)
    id_of = dict(zip(titles, ids, strict=False)) if len(titled) == len(titles) == len(ids) == len(named) else {}
    yield Example(
        id=row.text("id", "_id", "ID", "qid") or question,
        question=question,
        answers=_answers(row) if answerable else (),
        answerable=answerable,
        type=row.text("type"),
        hops=row.whole("hops"),
        dataset=row.text("dataset"),
        supporting_ids=ids,
        supporting_titles=titles,
        supporting_facts=gold_facts(row),
        decomposition=row.texts("decomposition"),
        decomposition_answers=row.texts("decomposition_answers"),
        hop_ids=tuple(tuple(id_of[title] for title in hop) for hop in hop_titles) if id_of else (),
        hop_titles=hop_titles,
        wanted=_wanted(row),
    )


def _wanted(row: Fields) -> tuple[tuple[str, ...], ...]:
    names = row.rows("wanted", 1)
    if not all(isinstance(name, str) and name.strip() for called in names for name in called):
        raise row.wrong(': "wanted" is no list of lists of names')
    return tuple(distinct(name.strip() for name in called) for called in names)


def _answers(row: Fields) -> tuple[str, ...]:
    value = row.get("answers", "answer")
    if isinstance(value, dict):  # ids of entities with their names
        return distinct(row.part("answers" if row.get("answers") is not None else "answer").text(key) for key in value)
    if isinstance(value, str) and value.lstrip()[:1] != "[":
        return distinct([value.strip()])
    return distinct(
        [row.text("answers", "answer")] if isinstance(value, int | float) else row.texts("answers", "answer")
    )


def flashrag(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """FlashRAG: `golden_answers`, and in `metadata` what it kept of the original row."""
    kept = row.part("metadata")
    facts = gold_facts(kept)
    yield Example(
        id=row.text("id") or f"flashrag-{position}",
        question=row.question("question"),
        answers=distinct(row.texts("golden_answers")),
        type=kept.text("type") if isinstance(kept.get("type"), str) else "",
        supporting_titles=distinct(title for title, _ in facts or ()),
        supporting_facts=facts,
    )


def beir(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """BEIR: a query; which passages are relevant to it stands in another file."""
    kept = row.part("metadata")
    answer = kept.get("answer")
    yield Example(
        id=row.text("_id") or f"beir-{position}",
        question=row.question("text"),
        answers=distinct([answer.strip()]) if isinstance(answer, str) else (),
    )
