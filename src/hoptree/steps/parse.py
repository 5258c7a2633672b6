"""Reading what a model said: pure functions that accept anything and never raise."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hoptree.tree import Pairs

__all__ = [
    "JsonReading",
    "Knowing",
    "clean_answer",
    "concluded",
    "looks_unanswered",
    "question_key",
    "read_json",
    "read_knowing",
    "read_numbers",
    "read_questions",
    "read_relevance",
    "retrieval_trigger",
    "why_unanswered",
]

MAX_REPLY = 100_000
"""Characters of a reply that are looked at; an endless one is not worth more."""


@dataclass(frozen=True, slots=True)
class JsonReading:
    """The value found in a reply, and the repairs it took; `error` says why there is none."""

    value: Any = None
    repairs: tuple[str, ...] = ()
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


MAX_STARTS = 4
"""Brackets at which an object is tried to be read."""

_OPENING = re.compile(r"[{\[]")
_FENCE = re.compile(r"```[a-zA-Z]*\s*(.*?)(?:```|\Z)", re.DOTALL)
# Strings come first, so that what stands inside them is not touched.
_STRING = r'"(?:[^"\\]|\\.)*"'
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_BARE_WORD = re.compile(rf"({_STRING})|\b(unknown|True|False|None)\b", re.DOTALL)
_BARE_VALUES = {"unknown": '"unknown"', "True": "true", "False": "false", "None": "null"}
_SMART_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"'})


def read_json(text: str) -> JsonReading:
    """Find the object or array in a reply: as it is, without fences, balanced, mended, completed, in this order."""
    text = text[:MAX_REPLY].strip()
    if not text:
        return JsonReading(error="the reply is empty")
    reading = _load(text)
    if reading.ok and not isinstance(reading.value, str | int | float | None):
        return reading
    fenced = _FENCE.search(text)
    bodies: list[tuple[tuple[str, ...], str]] = [(("fence",), fenced[1].strip())] if fenced else []
    bodies.append(((), text))
    error = reading.error or "there is no object in it"
    for steps, body in bodies:
        # Prose may hold brackets too: what cannot be read is passed over, up to a point.
        for start in [match.start() for match in islice(_OPENING.finditer(body), MAX_STARTS)]:
            for repair in (_balanced, _mended, _completed):
                reading = _load(repair(body[start:]))
                if reading.ok and isinstance(reading.value, dict | list) and (reading.value or repair is _balanced):
                    return JsonReading(reading.value, (*steps, repair.__name__.lstrip("_")))
                error = reading.error or error
    return JsonReading(error=error)


def _load(text: str) -> JsonReading:
    try:
        return JsonReading(json.loads(text, object_pairs_hook=Pairs))
    except (ValueError, RecursionError) as error:
        return JsonReading(error=str(error) or "it is nested too deeply")


def _scan(text: str) -> tuple[str, list[str], bool]:
    """The text up to where its first value closes, the brackets still open then, and whether a string is open."""
    closers: list[str] = []
    in_string = escaped = False
    for index, char in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "{[":
            closers.append("}" if char == "{" else "]")
        elif char in "}]" and closers:
            if char != closers[-1]:
                continue
            closers.pop()
            if not closers:
                return text[: index + 1], [], False
    return text, closers, in_string


def _balanced(text: str) -> str:
    return _scan(text)[0]


def _mended(text: str) -> str:
    return _mend(_balanced(text.translate(_SMART_QUOTES)))


def _completed(text: str) -> str:
    """Close what is still open; the paper's own examples open four braces and close three."""
    body, closers, in_string = _scan(text.translate(_SMART_QUOTES))
    if in_string:
        body += '"'
    body = re.sub(r"[,:]\s*$", "", body.rstrip())
    return _mend(body + "".join(reversed(closers)))


