"""The formats of question files, recognised by their first row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hoptree.corpus.records import context_passages
from hoptree.evaluation.datasets.examples import Example, gold_facts, hops_by_subject, passage_name
from hoptree.evaluation.datasets.rows import Fields, distinct, spaced
from hoptree.evaluation.datasets.single_hop import (
    bamboogle,
    nq,
    nq_annotated,
    popqa,
    qald10,
    simplequestions,
    triviaqa,
    webqsp,
    webquestions,
)


def hotpotqa(row: Fields, position: int) -> Iterator[Example]:
    """HotpotQA: `supporting_facts` name sentences of `context`; both may also be objects of lists."""
    yield _with_facts(row, position, "hotpotqa", hops=2)


def two_wiki(row: Fields, position: int) -> Iterator[Example]:
    """2WikiMultihopQA: as HotpotQA, with `evidences`; other names of the answer lie in a file, by its `answer_id`."""
    triples = [tuple(str(value) for value in triple[:3]) for triple in row.rows("evidences", 3)]
    further = row.aliases(row.text("answer_id"))
    yield _with_facts(row, position, "2wikimultihopqa", further=further, triples=triples)


def advhotpotqa(row: Fields, position: int) -> Iterator[Example]:
    """AdvHotpotQA: `paragraphs` with `is_supp`; other accepted answers lie in a file, by the question's id."""
    key = row.text("qas_id", "id") or f"advhotpotqa-{position}"
    gold = [part for part in row.parts("paragraphs") if part.get("is_supp", "is_supporting") is True]
    named = [(spaced(part.text("title")), part.text("context", "text")) for part in gold]
    answers = distinct([row.text("answer")], row.texts("answers"))
    yield Example(
        id=key,
        question=row.question("question"),
        answers=distinct(answers, row.aliases(key) if answers else ()),
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


_KIND = re.compile(r"(\d{1,2})hop\d*(?=_)")
_PARAGRAPH = re.compile(r"(.+)-\d+")


def musique(row: Fields, position: int) -> Iterator[Example]:
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
    """Return title and id of a paragraph."""
    named = context_passages({"question": "", "paragraphs": [part.row]})
    title, text = named[0] if named else (part.text("title"), "")
    return spaced(title), passage_name(title, text)


def strategyqa(row: Fields, position: int) -> Iterator[Example]:
    """StrategyQA: `answer` is true or false; the evidence is that of the first annotator who gave any.

    Paragraphs are named by their page and a number ("Depression (mood)-12"), as in the file of paragraphs.
    """
    answer = row.get("answer")
    if answer is not None and not isinstance(answer, bool):
        raise row.wrong(': "answer" is neither true nor false')
    steps = row.texts("decomposition")
    hops = next((passages for given in row.items("evidence") if any(passages := _evidence(given))), ())
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
    """Return one annotator's paragraphs, step by step; "operation" and "no_evidence" name none."""
    hops: list[tuple[str, ...]] = []
    for step in given if isinstance(given, list) else ():
        groups = [group for group in step if isinstance(group, list)] if isinstance(step, list) else []
        hops.append(distinct(name for group in groups for name in group if isinstance(name, str)))
    return tuple(hops)


def _page(paragraph: str) -> str:
    match = _PARAGRAPH.fullmatch(paragraph)
    return spaced(match[1] if match else paragraph)


def iirc(row: Fields, position: int) -> Iterator[Example]:
    """IIRC: a page with `questions`; the context of each names the page itself ("main") or pages it links to.

    A question that nothing answers has no answers.
    """
    page = spaced(row.text("title"))
    for place, question in enumerate(row.parts("questions")):
        given = question.part("answer")
        answer = f"{given.text('answer_value')} {given.text('answer_unit')}".strip()
        if given.text("type") == "span":
            answer = ", ".join(span.text("text") for span in given.parts("answer_spans"))
        pages = [part.text("passage") for part in question.parts("context")]
        yield Example(
            id=question.text("qid") or f"iirc-{position}-{place}",
            question=question.question("question"),
            answers=distinct([answer]),
            type=given.text("type"),
            dataset="iirc",
            supporting_titles=distinct(page if name == "main" else spaced(name) for name in pages),
        )


def own(row: Fields, position: int) -> Iterator[Example]:
    """A question with `answers` (or one `answer`) and, as far as known, the other fields under their own names.

    `wanted` is for answers that are lists: for each name a list of it and what else it may be called. A row with
    `"answerable": false` has no answer in the documents.
    """
    question = row.question("question")
    answerable = row.row.get("answerable") is not False
    all_ids = row.texts("supporting_ids", of="names")
    all_titles = [spaced(title) for title in row.texts("supporting_titles", of="names")]
    ids, titles = distinct(all_ids), distinct(all_titles)
    triples = [tuple(str(value) for value in triple[:3]) for triple in row.rows("evidence_triples", 3)]
    hop_titles = hops_by_subject(triples, titles)
    paired = len(all_titles) == len(titles) == len(ids) == len(all_ids)
    id_of = dict(zip(titles, ids, strict=True)) if paired else {}
    hop_ids = tuple(tuple(id_of[title] for title in hop) for hop in hop_titles) if id_of else ()
    wanted = row.rows("wanted", 1)
    if not all(isinstance(name, str) and name.strip() for names in wanted for name in names):
        raise row.wrong(': "wanted" is no list of lists of names')
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
        hop_ids=_named(row, "hop_ids") or hop_ids,
        hop_titles=_named(row, "hop_titles") or hop_titles,
        wanted=tuple(distinct(name.strip() for name in names) for names in wanted),
    )


