"""Read the steps of a chain of thought, and a step that was corrected."""

from __future__ import annotations

import re

from hoptree.text.conclusions import gives_answer
from hoptree.text.parse import looks_unanswered, question_key
from hoptree.text.sentences import sentence_spans

_MAX_REPLY_CHARS = 10_000
_MAX_RATIONALE_CHARS = 600
_MAX_ADDED_CHARS = 200  # that a corrected rationale may have beyond twice those it had
_STEP_MARK = re.compile(
    r"\W{0,4}(?:(?:first|second|third|fourth|fifth|sixth|last|final)(?:ly)?|next|then)\s{0,3}[,:]\s*"
    r"|\W{0,4}(?:step|rationale)\s*\d{1,2}\s*[.:)]\s*|\W{0,4}\d{1,2}[.)]\s+(?=\D)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"\W{0,4}(?:(?:the\s+)?(?:edited|corrected|revised|mended|new)\s+)?(?:sentence|rationale|statement)s?\W{0,4}:\s*",
    re.IGNORECASE,
)
_NAMES_SOURCES = re.compile(r"\b(?:knowledge|information|texts?|facts?|documents?|passages?|sentence)\b", re.IGNORECASE)
_UNCHANGED = re.compile(
    r"\W*(?:(?:no|needs no|without)\s+(?:changes?|edits?|corrections?)\b.*|unchanged|same|correct|ok|none|n/a"
    r"|the (?:sentence|rationale|statement) (?:is|remains) (?:correct|unchanged|the same|right|accurate|true)\b.*)\W*",
    re.IGNORECASE | re.DOTALL,
)
_QUOTES = ' \t"“”`*'
_SENTENCE_ENDS = (".", "!", "?", "”", '"', ")")


def read_rationales(text: str) -> tuple[str, ...]:
    """Return the steps of a chain of thought, up to the one that gives the answer.

    A chain whose sentences are marked (First, Second, Step 3, 4.) has one rationale a mark; else every sentence is one.
    """
    rationales: list[str] = []
    marked = False
    for start, end in sentence_spans(text[:_MAX_REPLY_CHARS]):
        sentence = text[start:end]
        if gives_answer(sentence):
            break
        mark = _STEP_MARK.match(sentence)
        content = " ".join(sentence[mark.end() if mark else 0 :].split())
        if not question_key(content):
            continue
        if marked and not mark:
            rationales[-1] = f"{rationales[-1]} {content}"
        else:
            rationales.append(content)
        marked = marked or bool(mark)
    return tuple(rationale[:_MAX_RATIONALE_CHARS] for rationale in rationales)


def read_corrected(reply: str, rationale: str, *, cut: bool = False) -> tuple[str, bool]:
    """Return the rationale as a reply corrects it, and whether the reply could be read.

    It stays as it is if the reply says that nothing is to be changed, that the sources do not tell, or the same again;
    and if the reply holds none or goes on and on. Of a reply `cut` off in its first line, whole sentences count.
    """
    label = _LABEL.match(reply[:_MAX_REPLY_CHARS])
    body = reply[label.end() if label else 0 : _MAX_REPLY_CHARS]
    lines = [line.strip() for line in body.splitlines() if question_key(line)]
    line = lines[0].strip(_QUOTES) if lines else ""
    if _UNCHANGED.fullmatch(line) or (looks_unanswered(line) and _NAMES_SOURCES.search(line)):
        return rationale, bool(line)
    sentences = [line[start:end] for start, end in sentence_spans(line)]
    if cut and len(lines) == 1 and sentences and not sentences[-1].endswith(_SENTENCE_ENDS):
        sentences = sentences[:-1]
    corrected = " ".join(read_rationales(" ".join(sentences)))
    too_long = len(corrected) > 2 * len(rationale) + _MAX_ADDED_CHARS
    if not corrected or len(set(sentences)) < len(sentences) or too_long:
        return rationale, False
    return (corrected if corrected.endswith(_SENTENCE_ENDS) else f"{corrected}."), True
