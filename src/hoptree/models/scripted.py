"""A model that replies from a script, for tests, tutorials and benchmarks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hoptree.core.errors import ConfigError, EndpointError, InputError, ModelError, RateLimited, UnusableReply
from hoptree.core.values import Attended, Token
from hoptree.models.model import Capability, Choice, Reply, Request, TokenUsage, read_choice

_FAULTS: dict[str, ModelError] = {
    "429": RateLimited("The script says 429.", status=429, retryable=True, retry_after=0.05),
    "500": EndpointError("The script says 500.", status=500, retryable=True),
    "401": EndpointError("The script says 401.", "Set OPENAI_API_KEY to a valid key.", status=401),
    "broken": EndpointError("The script broke the connection.", retryable=True),
    "html": UnusableReply("The script answered with a web page instead of a chat completion."),
}


_GROUP = re.compile(r"\$(\d)(?!\d)")


@dataclass(slots=True)
class Rule:
    """The reply to requests that match; of a list, each in turn, then always the last.

    `step` is METHOD/STEP or STEP; `contains` must occur in the last message, `regex` must match it, and `$1` in a reply
    is its first group. `fault` is an error instead of a reply, for the first `times` requests. `logprob`, `entropy` and
    `attention` are one value for all tokens, or a list with one for each. `attended` is the attention that words get
    from a requested span, `hidden` the state of the last token.
    """

    reply: str | list[str] = ""
    step: str = ""
    contains: str = ""
    regex: str = ""
    fault: str = ""
    times: int | None = None
    latency: float | None = None
    logprob: float | list[float] = -0.01
    finish: str = "stop"
    entropy: float | list[float] | None = None
    attention: float | list[float] | None = None
    attended: dict[str, float] | None = None
    hidden: list[float] | None = None
    served: int = field(default=0, init=False)

    def fits(self, step: str, text: str) -> bool:
        if self.fault and self.times is not None and self.served >= self.times:
            return False
        if self.step and self.step not in (step, step.rpartition("/")[2]):
            return False
        return self.contains in text and (not self.regex or re.search(self.regex, text) is not None)

    def render(self, turn: int, text: str) -> str:
        """Return the reply of this turn to a text that matches."""
        reply = self.reply if isinstance(self.reply, str) else self.reply[min(turn, len(self.reply) - 1)]
        match = re.search(self.regex, text) if self.regex else None
        groups = {str(number): group for number, group in enumerate(match.groups("") if match else (), 1)}
        return _GROUP.sub(lambda place: groups.get(place[1], place[0]), reply) if groups else reply


class ScriptedModel:
    """Replies by the first rule that fits; tokens are words with spaces before them."""

    def __init__(
        self, path: str = "", *, rules: list[Rule] | None = None, latency: float = 0.0, slots: int = 1024
    ) -> None:
        self.name = f"scripted/{path}"
        self.endpoint = self.name
        self.slots = slots
        self.requests: list[tuple[str, str]] = []
        self._keeps_requests = rules is not None  # for tests; a model of a file may run for days
        self._latency = latency
        if rules is None:
            try:
                text = Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                why = "there is none" if isinstance(error, FileNotFoundError) else error
                cause = f"The script {path} cannot be read: {why}."
                raise InputError(cause, "Give scripted/FILE with a JSON file.") from error
            self.rules, self._latency = _read_script(text, path)
        else:
            self.rules = rules
            text = repr(rules)
        self.identity = f"scripted:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The fixed capabilities, and the signals that any rule sets."""
        internal: dict[Capability, bool] = {
            "entropy": any(rule.entropy is not None for rule in self.rules),
            "attention": any(rule.attention is not None or rule.attended is not None for rule in self.rules),
            "hidden_states": any(rule.hidden is not None for rule in self.rules),
        }
        signals = (capability for capability, there in internal.items() if there)
        return frozenset(("logprobs", "n_samples", "json_schema", "prefix", "top_p", "top_k", *signals))

    async def generate(self, request: Request, *, step: str) -> Reply:
        text = request.messages[-1].content
        if self._keeps_requests:
            self.requests.append((step, text))
        rule = next((rule for rule in self.rules if rule.fits(step, text)), None)
        if rule is None:
            cause = f"The script has no reply for step '{step}' and the message ending in '{text[-80:]}'."
            raise ConfigError(cause, "Add a rule to the script.")
        rule.served += 1
        turn = rule.served - 1
        await asyncio.sleep(self._latency if rule.latency is None else rule.latency)
        if rule.fault:
            raise _FAULTS[rule.fault]
        reply = rule.render(turn, text)
        prompt = sum(message.content.count(" ") + 1 for message in request.messages)
        if not request.max_tokens:
            return Reply((_prefix_choice(rule, request),), TokenUsage(prompt + len(request.prefix.split())))
        tokens = _tokens(rule, request, reply) if request.top_logprobs or request.signals else ()
        choice = read_choice(reply, finish=rule.finish, tokens=tokens)  # type: ignore[arg-type]
        if "hidden" in request.signals:
            choice = replace(choice, hidden=tuple(rule.hidden or ()))
        usage = TokenUsage(prompt, 0, len(reply.split()), len(choice.reasoning.split()))
        return Reply((choice,) * request.n, usage)

    async def aclose(self) -> None:
        return None


