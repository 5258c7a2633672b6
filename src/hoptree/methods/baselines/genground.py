"""GenGround: the model answers the next simple question by itself, and documents correct it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import direct_answer, holding, synthesise
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.in_turn import InTurn
from hoptree.methods.steps.parse_dialogue import Said, first_line, note_said, read_answer, read_dialogue
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.loose_json import MAX_REPLY_CHARS, read_json
from hoptree.text.parse import MAX_ANSWER_CHARS, clean_answer, looks_unanswered, question_key
from hoptree.text.question_tree import Node
from hoptree.text.sentences import sentence_spans
from hoptree.text.uncertainty import agreement

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
    text = text[:MAX_REPLY_CHARS].strip()
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
    return {"answer": first, "citation": " ".join(text.split())[:MAX_ANSWER_CHARS]}, _PROSE


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


_LABELS = re.compile(
    r"(?P<final>\bFINISH(?:ED)?\b[\s*]{0,3}[\[({:]?|(?im:^)\W{0,4}(?i:finish)[\s*]{0,3}[\[({:]"
    r"|(?i:\bfinal\s+answer(?:\s+is\b[\s*]{0,3}:?|[\s*]{0,3}:)))"
    r"|(?P<ask>(?i:\bthought[\s*]{0,3}:|\b(?:thought|step|question)\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
    r"|(?P<reply>(?i:\banswer[\s*]{0,3}:|\banswer\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
)
_BRACKETS = {"]": "[", ")": "(", "}": "{"}


async def deduce(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]]) -> Said:
    """The next question and the model's own answer to it, or the final answer, after these steps."""
    steps = [
        f"Thought {number}: {asked}\nAnswer {number}: {answer.text if answer.known else 'unknown'}"
        for number, (asked, answer) in enumerate(pairs, 1)
    ]
    prompt = prompt_for(ctx.method, "deduce").fill(question=question, steps="\n".join(steps) or "none")
    stop = ("\nQuestion:", f"\nThought {len(pairs) + 2}:")
    raw = (await ctx.generate("deduce", prompt, role="decompose", max_tokens=MAX_TOKENS, stop=stop, part=True)).text
    said = read_deduced(raw, [asked for asked, _ in pairs])
    note_said(ctx, "deduce", said)
    return said


def read_deduced(text: str, asked: Sequence[str] = ()) -> Said:
    """The thoughts of a reply that none of those `asked` before asked, with their answers, up to FINISH."""
    said = read_dialogue(text, _LABELS, {question_key(one) for one in asked})
    return replace(said, final=_unbracketed(said.final))


def _unbracketed(text: str) -> str:
    """A final answer up to the bracket that closes FINISH[, which the answer itself may hold in pairs."""
    depth = dict.fromkeys(_BRACKETS.values(), 0)
    for place, char in enumerate(text):
        if char in depth:
            depth[char] += 1
        elif opening := _BRACKETS.get(char):
            if not depth[opening]:
                return text[:place].strip(" \"'“”")
            depth[opening] -= 1
    return text


@method(
    "genground",
    title="Generate, then ground",
    paper="GenGround",
    needs=("corpus",),
    iterative=True,
    strategy="Every sub-question",
    query="Sub-questions deduced one after another",
    roles=("decompose", "answer"),
)
async def genground(
    question: Question,
    ctx: Context,
    *,
    k: int = 9,
    batch: int = 3,
    max_turns: int = 7,
    tries: int = 3,
    titles: bool = False,
) -> Answer:
    """Deduce the next simple question with an answer from memory, and revise that by the passages a reader cites.

    Of `k` passages, read in batches of `batch`, those that an answer was cited from are kept, until one batch is left;
    by it the answer is revised, which is asked for `tries` times at most and else left as it was. A turn that is
    neither a new question nor FINISH ends the loop, as `max_turns` do; then the question is answered from the turns,
    where the released code gives up. Any model grounds; the paper can also distil a small one for it.
    """
    ctx.require_corpus()
    if batch < 2:
        raise ConfigError(
            "Of a batch of one passage nothing is ever left out, so reading would not end.", "Set batch to 2 or more."
        )
    turns = InTurn(ctx, question.text)
    answer = Answer("", status="unknown")
    for _ in range(max_turns):
        said = await deduce(ctx, question.text, turns.pairs)
        if not said.first or (said.final and not said.pairs):
            answer = read_answer(said.final)
            break
        ctx.propose(read_answer(said.final), order=1)
        node = turns.begin(said.first)
        found = await ctx.search(said.first, k=k, node=node)
        kept = await narrow_down(ctx, said.first, found, batch=batch, titles=titles, node=node)
        guess = read_answer(said.guess)
        turns.end(node, await revise(ctx, said.first, guess, kept, tries=tries, titles=titles, node=node))
    if not answer.known:
        answer = await _synthesise(ctx, turns)
    return turns.conclude(answer)


async def _synthesise(ctx: Context, turns: InTurn) -> Answer:
    """The answer that the turns come to; from memory where there are none."""
    known = [f"{asked} {answer.text}" for asked, answer in turns.pairs if answer.known]
    return await (synthesise(ctx, turns.question, known) if known else direct_answer(ctx, turns.question))
