"""Immutable values that all packages share; no I/O, no third-party imports."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

Status = Literal["answered", "unknown", "refused"]
Source = Literal["internal", "external", "fallback", "synthesis", "none"]
Level = Literal["well supported", "partly supported", "a guess"]
DEFAULT_MAX_FACTS = 200  # facts around an entity of a knowledge graph, unless a method asks for another number


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `id`, `type` and `hops` come from its data set.

    `history` has the earlier questions and answers of the conversation. If it has any, the question is first rewritten
    so that it can be understood alone.
    """

    text: str
    id: str = ""
    type: str = ""
    hops: int = 0
    history: tuple[tuple[str, str], ...] = ()


PLACE = "\x1e"
"""The first character of a link target's name; no name in a text has it."""
CONTENTS = ("contents", "yes")
"""The metadata of a passage that is only a table of contents, or a list of links."""


def split_part(document: str) -> tuple[str, str, str]:
    """Split a name such as "a.pdf#page=3" into file, kind of part, and number."""
    file, _, part = document.rpartition("#")
    kind, _, number = part.partition("=")
    return (file, kind, number) if file and kind.isalpha() and number.isdecimal() else (document, "", "")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, with the score of the search that returned it.

    `start` and `end` are character offsets in `document`. `aliases` are other names of its subject, `metadata` is for
    filters, and `stages` has the score of each stage of the search. `anchors` are the link targets in it, `references`
    the targets of its links.
    """

    id: str
    title: str
    text: str
    score: float = 0.0
    document: str = ""
    start: int = 0
    end: int = 0
    aliases: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    stages: tuple[tuple[str, float], ...] = ()
    anchors: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    def metadata_by_name(self) -> dict[str, str | list[str]]:
        """Return the metadata as a dict, with a list for a name that occurs several times."""
        values: dict[str, list[str]] = {}
        for name, value in self.metadata:
            values.setdefault(name, []).append(value)
        return {name: items if len(items) > 1 else items[0] for name, items in values.items()}

    @property
    def place(self) -> str:
        """The file that it is a piece of, with the page, sheet or slide; "" for none."""
        if self.document == self.id:
            return ""
        file, kind, number = split_part(self.document)
        return f"{file}, {kind} {dict(self.metadata).get(kind, number)}" if kind else file

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        names = ("id", "title", "text", "score", "document", "start", "end")
        return {name: getattr(self, name) for name in names} | {"metadata": self.metadata_by_name()}


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement that was read in the passage `passage_id`."""

    subject: str
    relation: str
    object: str
    confidence: float = 1.0
    passage_id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The conclusion of a step or a method.

    `raw` is the model's reply before clean-up; `support` has the ids of the passages it rests on. `unknown` means that
    the evidence holds no answer, `refused` that the model wants to look it up.
    """

    text: str
    raw: str = ""
    status: Status = "answered"
    source: Source = "none"
    support: tuple[str, ...] = ()
    confidence: float | None = None

    @property
    def known(self) -> bool:
        return self.status == "answered" and bool(self.text)


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls, tokens, money and time that a question took.

    `cached_calls` counts the `llm_calls` that the call cache answered; tokens are summed over all calls, cached or not.
    `price` is what all calls would cost without any cache, `cost` what was paid, in the currency of the prices given.
    `cached_tokens` are prompt tokens from the server's prefix cache, `reasoning_tokens` the part of the completion that
    is reasoning.
    """

    llm_calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    retrievals: int = 0
    price: float = 0.0
    cost: float = 0.0
    seconds: float = 0.0
    critical_path_seconds: float = 0.0

    def as_dict(self) -> dict[str, float]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token, its log-probability, and its likeliest rivals.

    `entropy` is that of the full distribution at temperature 1, in nats. `attention` is the maximum that a later token
    of the reply pays to it (last layer, mean over heads, prompt included); the last token has None. A token that ended
    the reply (an end token, or one that completes a stop text) is not a later token.
    """

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    entropy: float | None = None
    attention: float | None = None


@dataclass(frozen=True, slots=True)
class Attended:
    """Attention of spans of a prefix: last layer, mean over heads and a span's tokens.

    `text` is the whole prompt in the chat template's form, with the prefix at its end; `spans` are the character spans
    of its tokens. `weights` has a row for each requested span with a number for each token before it; what is missing
    to 1 goes to the span itself.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    weights: tuple[tuple[float, ...], ...]
