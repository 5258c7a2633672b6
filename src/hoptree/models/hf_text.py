"""The text around a model of transformers: from a request to tokens, and from tokens to a reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from hoptree.core.errors import EndpointError, RequestTooLong
from hoptree.core.values import Attended, Token
from hoptree.models.batching.rows import OF_TOKENS, Logprobs, Row
from hoptree.models.model import Choice, Message, Reply, Request, TokenUsage, close_thought, opens_thought, read_choice

# What a tokenizer writes for bytes that are no whole character yet.
_UNFINISHED = "\ufffd"


@dataclass(frozen=True, slots=True)
class Opening:
    """What comes before a reply, and how many tokens that can have; `begin` is for a decoder beside an encoder.

    `forced` is a prefix that is only looked at, as tokens; `text` is all that is read, and `spans` the characters of
    its tokens, of which the last are the forced ones.
    """

    prompt: list[int]
    room: int
    begin: list[int] = field(default_factory=list)
    forced: list[int] | None = None
    text: str = ""
    spans: list[tuple[int, int]] = field(default_factory=list)


class Prompts(Protocol):
    """How a request becomes the tokens that a model reads."""

    def opening(self, request: Request) -> Opening: ...

    def leaves_thinking(self, request: Request) -> bool:
        """Whether the opening ends in a thought, so that the reply begins in it."""


class OneSequence:
    """The prompts of a model with a chat template that reads and writes in one sequence of `context` positions.

    A thought that the template opens is closed before a prefix, which was said and not thought, and where signals are
    asked for: they are to tell how sure the words are that count.
    """

    def __init__(self, tokenizer: Any, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._opens_thought: bool | None = None

    def leaves_thinking(self, request: Request) -> bool:
        if self._opens_thought is None:  # a template does so whatever the messages are
            self._opens_thought = opens_thought(_templated(self._tokenizer, request.messages))
        return self._opens_thought and not _says(request)

    def opening(self, request: Request) -> Opening:
        before = _templated(self._tokenizer, request.messages)
        if _says(request):
            before = close_thought(before)
        text = before + request.prefix
        if not request.max_tokens:
            tokens, spans = _spelled(self._tokenizer, text)
            if len(tokens) > self._context:
                raise _too_long(len(tokens), self._context)
            # A token with characters of both is the prefix's.
            first = sum(end <= len(before) for _, end in spans)
            return Opening(tokens[:first], 0, forced=tokens[first:], text=text, spans=spans)
        prompt: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        if len(prompt) >= self._context:
            raise _too_long(len(prompt), self._context)
        return Opening(prompt, self._context - len(prompt))


class SourceAndTarget:
    """The prompts of a model with an encoder: it reads the messages, and the decoder begins with `start`.

    Both know `context` positions. Without a chat template the messages are plain text.
    """

    def __init__(self, tokenizer: Any, context: int, start: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._start = list(start)

    def leaves_thinking(self, request: Request) -> bool:
        return False  # the decoder begins with what it is given, not with the template's end

    def opening(self, request: Request) -> Opening:
        templated = bool(self._tokenizer.chat_template)
        text = _templated(self._tokenizer, request.messages) if templated else plain_chat(request.messages)
        # A template writes the special tokens of its model itself.
        prompt: list[int] = self._tokenizer.encode(text, add_special_tokens=not templated)
        if not prompt:
            raise EndpointError("The prompt is empty.", "Ask something.", exit_code=2)
        if not request.max_tokens:
            forced, spans = _spelled(self._tokenizer, request.prefix)
            longest = max(len(prompt), len(self._start) + len(forced))
            if longest > self._context:
                raise _too_long(longest, self._context)
            return Opening(prompt, 0, self._start, forced, request.prefix, spans)
        begin = self._start + self._tokenizer.encode(request.prefix, add_special_tokens=False)
        longest = max(len(prompt), len(begin) + 1)
        if longest > self._context:
            raise _too_long(longest, self._context)
        return Opening(prompt, self._context - len(begin), begin)


def _says(request: Request) -> bool:
    """Whether what comes first is said and not thought."""
    return bool(request.prefix or request.signals)


def plain_chat(messages: Sequence[Message]) -> str:
    """A chat for a model that knows none: what is said, without saying by whom, in paragraphs."""
    return "\n\n".join(message.content for message in messages)


def _templated(tokenizer: Any, messages: Sequence[Message]) -> str:
    said = [{"role": message.role, "content": message.content} for message in messages]
    try:
        return str(tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # the template is a program of the model's makers
        raise EndpointError(
            f"The model's chat template refused the messages: {error}.",
            "Some models take no system message; choose another model.",
            exit_code=2,
        ) from error


def _spelled(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The tokens of a text, and the characters of each."""
    try:
        done = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    except NotImplementedError as error:
        raise EndpointError(
            "The model's tokenizer does not tell where in a text its tokens stand.",
            "Choose a model with a fast tokenizer (a tokenizer.json).",
            exit_code=2,
        ) from error
    return list(done["input_ids"]), [(start, end) for start, end in done["offset_mapping"]]


def _too_long(tokens: int, context: int) -> EndpointError:
    return RequestTooLong(
        f"The prompt has {tokens} tokens and the model's context {context}.",
        "Read fewer passages (--set k=…), or choose a model with a longer context.",
    )


