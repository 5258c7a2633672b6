"""The values every floor speaks in: frozen, without I/O, without third-party imports."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Status = Literal["answered", "unknown", "refused"]
Source = Literal["internal", "external", "fallback", "synthesis", "none"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question as a person asked it; `id` ties it to a data set, `type` and `hops` to its tables."""

    text: str
    id: str = ""
    type: str = ""
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, with the score of the search that found it.

    `start` and `end` are its place among the characters of `document`; `aliases` are further names of what it is
    about; `metadata` holds what filters look at; `stages` tells how each stage of the search scored it.
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

    def metadata_by_name(self) -> dict[str, str | list[str]]:
        """The metadata as an object; a list where a name occurs several times."""
        values: dict[str, list[str]] = {}
        for name, value in self.metadata:
            values.setdefault(name, []).append(value)
        return {name: several if len(several) > 1 else several[0] for name, several in values.items()}


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement read from somewhere: `passage_id` says where."""

    subject: str
    relation: str
    object: str
    confidence: float = 1.0
    passage_id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a step or a method concluded.

    `raw` is the model's reply before clean-up; `support` names the passages it was read from. An `unknown`
    answer says that the evidence holds none, a `refused` one that the model would rather look it up.
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
    """What a question cost.

    `llm_calls` counts the calls the method made, `cached_calls` those of them that were not paid for again;
    tokens are those of all calls, so that they do not depend on the cache. `price` is what these would cost if nothing
    were cached anywhere, `cost` what was paid, both in the currency of the prices given. `cached_tokens` are prompt
    tokens the server took from its prefix cache, `reasoning_tokens` the part of the completion that was thought and not
    said.
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

    `entropy` is that of the whole distribution the token was chosen from, in nats and at temperature 1. `attention` is
    the most that a later token of the reply pays to it, in the last layer and as the mean over heads, with all that
    was read in view: so the prompt has its part of every later token's attention. The last token has None, and a
    token that ended the reply (an end token, one that completes a stop text) does not count as a later one.
    """

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    entropy: float | None = None
    attention: float | None = None


@dataclass(frozen=True, slots=True)
class Attended:
    """What spans of a prefix pay attention to: last layer, mean over heads and over the tokens of a span.

    `text` is all that was read, as the model's chat template writes it, with the prefix at its end. `spans` are the
    characters of its tokens in it. `weights` has a row for each span that was asked for, and a row a number for each
    token before the span; what a row lacks to 1 goes to the span itself.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    weights: tuple[tuple[float, ...], ...]
