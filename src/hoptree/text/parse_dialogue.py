"""Read a reply of questions that a model asks itself."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import zip_longest

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer
from hoptree.text import parse
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import MAX_ANSWER_CHARS, clean_answer, looks_unanswered, question_key
from hoptree.text.tokens import lstrip_marks, strip_marks

_QUOTES = "\"'“”‘’`*_ \t"
_ITEM_NUMBER = lazy_re(r"\A\d{1,2}[.)]\s+(?=\D)")
_QUESTION_LABEL = lazy_re(r"\W*question\b[^:]{0,9}:", re.IGNORECASE)
_NO_QUESTION = frozenset(("", "no", "none", "n a", "not needed", "nothing", "unknown"))


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """What a reply adds: questions, a final answer, or neither of them (`idle`)."""

    pairs: tuple[tuple[str, str], ...] = ()
    open: str = ""
    final: str = ""
    idle: str = ""

    @property
    def error(self) -> str:
        """Why the reply could not be read; a repeated question is not an error."""
        return "" if self.first or self.final or self.idle else "neither a question nor a final answer"

    @property
    def first(self) -> str:
        """The first question of the reply."""
        return self.pairs[0][0] if self.pairs else self.open

    @property
    def guess(self) -> str:
        """The model's own answer to the first question."""
        return self.pairs[0][1] if self.pairs else ""


def read_dialogue(text: str, labels: re.Pattern[str], asked: Collection[str] = ()) -> DialogueTurn:
    """Read a reply up to its final answer, skipping `asked` questions.

    `labels` finds the label of a question (its group `ask`), an answer (`reply`) and the final one (`final`) anywhere
    in a line, since some models write all on one. Of several questions without an answer between them the last counts.
    An unlabelled question counts if only answers have labels.
    """
    text = text[:MAX_REPLY_CHARS]
    marks = list(labels.finditer(text))
    known = set(asked) | _NO_QUESTION
    pairs: list[tuple[str, str]] = []
    pending = idle = ""
    if all(mark.lastgroup == "reply" for mark in marks):
        question = _bare_question(text[: marks[0].start() if marks else len(text)])
        pending, idle = ("", question) if question_key(question) in known else (question, "")
    for mark, following in zip_longest(marks, marks[1:]):
        content = first_line(text[mark.end() : following.start() if following else len(text)])
        if mark.lastgroup == "ask":
            question = _ITEM_NUMBER.sub("", content)
            if question_key(question) in known:
                idle = question or idle
            else:
                pending = question
        elif mark.lastgroup == "reply" and pending and content:
            pairs.append((pending, content))
            known.add(question_key(pending))
            pending = ""
        elif mark.lastgroup == "final" and (answer := clean_answer(content)):
            return DialogueTurn(tuple(pairs), pending, answer, idle)
    return DialogueTurn(tuple(pairs), pending, "", idle)


def _bare_question(text: str) -> str:
    """Return the first unlabelled question of a reply."""
    lines = (first_line(line) for line in text.splitlines())
    questions = (line for line in lines if line.endswith("?") and not _QUESTION_LABEL.match(line))
    return next((_ITEM_NUMBER.sub("", line) for line in questions), "")


def read_answer(text: str) -> Answer:
    """Read a text as an answer from memory; unknown if it says that there is none."""
    answer = clean_answer(text)
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "internal")


def first_line(text: str) -> str:
    """Return the first line that is not empty, without quotes and list marks."""
    lines = (strip_marks(line, _QUOTES) for line in text.splitlines())
    return next((" ".join(line.split())[:MAX_ANSWER_CHARS] for line in lines if line), "")


_LOOSE = " \t\r\n.,:;!?)]–—-*"  # characters between a yes and what follows it
_KNOW = frozenset(("yes", "know", "known"))
_FIRST_WORD = lazy_re(r"\W*([^\W\d_]+)(?!['’][^\W\d_])[^\w\s]*", re.DOTALL)
_EITHER = lazy_re(r"\W*yes\s*(?:/|\bor\b)\s*no\b", re.IGNORECASE)
# Phrases that only repeat the yes: "I can answer that from my own knowledge.", "sure", "I know that".
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
    """Whether a model says that it knows the answer, and the answer."""

    known: bool
    answer: str = ""


def read_self_knowledge(text: str, question: str = "") -> SelfKnowledge:
    """Read the reply of a self-knowledge model; an unclear answer is dropped."""
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
    rest = lstrip_marks(parse.extract_conclusion(parse.cut_at_next_question(text)), _LOOSE)
    while not parse.is_title(rest) and (ability := _ABILITY.match(rest)):  # "I Know What You Did Last Summer"
        rest = lstrip_marks(rest[ability.end() :], _LOOSE)
    if not any(char.isalnum() for char in rest) or (_TAKEN_BACK.match(rest) and not parse.is_title(rest)):
        return ""
    answer = clean_answer(" ".join(rest.split()))
    return "" if looks_unanswered(answer) or parse.retrieval_trigger(answer) else answer