def _mend(text: str) -> str:
    text = _BARE_WORD.sub(lambda m: m[1] or _BARE_VALUES[m[2]], text)
    return _TRAILING_COMMA.sub(lambda m: m[1] or "", text)


_LEAD = re.compile(r"\banswer(?:\s{1,9}is\b|\s{0,9}:)[\s:*]*", re.IGNORECASE)
_ABBREVIATED = re.compile(r"(?:\b(?:[^\W\d_]\.)+|\b(?:Jr|Sr|Inc|Ltd|Co|Corp|St|Bros|etc|vol)\.)\Z", re.IGNORECASE)
# A list begins at 1; "12. May 1950" is a date.
_BULLET = re.compile(r"^(?:[-*•]\s+|1[.)]\s+(?!jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|\d))", re.IGNORECASE)
_QUOTES = "\"'“”‘’«»`*"
MAX_LISTED = 8
MAX_ANSWER = 1_000
"""Characters of an answer that are kept."""


def concluded(text: str) -> str:
    """What follows the last "answer is" or "answer:" of a reply; all of it where there is none."""
    text = text[:MAX_REPLY].strip()
    end = 0
    for lead in _LEAD.finditer(text):
        end = lead.end()
    return text[end:].strip() or text


def clean_answer(text: str) -> str:
    """The bare answer in a reply: what follows the last "answer is", first line, without quotes and final full stop."""
    text = text[:MAX_REPLY].strip()
    if listed := _listed(text):
        return listed
    lines = concluded(text).splitlines()
    line = lines[0].strip()[:MAX_ANSWER] if lines else ""
    line = _BULLET.sub("", line).strip()
    previous = None
    while line != previous:
        previous = line
        line = line.strip()
        ends = line[:1] + line[-1:]
        if len(line) > 1 and set(ends) <= set(_QUOTES) and not set(ends) & set(line.strip(ends)):
            line = line[1:-1]
        if line.endswith(".") and not line.endswith("..") and not _ABBREVIATED.search(line):
            line = line[:-1]
    return line


def _listed(text: str) -> str:
    """A JSON list of names as "a, b and c"."""
    if not text.startswith("["):
        return ""
    value = _load(text).value
    if not isinstance(value, list) or not value or not all(isinstance(item, str | int | float) for item in value):
        return ""
    items = [str(item) for item in value[:MAX_LISTED]]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


_IDENTIFIER = re.compile(r"rag[\s\\_-]*required", re.IGNORECASE)
_SOFT_REFUSAL = re.compile(
    r"\bi(?:\s+am|['’]m)\s+(?:unsure|uncertain|unable)\b"
    r"|\bi(?:\s+(?:do\s+not|don['’]t|cannot|can['’]t|am\s+not)|['’]m\s+not)\b[^.]{0,40}"
    r"\b(?:know|sure|certain|able|answer|aware|familiar|have|provide)",
    re.IGNORECASE,
)


_BARE_REFUSAL = re.compile(
    r"(?:sorry,? ?)?(?:not sure|unsure|uncertain|no idea|not certain|don['’]t know|i have no idea)"
)


def retrieval_trigger(reply: str) -> str:
    """Why a Confident QA reply asks for retrieval: "hard" (the identifier, or nothing), "soft" (a refusal), or ""."""
    if not reply.strip() or _IDENTIFIER.search(reply):
        return "hard"
    bare = reply.strip(" .!\"'“”`*\n").casefold()
    return "soft" if bare in _UNKNOWN or _BARE_REFUSAL.fullmatch(bare) or _SOFT_REFUSAL.search(reply) else ""


