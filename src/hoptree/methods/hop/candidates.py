"""The candidate answers of a question, and the probability that each is right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.values import Answer, Passage
from hoptree.methods.hop.chooser import Weights, answer_signals, bridge_share, is_unfit, rounded
from hoptree.text.grounding import Quote, find_quote, grounded
from hoptree.text.names import word_set
from hoptree.text.parse import question_key
from hoptree.text.quantities import countries

Way = Literal["read", "split", "guess", "own"]  # the move that an answer came from
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
_OF_ANOTHER = word_set(
    "new old north south east west northern southern eastern western upper lower and or no not county council "
    "junior senior jr sr ii iii"
)  # words that make a name mean another thing, or several: New London, Kent County, Dumas Jr
_WORDS = {
    "agreement": "several moves gave this answer",
    "confidence": "the model was sure of its words",
    "quoted": "a passage that was read holds it",
    "sentence": "its sentence is nearer to the question",
    "page": "the passage of that sentence is about the question",
    "named": "that passage holds the names of the question",
    "typed": "it is of the type that was asked for",
    "computed": "code concluded it from what was found",
    "supported": "its parts were answered from what was read",
    "parted": "it was put together from parts of the question",
}  # the reason for an answer that a high value of each feature gives
# Features that are reasons even without another answer, from this value on.
_FACTS, _MIN_FACT = ("computed", "agreement", "supported"), 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer with its sentence and signals.

    `supported` is the share of its parts that passages support; `recalled` says that all parts are from the model's own
    knowledge.
    """

    answer: Answer
    way: Way
    quote: Quote | None = None
    signals: Mapping[str, float] | None = None
    computed: bool = False
    supported: float = 0.0
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """Candidates with the same meaning, as one answer; `recalled` if only from memory."""

    answer: Answer
    ways: tuple[Way, ...]
    quote: Quote | None
    features: dict[str, float]
    probability: float
    recalled: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "answer": self.answer.text,
            "ways": list(self.ways),
            "probability": round(self.probability, 4),
            "features": rounded(self.features),
            "quoted": self.quote.as_dict() if self.quote else None,
        }