def _tokens(rule: Rule, request: Request, text: str) -> tuple[Token, ...]:
    entropy = rule.entropy if "entropy" in request.signals else None
    attention = rule.attention if "attention" in request.signals else None
    words = re.findall(r"(?<!\s)\s*\S+|\S+", text)
    return tuple(
        Token(
            word,
            _nth(rule.logprob, number),
            entropy=None if entropy is None else _nth(entropy, number),
            attention=None if attention is None or number + 1 == len(words) else _nth(attention, number),
        )
        for number, word in enumerate(words)
    )


def _nth(given: float | Sequence[float], number: int) -> float:
    return float(given) if isinstance(given, int | float) else float(given[min(number, len(given) - 1)])


def _prefix_choice(rule: Rule, request: Request) -> Choice:
    """Return the prefix word by word, with the attention of the requested spans."""
    tokens = _tokens(rule, request, request.prefix) if request.top_logprobs or request.signals else ()
    hidden = tuple(rule.hidden or ()) if "hidden" in request.signals else ()
    if not request.attention_of or rule.attended is None:
        return Choice("", tokens=tokens, hidden=hidden)
    before = "\n\n".join(message.content for message in request.messages) + "\n\n"
    text = before + request.prefix
    words = list(re.finditer(r"\S+", text))
    weights = tuple(
        tuple(rule.attended.get(word[0].strip(".,;:!?"), 0.0) for word in words if word.end() <= len(before) + start)
        for start, _ in request.attention_of
    )
    return Choice("", tokens=tokens, hidden=hidden, attended=Attended(text, tuple(w.span() for w in words), weights))


def _read_script(text: str, path: str) -> tuple[list[Rule], float]:
    """Read a JSON object with `replies` (rules) and an optional `latency` in seconds."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or not isinstance(data.get("replies"), list):
            raise ValueError("it has no list of replies")
        rules = [Rule(**row) for row in data["replies"]]
        for rule in rules:
            re.compile(rule.regex)
            replies = [rule.reply] if isinstance(rule.reply, str) else list(rule.reply)
            signals = (rule.logprob, rule.entropy, rule.attention)
            plain = all(isinstance(value, int | float | None) or _is_numbers(value) for value in signals)
            attended = isinstance(rule.attended, dict) and _is_numbers([*rule.attended.values()])
            for is_right, rule_text in (
                (replies and all(isinstance(text, str) for text in replies), "a reply is a text or a list of texts"),
                (plain, "logprob, entropy and attention are numbers, or lists of one for each token"),
                (rule.hidden is None or _is_numbers(rule.hidden), "hidden is a list of numbers"),
                (not rule.attended or attended, "attended gives words numbers"),
                (isinstance(rule.latency, int | float | None), "latency is a number of seconds"),
                (rule.fault in ("", *_FAULTS), f"fault '{rule.fault}' is none of {', '.join(_FAULTS)}"),
            ):
                if not is_right:
                    raise ValueError(rule_text)
        return rules, float(data.get("latency", 0))
    except (ValueError, TypeError, re.error, RecursionError) as error:
        cause = f"The script {path} cannot be used: {error}."
        raise InputError(cause, 'It is {"replies": [{"step": …, "reply": …}]}.') from error


def _is_numbers(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(number, int | float) for number in value)
