"""The passages for training hop's readings, and their answer sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hoptree.core.errors import InputError
from hoptree.core.values import Passage
from hoptree.engine.prompts import show_passages
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.metrics import normalise
from hoptree.graph.relation_linking import FUNCTION_WORDS
from hoptree.retrieval.retriever import is_remote
from hoptree.text.names import sentence_spans
from hoptree.text.parse import question_key
from hoptree.training.labelled_passages import PassageFinder, drawn, ids_of_step, says
from hoptree.training.plans.gold_trees import GoldStep
from hoptree.training.plans.sub_questions import as_question, is_named

WIDE = 3  # factor of passages to search if some will be removed
_REFERENCE_PAGES = 2
_SHARED_PASSAGES = 1  # passages that hop shows beside those of a part
_PAGE_PASSAGES = 5  # passages of a page among which the gold one is looked for
_MAX_NAME_WORDS = 3  # a full stop at the end of a longer answer ends a sentence, not an abbreviation
_MAX_CODE_CHARS = 3
_FEW = 3
_MAX_SENTENCE_WORDS = 60  # longer ones do not fit into a reply
MIN_SENTENCE_WORDS = 4
_MIN_LEFT_WORDS = 12  # least words of a passage after its answer sentences were removed
ADDITION = re.compile(r"\s*\([^()]*\)\s*$")
_WORD = re.compile(r"\S+")
_EDGE = " \t,;:.!?()[]\"“”'‘’"
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a shown passage, and the answer in its spelling."""

    sentence: str
    answer: str
    passage: Passage


class HopPassages(PassageFinder):
    """Searches a corpus as hop does."""

    def __init__(self, corpus: str, retriever: str, *, rerank: str, k: int) -> None:
        if is_remote(corpus):
            raise InputError(f"{corpus} does not hold gold passages by their ids.", "Give --corpus an index folder.")
        super().__init__(corpus, retriever, rerank=rerank, k=k)

    async def gold_of_step(self, example: Example, step: GoldStep) -> list[Passage]:
        """Return the gold passages that contain a step's answer."""
        if example.supporting_ids:
            return [passage for passage in self.gold(ids_of_step(example, step)) if says(passage, step.answer)]
        titles = [title for title in example.supporting_titles if is_named(ADDITION.sub("", title), step.asked)]
        of_steps = bool(example.decomposition) and len(example.supporting_titles) == len(example.decomposition)
        if of_steps:
            titles = [example.supporting_titles[step.place]]
        pages = [await self.search(step.asked, k=_PAGE_PASSAGES, title=title) for title in titles]
        telling = [passage for page in pages for passage in page if says(passage, step.answer)]
        return telling if of_steps or len(telling) == 1 else []

    async def gather(
        self, asked: str, references: Sequence[GoldStep], main: Sequence[Passage], *, wide: bool = False
    ) -> tuple[Passage, ...]:
        """Return the passages that hop reads for a part: pages, hits and a main one."""
        pages: list[Passage] = []
        for step in references[:_REFERENCE_PAGES]:
            pages += await self.search(f"{asked} {step.answer}", k=1, title=step.answer)
        searched = await self.search(asked, k=WIDE * self.k if wide else self.k)
        named = [hit for hit in main if f" {question_key(hit.title)} " in f" {question_key(asked)} "]
        return tuple({hit.id: hit for hit in (*pages, *searched, *named[:_SHARED_PASSAGES])}.values())


def with_gold(shown: Sequence[Passage], gold: Sequence[Passage], key: str) -> tuple[Passage, ...]:
    """Insert missing gold passages at positions derived from `key`."""
    wanted = {passage.id for passage in gold}
    missing = [passage for passage in gold if passage.id not in {hit.id for hit in shown}]
    kept = list(shown)
    for place, passage in enumerate(missing):
        others = [number for number, hit in enumerate(kept) if hit.id not in wanted]
        if others:
            del kept[others[-1]]
        kept.insert(drawn(f"{key}/{place}") % (len(kept) + 1), passage)
    return tuple(kept)


