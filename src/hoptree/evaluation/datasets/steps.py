"""MuSiQue, StrategyQA and IIRC as their authors give them out: questions with the steps or passages behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hoptree.corpus.contexts import context_passages
from hoptree.evaluation.datasets.aliases import Aliases
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.fields import Fields, distinct, spaced
from hoptree.evaluation.datasets.gold import passage_name

__all__ = ["iirc", "musique", "strategyqa"]

_KIND = re.compile(r"(\d{1,2})hop\d*(?=_)")
_PARAGRAPH = re.compile(r"(.+)-\d+")


def musique(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """MuSiQue: each step of `question_decomposition` says which of the `paragraphs` it rests on."""
    if row.get("answerable") is False:
        raise row.wrong("is a question that its paragraphs do not answer; use the file of answerable ones")
    key = row.text("id") or f"musique-{position}"
    steps = row.parts("question_decomposition")
    parts = row.parts("paragraphs")
    named = [_paragraph(part) for part in parts]
    gold = [name for part, name in zip(parts, named, strict=True) if part.get("is_supporting") is True]
    numbers = [place if part.get("idx") is None else part.whole("idx") for place, part in enumerate(parts)]
    by_number = dict(zip(numbers, named, strict=True))
    wanted = [step.get("paragraph_support_idx") for step in steps]
    hops = [by_number[number] for number in wanted if type(number) is int and number in by_number]
    known = len(hops) == len(steps)
    kind = _KIND.match(key)
    yield Example(
        id=key,
        question=row.question("question"),
        answers=distinct([answer], row.texts("answer_aliases")) if (answer := row.text("answer")) else (),
        type=kind[0] if kind else row.text("type"),
        hops=len(steps) or (int(kind[1]) if kind else 0),
        dataset="musique",
        supporting_ids=distinct(name for _, name in gold),
        supporting_titles=distinct(title for title, _ in gold),
        decomposition=tuple(step.question("question") for step in steps),
        decomposition_answers=tuple(step.text("answer") for step in steps),
        hop_ids=tuple((name,) for _, name in hops) if known else (),
        hop_titles=tuple((title,) for title, _ in hops) if known else (),
    )


def _paragraph(part: Fields) -> tuple[str, str]:
    """Title and id of a paragraph."""
    named = context_passages({"question": "", "paragraphs": [part.row]})
    title, text = named[0] if named else (part.text("title"), "")
    return spaced(title), passage_name(title, text)


def strategyqa(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """StrategyQA: `answer` is true or false; the evidence is that of the first annotator who gave any.

    Paragraphs are named by their page and a number ("Depression (mood)-12"), as in the file of paragraphs.
    """
    answer = row.get("answer")
    if answer is not None and not isinstance(answer, bool):
        raise row.wrong(': "answer" is neither true nor false')
    steps = row.texts("decomposition")
    hops = next((found for given in row.items("evidence") if any(found := _evidence(given))), ())
    ids = distinct(name for hop in hops for name in hop)
    yield Example(
        id=row.text("qid", "id") or f"strategyqa-{position}",
        question=row.question("question"),
        answers=() if answer is None else ("yes" if answer else "no",),
        type=row.text("type"),
        hops=len(steps),
        dataset="strategyqa",
        supporting_ids=ids,
        supporting_titles=distinct(map(_page, ids)),
        decomposition=steps,
        hop_ids=hops if len(hops) == len(steps) else (),
        hop_titles=tuple(distinct(map(_page, hop)) for hop in hops) if len(hops) == len(steps) else (),
    )


def _evidence(given: object) -> tuple[tuple[str, ...], ...]:
    """One annotator's paragraphs, step by step; words such as "operation" and "no_evidence" name none."""
    hops: list[tuple[str, ...]] = []
    for step in given if isinstance(given, list) else ():
        groups = [group for group in step if isinstance(group, list)] if isinstance(step, list) else []
        hops.append(distinct(name for group in groups for name in group if isinstance(name, str)))
    return tuple(hops)


def _page(paragraph: str) -> str:
    match = _PARAGRAPH.fullmatch(paragraph)
    return spaced(match[1] if match else paragraph)


def iirc(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """IIRC: a page with `questions`; the context of each names the page itself ("main") or pages it links to.

    A question that nothing answers has no answers.
    """
    page = spaced(row.text("title"))
    for place, asked in enumerate(row.parts("questions")):
        given = asked.part("answer")
        pages = [part.text("passage") for part in asked.parts("context")]
        yield Example(
            id=asked.text("qid") or f"iirc-{position}-{place}",
            question=asked.question("question"),
            answers=_iirc_answers(given),
            type=given.text("type"),
            dataset="iirc",
            supporting_titles=distinct(page if name == "main" else spaced(name) for name in pages),
        )


def _iirc_answers(given: Fields) -> tuple[str, ...]:
    if given.text("type") == "span":
        return distinct([", ".join(span.text("text") for span in given.parts("answer_spans"))])
    return distinct([f"{given.text('answer_value')} {given.text('answer_unit')}".strip()])
