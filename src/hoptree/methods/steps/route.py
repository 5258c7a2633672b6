"""Choosing one of a few named ways before a question is answered: by a prompt, or by a trained classifier."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from hoptree.engine.context import Context
from hoptree.engine.prompts import Filled, prompt_for
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.models.model import MAX_TOP_LOGPROBS, Reply
from hoptree.text.loose_json import MAX_REPLY_CHARS

MAX_TOKENS = 32
LABEL_TOKENS = 4
_ALIKE = 4
"""Characters, at least, that all forms of a word begin with."""

_WORD = re.compile(r"[^\W_]+")
_LEAD = re.compile(
    r"\b(?:strategy|answer|label|class|category|choice|choose|option|level)\b\W{0,3}(?:is|should\s+be|would\s+be|[:=])",
    re.IGNORECASE,
)
_YES, _NO = "Yes", "No"
_NEEDS_NOT = re.compile(
    r"\b(?:do|does|did|would|should)(?:\s+not|n['’]t)\s+(?:\w+\s+)?(?:need|require)\b|\bneeds?\s+no\b|\bno\s+need\b"
    r"|\b(?:not|isn['’]t)\s+(?:needed|necessary|required)\b",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\s+(?!(?:is|because|since|as|for)\b)[a-z]")
_MARKED = re.compile(r"[).:\]*]|\s*\Z|\n")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to answer a question: the name that a model is to say, and when it fits."""

    name: str
    when: str


@cache
def load_ways(method: str) -> tuple[Way, ...]:
    """The ways that a method chooses from, the cheapest first."""
    text = (files("hoptree") / "prompts" / method / "ways.jsonl").read_text(encoding="utf-8")
    return tuple(Way(row["name"], row["when"]) for row in map(json.loads, text.splitlines()))


def list_ways(ways: Sequence[Way]) -> str:
    """The ways as lines of a prompt."""
    return "\n".join(f"{way.name} - {way.when}" for way in ways)


async def choose_way(
    ctx: Context, prompt: Filled, names: Sequence[str], *, default: str, step: str = "route", role: str = "route"
) -> str:
    """The one of these names that a model says, or the `default` where it says none or leaves several open."""
    reply = await ctx.generate(step, prompt, role=role, max_tokens=MAX_TOKENS, part=True)
    return _chosen(ctx, step, read_way(reply.text, names), reply, names, default)


async def says_yes(ctx: Context, prompt: Filled, *, default: bool, step: str, role: str = "answer") -> bool:
    """Whether a model says yes; the `default` where it says neither yes nor no. "I do not need it" is a no."""
    reply = await ctx.generate(step, prompt, role=role, max_tokens=MAX_TOKENS, part=True)
    found = read_way(reply.text, (_YES, _NO)) or (_NO if _NEEDS_NOT.search(reply.text) else "")
    _parsed(ctx, step, found, (_YES, _NO))
    yes = found == _YES if found else default
    ctx.decide(step, yes, raw=reply.text, read=bool(found))
    return yes


async def classify(ctx: Context, question: str, labels: Sequence[str], *, default: str) -> str:
    """What a classifier that was trained to write one label behind the bare question makes of it.

    It is the likeliest of the labels, also where the model would rather have written something else, if it tells.
    """
    prompt = prompt_for(ctx.method, "classify").fill(question=question.strip())
    top = MAX_TOP_LOGPROBS if "logprobs" in ctx.model_for("route").capabilities else 0
    reply = await ctx.generate("classify", prompt, role="route", max_tokens=LABEL_TOKENS, top_logprobs=top, part=True)
    label = likeliest_label(reply, labels) or read_way(reply.text, labels)
    return _chosen(ctx, "classify", label, reply, labels, default)


def _chosen(ctx: Context, step: str, found: str, reply: Reply, names: Sequence[str], default: str) -> str:
    _parsed(ctx, step, found, names)
    ctx.decide("route", found or default, step=step, raw=reply.text, read=bool(found), of=list(names))
    return found or default


def _parsed(ctx: Context, step: str, found: str, names: Sequence[str]) -> None:
    note_reply(ctx, step, "" if found else f"none of {', '.join(names)}")


def likeliest_label(reply: Reply, labels: Sequence[str]) -> str:
    """The label that the first token most likely is, as far as the model tells; "" if it is none."""
    first = next((token for token in reply.choices[0].tokens if token.text.strip()), None)
    if first is None:
        return ""
    told = [(text.strip(), logprob) for text, logprob in ((first.text, first.logprob), *first.top)]
    return max((one for one in told if one[0] in labels), key=lambda one: one[1], default=("", 0.0))[0]


def read_way(text: str, names: Sequence[str]) -> str:
    """The name that a reply begins with, or has behind its last "strategy:" or "answer is", or else the only one in it.

    Where it begins, or behind such words, a name may have another ending ("Retrieve" for "Retrieval"). A letter stands
    alone, and "A" before a word is an article. "" where none is said, or several are without a sign which is meant.
    """
    text = text[:MAX_REPLY_CHARS]
    for place in (0, *(lead.end() for lead in reversed(list(_LEAD.finditer(text))))):
        if found := _said_at(text, place, names):
            return found
    words = list(_WORD.finditer(text))
    named = [name for name in names if len(name) != len("no")]  # which other words go with, too
    exact = {name for name in named for word in words if word[0] == name and _is(text, word, name)}
    said = exact or {name for name in named for word in words if _is(text, word, name)}
    return said.pop() if len(said) == 1 else ""


def _said_at(text: str, place: int, names: Sequence[str]) -> str:
    """The name that is the next word, or that alone has the next word for another form."""
    word = _WORD.search(text, place)
    if word is None:
        return ""
    whole = [name for name in names if _is(text, word, name)]
    if whole:
        return whole[0]
    folded = word[0].casefold()
    alike = [name for name in names if len(name) >= _ALIKE and folded.startswith(_stem(name))]
    return alike[0] if len(alike) == 1 else ""


def _stem(name: str) -> str:
    return name[: max(_ALIKE, len(name) - 2)].casefold()


def _is(text: str, word: re.Match[str], name: str) -> bool:
    """Whether a word of a text is a name; a letter in lower case is one only where a mark or the end follows it."""
    if word[0].casefold() != name.casefold():
        return False
    if len(name) > 1:
        return True
    if name == "A" and _ARTICLE.match(text, word.end()):
        return False
    return word[0] == name or _MARKED.match(text, word.end()) is not None
