"""Extract the facts of a passage with a model; keep those it states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for, show_texts
from hoptree.text.names import fold, sentences, word_set
from hoptree.text.parse_triples import Triple, read_triples

# Scripts that write words without spaces: each character counts as a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ABBREVIATION = re.compile(r"(?:^|[\s.])(?:[^\W\d_]|jr|sr|inc|ltd|co|corp|bros|st|no|vol)\.\Z", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_MIN_STEMMED_CHARS, _STEM_CHARS = 4, 5


@dataclass(frozen=True, slots=True)
class _Line:
    """A text with its folded words, and where each of them stands."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str) -> _Line:
        words = [(word, match.span()) for match in _WORD.finditer(text) if (word := fold(match[0]))]
        return cls(text, tuple(word for word, _ in words), tuple(span for _, span in words))

    def find(self, wanted: Sequence[str]) -> int | None:
        """Return the index of the word from which on the wanted ones stand in a row."""
        count = len(wanted)
        places = range(len(self.words) - count + 1) if count else range(0)
        return next((at for at in places if self.words[at : at + count] == tuple(wanted)), None)


class Wording:
    """The words of a passage: its title, its sentences, and all of it in a row."""

    def __init__(self, title: str, text: str) -> None:
        self.sentences = sentences(text)
        self._title, self._text = _Line.of(title), _Line.of(" ".join(text.split()))
        self._lines = tuple(_Line.of(sentence) for sentence in self.sentences)
        of_title = Counter(self._title.words)
        self._bags = tuple(of_title | Counter(line.words) for line in self._lines) or (of_title,)

    def spelled(self, name: str) -> str:
        """Return the name as title or text spells it, as it is if one sentence has its words apart, or ""."""
        name = " ".join(name.split())
        if name.endswith(".") and not _ABBREVIATION.search(name):  # the stop that ends the model's line
            name = name[:-1].rstrip()
        if not (wanted := _Line.of(name).words):
            return ""
        if _stands(name, self._title.text) or _stands(name, self._text.text):
            return name
        for variant in (name, _ARTICLE.sub("", name, count=1) if _ARTICLE.match(name) else name):
            for line in (self._title, self._text):
                if spelled := _as_written(line, variant):
                    return spelled
        return name if any(Counter(wanted) <= bag for bag in self._bags) else ""

    def sentence(self, subject: str, relation: str, value: str) -> str:
        """Return the first sentence that states the triple best."""
        subject_words, value_words = _Line.of(subject).words, _Line.of(value).words
        relation_stems = _stems(_Line.of(relation).words)
        titled = bool(subject_words) and set(subject_words) <= set(self._title.words)
        best, sentence = (False, 0, 0, 0), ""
        for line in self._lines:
            of_subject, of_value = _match_level(line, subject_words), _match_level(line, value_words)
            both = bool(of_value and (of_subject or titled))
            rank = (both, both * len(relation_stems & _stems(line.words)), of_value, of_subject)
            if rank > best:
                best, sentence = rank, line.text
        return sentence


def _stems(words: Sequence[str]) -> set[str]:
    """Return the stems of words long enough to be telling."""
    return {word[:_STEM_CHARS] for word in words if len(word) >= _MIN_STEMMED_CHARS}


def _match_level(line: _Line, words: Sequence[str]) -> int:
    """Return 0 if words are missing, 1 if scattered, 2 in a row."""
    if not words or not set(words) <= set(line.words):
        return 0
    return 1 if line.find(words) is None else 2


def _stands(name: str, text: str) -> bool:
    """Return whether a text has the name outside longer words."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (_inside(before, name[:1]) or _inside(name[-1:], after)):
            return True
        at = text.find(name, at + 1)
    return False


def _inside(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to one word."""
    return len(left + right) == 2 and _WORD.fullmatch(left + right) is not None


def _as_written(line: _Line, name: str) -> str:
    """Return the name as a line writes it, with its marks."""
    wanted = _Line.of(name)
    at = line.find(wanted.words)
    if at is None:
        return ""
    start, end = line.spans[at][0], line.spans[at + len(wanted.words) - 1][1]
    for mark in reversed(name[: wanted.spans[0][0]]):
        if line.text[start - 1 : start] != mark:
            break
        start -= 1
    for mark in name[wanted.spans[-1][1] :]:
        if line.text[end : end + 1] != mark:
            break
        end += 1
    return line.text[start:end].strip()


MAX_TOKENS = 512  # about thirty facts; a small model that has begun to repeat itself goes on to the end
_PROMPT_SET, _STEP = "graph", "facts"

LeftOut = Literal["malformed", "not in the passage", "no name", "repeated"]
"""Why a triple that a model wrote is no fact."""

_NO_NAMES = word_set(
    "he she it they him her them his hers its their theirs i we you me us who whom whose which that this these those "
    "there someone one somebody something himself herself itself themselves the a an none unknown"
)


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact that a passage states, and the sentence, if one does."""

    subject: str
    relation: str
    object: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Extracted:
    """The facts of a passage, why triples were left out, and whether the reply was readable, or cut off."""

    facts: tuple[StatedFact, ...] = ()
    left_out: Mapping[LeftOut, int] = field(default_factory=dict)
    readable: bool = True
    cut_off: bool = False


def facts_template() -> str:
    """Return the name and digest of the prompt."""
    prompt = prompt_for(_PROMPT_SET, _STEP)
    return f"{prompt.name}@{prompt.digest}"


async def extract_facts(ctx: Context, passage: Passage) -> Extracted:
    """Ask for the facts of a passage, as it spells them; orders to a model are neither shown nor evidence."""
    parts = [Passage(passage.id, "", passage.title), replace(passage, title="")]
    title, text = (shown.strip() for shown in show_texts(ctx, parts, titles=False))
    if not text:
        return Extracted()
    prompt = prompt_for(_PROMPT_SET, _STEP).fill(title=title or "(none)", passage=text)
    reply = await ctx.generate(_STEP, prompt, role="extract", max_tokens=MAX_TOKENS)
    cut_off = reply.finish == "length"
    read = read_triples(reply.text, cut=cut_off)
    facts, left_out = ground_triples(read.triples, title, text)
    if read.malformed:
        left_out["malformed"] = read.malformed
    return Extracted(facts, left_out, read.understood, cut_off)


def ground_triples(
    triples: Sequence[Triple], title: str, text: str
) -> tuple[tuple[StatedFact, ...], dict[LeftOut, int]]:
    """Return the triples that a passage states, and how many were left out."""
    wording = Wording(title, text)
    facts: dict[tuple[str, ...], StatedFact] = {}
    left_out: Counter[LeftOut] = Counter()
    for subject, relation, value in triples:
        if _is_nameless(subject) or _is_nameless(value) or fold(subject) == fold(value):
            left_out["no name"] += 1
            continue
        subject, value = wording.spelled(subject), wording.spelled(value)
        if not subject or not value:
            left_out["not in the passage"] += 1
            continue
        relation = " ".join(relation.replace("_", " ").rstrip(".:").split()) or relation  # models write date_of_birth
        key = (fold(subject), fold(relation), fold(value))
        if key in facts:
            left_out["repeated"] += 1
        else:
            facts[key] = StatedFact(subject, relation, value, wording.sentence(subject, relation, value))
    return tuple(facts.values()), dict(left_out)


def _is_nameless(name: str) -> bool:
    return all(word in _NO_NAMES for word in fold(name).split())
