"""From rows to tokens: prompts as inference writes them, replies with their end, and as few sequences as hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoptree.alignment.training.rows import RefusedRows, TrainingRow
from hoptree.errors import ConfigError, EndpointError
from hoptree.models.hf_text import OneSequence
from hoptree.models.hf_weights import Loaded, end_tokens
from hoptree.models.model import Request

__all__ = ["Example", "Packed", "encode", "end_of_turn", "packed"]

_ANY_LENGTH = 1 << 40
_PROBE = "zebra"


@dataclass(frozen=True, slots=True)
class Example:
    """A row as tokens, of which the first `prompt` are not learnt."""

    id: str
    tokens: tuple[int, ...]
    prompt: int

    @property
    def reply(self) -> int:
        """How many tokens are learnt; the last of them ends the turn."""
        return len(self.tokens) - self.prompt


@dataclass(frozen=True, slots=True)
class Packed:
    """Examples one after another in a sequence, each with positions from 0.

    `told` are the places whose next token is learnt, and `learnt` these next tokens.
    """

    tokens: list[int]
    positions: list[int]
    told: list[int]
    learnt: list[int]


def encode(rows: Sequence[TrainingRow], loaded: Loaded, max_length: int) -> list[Example]:
    """The rows as tokens; those that are too long, or that the model cannot take, are named and refused."""
    longest = min(max_length, loaded.context)
    shorter = "take out what is longer, as the model takes no more"
    if longest < loaded.context:
        shorter = "give --max-length more, or take out what is longer"
    refused = RefusedRows()
    end, ends = end_of_turn(loaded), end_tokens(loaded)
    prompts = OneSequence(loaded.tokenizer, _ANY_LENGTH)
    known = int(loaded.model.get_input_embeddings().weight.shape[0])
    found = []
    for row in rows:
        try:
            prompt = prompts.opening(Request(row.messages)).prompt
        except EndpointError as error:
            refused.add(row.where, error.cause)
            continue
        reply: list[int] = loaded.tokenizer.encode(row.reply, add_special_tokens=False)
        tokens = (*prompt, *reply, end)
        if not prompt:
            refused.add(row.where, "the model's chat template makes an empty prompt of it")
        elif inside := ends.intersection(reply):
            said = loaded.tokenizer.decode([min(inside)])
            refused.add(
                row.where,
                f"its reply holds '{said}', with which the model would end it there",
                f"write replies without '{said}': each gets its end by itself",
            )
        elif len(tokens) > longest:
            why = f"it has {len(tokens):,} tokens, and {longest:,} are taken"
            refused.add(row.where, why, shorter)
        elif max(tokens) >= known:
            said = loaded.tokenizer.decode([max(tokens)])
            refused.add(row.where, f"the tokenizer writes '{said}' as a token that the model does not know")
        else:
            found.append(Example(row.id, tokens, len(prompt)))
    refused.check()
    return found


def end_of_turn(loaded: Loaded) -> int:
    """The token that a reply ends with in the model's chat template; a model that writes it has finished.

    Some templates write more around a reply than what was said, so what follows is looked for behind a word.
    """
    tokenizer = loaded.tokenizer
    ends = end_tokens(loaded)
    said = [{"role": "user", "content": "A?"}, {"role": "assistant", "content": _PROBE}]
    try:
        whole = str(tokenizer.apply_chat_template(said, tokenize=False))
    except Exception:  # the template is a program of the model's makers
        whole = ""
    _, _, behind = whole.rpartition(_PROBE)
    for token in tokenizer.encode(behind, add_special_tokens=False):
        if token in ends:
            return int(token)
    if tokenizer.eos_token_id is None:
        raise ConfigError(
            "The tokenizer has no token that ends a reply.", "Write eos_token into its tokenizer_config.json."
        )
    return int(tokenizer.eos_token_id)


def packed(examples: Iterable[Example], max_length: int) -> list[Packed]:
    """The examples in few sequences of at most `max_length` tokens: the longest first, each where it fits first."""
    places: list[list[Example]] = []
    for example in sorted(examples, key=lambda one: (-len(one.tokens), one.id)):
        size = len(example.tokens)
        fits = (place for place in places if sum(len(one.tokens) for one in place) + size <= max_length)
        found = next(fits, None)
        if found is None:
            places.append([example])
        else:
            found.append(example)
    return [_joined(place) for place in places]


def _joined(examples: Sequence[Example]) -> Packed:
    joined = Packed([], [], [], [])
    for example in examples:
        begin = len(joined.tokens)
        joined.tokens.extend(example.tokens)
        joined.positions.extend(range(len(example.tokens)))
        joined.told.extend(range(begin + example.prompt - 1, begin + len(example.tokens) - 1))
        joined.learnt.extend(example.tokens[example.prompt :])
    return joined
