"""From a request to the tokens of a transformers model, and back to a reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hoptree.core.errors import EndpointError, RequestTooLong
from hoptree.core.values import Attended, Token
from hoptree.models.batching.rows import TOKEN_SIGNALS, Logprobs, Row
from hoptree.models.model import Choice, Message, Reply, Request, TokenUsage, close_thought, opens_thought, read_choice

# What a tokenizer writes for an incomplete character.
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class Opening:
    """The tokens before a reply, and the `room` for its own.

    `begin` starts the decoder of an encoder-decoder. `forced` are the tokens of a prefix that is only scored. `text` is
    all that is read, and `spans` are the characters of its tokens, the forced ones last.
    """

    prompt: list[int]
    room: int
    begin: list[int] = field(default_factory=list)
    forced: list[int] | None = None
    text: str = ""
    spans: list[tuple[int, int]] = field(default_factory=list)


class DecoderPrompts:
    """Prompts of a decoder-only model with a chat template and `context` positions.

    Reasoning that the template opens is closed before a prefix and for signals, which are about visible words.
    """

    def __init__(self, tokenizer: Any, context: int) -> None:
        self._tokenizer, self._context = tokenizer, context
        self._opens_thought: bool | None = None

    def leaves_thinking(self, request: Request) -> bool:
        """Return whether the opening ends inside reasoning; the reply then begins there."""
        if self._opens_thought is None:  # the same for all messages
            self._opens_thought = opens_thought(_apply_template(self._tokenizer, request.messages))
        return self._opens_thought and not _starts_visible(request)

    def opening(self, request: Request) -> Opening:
        before = _apply_template(self._tokenizer, request.messages)
        if _starts_visible(request):
            before = close_thought(before)
        text = before + request.prefix
        if not request.max_tokens:
            tokens, spans = _tokenize_with_spans(self._tokenizer, text)
            _check_length(len(tokens), self._context)
            # A token with characters of both belongs to the prefix.
            first = sum(end <= len(before) for _, end in spans)
            return Opening(tokens[:first], 0, forced=tokens[first:], text=text, spans=spans)
        prompt: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        _check_length(len(prompt), self._context, room=1)
        return Opening(prompt, self._context - len(prompt))


class EncoderDecoderPrompts:
    """Prompts that the encoder reads; the decoder begins with `start`."""

    def __init__(self, tokenizer: Any, context: int, start: Sequence[int]) -> None:
        self._tokenizer, self._context = tokenizer, context
        self._start = list(start)

    def leaves_thinking(self, request: Request) -> bool:
        return False  # the decoder does not begin with the template's end

    def opening(self, request: Request) -> Opening:
        templated = bool(self._tokenizer.chat_template)
        plain = "\n\n".join(message.content for message in request.messages)
        text = _apply_template(self._tokenizer, request.messages) if templated else plain
        # A template writes the special tokens of its model itself.
        prompt: list[int] = self._tokenizer.encode(text, add_special_tokens=not templated)
        if not prompt:
            raise EndpointError("The prompt is empty.", "Ask something.", exit_code=2)
        if not request.max_tokens:
            forced, spans = _tokenize_with_spans(self._tokenizer, request.prefix)
            _check_length(max(len(prompt), len(self._start) + len(forced)), self._context)
            return Opening(prompt, 0, self._start, forced, request.prefix, spans)
        begin = self._start + self._tokenizer.encode(request.prefix, add_special_tokens=False)
        _check_length(max(len(prompt), len(begin) + 1), self._context)
        return Opening(prompt, self._context - len(begin), begin)


def _starts_visible(request: Request) -> bool:
    """Return whether the reply must begin with visible text."""
    return bool(request.prefix or request.signals)


def _apply_template(tokenizer: Any, messages: Sequence[Message]) -> str:
    chat = [{"role": message.role, "content": message.content} for message in messages]
    try:
        return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # the template is a program of the model's makers
        cause = f"The model's chat template refused the messages: {error}."
        raise EndpointError(cause, "Some models take no system message; choose another model.", exit_code=2) from error


def _tokenize_with_spans(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the tokens of a text with their character spans."""
    try:
        done = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    except NotImplementedError as error:
        cause = "The model's tokenizer gives no character positions of its tokens."
        raise EndpointError(cause, "Choose a model with a fast tokenizer (a tokenizer.json).", exit_code=2) from error
    return list(done["input_ids"]), [(start, end) for start, end in done["offset_mapping"]]


def _check_length(tokens: int, context: int, room: int = 0) -> None:
    """Refuse a prompt that leaves less than `room` tokens for the reply."""
    if tokens + room > context:
        remedy = "Read fewer passages (--set k=…), or choose a model with a longer context."
        raise RequestTooLong(f"The prompt has {tokens} tokens and the model's context {context}.", remedy)


