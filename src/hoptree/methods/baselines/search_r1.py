"""Search-R1: a model reasons, searches when it wants to, and answers, all in one text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hoptree.core.values import Answer, Passage, Question, Source
from hoptree.engine.context import Context
from hoptree.engine.prompts import Filled, plain, prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import holding
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.models.model import Choice, Message
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import clean_answer, looks_unanswered, question_key

MAX_SAID = 500
"""Characters of what is searched for or answered that are kept."""
_TAG = re.compile(r"<\s*+(?P<close>/?)\s*+(?P<name>search|answer|information)\s*+>", re.IGNORECASE)
_ANY = re.compile(r"<(?=\s*+/?\s*+(?:search|answer|information|think)\s*+>)", re.IGNORECASE)
_THOUGHT = "</think>"
_PLACEHOLDERS = {"search": "query", "answer": "answer"}
"""What stands for the text of an action where its form is told."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a model does next, and where that ends in what it wrote: what follows is not its own to write.

    It is not `closed` where the model was stopped, or forgot to.
    """

    kind: Literal["search", "answer", "none"] = "none"
    text: str = ""
    end: int = 0
    closed: bool = True

    def within(self, said: str) -> str:
        """What a model said up to the end of its action, with the tag that closes it."""
        return said[: self.end].rstrip() + ("" if self.closed else f"</{self.kind}>")


def read_action(text: str) -> Action:
    """The first action in what a model wrote; of several answers in a row the last.

    Behind its thoughts, or within them where there is none behind. A tag that is not closed reaches to the next one, or
    to the end of its line. One that is opened again begins there. Other tags inside an action are dropped, and what is
    empty is no action, nor is the form copied as it was told: <search> query </search>.
    """
    text = text[:MAX_REPLY_CHARS]
    behind = text.rfind(_THOUGHT)
    action = _first(text, behind + len(_THOUGHT)) if behind >= 0 else Action()
    return action if action.kind != "none" else _first(text, 0)


def _first(text: str, at: int) -> Action:
    taken = Action(end=len(text))
    while found := _TAG.search(text, at):
        at = found.end()
        name = found["name"].casefold()
        if name == "information":  # nobody gave it that: it writes the rest of the dialogue by itself
            return taken if taken.text else Action(end=found.start())
        if found["close"]:
            continue
        action = _inside(text, name, at)
        at = action.end
        if not action.text:
            continue
        if name == "search":
            return taken if taken.text else action
        taken = action
    return taken


def _inside(text: str, name: str, start: int) -> Action:
    """What stands between an opening tag and its close, or what ends it in place of one."""
    inner = 0
    for tag in _TAG.finditer(text, start):
        if tag["name"].casefold() == "information":
            break
        same = tag["name"].casefold() == name
        if same and not tag["close"]:  # begun again
            start, inner = tag.end(), 0
        elif not tag["close"]:
            inner += 1
        elif same:
            return _action(name, text[start : tag.start()], tag.end(), closed=True)
        elif not inner:
            break
    following = _TAG.search(text, start)
    inside = text[start : following.start() if following else len(text)]
    end = start + len(inside) - len(inside.lstrip())
    line = text[end : start + len(inside)].split("\n", 1)[0]
    return _action(name, line, end + len(line), closed=False)


def _action(name: str, inside: str, end: int, *, closed: bool) -> Action:
    said = " ".join(_TAG.sub(" ", inside).split())[:MAX_SAID].strip()
    if said.rstrip(".").casefold() == _PLACEHOLDERS[name]:
        said = ""
    return Action("search" if name == "search" else "answer", said, end, closed)


def break_tags(text: str) -> str:
    """A text from outside, in which no tag counts."""
    return _ANY.sub("‹", text)


_WORDS_A_TOKEN = 0.75


class Rollout:
    """What was written so far, and how a model goes on with it.

    As `one_text`, it continues its own reply, in which what it is told and what it thought stand as in its training, if
    it can; else it is told in turns of a chat, as models want it that were trained for that.
    """

    def __init__(self, ctx: Context, prompt: Filled, *, one_text: bool) -> None:
        self._ctx, self._prompt, self._thoughts = ctx, prompt, one_text
        self._prefix = "prefix" in ctx.model_for("answer").capabilities
        self._one_text = one_text and self._prefix
        self._turns: list[Message] = []

    @property
    def text(self) -> str:
        return "\n\n".join(turn.content for turn in self._turns if turn.content)

    async def write(self, *, step: str, max_tokens: int, stop: tuple[str, ...], lead: str = "") -> str:
        """What the model writes next, which becomes a part of the text only with `keep`.

        It begins with `lead`, if it can be made to.
        """
        lead = lead if self._prefix else ""
        prompt, prefix = self._prompt, lead
        if self._one_text:
            prefix = f"{self.text}\n\n{lead}" if self.text else lead
        else:
            prompt = Filled((*prompt.messages, *self._turns), prompt.template)
        reply = await self._ctx.generate(step, prompt, max_tokens=max_tokens, prefix=prefix, stop=stop, part=True)
        return lead + self._whole(reply.choices[0])

    def keep(self, said: str, told: str) -> None:
        """Go on with what the model said, and with what it is told."""
        # Chat templates want something said in every turn.
        said = plain(said).strip() or ("" if self._one_text else "…")
        self._turns += [Message("assistant", said), Message("user", plain(told).strip())]

    def _whole(self, choice: Choice) -> str:
        said = choice.text.strip()
        return f"<think>{choice.reasoning}</think>\n{said}" if self._thoughts and choice.reasoning else said


def show_information(ctx: Context, passages: Sequence[Passage], *, titles: bool, tokens: int) -> str:
    """What a search found, in the tags that Search-R1 was trained with, of about `tokens` tokens at most."""
    left = round(_WORDS_A_TOKEN * tokens)
    lines: list[str] = []
    for number, passage in enumerate(passages, 1):
        words = show_passages(ctx, [passage], titles=titles).removeprefix("passage:").split()
        if len(words) > left:
            ctx.trace.add("truncated", passage=passage.id, words=len(words), kept=left)
        text, title = " ".join(words[:left]), " ".join(passage.title.split())
        if titles and text.startswith(f"{title}: "):
            text = f"(Title: {title}) {text.removeprefix(f'{title}: ')}"
        if text:
            lines.append(f"Doc {number}{text}" if text.startswith("(Title: ") else f"Doc {number}: {text}")
        left -= len(words[:left])
    return f"<information>{break_tags(chr(10).join(lines)) or 'Nothing was found.'}</information>"


_STOP = ("</search>", "</answer>", "<information>")
_INVALID = "The previous action is invalid. It is either <search> query </search> or <answer> answer </answer>."
_MY_INVALID = "My previous action is invalid. It is either <search> query </search> or <answer> answer </answer>."
_REPEATED = "That was searched for before; what was found stands above. Search for what is still needed, or answer."
_NO_MORE = "There are no more searches. The answer has to be given now, between <answer> and </answer>."


@method(
    "search_r1",
    title="Reasoning with a search engine",
    paper="Search-R1",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    query="What the model writes between its tags",
    trained=True,
    reworded=True,
)
async def search_r1(
    question: Question,
    ctx: Context,
    *,
    turns: int = 4,
    k: int = 3,
    max_tokens: int = 500,
    information: int = 500,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Let the model think, search between tags and read what was found, until it gives its answer between tags.

    There are `turns` with a search each, and one last turn without; each of at most `max_tokens`, and what a search
    found is cut to about `information` tokens. What is neither a search nor an answer is told so, and costs a turn. A
    text that goes on by itself after a search, with information nobody gave, is cut there. Without `checkpoint`, any
    model is shown two examples and asked in the same loop, in turns of a chat that end with the question, and made to
    answer in the last one; a search that it repeats is not made again, but told so. That is ReAct more than Search-R1.
    With it, all is one text, in which the model thinks in its tags and sees titles; it is
    asked in other words than its training's, and may end without an answer. Always greedy, as the paper evaluates; the
    released demonstration samples.
    """
    ctx.require_corpus()
    prompt = prompt_for(ctx.method, "trained" if checkpoint else "rollout").fill(question=question.text)
    rollout = Rollout(ctx, prompt, one_text=checkpoint)
    read: dict[str, Passage] = {}
    searched: set[str] = set()
    for turn in range(turns + 1):
        last = turn == turns
        lead = "<answer>" if last and not checkpoint else ""
        said = await rollout.write(step="act", max_tokens=max_tokens, stop=_STOP, lead=lead)
        action = _note(ctx, said, turn)
        if last or action.kind == "answer":
            rollout.keep(action.within(said), "")
            break
        told = _MY_INVALID if checkpoint else _INVALID
        if action.kind == "search" and not checkpoint and question_key(action.text) in searched:
            ctx.decide("repeated_search", action.text, turn=turn)
            told = _REPEATED
        elif action.kind == "search":
            searched.add(question_key(action.text))
            found = await ctx.search(action.text, k=k)
            read |= {passage.id: passage for passage in found}
            told = show_information(ctx, found, titles=titles or checkpoint, tokens=information)
        if not checkpoint:
            told += f"\n\n{_NO_MORE}" if turn + 1 == turns else ""
            told += f"\n\nQuestion: {question.text}"
        rollout.keep(action.within(said), told)
    ctx.trace.add("chain", text=rollout.text)
    return _answer(action, rollout.text, list(read.values()))


def _note(ctx: Context, said: str, turn: int) -> Action:
    action = read_action(said)
    error = "neither a search nor an answer" if action.kind == "none" else ""
    note_reply(ctx, "act", error)
    ctx.decide("action", action.kind, turn=turn, text=action.text)
    return action


def _answer(action: Action, raw: str, read: list[Passage]) -> Answer:
    text = clean_answer(action.text) if action.kind == "answer" else ""
    source: Source = "external" if read else "internal"
    if not text or looks_unanswered(text):
        return Answer("", raw, "unknown", source)
    return Answer(text, raw, "answered", source, holding(text, read))