def only_few(shown: Sequence[Passage], needed: Passage | None = None) -> tuple[Passage, ...]:
    """Return only the first passages, with the needed one among them."""
    others = [passage for passage in shown if passage is not needed][: _FEW - (needed is not None)]
    return tuple(passage for passage in shown if passage is needed or passage in others)


def without_answers(shown: Iterable[Passage], answers: Sequence[str], gold: Iterable[Passage]) -> tuple[Passage, ...]:
    """Return the passages that are not gold and contain no answer."""
    gold_ids = {passage.id for passage in gold}
    return tuple(
        hit for hit in shown if hit.id not in gold_ids and not any(says(hit, answer) for answer in answers if answer)
    )


def cut_answer(passage: Passage, answers: Sequence[str]) -> Passage | None:
    """Return a passage without its answer sentences; None if little is left."""
    text = shown_text(passage)
    kept = [
        text[start:end]
        for start, end in sentence_spans(text)
        if not any(spelled(text[start:end], answer) for answer in answers)
    ]
    left = replace(passage, text=" ".join(kept))
    if len(left.text.split()) < _MIN_LEFT_WORDS or any(says(left, answer) for answer in answers):
        return None
    return left


_FAMILY = r"father|mother|sons?\b|daughter|born (?:in)?to|parent|famil|child|brother|sister|nephew|cousin|heir|descend"
_UNTOLD = {
    "place of burial": r"buri|interr|cemeter|grave|tomb|crypt|mausoleum|ashes|cremat|funeral",
    "spouse": r"marri|wife|wives|husband|spouse|widow|wed|partner|consort|divorc|couple",
    "educated at": r"educat|stud|school|universi|colleg|graduat|degree|attend|alumn|academ|train|conservat|institut",
    "award received": r"award|prize|medal|hono|oscar|won\b|winn|nominat|recipient|receiv|knight|order|decorat|laureate",
    "father": _FAMILY,
    "mother": _FAMILY,
}
"""Properties of a person, and words of texts that may state them."""


def untold_question(name: str, page: Passage, key: str) -> tuple[str, re.Pattern[str]] | None:
    """Return a question about a person that the page does not answer, and its cue."""
    text = f"{page.title} {page.text}"
    untold = [relation for relation, cue in _UNTOLD.items() if not re.search(rf"\b(?:{cue})", text, re.IGNORECASE)]
    if not untold:
        return None
    relation = untold[drawn(key) % len(untold)]
    return as_question(relation, name), re.compile(rf"\b(?:{_UNTOLD[relation]})", re.IGNORECASE)


def shown_text(passage: Passage) -> str:
    """Return a passage's text as it appears in a prompt."""
    return show_passages(None, [replace(passage, title="")], titles=False).removeprefix("passage: ")


def find_evidence(
    question: str, answers: Sequence[str], passages: Sequence[Passage], gold_sentences: Sequence[str] = ()
) -> Evidence | None:
    """Return the sentence of gold passages that best supports an answer, or None.

    Gold sentences come first, then those that share most words with the question. The answer may also be the title of
    the page: a sentence on a film's page answers "Which film …?".
    """
    asked = _content(question)
    titled = [(answer, passage) for answer in answers for passage in passages if is_titled(passage, answer)]
    best: tuple[tuple[float, ...], Evidence] | None = None
    for rank, passage in enumerate(passages):
        for place, (sentence, is_gold) in enumerate(_candidates(passage, gold_sentences)):
            answer = answer_in(sentence, answers)
            name = next((name for name, page in titled if page.id == passage.id), "")
            if not answer and not name:
                continue
            if answer and not _fits(question, sentence, answer):
                continue
            shared = len(asked & _content(f"{passage.title} {sentence}"))
            score = (float(is_gold), float(bool(answer)), float(shared), -float(place), -float(rank))
            if best is None or score > best[0]:
                best = score, Evidence(sentence, answer or name, passage)
    return best[1] if best else None