_NEGATION = re.compile(r"\b(?:not|no|cannot|unable|without|none|neither|nor)\b|n['’]t\b", re.IGNORECASE)
_MISSING = re.compile(
    r"\b(?:found|find|mention\w*|provid\w*|contain\w*|specif\w*|includ\w*|indicat\w*|given|available|information|"
    r"answer\w*|determin\w*)\b",
    re.IGNORECASE,
)
# "United States" is a place: only the verb counts.
_STATED = re.compile(r"\bstat(?:e|ed|es)\b")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
# "the answer is not there", "there is no answer: …"; but "The answer is Not Fade Away".
_NO_CONCLUSION = re.compile(r"\b(?:[Nn]o|[Nn]ot an|[Ww]ithout an)\s+answer\b|\banswer\s+is\s+not\b")
_UNKNOWN = frozenset(
    (
        "unknown",
        "n/a",
        "na",
        "not found",
        "none given",
        "not available",
        "not mentioned",
        "not specified",
        "not provided",
        "unanswerable",
    )
)


def why_unanswered(text: str) -> str:
    """The words by which a reply says that the answer is not there, or "".

    A bare "No" or "None" is an answer, and so is "Not Fade Away": a negation and a word of finding must stand in one
    sentence of a reply of three words or more. Who says "the answer is …" is judged by what follows.
    """
    text = text[:MAX_REPLY].strip()
    if not text:
        return "empty"
    if found := _IDENTIFIER.search(text):
        return found[0]
    if found := _NO_CONCLUSION.search(text):
        return found[0]
    text = concluded(text)
    bare = text.strip(" .!\"'“”`*").casefold()
    if bare in _UNKNOWN:
        return bare
    if len(text.split()) < 3:
        return ""
    for sentence in _SENTENCE.split(text):
        negation = _NEGATION.search(sentence)
        missing = _MISSING.search(sentence) or _STATED.search(sentence)
        if negation and missing:
            return f"{negation[0]} … {missing[0]}"
    return ""


def looks_unanswered(text: str) -> bool:
    """Whether a reply says that it holds no answer; one rule for all methods."""
    return bool(why_unanswered(text))