class Pool:
    """All candidates for one question, and the signals of question and passages."""

    def __init__(
        self,
        question: str,
        weights: Weights,
        signals: Mapping[str, float],
        operated: bool = False,
        trusted: bool = False,
        lists: bool = False,
        bridged: bool = False,
    ):
        """Create the pool of a question.

        Code combines its parts (`operated`), or `lists`; a `trusted` model knows where its knowledge ends. `bridged`
        counts what two sentences cover together, for readers that may refuse and are not trained.
        """
        self._question, self.weights, self.signals = question, weights, dict(signals)
        self._operated, self._trusted, self._lists, self._bridged = operated, trusted, lists, bridged
        self.candidates: list[Candidate] = []

    def add(
        self,
        answer: Answer,
        way: Way,
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
        signals = answer_signals(self._question, answer.text, quote, passages)
        self.candidates.append(Candidate(answer, way, quote, signals, computed, supported, recalled))
        if self._bridged and way == "read":
            self.signals["bridge"] = bridge_share(self._question, answer.text, quote, passages)

    def standings(self) -> list[Standing]:
        """Return the different answers, the likeliest first; of equals the first found.

        Answers of an unfit form come after all others, and those that cannot be given come last. A list that code put
        together from passages gets the highest probability, since weights are fitted to single answers.
        """
        groups = list(self._groups())
        rivals = sum(self._trusted or not _is_recalled(group) for group in groups) - 1
        standings = [self._standing(group, rivals) for group in groups]
        likeliest = max((standing.probability for standing in standings), default=0.0)
        for place, each in enumerate(standings):
            if self._lists and each.features["computed"] == each.features["supported"] == 1:
                standings[place] = replace(each, probability=likeliest)
        return sorted(
            standings,
            key=lambda s: (not self.may_be_final(s), is_unfit(s.features), -s.probability, -s.features["computed"]),
        )

    def state(self, standings: Sequence[Standing]) -> dict[str, float]:
        """Return the features for the next move: of question, passages and best answer."""
        if not standings:
            return {**self.signals, "nothing": 1.0}
        best = standings[0]
        odds = math.log(max(best.probability, 1e-6) / max(1 - best.probability, 1e-6))
        return {**self.signals, **best.features, "odds": odds}

    def may_be_final(self, standing: Standing) -> bool:
        """Return whether an answer may be given; a recalled one only of a trusted model."""
        return self._trusted or not standing.recalled

    @property
    def first_reading(self) -> str:
        """The answer of the first reading, or ""."""
        return next((candidate.answer.text for candidate in self.candidates if candidate.way == "read"), "")

    @property
    def is_supported(self) -> bool:
        """Whether all parts of the best answer are supported, and its form fits."""
        return any(each.features["supported"] == 1 and not is_unfit(each.features) for each in self.standings()[:1])

    def _groups(self) -> Iterator[list[Candidate]]:
        left = list(self.candidates)
        while left:
            first, *left = left
            group = [first, *(other for other in left if mean_the_same(other.answer.text, first.answer.text))]
            left = [other for other in left if other not in group]
            yield group

    def _standing(self, group: Sequence[Candidate], rivals: int) -> Standing:
        """Weigh candidates with the same meaning as one answer among `rivals`."""
        surest = max(
            group,
            key=lambda candidate: (candidate.computed, candidate.quote is not None, candidate.answer.confidence or 0.0),
        )
        ways = tuple(dict.fromkeys(candidate.way for candidate in group))
        confidences = [c.answer.confidence for c in group if c.answer.confidence is not None]
        links = self.signals.get("links", 0.0)
        computed = any(candidate.computed for candidate in group)
        features = {
            **{name: max((c.signals or {}).get(name, 0.0) for c in group) for name in (surest.signals or {})},
            "agreement": min(len(ways) - 1, _MAX_COUNT) / _MAX_COUNT,
            "against": min(rivals, _MAX_COUNT) / _MAX_COUNT,
            "confidence": max(confidences, default=_NEUTRAL),
            "computed": float(computed),
            "operated": float(self._operated),
            "uncomputed": float(self._operated and not computed),
            "supported": max(candidate.supported for candidate in group),
            "parted": float(ways == ("split",)),
            "guess": float(ways == ("guess",)),
            "links": links,
            "unparted_links": 0.0 if "split" in ways else links,
            "pages": self.signals.get("pages", 0.0),
            "not_found": self.signals.get("not_found", 0.0),
        }
        support = dict.fromkeys(passage_id for candidate in group for passage_id in candidate.answer.support)
        answer = replace(surest.answer, support=tuple(support))
        quote = next((candidate.quote for candidate in (surest, *group) if candidate.quote), None)
        measured = answer.confidence if ways == ("own",) and self._trusted else None
        probability = self.weights.right(features) if measured is None else measured
        return Standing(answer, ways, quote, features, probability, _is_recalled(group))

    def explain(self, standings: Sequence[Standing]) -> str:
        """Return why the first answer was chosen over the others."""
        first, *others = standings
        if not others:
            facts = [name for name in _FACTS if first.features.get(name, 0.0) >= _MIN_FACT]
            return "; ".join(_in_words(facts)) or "no other answer was found"
        second = others[0]
        # Answers that may not be given rank last, however likely they are.
        excluded = [other for other in others if self.may_be_final(first) and not self.may_be_final(other)]
        notable = [other for other in excluded if other is second or other.probability >= first.probability]
        reasons = [] if second in excluded else self._reasons(first, second)
        return "; ".join([*reasons, *(f"{other.answer.text} is not an answer: {_RECALLED_ONLY}" for other in notable)])

    def why_not(self, standing: Standing, least: float) -> str:
        """Return why an answer is not given, or ""; `least` is the least probability."""
        if not self.may_be_final(standing):
            return _RECALLED_ONLY
        return "it is too unlikely" if standing.probability < least else ""

    def _reasons(self, first: Standing, second: Standing) -> list[str]:
        """Return the reasons for an answer over the next one, the weightiest first."""
        weights = self.weights.right.weights
        gaps = {
            name: weights.get(name, 0.0) * (first.features[name] - second.features.get(name, 0.0))
            for name in _WORDS
            if name in first.features and first.features[name] > second.features.get(name, 0.0)
        }
        if first.answer.confidence is None:
            gaps.pop("confidence", None)
        weighty = [name for name, gap in sorted(gaps.items(), key=lambda pair: -pair[1]) if gap >= _MIN_REASON]
        reasons = _in_words(weighty)
        if not reasons and first.probability > second.probability:
            reasons = ["it is likelier by what was counted about both"]
        return reasons or ["it came first"]


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
    return not _OF_ANOTHER & {*added} and (named[0] == named[1] or " ".join(short) not in countries().by_name)


def _is_recalled(group: Sequence[Candidate]) -> bool:
    """Return whether all equal answers are from the model's own knowledge."""
    return all(candidate.recalled or candidate.way == "own" for candidate in group)
