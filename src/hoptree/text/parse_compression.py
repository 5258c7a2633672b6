"""Read a summary of documents, its evaluation and the tag that calls it complete (CompAct)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hoptree.text.loose_json import MAX_REPLY_CHARS, read_json

_LINE_START = r"(?:part[ \t])?[ \t#*_\d.)–-]{0,20}"
_EVALUATION_NAME = r"evaluation(?:[ \t]of[ \t](?:the|this)[ \t]summary)?"
# A heading has a colon, a line of its own, or the tag behind it.
_HEADING_END = r"[ \t*_]*(?::[\s*_]*|(?=\n|\[|\Z))"
_HEADING = re.compile(
    rf"(?:\A|\n){_LINE_START}(?:(?P<summary>summary)|question|(?:source )?documents|{_EVALUATION_NAME}){_HEADING_END}",
    re.IGNORECASE,
)
_EVALUATION = re.compile(
    rf"\b{_EVALUATION_NAME}[\s*_]*:[\s*_]*|(?:\A|\n){_LINE_START}{_EVALUATION_NAME}{_HEADING_END}", re.IGNORECASE
)
_TAG = re.compile(r"\[\s*(?P<not>in|not )?complete\s*\]", re.IGNORECASE)
_EITHER = re.compile(r"[\s/|,]*(?:or\b)?\s*", re.IGNORECASE)
# Without its brackets a tag counts only where it stands alone, in capitals or of the summary: "does not give complete
# details" is none.
_BARE_TAGS = (
    re.compile(r"\W*(?P<not>in|not )?complete\b(?=\s*(?:[.,:;!–—\n-]|\Z))", re.IGNORECASE),
    re.compile(r".*?\b(?P<not>IN|NOT |not )?COMPLETE\b", re.DOTALL),
    re.compile(r".*?\bsummary\s(?:is|seems|appears|looks)\s(?P<not>in|not )?complete\b", re.IGNORECASE | re.DOTALL),
)


@dataclass(frozen=True, slots=True)
class Compression:
    """The summary so far, what a model says of it (without the tag), and whether it calls that complete."""

    summary: str = ""
    evaluation: str = ""
    complete: bool = False

    @property
    def line(self) -> str:
        """All of it in one line, for readers of the reasoning."""
        tag = "[COMPLETE]" if self.complete else "[INCOMPLETE]"
        return f"Summary: {self.summary or '(none)'} Evaluation: {self.evaluation or '(no reason)'} {tag}"


def read_compression(text: str) -> tuple[Compression, tuple[str, ...]]:
    """Return summary and evaluation of a reply, and which of "summary", "evaluation", "tag" and "reason" it lacks.

    Without a summary, or without an evaluation that gives a verdict, it is incomplete. A reply that goes on with a turn
    of its own ends there.
    """
    text = _flatten_object(text[:MAX_REPLY_CHARS].strip())
    heading = _HEADING.search(text)
    if heading and heading["summary"] and not _TAG.search(text, 0, heading.start()):
        text = text[heading.end() :]
    split, tag = _EVALUATION.search(text), _TAG.search(text)
    ends = [match.start() for match in (split, tag) if match]
    summary = _until_heading(text[: min(ends, default=len(text))])
    if not summary and (later := next((match for match in _HEADING.finditer(text) if match["summary"]), None)):
        summary = _until_heading(text[later.end() :])
    evaluation = _until_heading(text[split.end() :] if split else text[tag.start() :] if tag else "")
    verdict = _verdict(evaluation)
    reason = " ".join(_TAG.sub(" ", evaluation).split()).lstrip(" .,:;*_–—-")
    parts = {"summary": summary, "evaluation": evaluation, "tag": verdict is not None, "reason": reason}
    compression = Compression(summary, reason, bool(verdict and summary))
    return compression, tuple(name for name, present in parts.items() if not present)


def _flatten_object(text: str) -> str:
    """Return the parts of a reply that is a JSON object as text with headings; others as they are."""
    value = read_json(text).value if text.lstrip("`json \n").startswith("{") else None
    if not isinstance(value, dict):
        return text
    parts = {str(name).casefold(): part for name, part in value.items() if isinstance(part, str)}
    if "summary" not in parts:
        return text
    return f"Summary: {parts['summary']}\nEvaluation: {parts.get('evaluation', '')}"


def _verdict(evaluation: str) -> bool | None:
    """Whether an evaluation calls a summary complete; None where it does not say, or repeats both tags."""
    tags = list(_TAG.finditer(evaluation))
    if len(tags) > 1 and _EITHER.fullmatch(evaluation, tags[0].end(), tags[1].start()):
        return None
    match = tags[0] if tags else next(filter(None, (bare.match(evaluation) for bare in _BARE_TAGS)), None)
    return None if match is None else not match["not"]


def _until_heading(text: str) -> str:
    following = _HEADING.search(text, 1)
    return " ".join((text[: following.start()] if following else text).strip("*_# \n\t").split())
