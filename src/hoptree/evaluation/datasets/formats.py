"""The forms of question files, recognised by their first row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hoptree.corpus.records import context_passages
from hoptree.evaluation.datasets.examples import (
    Example,
    gold_facts,
    hops_by_subject,
    page_title,
    page_words,
    passage_name,
    span_text,
)
from hoptree.evaluation.datasets.rows import Fields, distinct, spaced

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^"()]+))\)')
_ESCAPED = re.compile(r"\\(.)")
_KIND = re.compile(r"(\d{1,2})hop\d*(?=_)")
_PARAGRAPH = re.compile(r"(.+)-\d+")


def _example(
    row: Fields,
    position: int,
    dataset: str,
    answers: Iterable[str],
    *,
    ids: Sequence[str] = ("id",),
    question: Sequence[str] = ("question",),
    **known: Any,
) -> Example:
    """Return the example of a row by its id and question fields."""
    key = row.text(*ids) or f"{dataset}-{position}"
    return Example(key, row.question(*question), distinct(answers), dataset=dataset, **known)


def hotpotqa(row: Fields, position: int) -> Iterator[Example]:
    """HotpotQA: `supporting_facts` name sentences of `context`."""
    yield _with_facts(row, position, "hotpotqa", hops=2)


def two_wiki(row: Fields, position: int) -> Iterator[Example]:
    """2WikiMultihopQA: as HotpotQA, with `evidences` and alias files."""
    triples = [tuple(str(value) for value in triple[:3]) for triple in row.rows("evidences", 3)]
    further = row.aliases(row.text("answer_id"))
    yield _with_facts(row, position, "2wikimultihopqa", further=further, triples=triples)


def advhotpotqa(row: Fields, position: int) -> Iterator[Example]:
    """AdvHotpotQA: `paragraphs` marked with `is_supp`, and alias files."""
    gold = [part for part in row.parts("paragraphs") if part.get("is_supp", "is_supporting") is True]
    named = [(spaced(part.text("title")), part.text("context", "text")) for part in gold]
    answers = distinct([row.text("answer")], row.texts("answers"))
    yield _example(
        row,
        position,
        "advhotpotqa",
        (*answers, *(row.aliases(row.text("qas_id", "id")) if answers else ())),
        ids=("qas_id", "id"),
        type=row.text("type"),
        hops=2,
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
    return _example(
        row,
        position,
        dataset,
        (*answers, *further) if answers else (),
        ids=("_id", "id"),
        type=row.text("type"),
        hops=hops or len(titles),
        supporting_ids=tuple(ids[title] for title in titles) if known else (),
        supporting_titles=titles,
        supporting_facts=facts,
        hop_ids=tuple(tuple(ids[title] for title in hop) for hop in hop_titles) if known else (),
        hop_titles=hop_titles,
    )


def musique(row: Fields, position: int) -> Iterator[Example]:
    """MuSiQue: each step of `question_decomposition` names paragraphs."""
    if row.get("answerable") is False:
        raise row.wrong("is a question that its paragraphs do not answer; use the file of answerable ones")
    steps = row.parts("question_decomposition")
    parts = row.parts("paragraphs")
    named: list[tuple[str, str]] = []  # title and id of each paragraph
    for part in parts:
        titled = context_passages({"question": "", "paragraphs": [part.row]})
        title, text = titled[0] if titled else (part.text("title"), "")
        named.append((spaced(title), passage_name(title, text)))
    gold = [name for part, name in zip(parts, named, strict=True) if part.get("is_supporting") is True]
    numbers = [place if part.get("idx") is None else part.whole("idx") for place, part in enumerate(parts)]
    by_number = dict(zip(numbers, named, strict=True))
    wanted = [step.get("paragraph_support_idx") for step in steps]
    hops = [by_number[number] for number in wanted if type(number) is int and number in by_number]
    known = len(hops) == len(steps)
    kind = _KIND.match(row.text("id"))
    yield _example(
        row,
        position,
        "musique",
        (answer, *row.texts("answer_aliases")) if (answer := row.text("answer")) else (),
        type=kind[0] if kind else row.text("type"),
        hops=len(steps) or (int(kind[1]) if kind else 0),
        supporting_ids=distinct(name for _, name in gold),
        supporting_titles=distinct(title for title, _ in gold),
        decomposition=tuple(step.question("question") for step in steps),
        decomposition_answers=tuple(step.text("answer") for step in steps),
        hop_ids=tuple((name,) for _, name in hops) if known else (),
        hop_titles=tuple((title,) for title, _ in hops) if known else (),
    )


def strategyqa(row: Fields, position: int) -> Iterator[Example]:
    """StrategyQA: a boolean `answer`, and the first annotator's evidence."""
    answer = row.get("answer")
    if answer is not None and not isinstance(answer, bool):
        raise row.wrong(': "answer" is neither true nor false')
    steps = row.texts("decomposition")
    hops = next((passages for given in row.items("evidence") if any(passages := _evidence(given))), ())
    ids = distinct(name for hop in hops for name in hop)
    yield _example(
        row,
        position,
        "strategyqa",
        () if answer is None else ("yes" if answer else "no",),
        ids=("qid", "id"),
        type=row.text("type"),
        hops=len(steps),
        supporting_ids=ids,
        supporting_titles=distinct(map(_page, ids)),
        decomposition=steps,
        hop_ids=hops if len(hops) == len(steps) else (),
        hop_titles=tuple(distinct(map(_page, hop)) for hop in hops) if len(hops) == len(steps) else (),
    )


