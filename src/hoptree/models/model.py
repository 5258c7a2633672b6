"""What a language model is to the rest of the house: one Protocol, a request and a reply."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeGuard, runtime_checkable

from hoptree.core.errors import ConfigError, ModelError
from hoptree.core.values import Attended, Token

Capability = Literal[
    "logprobs",
    "entropy",
    "attention",
    "hidden_states",
    "prefix",
    "n_samples",
    "json_schema",
    "top_p",
    "top_k",
]
MAX_TOP_LOGPROBS = 20
"""Likeliest tokens that can be asked for a step; endpoints give no more."""
Signal = Literal["entropy", "attention", "hidden"]
"""What a model can tell of its inside; the capabilities of these are entropy, attention and hidden_states."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """Everything the caller decides about a reply.

    `top_logprobs` asks for that many alternatives a token (0: no log-probabilities). `json_schema` is the schema
    as JSON text, so that a request stays hashable. `prefix` is the beginning of the reply, to be continued.

    Where a temperature above 0 has tokens drawn, `top_k` leaves only that many of the likeliest (0: all), and `top_p`
    of these the fewest that have this probability together, at that temperature. A model without the capability of
    that name draws from all.

    `signals` asks for what goes on inside the model while it writes; models without the capability leave it out. With
    `max_tokens=0` such a model writes nothing and the reply's tokens are those of the prefix, with their signals.
    `attention_of` then names spans of characters of the prefix whose attention to all before them is asked for.
    """

    messages: tuple[Message, ...]
    max_tokens: int = 64
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    n: int = 1
    top_logprobs: int = 0
    json_schema: str = ""
    prefix: str = ""
    signals: frozenset[Signal] = frozenset()
    attention_of: tuple[tuple[int, int], ...] = ()
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"The temperature is {self.temperature}.", "Give 0 (greedy) or more.")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}.", "Give above 0 and at most 1 (all tokens).")
        if self.top_k < 0:
            raise ConfigError(f"top_k is {self.top_k}.", "Give 0 (all tokens) or more.")
        if self.n < 1:
            raise ConfigError(f"{self.n} replies are asked for.", "Give 1 or more.")
        if self.top_logprobs < 0:
            raise ConfigError(f"top_logprobs is {self.top_logprobs}.", "Give 0 (none) or more.")
        # Without a token to write, only what is there already can be told of.
        told = self.prefix or self.signals or self.attention_of
        if self.max_tokens < (0 if told else 1):
            raise ConfigError(f"max_tokens is {self.max_tokens}.", "Give 1 or more.")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One sampled continuation: what was said, what was only thought, and why it ended.

    `hidden` is the state of the last token after the first half of the layers (16 of 32: `hidden_states[16]` in
    transformers' count), where it was asked for; a token that ended the reply is not the last one.
    """

    text: str
    reasoning: str = ""
    finish: Literal["stop", "length", "other"] = "stop"
    tokens: tuple[Token, ...] = ()
    hidden: tuple[float, ...] = ()
    attended: Attended | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    choices: tuple[Choice, ...]
    usage: TokenUsage = field(default_factory=TokenUsage)

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def finish(self) -> str:
        return self.choices[0].finish


class SignalNotGiven(ModelError):
    """A model turned out not to give what it was asked for, and says so from now on: beginning again may help."""


@runtime_checkable
class LearnsCapabilities(Protocol):
    """A model behind somebody else's endpoint: what that gives, only its replies tell."""

    def lacks(self, capability: Capability) -> None:
        """Take a capability back."""


class LoadableModel(Protocol):
    """A model inside this process, which has to be loaded before its first call."""

    async def load(self) -> None:
        """Load it, unless it is: what that takes is no part of any reply."""


def is_loadable(model: object) -> TypeGuard[LoadableModel]:
    """Whether a model is one of these; asked before every call, and so in the quickest way."""
    return hasattr(model, "load")


class Model(Protocol):
    """A language model behind some endpoint.

    `identity` is everything besides the request that determines a reply (endpoint, weights), and so part of the
    cache key. `endpoint` names what is shared by a concurrency limit, `slots` how many requests it takes at once at
    most. `generate` sends exactly one request: it never retries, caches or counts; failures are `ModelError`s.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def endpoint(self) -> str: ...

    @property
    def slots(self) -> int: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    async def generate(self, request: Request, *, step: str) -> Reply: ...

    async def aclose(self) -> None: ...


_OPEN = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(think|thinking|thought|reasoning)>", re.IGNORECASE)
_OPENED = re.compile(rf"{_OPEN.pattern}\s*\Z", re.IGNORECASE)


def opens_thought(prompt: str) -> bool:
    """Whether a prompt ends in a tag that opens a thought, as some chat templates let it."""
    return _OPENED.search(prompt) is not None


def close_thought(prompt: str) -> str:
    """A prompt behind which words are said: a thought that it opens stays empty."""
    opened = _OPENED.search(prompt)
    return f"{prompt.rstrip()}\n\n</{opened[1]}>\n\n" if opened else prompt


def read_choice(
    raw: str,
    *,
    reasoning: str = "",
    finish: Literal["stop", "length", "other"] = "stop",
    tokens: Sequence[Token] = (),
    opened: bool = False,
) -> Choice:
    """Build a choice whose text and tokens hold only what was said.

    `reasoning` is what the server itself kept apart. Thought inside the text counts up to the last closing tag, since
    some chat templates open the tag in the prompt; after a tag that is never closed everything was thought, also where
    the prompt is known to have `opened` it.
    """
    if not (reasoning or opened or "<" in raw):
        return Choice(raw.strip(), "", finish, tuple(tokens))
    said_from = 0
    for closing in _CLOSE.finditer(raw):
        said_from = closing.end()
    said_to = 0 if opened and not said_from else len(raw)
    if opening := _OPEN.search(raw, said_from, said_to):
        said_to = opening.start()
    said = raw[said_from:said_to].strip()
    thought = "\n".join(part for part in (reasoning, raw[:said_from], raw[said_to:]) if part)
    thought = _CLOSE.sub("", _OPEN.sub("", thought)).strip()
    return Choice(said, thought, finish, _tokens_of(said, tokens) if thought else tuple(tokens))


def _tokens_of(said: str, tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The last tokens that spell what was said: servers list those of the thought before them, or leave them out.

    None where no run of tokens spells it, since a signal from thought would be a false one.
    """
    for end in range(len(tokens), 0, -1):
        text = ""
        for start in range(end - 1, -1, -1):
            text = tokens[start].text + text
            if len(text.strip()) >= len(said):
                if text.strip() == said:
                    return tuple(tokens[start:end])
                break
    return ()
