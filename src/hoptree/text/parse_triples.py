"""Parse the triples of a reply in any form; never raise."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.core.values import Token
from hoptree.text.loose_json import read_json
from hoptree.text.tokens import token_spans
from hoptree.text.uncertainty import token_probability

MAX_TRIPLES = 200  # triples of a reply that are read: a model that repeats itself never ends
MAX_NAME_CHARS = 200  # characters of a name, as a graph takes them
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
    """Read triples in any form; the last of a reply `cut` off may be left out."""
    text = reply[:_MAX_REPLY_CHARS].strip("\ufeff")
    cut = cut or len(reply) > _MAX_REPLY_CHARS
    by_line, as_json = _Collector(), _Collector()
    lines = text[: text.rfind("\n") + 1] if cut else text
    for line in lines.splitlines()[:_MAX_LINES]:
        _read_line(line, by_line)
    value = read_json(text).value if text.count('"') >= 4 or not by_line.triples else None
    as_json.walk(value)
    # JSON written a triple a line is read either way; over several lines, or cut off, only one way finds all.
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
    confidences: list[float] = []
    at = 0
    for triple in triples:
        start = end = -1
        for part in triple:  # the object behind its subject and relation, since it may be a part of the subject too
            if (start := text.find(part, at)) >= 0:
                at = end = start + len(part)
        inside = [
            token_probability(token)
            for token, place in zip(tokens, places, strict=True)
            if start >= 0 and place and place[0] < end and place[1] > start
        ]
        confidences.append(min(inside, default=default))
    return confidences