def _evidence(given: object) -> tuple[tuple[str, ...], ...]:
    """Return one annotator's paragraphs, step by step."""
    hops: list[tuple[str, ...]] = []
    for step in given if isinstance(given, list) else ():
        groups = [group for group in step if isinstance(group, list)] if isinstance(step, list) else []
        hops.append(distinct(name for group in groups for name in group if isinstance(name, str)))
    return tuple(hops)


def _page(paragraph: str) -> str:
    match = _PARAGRAPH.fullmatch(paragraph)
    return spaced(match[1] if match else paragraph)


def iirc(row: Fields, position: int) -> Iterator[Example]:
    """IIRC: a page with `questions` whose contexts name linked pages."""
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
    """Hoptree's own form, with `answers` or `answer`, and `wanted` for list answers."""
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
        raise row.wrong(': "wanted" is not a list of lists of names')
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
    """Return a row's lists of passage names, one for each step."""
    steps = row.rows(field, 0)
    if not all(isinstance(name, str) for step in steps for name in step):
        raise row.wrong(f': "{field}" is not a list of lists of names')
    return tuple(steps)


def _answers(row: Fields) -> tuple[str, ...]:
    value = row.get("answers", "answer")
    if isinstance(value, dict):  # names by entity id
        return distinct(row.part("answers" if row.get("answers") is not None else "answer").text(key) for key in value)
    if isinstance(value, str) and value.lstrip()[:1] != "[":
        return distinct([value.strip()])
    names = ("answers", "answer")
    return distinct([row.text(*names)] if isinstance(value, int | float) else row.texts(*names))


def flashrag(row: Fields, position: int) -> Iterator[Example]:
    """FlashRAG: `golden_answers`, and fields of the original row in `metadata`."""
    kept = row.part("metadata")
    facts = gold_facts(kept)
    kind = kept.text("type") if isinstance(kept.get("type"), str) else ""
    titles = distinct(title for title, _ in facts or ())
    example = _example(row, position, "flashrag", row.texts("golden_answers"), type=kind, supporting_titles=titles)
    yield replace(example, dataset="", supporting_facts=facts)


def beir(row: Fields, position: int) -> Iterator[Example]:
    """BEIR: a query; its relevant passages are in another file."""
    answer = row.part("metadata").get("answer")
    answers = [answer.strip()] if isinstance(answer, str) else []
    yield replace(_example(row, position, "beir", answers, ids=("_id",), question=("text",)), dataset="")


def nq(row: Fields, position: int) -> Iterator[Example]:
    """Natural Questions, open form: a question and its answers."""
    yield _example(row, position, "nq", row.texts("answer"), ids=("id", "_id"), hops=1)


def nq_annotated(row: Fields, position: int) -> Iterator[Example]:
    """Natural Questions with pages, original or simplified; answers may be missing."""
    words, title, given = page_words(row), page_title(row), row.parts("annotations")
    spans = [span for annotation in given for span in annotation.parts("short_answers")]
    verdicts = [annotation.text("yes_no_answer").lower() for annotation in given]
    answers = [*(span_text(words, span) for span in spans), *(text for text in verdicts if text in ("yes", "no"))]
    gold = next(filter(None, (span_text(words, annotation.part("long_answer")) for annotation in given)), "")
    ids, titles = ((passage_name(title, gold),), distinct([title])) if gold else ((), ())
    example = _example(row, position, "nq", answers, ids=("example_id",), question=("question_text",), hops=1)
    yield replace(example, supporting_ids=ids, supporting_titles=titles)


def triviaqa(row: Fields, position: int) -> Iterator[Example]:
    """TriviaQA: the answer's `Value`, then its aliases."""
    answer = row.part("Answer")
    answers = (answer.text("Value"), *answer.texts("Aliases"), *answer.texts("NormalizedAliases"))
    yield _example(row, position, "triviaqa", answers, ids=("QuestionId",), question=("Question",), hops=1)


