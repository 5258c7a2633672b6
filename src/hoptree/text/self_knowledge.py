"""Read the reply of a self-knowledge model: whether it knows, and the answer behind its yes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hoptree.core.lazy import lazy_re
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import (
    clean_answer,
    cut_at_next_question,
    extract_conclusion,
    is_title,
    looks_unanswered,
    question_key,
    retrieval_trigger,
)

_LOOSE = " \t\r\n.,:;!?)]–—-*"
"""Characters between a yes and what follows it."""
_KNOW = frozenset(("yes", "know", "known"))
_FIRST_WORD = lazy_re(r"\W*([^\W\d_]+)(?!['’][^\W\d_])[^\w\s]*", re.DOTALL)
_EITHER = lazy_re(r"\W*yes\s*(?:/|\bor\b)\s*no\b", re.IGNORECASE)
# What says no more than yes: "I can answer that from my own knowledge.", "sure", "I know that" before what is known.
_ABILITY = lazy_re(
    r"(?:and\s+)?(?:"
    r"i\s+(?:do\s+)?(?:know|think|believe|recall|remember)\s+(?:that\s+)?"
    r"(?=(?:it|he|she|they|there)\s+(?:is|was|are|were|has|had)\b|(?<=that\s)(?-i:[A-ZÀ-ÞĀ-Ž\d]))"
    r"|(?:using|based\s+on|from|with|to)\s+my\b[^.!?:,\n]*(?:[.!?:,\n]+\s*|\Z)"
    r"|(?:sure|certainly|definitely|absolutely|of\s+course|indeed|i\s+(?:do|am|can|think\s+so|believe\s+so)"
    r"|(?:it|this|that)(?:\s+is|['’]s)\s+(?:known|correct|right))"
    r"(?:[.!?:,\n]+\s*|\Z)"
    r"|(?:i\s+(?:do\s+)?(?:know|recall|remember|can|could|have|need|am\s+(?:able|aware|certain|confident|familiar|sure))\b"
    r"|i['’](?:m\s+(?:able|aware|certain|confident|familiar|sure)|ve)\b"
    r"|(?:it|this|that)(?:\s+is|['’]s)\s+(?:possible|something\s+i)\b"
    r"|(?:it|that|(?:this|the)(?:\s+question)?)\s+can\s+be\s+answered\b)"
    r"[^.!?:\n]*?(?:[.!?:\n]+\s*|,\s*(?=(?:it|he|she|they)\s+(?:is|was|are|were)\b)|\Z)"
    r")",
    re.IGNORECASE,
)
_TAKEN_BACK = lazy_re(r"(?:but|however|although|though)\b", re.IGNORECASE)
_DOUBTFUL = lazy_re(r"\b(?:not|no|never|neither|only|different|but|however|although)\b|n['’]t\b", re.IGNORECASE)
_ASKS_YES_NO = lazy_re(
    r"\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SelfKnowledge:
    """Whether a model says it knows, its answer, and its least token probability."""

    known: bool
    answer: str = ""
    confidence: float | None = None


def read_self_knowledge(text: str, question: str = "") -> SelfKnowledge:
    """Read the reply of a self-knowledge model: a first word "yes" or "know" means known.

    For a yes-no question the yes is part of the answer. If what follows makes it doubtful that more was meant than
    "yes, I know", no answer is taken, so that it is asked for again.
    """
    text = text[:MAX_REPLY_CHARS].strip()
    first = _FIRST_WORD.match(text)
    if first is None or first[1].casefold() not in _KNOW or _EITHER.match(text):
        return SelfKnowledge(False)
    answer = _answer_after_yes(text[first.end() :])
    key = question_key(answer)
    if not _ASKS_YES_NO.match(question):
        return SelfKnowledge(True, "" if key in ("yes", "no") else answer)
    if not key or key.split()[0] in ("yes", "no"):
        return SelfKnowledge(True, answer)
    if first[1].casefold() != "yes" or _DOUBTFUL.search(answer):
        return SelfKnowledge(True)
    return SelfKnowledge(True, f"Yes{'. ' if answer[0].isupper() else ', '}{answer}")


def _answer_after_yes(text: str) -> str:
    """Return the answer that follows a yes, or ""."""
    rest = extract_conclusion(cut_at_next_question(text)).lstrip(_LOOSE)
    while not is_title(rest) and (ability := _ABILITY.match(rest)):  # "I Know What You Did Last Summer"
        rest = rest[ability.end() :].lstrip(_LOOSE)
    if not any(char.isalnum() for char in rest) or (_TAKEN_BACK.match(rest) and not is_title(rest)):
        return ""
    answer = clean_answer(" ".join(rest.split()))
    return "" if looks_unanswered(answer) or retrieval_trigger(answer) else answer