_KNOW = frozenset(("yes", "know", "known"))
_FIRST_WORD = re.compile(r"\W*([^\W\d_]+)(?!['’][^\W\d_])\W*", re.DOTALL)
# "Yes, I can answer that from my own knowledge." says no more than yes.
_ABILITY = re.compile(
    r"(?:and\s+)?(?:i\s+(?:do\s+)?(?:know|can|am\s+able|have|could)\b|i['’](?:m\s+able|ve)\b|using\s+my\b|based\s+on\s+my\b)"
    r"[^.!?:\n]*(?:[.!?:\n]+\s*|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Knowing:
    """Whether a model says that it knows an answer, and the answer if it gave it in the same breath."""

    known: bool
    answer: str = ""


def read_knowing(text: str) -> Knowing:
    """The reply of a self-knowledge model: "yes" or "know" in the first place means known, everything else not."""
    text = text[:MAX_REPLY].strip()
    first = _FIRST_WORD.match(text)
    if first is None or first[1].casefold() not in _KNOW:
        return Knowing(False)
    said = text[first.end() :]
    if ability := _ABILITY.match(said):
        said = said[ability.end() :]
    answer = clean_answer(" ".join(said.split())) if any(char.isalnum() for char in said) else ""
    return Knowing(True, "" if looks_unanswered(answer) else answer)


_IRRELEVANT = re.compile(
    r"irrelevan|unrelated|\b(?:not|no|never|hardly|neither|lacks?)\b[^.\n]{0,40}\brelevan|n['’]t\b[^.\n]{0,40}\brelevan"
    r"|\brelevan(?:t|ce)\b\W{0,5}(?:no|none|not|low|false)\b|\A\W*(?:no|not|none|false)\b",
    re.IGNORECASE,
)
_RELEVANT = re.compile(r"\brelevan(?:t|ce)\b|\A\W*(?:yes|true)\b", re.IGNORECASE)


def read_relevance(text: str) -> bool:
    """Whether a reply calls a passage relevant; the negative is looked for first, and what says neither is negative."""
    text = text[:MAX_REPLY]
    return not _IRRELEVANT.search(text) and bool(_RELEVANT.search(text))


_BRACKETED = re.compile(r"\[\s*(\d{1,4}(?:\s*,\s*\d{1,4})*)\s*\]")
_BARE_NUMBERS = re.compile(r"[^\d\[\]]{0,40}?\d{1,4}(?:\s*(?:,|and|&)+\s*\d{1,4})*\s*\.?", re.IGNORECASE)
_NOT_RELEVANT = re.compile(r"\bnot\s+(?:\w+\s+)?relevant\b|irrelevan|\bunrelated\b", re.IGNORECASE)


def read_numbers(text: str, count: int) -> tuple[int, ...]:
    """The passages, numbered from 1, that a reply calls relevant: "No" names none, and so does a list of others."""
    text = text[:MAX_REPLY].strip()
    first = _FIRST_WORD.match(text)
    if first and text[: first.start(1)].strip(" *\"'") == "" and first[1].casefold() in ("no", "none"):
        return ()
    found: dict[int, None] = {}
    if _BARE_NUMBERS.fullmatch(text) and not _NOT_RELEVANT.search(text):
        found = dict.fromkeys(map(int, re.findall(r"\d+", text)))
    for line in re.split(r"[\n;]|(?<=\.)\s+(?=[A-Z\[])", text):
        refusal = _NOT_RELEVANT.search(line)
        heading = refusal and not _BRACKETED.search(line, 0, refusal.start())
        if heading:  # a list of the others begins, and goes on in the lines that follow
            break
        if refusal and not _BRACKETED.search(line, refusal.end()):
            continue  # "[3] is not relevant"
        for match in _BRACKETED.finditer(line, 0, refusal.start() if refusal else len(line)):
            found |= dict.fromkeys(map(int, match[1].split(",")))
    return tuple(number for number in found if 0 < number <= count)


MAX_LINES = 100
_ITEM = re.compile(r"^\s*(?:[-*•]\s+|\W{0,4}(?:q(?:uestion)?\s*|sub-?question\s*)?\d{1,2}\s*[.):]\s*)+", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:(?:in|on|at|of|for|to|by|from|with|under|during)\s+)?(?:who|whom|whose|what|which|when|where|why|how)\b"
    r"|(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b",
    re.IGNORECASE,
)
_NEXT_ITEM = re.compile(r"(?<=\?)\s+(?=\d{1,2}[.)]\s)")
_MARKS = "\"'“”‘’`*_ \t"


def read_questions(text: str) -> tuple[str, ...]:
    """The questions in a reply, each once: of a list, numbered or in bullets, of JSON, or of its lines."""
    text = text[:MAX_REPLY]
    value = read_json(text).value
    lines = _strings(value) if isinstance(value, dict | list) else []
    if not lines:
        # Models whose vocabulary has no line breaks, such as T5, write their list on one line.
        written = [part for line in text.splitlines() for part in _NEXT_ITEM.split(line)][:MAX_LINES]
        lines = [line for line in written if _ITEM.match(line)]
        lines = lines or [part for line in written for part in re.split(r"(?<=\?)\s+", line)]
    questions: dict[str, str] = {}
    for line in lines:
        question = " ".join(_ITEM.sub("", line.strip(_MARKS)).strip(_MARKS).split())
        if question.endswith("?") or (_ASKS.match(question) and not question.endswith(":")):
            questions.setdefault(question_key(question), question[:MAX_ANSWER])
    return tuple(question for key, question in questions.items() if key)


def _strings(value: Any) -> list[str]:
    """The texts in lists and objects, in order."""
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < MAX_LINES:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict | list):
            waiting.extend(reversed(list(one.values()) if isinstance(one, dict) else one))
    return found


def question_key(question: str) -> str:
    """What two spellings of one question share: its words, without case and punctuation."""
    return " ".join(re.findall(r"\w+", question.casefold()))