def _named(row: Fields, field: str) -> tuple[tuple[str, ...], ...]:
    """Return the passages of each step as the row names them."""
    steps = row.rows(field, 0)
    if not all(isinstance(name, str) for step in steps for name in step):
        raise row.wrong(f': "{field}" is no list of lists of names')
    return tuple(steps)


def _answers(row: Fields) -> tuple[str, ...]:
    value = row.get("answers", "answer")
    if isinstance(value, dict):  # ids of entities with their names
        return distinct(row.part("answers" if row.get("answers") is not None else "answer").text(key) for key in value)
    if isinstance(value, str) and value.lstrip()[:1] != "[":
        return distinct([value.strip()])
    return distinct(
        [row.text("answers", "answer")] if isinstance(value, int | float) else row.texts("answers", "answer")
    )


def flashrag(row: Fields, position: int) -> Iterator[Example]:
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


def beir(row: Fields, position: int) -> Iterator[Example]:
    """BEIR: a query; which passages are relevant to it stands in another file."""
    kept = row.part("metadata")
    answer = kept.get("answer")
    yield Example(
        id=row.text("_id") or f"beir-{position}",
        question=row.question("text"),
        answers=distinct([answer.strip()]) if isinstance(answer, str) else (),
    )


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How rows are read (`read` gets the row and its number), and which rows it `fits`.

    `may_lack_answers`: the data set has questions without an answer beside others. `aliased`: a file of aliases adds
    to the answers.
    """

    read: Callable[[Fields, int], Iterator[Example]]
    fits: Callable[[Row], bool]
    may_lack_answers: bool = False
    aliased: bool = False


def _has(*names: str) -> Callable[[Row], bool]:
    return lambda row: all(name in row for name in names)


def _is_nq(row: Row) -> bool:
    answer = row.get("answer")
    return "question" in row and (isinstance(answer, list) or (isinstance(answer, str) and answer[:1] == "["))


FORMS: dict[str, Form] = {
    "qald10": Form(qald10, lambda row: isinstance(row.get("question"), list), may_lack_answers=True, aliased=True),
    "own": Form(own, _has("question", "answers")),
    "flashrag": Form(flashrag, _has("question", "golden_answers")),
    "webqsp": Form(webqsp, _has("RawQuestion"), may_lack_answers=True, aliased=True),
    "nq_annotated": Form(nq_annotated, _has("question_text", "annotations"), may_lack_answers=True),
    "triviaqa": Form(triviaqa, lambda row: "Question" in row and isinstance(row.get("Answer"), dict)),
    "bamboogle": Form(bamboogle, _has("Question", "Answer")),
    "webquestions": Form(webquestions, _has("utterance", "targetValue")),
    "iirc": Form(iirc, _has("questions", "text"), may_lack_answers=True),
    "popqa": Form(popqa, _has("question", "possible_answers")),
    "advhotpotqa": Form(advhotpotqa, _has("qas_id", "question"), aliased=True),
    "musique": Form(musique, _has("question", "paragraphs")),
    "2wikimultihopqa": Form(two_wiki, _has("question", "evidences"), aliased=True),
    "hotpotqa": Form(
        hotpotqa, lambda row: "question" in row and "context" in row and ("_id" in row or "supporting_facts" in row)
    ),
    "strategyqa": Form(
        strategyqa, lambda row: "question" in row and "qid" in row and ("term" in row or "facts" in row)
    ),
    "simplequestions": Form(simplequestions, _has("subject", "relation", "object", "question"), aliased=True),
    "nq": Form(nq, _is_nq),
    "beir": Form(beir, lambda row: "_id" in row and "text" in row and "question" not in row),
}
"""By name, the more telling ones first."""


def form_of(row: object) -> str:
    """Return the name of a row's format; `own` if it is of no other."""
    return next((name for name, form in FORMS.items() if isinstance(row, dict) and form.fits(row)), "own")
