"""Read the triples of a reply; keep the facts that a passage states."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from hoptree.core.values import Token
from hoptree.text.loose_json import read_json
from hoptree.text.names import fold, sentences, word_set
from hoptree.text.tokens import token_spans
from hoptree.text.uncertainty import token_probability

MAX_TRIPLES = 200  # a model that repeats itself never ends
MAX_NAME_CHARS = 200  # the longest name that a graph accepts
_MAX_RELATION_CHARS = 100
_MAX_REPLY_CHARS = 100_000
_MAX_LINES = 1_000

Triple = tuple[str, str, str]

_SUBJECT = ("subject", "s", "head", "h", "entity", "entity1", "subj", "source")
_RELATION = ("relation", "predicate", "property", "relationship", "p", "r", "rel", "verb", "type")
_OBJECT = ("object", "o", "tail", "t", "value", "entity2", "obj", "target")
_LABEL = re.compile(r"(?:subject|relation(?:ship)?|predicate|object|head|tail)\s*[:=]\s*", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```")
_RULER = re.compile(r"[\s|:+=-]+")
_ITEM = re.compile(r"(?:[-*•·]|\(?\d{1,3}[.):]|(?:fact|triple)\s*\d{0,3}\s*:)\s+", re.IGNORECASE)
_ARROW = re.compile(r"\s{0,9}(?:-{1,2}>|→|=>)\s{0,9}|\s{1,9}--\s{1,9}")
_DASH = re.compile(r"\s{1,9}[-–—]\s{1,9}")
_WRAPPED = {"(": ")", "<": ">", "[": "]"}
_EDGES = " \t\"'“”‘’„`*_,;"
_NOTHING = frozenset(("none", "no facts", "no fact", "n/a", "nothing", "empty", "[]", "{}", "null", "no triples"))


@dataclass(frozen=True, slots=True)
class TriplesRead:
    """The triples of a reply in order, and whether its form was `understood`."""

    triples: tuple[Triple, ...] = ()
    malformed: int = 0
    understood: bool = True


def read_triples(reply: str, *, cut: bool = False) -> TriplesRead:
    """Read triples in any form; the last one of a `cut` reply may be left out."""
    text = reply[:_MAX_REPLY_CHARS].strip("\ufeff")
    cut = cut or len(reply) > _MAX_REPLY_CHARS
    by_line, as_json = _Collector(), _Collector()
    lines = text[: text.rfind("\n") + 1] if cut else text
    for line in lines.splitlines()[:_MAX_LINES]:
        _read_line(line, by_line)
    value = read_json(text).value if text.count('"') >= 4 or not by_line.triples else None
    as_json.walk(value)
    # JSON with a triple a line can be read both ways; if it is on several lines, or cut off, only one way finds all.
    best = as_json if len(as_json.triples) >= max(len(by_line.triples), 1) else by_line
    if cut and best is as_json and best.ends_well and not text.rstrip(", \n").endswith(("]", "}")):
        best.triples.pop()
        best.malformed += 1
    empty = value in ([], {}) or (isinstance(value, dict) and all(inner in ([], {}) for inner in value.values()))
    understood = bool(best.triples) or empty or text.strip(" .\n`*").casefold() in _NOTHING
    return TriplesRead(tuple(best.triples), best.malformed, understood)


class _Collector:
    """Collects up to MAX_TRIPLES triples."""

    def __init__(self) -> None:
        self.triples: list[Triple] = []
        self.malformed = 0
        self.ends_well = False  # whether the last item was a triple

    def add(self, parts: Sequence[Any]) -> None:
        triple = _clean(parts)
        self.ends_well = triple is not None and len(self.triples) < MAX_TRIPLES
        if triple is None:
            self.malformed += 1
        elif len(self.triples) < MAX_TRIPLES:
            self.triples.append(triple)

    def walk(self, value: Any) -> None:
        """Read triples from lists, objects, or nested JSON."""
        waiting = [value]
        while waiting and len(self.triples) + self.malformed < MAX_TRIPLES:
            item = waiting.pop()
            if isinstance(item, str):
                _read_line(item, self)
            elif isinstance(item, dict):
                waiting.extend(reversed(list(self._read_object(item))))
            elif isinstance(item, list):
                separated = any(isinstance(part, str) and part.count("|") >= 2 for part in item)
                if item and isinstance(item[0], str) and not separated:
                    self.add(item)
                else:
                    waiting.extend(reversed(item))

    def _read_object(self, item: Mapping[str, Any]) -> Iterator[Any]:
        """Add the triples of an object; yield the values that may hold more."""
        named = {str(name).strip().casefold(): value for name, value in item.items()}
        subject, relation, target = (_first(named, names) for names in (_SUBJECT, _RELATION, _OBJECT))
        if subject is not None and (relation is not None or target is not None):
            for single in target if isinstance(target, list) else [target]:
                self.add((subject, relation, single))
            return
        for name, value in item.items():
            inner_values = list(value.values()) if isinstance(value, dict) else []
            flat = (part for inner in inner_values for part in (inner if isinstance(inner, list) else [inner]))
            if inner_values and all(map(_scalar, flat)):
                if _first({str(key).casefold(): 1 for key in value}, _SUBJECT) is not None:
                    yield value
                    continue
                for between, inner in value.items():
                    for single in inner if isinstance(inner, list) else [inner]:
                        self.add((name, between, single))
            else:
                yield value


def _read_line(line: str, collector: _Collector) -> None:
    """Read a triple, or JSON with triples, on one line; skip prose."""
    line = line.strip()
    if not line or _FENCE.match(line) or _RULER.fullmatch(line):
        return
    line = _ITEM.sub("", line, count=1) if _ITEM.match(line) else line
    if line[:1] in "[{" and (value := _json(line.rstrip(","))) is not None:
        collector.walk(value)
        return
    body = line.rstrip(",;. ") if line[:1] in _WRAPPED else line
    wrapped = len(body) > 1 and _WRAPPED.get(body[0]) == body[-1]
    body = body[1:-1] if wrapped else body
    parts = _parts(body, wrapped)
    if parts is None:
        collector.malformed += wrapped or "|" in body
        return
    bare = [part.strip(_EDGES).casefold() for part in parts]
    if not all(part in names for part, names in zip(bare, (_SUBJECT, _RELATION, _OBJECT), strict=True)):
        collector.add(parts)  # else it is the heading of a table


def _parts(body: str, wrapped: bool) -> list[str] | None:
    """Split a line into three parts by the first separator that does so."""
    if "|" in body:
        parts = [part.strip() for part in body.split("|")]
        while parts and not parts[-1]:
            parts.pop()
        while parts and not parts[0]:
            parts.pop(0)
        return parts if len(parts) == 3 else None
    if (quoted := _json(f"[{body}]")) is not None:
        return [str(part) for part in quoted] if isinstance(quoted, list) and len(quoted) == 3 else None
    splits = [body.split("\t"), _ARROW.split(body), body.split(";"), body.split(", ") if wrapped else []]
    if not body.rstrip().endswith((".", ":", "?", "!")):
        splits.append(_DASH.split(body))
    for parts in splits:
        if len(parts) == 3 and all(part.strip() for part in parts):
            return parts
    return None


def _clean(parts: Sequence[Any]) -> Triple | None:
    if len(parts) != 3 or not all(_scalar(part) for part in parts):
        return None
    subject, relation, value = (_plain(str(part)) for part in parts)
    if not all(any(letter.isalnum() for letter in part) for part in (subject, relation, value)):
        return None
    if max(len(subject), len(value)) > MAX_NAME_CHARS or len(relation) > _MAX_RELATION_CHARS:
        return None
    return subject, relation, value


def _plain(part: str) -> str:
    """Return a part on one line, without quotes, emphasis and label."""
    part = " ".join(part.encode("utf-8", "replace").decode().replace("\0", " ").split())
    part = part.strip(_EDGES)
    return _LABEL.sub("", part, count=1).strip(_EDGES) if _LABEL.match(part) else part


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _first(named: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((named[name] for name in names if named.get(name) is not None), None)


def _scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def object_confidences(text: str, tokens: Sequence[Token], triples: Sequence[Triple], *, default: float) -> list[float]:
    """Return the confidence of each triple's object, in the reply's order."""
    places = token_spans(text, [token.text for token in tokens])
    written = [(*place, token) for token, place in zip(tokens, places, strict=True) if place]
    starts, ends = [start for start, *_ in written], [end for _, end, _ in written]
    confidences: list[float] = []
    at = 0
    for triple in triples:
        start = end = -1
        for part in triple:  # find the object after subject and relation, as the subject may contain it
            if (start := text.find(part, at)) >= 0:
                at = end = start + len(part)
        inside = written[bisect_right(ends, start) : bisect_left(starts, end)] if start >= 0 else []
        confidences.append(min((token_probability(token) for *_, token in inside), default=default))
    return confidences


# Scripts without spaces between words, where each character counts as a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ABBREVIATION = re.compile(r"(?:^|[\s.])(?:[^\W\d_]|jr|sr|inc|ltd|co|corp|bros|st|no|vol)\.\Z", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_MIN_STEMMED_CHARS, _STEM_CHARS = 4, 5


@dataclass(frozen=True, slots=True)
class _Line:
    """A text with its folded words and their spans."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str) -> _Line:
        words = [(word, match.span()) for match in _WORD.finditer(text) if (word := fold(match[0]))]
        return cls(text, tuple(word for word, _ in words), tuple(span for _, span in words))

    def find(self, wanted: Sequence[str]) -> int | None:
        """Return the index of the first occurrence of the words in a row, or None."""
        count = len(wanted)
        places = range(len(self.words) - count + 1) if count else range(0)
        row = tuple(wanted)
        return next((at for at in places if self.words[at] == row[0] and self.words[at : at + count] == row), None)


