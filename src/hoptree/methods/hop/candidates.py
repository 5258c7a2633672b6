"""The candidate answers of a question: their features, and how likely each is right."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.methods.hop.chooser import Features, Weights, is_unfit
from hoptree.text.answer_fit import fits_question_type
from hoptree.text.grounding import Quote, find_quote, grounded, share_of_names, stems
from hoptree.text.names import name_spans, sentences, word_set
from hoptree.text.parse import question_key
from hoptree.text.quantities import countries

Move = Literal["read", "split", "guess", "own"]  # the moves, by their names in traces
CLOSED_BOOK: Move = "own"  # the model answers from its own knowledge
Operator = Literal["lookup", "list", "compare", "both", "intersect", "union", "difference", "count", "yes_no"]
COMPARED: tuple[Operator, ...] = ("compare", "both")
COMBINED_LISTS: tuple[Operator, ...] = ("intersect", "union", "difference")
LISTS: tuple[Operator, ...] = ("list", *COMBINED_LISTS)  # operators on all things that fulfil a condition, or several
OPERATED = (*COMPARED, *COMBINED_LISTS)  # operators that code carries out better than a reader
_NEUTRAL = 0.5  # the confidence of a model that gives no log-probabilities
_MAX_COUNT = 2  # more moves, or other answers, than this count no further
_MAX_REASONS = 3
_MIN_REASON = 0.05  # a smaller weight is not a reason
_RECALLED_ONLY = "only the model's own knowledge is behind it"
_DISTINGUISHING_WORDS = word_set(
    "new old north south east west northern southern eastern western upper lower and or no not county council "
    "junior senior jr sr ii iii"
)  # words that make a name mean another thing, or several: New London, Kent County, Dumas Jr
_WORDS = {
    "agreement": "it was found in more than one way",
    "confidence": "the model was sure of it",
    "quoted": "a passage that was read has it",
    "sentence": "its sentence has more of the question's words",
    "page": "its passage is about the question",
    "named": "its passage has the names of the question",
    "typed": "it is the kind of thing that was asked for",
    "computed": "it was worked out from what was found",
    "supported": "the answers to its sub-questions were found in what was read",
    "parted": "it was put together from the answers to sub-questions",
}  # the reason for an answer that a high value of each feature gives
# Features that are reasons even without another answer, from this value on.
_FACTS = {"computed": 0.5, "agreement": 0.5, "supported": 1.0}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer with its sentence and features.

    `supported` is the share of its parts that passages support; `recalled` says that all parts are from the model's own
    knowledge.
    """

    answer: Answer
    move: Move
    quote: Quote | None = None
    features: Features | None = None
    computed: bool = False
    supported: float = 0.0
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """Candidates with the same meaning, as one answer; `recalled` if only from memory."""

    answer: Answer
    moves: tuple[Move, ...]
    quote: Quote | None
    features: dict[str, float]
    probability: float
    recalled: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "answer": self.answer.text,
            "ways": list(self.moves),
            "probability": round(self.probability, 4),
            "features": rounded(self.features),
            "quoted": self.quote.as_dict() if self.quote else None,
        }


