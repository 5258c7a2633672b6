"""Rewrite a follow-up question so that it can be understood alone.

A small model may repeat an earlier question, alone or before the follow-up, and leave the pronoun in. The repetition
is then dropped, and the pronoun is replaced by the person or thing that the conversation is about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage, Question
from hoptree.engine.explain import shorten
from hoptree.engine.prompts import prompt_for
from hoptree.engine.trace import QuestionRewritten
from hoptree.text.grounding import covers, stems
from hoptree.text.names import CLOSED, name_spans

if TYPE_CHECKING:
    from hoptree.engine.context import Context

_MAX_TURNS = 6  # earlier questions that the model sees
_MAX_REWRITTEN_TOKENS = 120
_MAX_ADDED_STEMS = 2  # word stems that neither the conversation nor the question has; with more it is another question
_WORD = lazy_re(r"[a-z0-9]+|[^\W\d_a-z]")
_JOINED = lazy_re(r"(?:and|but|so|und|aber)\s+", re.IGNORECASE)
_BETWEEN = lazy_re(r"\b(?:and|or|but|und|oder|aber)\b", re.IGNORECASE)
_PERSON = lazy_re(
    r"\b(?:(?P<of>his|her(?!\s*(?:[?.!,]|$)|\s(?:in|on|at|to|for|with|from|by|as)\b)|seine[rnms]?)|he|she|him|her|er|ihn|ihm)\b",
    re.IGNORECASE,
)
_THING = lazy_re(r"\b(?:(?P<of>its)|it(?! (?:\w+ ){1,2}(?:to|that|if|whether)\b))\b", re.IGNORECASE)
_ODD_NAME = lazy_re(r"(?<!\S)(?:[A-Za-z]+[\d_][\w.+-]*\w|[A-Za-z]+\d|[./~]*/[\w./+-]*\w)")
"""bzip2, libz.so.1, snake_case, /usr/share"""
_ASKS_FOR_PERSON = lazy_re(r"\b(?:who|whom|wer|wen|wem)\b", re.IGNORECASE)
_OF_PERSON = lazy_re(
    r"\b(?:born|die[ds]?|death|live[ds]?|marr\w+|wife|husband|spouse|mother|father|sons?|daughters?|child\w*|stud\w+"
    r"|geboren|gestorben|starb|lebte|verheiratet|frau|mann|mutter|vater|sohn|tochter|kinder|stud\w+)\b",
    re.IGNORECASE,
)

Turn = tuple[str, str]  # a question and its answer


async def rewrite_question(asked: Question, ctx: Context) -> Question:
    """Return a follow-up question that can be understood alone; calls the model once.

    A reply is rejected if it has no word of the question, a name that neither the question nor the conversation has, or
    too many new words.
    """
    turns = [(shorten(question), shorten(answer)) for question, answer in asked.history[-_MAX_TURNS:]]
    history = "\n".join(f"Question: {question}\nAnswer: {answer or 'none was found'}" for question, answer in turns)
    prompt = prompt_for("chat", "standalone").fill(history=history, question=asked.text)
    reply = (await ctx.generate("rewrite", prompt, max_tokens=_MAX_REWRITTEN_TOKENS, stop=("\n",))).text
    text = " ".join(reply.removeprefix("Next question:").split())
    text = re.sub(r'\A["“„]([^"“”„]*)["”“]\Z', r"\1", text)  # the quotes of a title at the beginning stay
    text = _without_earlier(text, turns)
    accepted = _is_rewriting(text, asked.text, history)
    text = resolve_pronoun(text if accepted else asked.text, turns)
    if not accepted and text == asked.text:
        message = "The question was asked as it stands: what the model made of it names something else."
        ctx.warn("not_rewritten", message)
        return asked
    if text != asked.text:
        ctx.trace.emit(QuestionRewritten(question=text))
    return replace(asked, text=text, history=())


def _without_earlier(text: str, turns: Sequence[Turn]) -> str:
    """Return the text without an earlier question at its beginning."""
    for question, _ in turns:
        if text.casefold().startswith(question.casefold()) and (rest := text[len(question) :].strip()):
            return rest
    return text


def _is_rewriting(text: str, asked: str, history: str) -> bool:
    """Return whether a text asks the same question, in the words of the conversation."""
    wanted = stems(_THING.sub("", _PERSON.sub("", asked))) or _words(asked)
    kept = wanted & (stems(text) | _words(text))
    added = stems(text) - stems(f"{history} {asked}")
    return bool(kept) and len(added) <= _MAX_ADDED_STEMS and covers(text, [Passage("", "", f"{history}\n{asked}")])


def resolve_pronoun(text: str, turns: Sequence[Turn]) -> str:
    """Replace a pronoun by the last person or thing, unless the question names one."""
    bare = text[joined.end() :] if (joined := _JOINED.match(text)) else text
    pronoun = _PERSON.search(bare)
    if pronoun is not None:
        name, before = _last_person(turns), bare[: pronoun.start()]
    elif (pronoun := _THING.search(bare)) is not None:
        name, before = _last_thing(turns), bare
    if pronoun is None or not name or _names(before) or _BETWEEN.search(bare[: pronoun.start()]):
        return text
    before, rest, possessive = bare[: pronoun.start()], bare[pronoun.end() :], "'s" if pronoun["of"] else ""
    if not before and pronoun[0].casefold() in ("his", "her", "its"):
        before = "Who is " if _OF_PERSON.match(rest.lstrip()) else "What is "
    bare = f"{before}{name}{possessive}{rest}"
    return f"{bare[:1].upper()}{bare[1:]}"


def _last_person(turns: Sequence[Turn]) -> str:
    """Return the person of the latest question, or answer, about a person."""
    for question, answer in reversed(turns):
        if person := _person_of(question, answer):
            return person
        names = _names(question)
        if len(names) == 1 and _OF_PERSON.search(question):
            return names[0]
    return ""


def _person_of(question: str, answer: str) -> str:
    """Return the name in the answer to "who", such as "Ada directed the film [1]"."""
    spans = name_spans(answer) if _ASKS_FOR_PERSON.search(question) else ()
    names = (answer[start:end] for start, end in spans)
    return next((name for name in names if name.casefold() not in CLOSED and name not in question), "")


def _last_thing(turns: Sequence[Turn]) -> str:
    """Return the only thing that the latest question with names is about, or ""."""
    named = next(((question, names) for question, _ in reversed(turns) if (names := _names(question))), None)
    if named is None or len(named[1]) > 1 or _OF_PERSON.search(named[0]):
        return ""
    people = {_person_of(question, answer) for question, answer in turns}
    return "" if named[1][0] in people else named[1][0]


def _names(text: str) -> list[str]:
    """Return the names after the first word, and the names of files and programs."""
    first = re.match(r"\W*\w+", text)
    spans = name_spans(text, first.end() if first else 0)
    odd = [match.span() for match in _ODD_NAME.finditer(text)]
    spans += [(start, end) for start, end in odd if all(end <= low or start >= high for low, high in spans)]
    return [re.sub(r"['’]s?$", "", text[start:end]) for start, end in sorted(spans)]


def _words(text: str) -> set[str]:
    """Return the words of a text, or the characters in scripts without spaces."""
    return set(_WORD.findall(text.casefold()))