def popqa(row: Fields, position: int) -> Iterator[Example]:
    """PopQA: `possible_answers` is a JSON list within a text."""
    accepted, main = row.texts("possible_answers"), row.text("obj")
    answers = (main, *accepted) if main in accepted else accepted
    titles = distinct([spaced(row.text("s_wiki_title"))])
    yield _example(row, position, "popqa", answers, type=row.text("prop"), hops=1, supporting_titles=titles)


def webquestions(row: Fields, position: int) -> Iterator[Example]:
    """WebQuestions: answers in `targetValue` as a LISP list."""
    target = row.text("targetValue")
    answers = [_ESCAPED.sub(r"\1", quoted) or plain for quoted, plain in _DESCRIPTION.findall(target)]
    if target and "".join(_DESCRIPTION.sub("", target).split()) != "(list)":
        raise row.wrong(': "targetValue" is not a list of descriptions')
    yield _example(row, position, "webquestions", (text.strip() for text in answers), question=("utterance",))


def bamboogle(row: Fields, position: int) -> Iterator[Example]:
    """Bamboogle: columns Question and Answer."""
    yield _example(row, position, "bamboogle", [row.text("Answer")], ids=("id", "ID"), question=("Question",), hops=2)


def webqsp(row: Fields, position: int) -> Iterator[Example]:
    """WebQSP: the answers of all good and complete `Parses`."""
    parses: list[Fields] = []
    answers: list[str] = []
    for parse in row.parts("Parses"):
        status = parse.part("AnnotationStatus")
        if (status.text("QuestionQuality"), status.text("ParseQuality")) in (("Good", "Complete"), ("", "")):
            parses.append(parse)
            for answer in parse.parts("Answers"):
                argument = answer.text("AnswerArgument")
                answers += (answer.text("EntityName") or argument, *row.aliases(argument))
    hops = len(parses[0].texts("InferentialChain")) if parses else 0
    asked = ("RawQuestion", "ProcessedQuestion")
    yield _example(row, position, "webqsp", answers, ids=("QuestionId",), question=asked, hops=hops)


def qald10(row: Fields, position: int) -> Iterator[Example]:
    """QALD-10: the English question and its values; entities without aliases are ids."""
    asked = [part.text("string") for part in row.parts("question") if part.text("language") == "en"]
    if not any(asked):
        raise row.wrong("holds no question in English")
    answers = [text for part in row.parts("answers") for text in _bindings(part)]
    key = row.text("id") or f"qald10-{position}"
    yield Example(key, next(filter(None, asked)), distinct(answers), dataset="qald10")


def _bindings(part: Fields) -> Iterator[str]:
    value = part.get("boolean")
    if isinstance(value, bool):
        yield "yes" if value else "no"
    for binding in part.part("results").parts("bindings"):
        for name in binding.row:
            bound = binding.part(name)
            text = bound.text("value")
            if bound.text("type") == "uri":
                text = text.rstrip("/").rpartition("/")[2]
                yield from part.aliases(text) or (text,)
            else:
                yield text


def simplequestions(row: Fields, position: int) -> Iterator[Example]:
    """SimpleQuestions on Freebase or Wikidata; answers without aliases are ids."""
    answer = _short(row.text("object"))
    answers, relation = row.aliases(answer) or (answer,), _short(row.text("relation"))
    yield _example(row, position, "simplequestions", answers, type=relation, hops=1)


def _short(name: str) -> str:
    """Return a Freebase id without its address."""
    host, slash, path = name.removeprefix("http://").removeprefix("https://").partition("/")
    return path.replace("/", ".") if slash and "freebase" in host else name


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """A form of rows: how to read them, and which rows it `fits`."""

    read: Callable[[Fields, int], Iterator[Example]]
    fits: Callable[[Row], bool]
    may_lack_answers: bool = False  # some questions of the data set have no answer
    aliased: bool = False  # a file of aliases adds to the answers


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
    "strategyqa": Form(strategyqa, lambda row: {"question", "qid"} <= row.keys() and ("term" in row or "facts" in row)),
    "simplequestions": Form(simplequestions, _has("subject", "relation", "object", "question"), aliased=True),
    "nq": Form(nq, _is_nq),
    "beir": Form(beir, lambda row: "_id" in row and "text" in row and "question" not in row),
}
"""By name; the first that fits a row is taken."""


def form_of(row: object) -> str:
    """Return the name of a row's form; `own` if no other fits."""
    return next((name for name, form in FORMS.items() if isinstance(row, dict) and form.fits(row)), "own")
