"""Answers that name the sentence they rest on: which passages hold one, and what they make of a guess."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.runtime.schedule import together
from hoptree.sentences import sentence_spans
from hoptree.steps.answering.answer import holding
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.reading.dialogue import first_line
from hoptree.steps.reading.loose_json import MAX_REPLY, read_json
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import MAX_ANSWER, clean_answer, looks_unanswered, question_key
from hoptree.tree import Node
from hoptree.uncertainty.outside import agreement
from hoptree.values import Answer, Passage

__all__ = ["Cited", "cited_passage", "narrow_down", "read_cited", "revise"]

MAX_TOKENS = 128
MAX_WORDS = 20
"""Words of an answer that can be used; a longer one is no bare answer."""
_LABEL = re.compile(r"\b(?P<name>answer|citation)(?:(?P<quoted>\"\s{0,3})|[\s*]{0,4}):", re.IGNORECASE)
_OBJECT_MARKS = '",}]` '
"""What stands between the text of one name and the next one, or the object's end."""
_PROSE = ("prose",)
_NOTHING = frozenset(("", "none", "null", "nothing"))
"""Words for an answer that is not there, unless a citation bears them out."""
_INSUFFICIENT = re.compile(
    r"\b(?:insufficient|(?:no|not)\s+(?:enough|sufficient))\s+(?:information|evidence)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Cited:
    """An answer and the sentence it is said to stand in; `insufficient` says that documents hold none.

    `error` says why a reply is neither, `repairs` what it took to read it.
    """

    answer: str = ""
    citation: str = ""
    insufficient: bool = False
    repairs: tuple[str, ...] = ()
    error: str = ""


async def narrow_down(
    ctx: Context, question: str, passages: Sequence[Passage], *, batch: int, titles: bool, node: Node | None = None
) -> list[Passage]:
    """As many passages as a batch has at most: batches are read in turn, and of each only what it cites stays.

    What is cited goes to the queue's end, and is read again as long as there is more than a batch. Batches that will
    be read whatever the others hold are read at once.
    """
    queue = deque(passages)
    assert batch > 1, "of a batch of one nothing would ever be left out"
    while len(queue) > batch:
        sure = -(-(len(queue) - batch) // batch)
        batches = [[queue.popleft() for _ in range(min(batch, len(queue)))] for _ in range(sure)]
        found = await together(_cite(ctx, question, one, titles, node) for one in batches)
        queue.extend(passage for passage in found if passage)
    return list(queue)


async def _cite(
    ctx: Context, question: str, passages: Sequence[Passage], titles: bool, node: Node | None
) -> Passage | None:
    """The passage of a batch that the model cites for its answer."""
    documents = show_passages(ctx, passages, titles=titles)
    prompt = prompt_for(ctx.method, "cite").fill(documents=documents, question=question)
    said = read_cited((await ctx.generate("cite", prompt, max_tokens=MAX_TOKENS, node=node)).text)
    found = cited_passage(said, passages)
    error = said.error or ("" if found or said.repairs != _PROSE else "neither an answer nor words of the documents")
    note_reply(ctx, "cite", error, said.repairs)
    shown = [passage.id for passage in passages]
    ctx.decide("cited", found.id if found else None, node=node, answer=said.answer, citation=said.citation, of=shown)
    return found


async def revise(
    ctx: Context,
    question: str,
    guess: Answer,
    passages: Sequence[Passage],
    *,
    tries: int,
    titles: bool,
    node: Node | None = None,
) -> Answer:
    """The guess as passages correct it; where no reply out of several can be used, or none of them says, as it was."""
    documents = show_passages(ctx, passages, titles=titles)
    prompt = prompt_for(ctx.method, "revise").fill(documents=documents, question=question, guess=guess.text or "none")
    said = Cited(error="not asked")
    for _ in range(tries if passages else 0):
        raw = (await ctx.generate("revise", prompt, max_tokens=MAX_TOKENS, node=node)).text
        said = _short(read_cited(raw))
        note_reply(ctx, "revise", said.error, said.repairs)
        if not said.error:
            break
        prompt = prompt.follow_up(raw, f"That cannot be used: {said.error}. Reply with the JSON object alone.")
    answer = _grounded(said, guess, passages)
    ctx.decide(
        "revised", answer.text, node=node, guess=guess.text, citation=said.citation, grounded=answer is not guess
    )
    return answer


def _grounded(said: Cited, guess: Answer, passages: Sequence[Passage]) -> Answer:
    """What was said, with the passage that it cites; the guess where it is the same, and nothing bears it out."""
    cited = cited_passage(said, passages) if said.citation else None
    if not said.answer or (not cited and question_key(said.answer) == question_key(guess.text)):
        return guess
    support = (cited.id,) if cited else holding(said.answer, passages)
    return Answer(said.answer, said.answer, source="external", support=support)


def cited_passage(said: Cited, passages: Sequence[Passage]) -> Passage | None:
    """The passage that shares most words with a citation (by F1), or with the answer where none was copied.

    What has not even half of its words in a passage was made up, or copied from elsewhere. None where both were.
    """
    return _sharing(said.citation, passages) or _sharing(said.answer, passages)


def _sharing(words: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage that shares most of these words, if it has half of them."""
    best = max(passages, key=lambda passage: agreement(words, _whole(passage)), default=None)
    asked = set(question_key(words).split())
    held = set(question_key(_whole(best)).split()) if best else set()
    return best if asked and 2 * len(asked & held) >= len(asked) else None


def _whole(passage: Passage) -> str:
    return f"{passage.title} {passage.text}"


def read_cited(text: str) -> Cited:
    """The answer and the citation of a reply: JSON, two lines with labels, a bare answer, or prose that tells both."""
    text = text[:MAX_REPLY].strip()
    fields, repairs = _fields(text)
    answer, citation = clean_answer(fields.get("answer", "")), fields.get("citation", "")
    if _INSUFFICIENT.search(answer or text) or (text and looks_unanswered(answer or text)):
        return Cited(insufficient=True)
    if "answer" in fields and "bare" not in repairs and not citation and question_key(answer) in _NOTHING:
        return Cited(insufficient=True)
    if not any(char.isalnum() for char in answer):
        return Cited(error="there is no answer in it", repairs=repairs)
    return Cited(answer, citation, repairs=repairs)


def _fields(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What a reply has under each name, and what it took to read it."""
    reading = read_json(text)
    value = reading.value[0] if isinstance(reading.value, list) and len(reading.value) == 1 else reading.value
    if isinstance(value, dict):
        return {str(name).casefold(): _text(said) for name, said in value.items()}, reading.repairs
    if fields := _labelled(text):
        return fields, ()
    if "{" in text:
        return {}, ()
    if len(text.split()) <= MAX_WORDS:
        return {"answer": first_line(text)}, ("bare",)
    first = next((text[start:end] for start, end in sentence_spans(text)), "")
    return {"answer": first, "citation": " ".join(text.split())[:MAX_ANSWER]}, _PROSE


def _labelled(text: str) -> dict[str, str]:
    """What stands behind the first of each label, also in an object whose quotation marks nobody can tell apart."""
    marks = list(_LABEL.finditer(text))
    fields: dict[str, str] = {}
    for mark, following in zip_longest(marks, marks[1:]):
        content = text[mark.end() : following.start() if following else len(text)]
        if mark["quoted"]:
            content = " ".join(content.split()).rstrip(_OBJECT_MARKS)
        fields.setdefault(mark["name"].casefold(), first_line(content))
    return fields


def _text(value: Any) -> str:
    """A value as a person would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text, value)))
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _short(said: Cited) -> Cited:
    """A reply whose answer is a sentence and more cannot be used."""
    count = len(said.answer.split())
    if said.repairs == _PROSE:
        return Cited(error="there is no object in it", repairs=_PROSE)
    return replace(said, answer="", error=f"the answer has {count} words") if count > MAX_WORDS else said