class Text:
    """A tokenizer, and the form in which its model takes `prompts`; the model knows the tokens below `known`."""

    def __init__(self, tokenizer: Any, prompts: Prompts, known: int) -> None:
        self._tokenizer = tokenizer
        self._known = known
        self._prompts = prompts
        self._pieces: dict[int, str] = {}

    def rows(self, request: Request) -> list[Row]:
        """One row a sample, with seeds counted up from the request's."""
        opening = self._prompts.opening(request)
        self._check(max((*opening.prompt, *opening.begin, *(opening.forced or ())), default=0))
        if opening.forced is not None:
            return [self._forced_row(request, opening, opening.forced)]
        most = max(1, min(request.max_tokens, opening.room))
        ends = self._ends(request.stop) if request.stop else None
        return [
            Row(
                prompt=opening.prompt,
                begin=opening.begin,
                max_tokens=most,
                temperature=request.temperature,
                top_p=request.top_p,
                top_k=request.top_k,
                seed=request.seed + sample,
                top=request.top_logprobs,
                ends=ends,
                signals=request.signals,
            )
            for sample in range(request.n)
        ]

    def _check(self, highest: int) -> None:
        if highest >= self._known:
            said = self._tokenizer.decode([highest])
            raise EndpointError(
                f"The tokenizer writes token {highest} ('{said}') and the model knows {self._known} tokens.",
                "They do not belong together: save the model with its own tokenizer, or leave this word out.",
                exit_code=2,
            )

    def _forced_row(self, request: Request, opening: Opening, forced: list[int]) -> Row:
        begin = len(opening.text) - len(request.prefix)
        spans = [(start - begin, end - begin) for start, end in opening.spans[len(opening.spans) - len(forced) :]]
        return Row(
            prompt=opening.prompt,
            begin=opening.begin,
            max_tokens=len(forced),
            top=request.top_logprobs,
            signals=request.signals,
            forced=forced,
            looking=[_covering(spans, start, end) for start, end in request.attention_of],
            finish="stop",
        )

    def reply(self, request: Request, rows: Sequence[Row]) -> Reply:
        # The samples share one prompt: it is counted once, as an endpoint that samples by itself counts it.
        if rows[0].forced is not None:
            return self._forced_reply(request, rows[0])
        written = sum(len(row.output) for row in rows)
        usage = TokenUsage(rows[0].read, rows[0].cached, written)
        return Reply(tuple(self._choice(request, row) for row in rows), usage)

    def _forced_reply(self, request: Request, row: Row) -> Reply:
        """A reply that says nothing: its tokens are those of the prefix."""
        assert row.forced is not None
        opening = self._prompts.opening(request)
        tokens: list[Token] = []
        attention = _attention(row)
        told = len(opening.text) - len(request.prefix)
        for number, (_, end) in enumerate(opening.spans[len(opening.spans) - len(row.forced) :]):
            # Some tokenizers leave the space before a word out of its span.
            tokens.append(self._token(row.logprobs[number], opening.text[told:end], attention[number]))
            told = max(told, end)
        attended = None
        if row.looking:
            weights = tuple(_numbers(look) for look in row.looks)
            attended = Attended(opening.text, tuple(opening.spans), weights)
        choice = Choice("", tokens=tuple(tokens), hidden=_numbers(row.hidden), attended=attended)
        return Reply((choice,), TokenUsage(row.read + len(row.forced), row.cached))

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _piece(self, token: int) -> str:
        if token not in self._pieces:
            self._pieces[token] = self._decode([token])
        return self._pieces[token]

    def _ends(self, stop: tuple[str, ...]) -> Callable[[list[int]], bool]:
        stop = tuple(filter(None, stop))
        # The last characters tell cheaply that a token completes nothing. Some tokenizers drop the space before a
        # token that stands alone, so a text that ends in one is looked for every time.
        last = {text[-1] for text in stop} | {_UNFINISHED}
        always = any(character.isspace() and character != "\n" for character in last)

        def ends(tokens: list[int]) -> bool:
            if not always and last.isdisjoint(self._piece(tokens[-1])):
                return False
            said = self._decode(tokens)
            return any(text in said for text in stop)

        return ends

    def _choice(self, request: Request, row: Row) -> Choice:
        said = self._decode(row.output)
        end = min((place for text in filter(None, request.stop) if (place := said.find(text)) >= 0), default=len(said))
        tokens = self._tokens(row, end) if request.top_logprobs or request.signals & OF_TOKENS else ()
        opened = self._prompts.leaves_thinking(request)
        choice = read_choice(said[:end], finish=row.finish, tokens=tokens, opened=opened)
        return replace(choice, hidden=_numbers(row.hidden)) if row.hidden is not None else choice

    def _tokens(self, row: Row, end: int) -> tuple[Token, ...]:
        """The tokens of the first `end` characters, each with the text it adds to those before it."""
        found: list[Token] = []
        length = 0
        attention = _attention(row)
        for number, logprobs in enumerate(row.logprobs, start=1):
            whole = self._decode(row.output[:number]).rstrip(_UNFINISHED)
            text = whole[length:]
            if length >= end or (number == len(row.output) and row.finish == "stop" and not text):
                break
            length = max(length, len(whole))
            found.append(self._token(logprobs, text, attention[number - 1]))
        return tuple(found)

    def _token(self, noted: Logprobs, text: str, attention: float | None) -> Token:
        top = tuple((self._piece(rival), logprob) for rival, logprob in noted.top)
        return Token(text, noted.chosen, top, noted.entropy, attention)


def _attention(row: Row) -> list[float | None]:
    """What later tokens pay to each token of a row."""
    told: list[float | None] = [*row.attention] if "attention" in row.signals else []
    return told + [None] * (len(row.logprobs) - len(told))


def _covering(spans: Sequence[tuple[int, int]], start: int, end: int) -> range:
    """The tokens with characters in a span of the text."""
    found = [number for number, (first, last) in enumerate(spans) if first < end and last > start]
    return range(found[0], found[-1] + 1) if found else range(0)


def _numbers(found: Any) -> tuple[float, ...]:
    return () if found is None else tuple(found.float().tolist())