class Pool:
    """All candidates for one question, and the features of question and passages."""

    def __init__(
        self,
        question: str,
        weights: Weights,
        features: Features,
        *,
        combined_by_code: bool = False,
        knows_its_boundary: bool = False,
        asks_for_list: bool = False,
        count_bridging_sentences: bool = False,
    ):
        """Create the pool of a question.

        The answer of a model that `knows_its_boundary` may be given without a passage. `count_bridging_sentences` is
        for readers that may refuse and are not trained: it counts what two sentences cover together.
        """
        self._question, self.weights, self.features = question, weights, dict(features)
        self._combined_by_code, self._asks_for_list = combined_by_code, asks_for_list
        self._knows_its_boundary, self._count_bridging_sentences = knows_its_boundary, count_bridging_sentences
        self.candidates: list[Candidate] = []

    def add(
        self,
        answer: Answer,
        move: Move,
        passages: Sequence[Passage] = (),
        *,
        copied: str = "",
        computed: bool = False,
        supported: float = 0.0,
        recalled: bool = False,
    ) -> None:
        """Add a known answer, as passages spell it; the reader `copied` its sentence."""
        if not answer.known or not answer.text:
            return
        spelled = answer if computed else grounded(answer, "", passages)
        answer = spelled if spelled.known else answer
        quote = find_quote(answer.text, self._question, passages, copied=copied)
        features = answer_features(self._question, answer.text, quote, passages)
        self.candidates.append(Candidate(answer, move, quote, features, computed, supported, recalled))
        if self._count_bridging_sentences and move == "read":
            self.features["bridge"] = bridge_share(self._question, answer.text, quote, passages)

    def ranked_answers(self) -> list[RankedAnswer]:
        """Return the different answers, the likeliest first; of equals the first found.

        Answers of an unfit form come after all others, and those that cannot be given come last. A list that code put
        together from passages gets the highest probability, since weights are fitted to single answers.
        """
        groups = list(self._groups())
        rivals = sum(self._knows_its_boundary or not _is_recalled(group) for group in groups) - 1
        answers = [self._weigh(group, rivals) for group in groups]
        likeliest = max((answer.probability for answer in answers), default=0.0)
        for place, answer in enumerate(answers):
            if self._asks_for_list and answer.features["computed"] == answer.features["supported"] == 1:
                answers[place] = replace(answer, probability=likeliest)
        return sorted(
            answers,
            key=lambda a: (not self.may_be_final(a), is_unfit(a.features), -a.probability, -a.features["computed"]),
        )

    def features_for_next_move(self, ranked: Sequence[RankedAnswer]) -> dict[str, float]:
        """Return the features of the question, the passages and the best answer."""
        if not ranked:
            return {**self.features, "nothing": 1.0}
        best = ranked[0]
        odds = math.log(max(best.probability, 1e-6) / max(1 - best.probability, 1e-6))
        return {**self.features, **best.features, "odds": odds}

    def may_be_final(self, ranked: RankedAnswer) -> bool:
        """Return whether an answer may be given; a recalled one only within the boundary."""
        return self._knows_its_boundary or not ranked.recalled

    @property
    def first_reading(self) -> str:
        """The answer of the first reading, or ""."""
        return next((candidate.answer.text for candidate in self.candidates if candidate.move == "read"), "")

    @property
    def is_supported(self) -> bool:
        """Whether all parts of the best answer are supported, and its form fits."""
        best = self.ranked_answers()[:1]
        return any(answer.features["supported"] == 1 and not is_unfit(answer.features) for answer in best)

    def _groups(self) -> Iterator[list[Candidate]]:
        left = list(self.candidates)
        while left:
            first, *left = left
            group = [first, *(other for other in left if mean_the_same(other.answer.text, first.answer.text))]
            left = [other for other in left if other not in group]
            yield group

    def _weigh(self, group: Sequence[Candidate], rivals: int) -> RankedAnswer:
        """Weigh candidates with the same meaning as one answer among `rivals`."""
        surest = max(
            group,
            key=lambda candidate: (candidate.computed, candidate.quote is not None, candidate.answer.confidence or 0.0),
        )
        moves = tuple(dict.fromkeys(candidate.move for candidate in group))
        confidences = [c.answer.confidence for c in group if c.answer.confidence is not None]
        links = self.features.get("links", 0.0)
        computed = any(candidate.computed for candidate in group)
        features = {
            **{name: max((c.features or {}).get(name, 0.0) for c in group) for name in (surest.features or {})},
            "agreement": min(len(moves) - 1, _MAX_COUNT) / _MAX_COUNT,
            "against": min(rivals, _MAX_COUNT) / _MAX_COUNT,
            "confidence": max(confidences, default=_NEUTRAL),
            "computed": float(computed),
            "operated": float(self._combined_by_code),
            "uncomputed": float(self._combined_by_code and not computed),
            "supported": max(candidate.supported for candidate in group),
            "parted": float(moves == ("split",)),
            "guess": float(moves == ("guess",)),
            "links": links,
            "unparted_links": 0.0 if "split" in moves else links,
            "pages": self.features.get("pages", 0.0),
            "not_found": self.features.get("not_found", 0.0),
        }
        support = dict.fromkeys(passage_id for candidate in group for passage_id in candidate.answer.support)
        answer = replace(surest.answer, support=tuple(support))
        quote = next((candidate.quote for candidate in (surest, *group) if candidate.quote), None)
        measured = answer.confidence if moves == (CLOSED_BOOK,) and self._knows_its_boundary else None
        probability = self.weights.right(features) if measured is None else measured
        return RankedAnswer(answer, moves, quote, features, probability, _is_recalled(group))

    def explain(self, ranked: Sequence[RankedAnswer]) -> str:
        """Return why the first answer was chosen over the others."""
        first, *others = ranked
        if not others:
            facts = [name for name, least in _FACTS.items() if first.features.get(name, 0.0) >= least]
            return "; ".join(_in_words(facts)) or "no other answer was found"
        second = others[0]
        # Answers that may not be given rank last, however likely they are.
        excluded = [other for other in others if self.may_be_final(first) and not self.may_be_final(other)]
        notable = [other for other in excluded if other is second or other.probability >= first.probability]
        reasons = [] if second in excluded else self._reasons(first, second)
        return "; ".join([*reasons, *(f"{other.answer.text} is not an answer: {_RECALLED_ONLY}" for other in notable)])

    def reason_withheld(self, ranked: RankedAnswer, least: float) -> str:
        """Return why an answer is not given, or ""; `least` is the least probability."""
        if not self.may_be_final(ranked):
            return _RECALLED_ONLY
        return "it is too unlikely" if ranked.probability < least else ""

    def _reasons(self, first: RankedAnswer, second: RankedAnswer) -> list[str]:
        """Return the reasons for an answer over the next one, the weightiest first."""
        weights = self.weights.right.weights
        gaps = {
            name: weights.get(name, 0.0) * (first.features[name] - second.features.get(name, 0.0))
            for name in _WORDS
            if name in first.features and first.features[name] > second.features.get(name, 0.0)
            if name != "supported" or first.features[name] == 1
        }
        if first.answer.confidence is None:
            gaps.pop("confidence", None)
        weighty = [name for name, gap in sorted(gaps.items(), key=lambda pair: -pair[1]) if gap >= _MIN_REASON]
        reasons = _in_words(weighty)
        if not reasons and first.probability > second.probability:
            reasons = ["it has more signs of a right answer"]
        return reasons or ["it was found first"]


