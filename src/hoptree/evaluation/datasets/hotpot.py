"""HotpotQA, 2WikiMultihopQA and AdvHotpotQA as their authors give them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hoptree.corpus.contexts import context_passages
from hoptree.evaluation.datasets.aliases import Aliases
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.fields import Fields, distinct, spaced
from hoptree.evaluation.datasets.gold import gold_facts, hops_by_subject, passage_name

__all__ = ["advhotpotqa", "hotpotqa", "two_wiki"]


def hotpotqa(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """HotpotQA: `supporting_facts` name sentences of `context`; both also as the objects of lists some copies hold."""
    yield _with_facts(row, position, "hotpotqa", hops=2)


def two_wiki(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """2WikiMultihopQA: as HotpotQA, with `evidences`; other names of the answer lie in a file, by its `answer_id`."""
    triples = [tuple(str(value) for value in triple[:3]) for triple in row.rows("evidences", 3)]
    further = aliases.of(row.text("answer_id"))
    yield _with_facts(row, position, "2wikimultihopqa", further=further, triples=triples)


def advhotpotqa(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """AdvHotpotQA: `paragraphs` with `is_supp`; other accepted answers lie in a file, by the question's id."""
    key = row.text("qas_id", "id") or f"advhotpotqa-{position}"
    gold = [part for part in row.parts("paragraphs") if part.get("is_supp", "is_supporting") is True]
    named = [(spaced(part.text("title")), part.text("context", "text")) for part in gold]
    answers = distinct([row.text("answer")], row.texts("answers"))
    yield Example(
        id=key,
        question=row.question("question"),
        answers=distinct(answers, aliases.of(key) if answers else ()),
        type=row.text("type"),
        hops=2,
        dataset="advhotpotqa",
        supporting_ids=distinct(passage_name(title, text) for title, text in named if text),
        supporting_titles=distinct(title for title, _ in named),
    )


def _with_facts(
    row: Fields,
    position: int,
    dataset: str,
    *,
    hops: int = 0,
    further: Iterable[str] = (),
    triples: Iterable[tuple[str, ...]] = (),
) -> Example:
    facts = gold_facts(row)
    titles = distinct(title for title, _ in facts or ())
    ids = {spaced(title): passage_name(title, text) for title, text in reversed(context_passages(row.row))}
    answers = distinct([row.text("answer")])
    hop_titles = hops_by_subject(triples, titles)
    known = bool(titles) and all(title in ids for title in titles)
    return Example(
        id=row.text("_id", "id") or f"{dataset}-{position}",
        question=row.question("question"),
        answers=distinct(answers, further) if answers else (),
        type=row.text("type"),
        hops=hops or len(titles),
        dataset=dataset,
        supporting_ids=tuple(ids[title] for title in titles) if known else (),
        supporting_titles=titles,
        supporting_facts=facts,
        hop_ids=tuple(tuple(ids[title] for title in hop) for hop in hop_titles) if known else (),
        hop_titles=hop_titles,
    )
