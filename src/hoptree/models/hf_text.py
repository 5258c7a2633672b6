"""The text around a model of transformers: from a request to tokens, and from tokens to a reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hoptree.errors import EndpointError
from hoptree.models.batching import Row
from hoptree.models.model import Choice, Reply, Request, Token, TokenUsage
from hoptree.models.reasoning import read_choice

__all__ = ["Text"]

# What a tokenizer writes for bytes that are no whole character yet.
_UNFINISHED = "\ufffd"


class Text:
    """A tokenizer with its chat template, for a model that knows `context` positions."""

    def __init__(self, tokenizer: Any, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._pieces: dict[int, str] = {}

    def rows(self, request: Request) -> list[Row]:
        """One row a sample, with seeds counted up from the request's."""
        prompt = self._prompt(request)
        room = self._context - len(prompt)
        if room < 1:
            raise EndpointError(
                f"The prompt has {len(prompt)} tokens and the model's context {self._context}.",
                "Read fewer passages (--set k=…), or choose a model with a longer context.",
            )
        most = max(1, min(request.max_tokens, room))
        ends = self._ends(request.stop) if request.stop else None
        return [
            Row(prompt, most, request.temperature, request.seed + sample, request.top_logprobs, ends)
            for sample in range(request.n)
        ]

    def reply(self, request: Request, rows: Sequence[Row]) -> Reply:
        # The samples share one prompt: it is counted once, as an endpoint that samples by itself counts it.
        written = sum(len(row.output) for row in rows)
        usage = TokenUsage(len(rows[0].prompt), rows[0].cached, written)
        return Reply(tuple(self._choice(request, row) for row in rows), usage)

    def _prompt(self, request: Request) -> list[int]:
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        try:
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # the template is a program of the model's makers
            raise EndpointError(
                f"The model's chat template refused the messages: {error}.",
                "Some models take no system message; choose another model.",
            ) from error
        prompt: list[int] = self._tokenizer.encode(text + request.prefix, add_special_tokens=False)
        return prompt

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
        tokens = self._tokens(row, end) if request.top_logprobs else ()
        return read_choice(said[:end], finish=row.finish, tokens=tokens)

    def _tokens(self, row: Row, end: int) -> tuple[Token, ...]:
        """The tokens of the first `end` characters, each with the text it adds to those before it."""
        found: list[Token] = []
        length = 0
        for number, logprobs in enumerate(row.logprobs, start=1):
            whole = self._decode(row.output[:number]).rstrip(_UNFINISHED)
            text = whole[length:]
            if length >= end or (number == len(row.output) and row.finish == "stop" and not text):
                break
            length = max(length, len(whole))
            top = tuple((self._piece(rival), logprob) for rival, logprob in logprobs.top)
            found.append(Token(text, logprobs.chosen, top))
        return tuple(found)