def _in_words(names: Iterable[str]) -> list[str]:
    """Return the first features as reasons in words."""
    return [_WORDS[name] for name in names][:_MAX_REASONS]


def mean_the_same(answer: str, other: str) -> bool:
    """Return whether answers are the same, or one is a shorter form of the other.

    "Capitol" is short for "Capitol Records", but a longer name means another thing if it has a word such as "New" (New
    London), or if the shorter one is a country (Mexico).
    """
    from hoptree.text.comparison import same  # not needed before there is a second answer

    if same(answer, other):
        return True
    if "," in answer + other or any(map(str.isdigit, answer + other)):
        return False
    keys = question_key(answer), question_key(other)
    short, long = sorted((key.split() for key in keys), key=len)
    if not short or not min(answer, other, key=len)[:1].isupper():
        return False
    if long[: len(short)] == short:
        added = long[len(short) :]
    elif long[-len(short) :] == short:
        added = long[: -len(short)]
    else:
        return False
    named = [countries().by_name.get(key) for key in keys]
    return not _DISTINGUISHING_WORDS & {*added} and (named[0] == named[1] or " ".join(short) not in countries().by_name)


def _is_recalled(group: Sequence[Candidate]) -> bool:
    """Return whether all equal answers are from the model's own knowledge."""
    return all(candidate.recalled or candidate.move == CLOSED_BOOK for candidate in group)


_MAX_LINKS, _MAX_NAMES, _MAX_WORDS = 4, 3, 30
_MIN_STATED_SHARE = 0.5
_LINK = lazy_re(
    r"\b(?:of|who|whom|whose|that|which|where|by|from|in which|behind)\b|['’]s\b|\b[a-z]+ed\s+(?:in|by|to|at)\b"
)  # words that link one thing to another