_BORN = re.compile(r"\b(?:born|birth\w*|native|raised|hometown|hails?|from)\b", re.IGNORECASE)
_DIED = re.compile(
    r"\b(?:died|dead|death|dies|deceased|drowned|drowning|killed|executed|assassinated|murdered|passed|suicide|buried)\b",
    re.IGNORECASE,
)
_ASKS_PLACE_OR_DATE = re.compile(
    r"(?:where|when|(?:in|on) (?:which|what)|what (?:is|was) the (?:place|date))\b", re.IGNORECASE
)
_DASH = re.compile(r"-\s|[–—]")
_LIFE = re.compile(r"[(;]([^()]*\d{3,4}[^()]*)\)")


def _fits(question: str, sentence: str, answer: str) -> bool:
    """Return whether a sentence can be about the birth or death asked for."""
    asks_birth = re.search(r"\b(?:born|birth)\b", question)
    asks_death = re.search(r"\b(?:die|died|death)\b", question)
    if not _ASKS_PLACE_OR_DATE.match(question) or bool(asks_birth) == bool(asks_death):
        return True
    cue = _BORN if asks_birth else _DIED
    lives = [_DASH.split(match[1], maxsplit=1) for match in _LIFE.finditer(sentence)]
    halves = [life[0] if asks_birth else life[-1] for life in lives if asks_birth or len(life) > 1]
    outside = _LIFE.sub("", sentence)
    return any(answer in half for half in halves) or (answer in outside and bool(cue.search(outside)))


def find_closest(question: str, passages: Sequence[Passage], gold_sentences: Sequence[str] = ()) -> Evidence | None:
    """Return the gold sentence that shares most words with a question."""
    asked = _content(question)
    candidates = [
        ((is_gold, len(asked & _content(sentence)), -rank, -place), Evidence(sentence, "", passage))
        for rank, passage in enumerate(passages)
        for place, (sentence, is_gold) in enumerate(_candidates(passage, gold_sentences))
    ]
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def spelled(sentence: str, answer: str) -> str:
    """Return an answer as a sentence spells it; "" if the sentence lacks it."""
    words = answer.split()
    if not words:
        return ""
    pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, words)) + r"(?!\w)"
    if len(answer) <= _MAX_CODE_CHARS:  # "US" is a country, and "us" is not
        return answer if re.search(pattern, sentence) else ""
    if match := re.search(pattern, sentence) or re.search(pattern, sentence, re.IGNORECASE):
        return match[0].rstrip(".") if len(words) > _MAX_NAME_WORDS else match[0]
    wanted = normalise(answer).split()
    tokens = list(_WORD.finditer(sentence))
    for size in range(len(wanted), len(wanted) + 2):
        for first in range(len(tokens) - size + 1):
            window = sentence[tokens[first].start() : tokens[first + size - 1].end()]
            window_words = normalise(window).split()
            dated = any(map(str.isdigit, wanted)) and len(wanted) > 1 and sorted(window_words) == sorted(wanted)
            if window_words == wanted or dated:
                return window.strip(_EDGE)
    return ""


def answer_in(sentence: str, answers: Sequence[str]) -> str:
    """Return the answer in a sentence: the main one, or else the longest other."""
    for answer in (*answers[:1], *sorted(answers[1:], key=len, reverse=True)):
        if answer not in FUNCTION_WORDS and (spelling := spelled(sentence, answer)):
            return spelling
    return ""


def is_titled(passage: Passage, answer: str) -> bool:
    name = normalise(answer)
    return name in (normalise(passage.title), normalise(ADDITION.sub("", passage.title)))


def _candidates(passage: Passage, gold_sentences: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the sentences of a passage, and which are gold."""
    text = shown_text(passage)
    gold = [sentence for given in gold_sentences if (sentence := " ".join(given.split())) in text]
    split = [text[start:end] for start, end in sentence_spans(text)]
    sentences = [(sentence, True) for sentence in gold]
    others = (sentence for sentence in split if not any(sentence in given or given in sentence for given in gold))
    sentences += [(sentence, False) for sentence in others]
    return [
        (sentence, is_gold)
        for sentence, is_gold in sentences
        if MIN_SENTENCE_WORDS <= len(sentence.split()) <= _MAX_SENTENCE_WORDS
    ]


def _content(text: str) -> set[str]:
    return {word for word in _WORDS.findall(text.casefold()) if word not in FUNCTION_WORDS}