class Wording:
    """The words of a passage: of its title, of each sentence, and of the whole text."""

    def __init__(self, title: str, text: str) -> None:
        self.sentences = sentences(text)
        self._title, self._text = _Line.of(title), _Line.of(" ".join(text.split()))
        self._lines = tuple(_Line.of(sentence) for sentence in self.sentences)
        of_title = Counter(self._title.words)
        self._bags = tuple(of_title | Counter(line.words) for line in self._lines) or (of_title,)

    def spelled(self, name: str) -> str:
        """Return the name as the passage spells it; "" if the passage lacks its words."""
        name = " ".join(name.split())
        if name.endswith(".") and not _ABBREVIATION.search(name):  # the full stop of the model's line
            name = name[:-1].rstrip()
        if not (wanted := _Line.of(name).words):
            return ""
        if _stands(name, self._title.text) or _stands(name, self._text.text):
            return name
        for variant in (name, _ARTICLE.sub("", name, count=1) if _ARTICLE.match(name) else name):
            for line in (self._title, self._text):
                if spelled := _as_written(line, variant):
                    return spelled
        counts = Counter(wanted)
        return name if any(counts <= bag for bag in self._bags) else ""

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


_wording = lru_cache(maxsize=8)(Wording)  # triples are held against the same passages one by one


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


LeftOut = Literal["malformed", "not in the passage", "no name", "repeated"]  # why a triple is left out

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


def ground_triples(
    triples: Sequence[Triple], title: str, text: str
) -> tuple[tuple[StatedFact, ...], dict[LeftOut, int]]:
    """Return the triples that a passage states, and how many were left out."""
    wording = _wording(title, text)
    facts: dict[tuple[str, ...], StatedFact] = {}
    left_out: Counter[LeftOut] = Counter()
    for subject, relation, value in triples:
        names = fold(subject), fold(value)
        if names[0] == names[1] or any(_NO_NAMES.issuperset(name.split()) for name in names):
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