def question_features(question: str) -> dict[str, float]:
    """Return the features of a question alone: its number of links, names and words."""
    first = re.match(r"\W*\w+", question)
    spans = name_spans(question, first.end() if first else 0)
    rest = question
    for start, end in reversed(spans):
        rest = f"{rest[:start]}@{rest[end:]}"
    rest = rest[first.end() :] if first else rest
    return {
        "links": min(len(_LINK.findall(rest)), _MAX_LINKS) / _MAX_LINKS,
        "names": min(len(spans), _MAX_NAMES) / _MAX_NAMES,
        "words": min(len(question.split()), _MAX_WORDS) / _MAX_WORDS,
    }


def reading_features(question: str, passages: Sequence[Passage]) -> dict[str, float]:
    """Return the shares of a question's words in the best, and in all, passages."""
    asked = stems(question)
    held = [stems(f"{passage.title} {passage.text}") for passage in passages]
    together = frozenset().union(*held)
    return {"page_best": max((_share(asked, page) for page in held), default=0.0), "pages": _share(asked, together)}


def answer_features(question: str, answer: str, quote: Quote | None, passages: Sequence[Passage]) -> dict[str, float]:
    """Return the features of an answer, its sentence and its passage."""
    titles = {passage.id: passage for passage in passages}
    page = titles.get(quote.passage) if quote else None
    asked = stems(question) - stems(answer)
    sentence = stems(f"{page.title} {quote.text}") if page and quote else frozenset[str]()
    text = f"{page.title}. {page.text}" if page else ""
    fits = fits_question_type(question, answer)
    return {
        "quoted": float(quote is not None),
        "sentence": _share(asked, sentence),
        "page": _share(asked, stems(text)),
        "named": share_of_names(question, text, without=answer) if page else 0.0,
        "typed": 0.0 if fits is None else 1.0 if fits else -1.0,
        "echo": float(echoes(question, answer)),
    }


def bridge_share(question: str, answer: str, quote: Quote | None, passages: Sequence[Passage]) -> float:
    """Return the share of a question that the answer's and a bridging sentence cover.

    The bridging sentence is on another page and names the page of the answer's sentence: "Where was the director of
    Vertigo born?" needs a sentence about Hitchcock, and one that names him. A page that is the answer bridges nothing.
    """
    page = next((passage for passage in passages if quote and passage.id == quote.passage), None)
    if page is None or quote is None or question_key(page.title) == question_key(answer):
        return 0.0
    asked, own = stems(question) - stems(answer), stems(f"{page.title} {quote.text}")
    key = f" {question_key(page.title)} "
    others = [(other, text) for other in passages if other.title != page.title for text in sentences(other.text)]
    named = [stems(f"{other.title} {text}") for other, text in others if key in f" {question_key(text)} "]
    return max((_share(asked, own | stemmed) for stemmed in named), default=0.0)


def is_stated(question: str, answer: str, passages: Sequence[Passage], *, copied: str = "") -> bool:
    """Return whether a sentence states an answer to this question, not only its words.

    The sentence and its title must have half of the question's words. Of 362 forced answers to parts by a 1.5B model,
    73 % of those that pass were right, and 22 % of the others.
    """
    quote = find_quote(answer, question, passages, copied=copied)
    if echoes(question, answer):
        return False
    return answer_features(question, answer, quote, passages)["sentence"] >= _MIN_STATED_SHARE


def echoes(question: str, answer: str) -> bool:
    """Return whether an answer, but for brackets, only repeats words of the question."""
    key = question_key(answer.partition(" (")[0])
    return bool(key) and f" {key} " in f" {question_key(question)} "


def _share(asked: frozenset[str], held: frozenset[str]) -> float:
    return len(asked & held) / len(asked) if asked else 1.0


def rounded(features: Features) -> dict[str, float]:
    """Return features rounded for a trace."""
    return {name: round(value, 4) for name, value in features.items()}