class Text:
    """A tokenizer with the prompts of its model, whose vocabulary has `known` tokens."""

    def __init__(self, tokenizer: Any, prompts: DecoderPrompts | EncoderDecoderPrompts, known: int) -> None:
        self._tokenizer, self._known, self._prompts = tokenizer, known, prompts
        self._pieces: dict[int, str] = {}

    def rows(self, request: Request) -> list[Row]:
        """Return one row for each sample, with consecutive seeds."""
        opening = self._prompts.opening(request)
        highest = max((*opening.prompt, *opening.begin, *(opening.forced or ())), default=0)
        if highest >= self._known:
            shown = f"token {highest} ('{self._tokenizer.decode([highest])}')"
            cause = f"The tokenizer writes {shown} and the model knows {self._known} tokens."
            remedy = "They do not belong together: save the model with its own tokenizer, or leave this word out."
            raise EndpointError(cause, remedy, exit_code=2)
        if opening.forced is not None:
            return [self._forced_row(request, opening, opening.forced)]
        row = partial(
            Row,
            prompt=opening.prompt,
            begin=opening.begin,
            max_tokens=max(1, min(request.max_tokens, opening.room)),
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            top=request.top_logprobs,
            ends=self._ends(request.stop) if request.stop else None,
            signals=request.signals,
        )
        return [row(seed=request.seed + sample) for sample in range(request.n)]

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
            looking=[_tokens_in(spans, start, end) for start, end in request.attention_of],
            finish="stop",
        )

    def reply(self, request: Request, rows: Sequence[Row]) -> Reply:
        # The samples share one prompt: it is counted once, as endpoints count it.
        if rows[0].forced is not None:
            return self._forced_reply(request, rows[0])
        written = sum(len(row.output) for row in rows)
        usage = TokenUsage(rows[0].read, rows[0].cached, written)
        return Reply(tuple(self._choice(request, row) for row in rows), usage)

    def _forced_reply(self, request: Request, row: Row) -> Reply:
        """Return an empty reply with the tokens of the prefix."""
        assert row.forced is not None
        opening = self._prompts.opening(request)
        tokens: list[Token] = []
        attention = _attention_per_token(row)
        start = len(opening.text) - len(request.prefix)
        for number, (_, end) in enumerate(opening.spans[len(opening.spans) - len(row.forced) :]):
            # Some tokenizers leave the space before a word out of its span.
            tokens.append(self._token(row.logprobs[number], opening.text[start:end], attention[number]))
            start = max(start, end)
        attended = None
        if row.looking:
            weights = tuple(_to_floats(look) for look in row.looks)
            attended = Attended(opening.text, tuple(opening.spans), weights)
        choice = Choice("", tokens=tuple(tokens), hidden=_to_floats(row.hidden), attended=attended)
        return Reply((choice,), TokenUsage(row.read + len(row.forced), row.cached))

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _piece(self, token: int) -> str:
        if token not in self._pieces:
            self._pieces[token] = self._decode([token])
        return self._pieces[token]

    def _ends(self, stop: tuple[str, ...]) -> Callable[[list[int]], bool]:
        stop = tuple(filter(None, stop))
        # A cheap test of the last characters first. Some tokenizers drop the space before a single token, so a stop
        # text that ends in a space is searched every time.
        last = {text[-1] for text in stop} | {_REPLACEMENT}
        always = any(character.isspace() and character != "\n" for character in last)

        def ends(tokens: list[int]) -> bool:
            if not always and last.isdisjoint(self._piece(tokens[-1])):
                return False
            decoded = self._decode(tokens)
            return any(text in decoded for text in stop)

        return ends

    def _choice(self, request: Request, row: Row) -> Choice:
        decoded = self._decode(row.output)
        end = min(
            (place for text in filter(None, request.stop) if (place := decoded.find(text)) >= 0), default=len(decoded)
        )
        wanted = request.top_logprobs or request.signals & TOKEN_SIGNALS
        tokens = self._tokens(row, end, with_end="end" in request.signals) if wanted else ()
        opened = self._prompts.leaves_thinking(request)
        choice = read_choice(decoded[:end], finish=row.finish, tokens=tokens, opened=opened)
        return replace(choice, hidden=_to_floats(row.hidden))

    def _tokens(self, row: Row, end: int, *, with_end: bool) -> tuple[Token, ...]:
        """Return the tokens of the first `end` characters, each with the text it adds."""
        tokens: list[Token] = []
        length = 0
        attention = _attention_per_token(row)
        for number, logprobs in enumerate(row.logprobs, start=1):
            decoded = self._decode(row.output[:number]).rstrip(_REPLACEMENT)
            text = decoded[length:]
            ends = number == len(row.output) and row.finish == "stop" and not text
            if (ends and not with_end) or (length >= end and not ends):
                break
            length = max(length, len(decoded))
            tokens.append(self._token(logprobs, text, attention[number - 1]))
        return tuple(tokens)

    def _token(self, noted: Logprobs, text: str, attention: float | None) -> Token:
        top = tuple((self._piece(rival), logprob) for rival, logprob in noted.top)
        return Token(text, noted.chosen, top, noted.entropy, attention)


def _attention_per_token(row: Row) -> list[float | None]:
    """Return the attention that later tokens pay to each token of a row."""
    values: list[float | None] = [*row.attention] if "attention" in row.signals else []
    return values + [None] * (len(row.logprobs) - len(values))


def _tokens_in(spans: Sequence[tuple[int, int]], start: int, end: int) -> range:
    """Return the tokens with characters in a span of the text."""
    numbers = [number for number, (first, last) in enumerate(spans) if first < end and last > start]
    return range(numbers[0], numbers[-1] + 1) if numbers else range(0)


def _to_floats(values: Any) -> tuple[float, ...]:
    return () if values is None else tuple(values.float().tolist())
