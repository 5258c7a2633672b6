"""Turn training rows into tokens, and pack them into sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoptree.core.errors import ConfigError, EndpointError
from hoptree.models.hf_text import DecoderPrompts
from hoptree.models.hf_weights import Loaded, end_tokens
from hoptree.models.model import Request
from hoptree.training.lora.dataset import RefusedRows, TrainingRow

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
        """The number of tokens that are learnt; the last of them ends the turn."""
        return len(self.tokens) - self.prompt


@dataclass(frozen=True, slots=True)
class PackedSequence:
    """Examples one after another in a sequence, each with positions from 0.

    `kept` are the places whose next token is learnt, and `targets` these next tokens.
    """

    tokens: list[int]
    positions: list[int]
    kept: list[int]
    targets: list[int]


def encode(rows: Sequence[TrainingRow], loaded: Loaded, max_length: int) -> list[Example]:
    """Return the rows as tokens; rows that are too long, or that the model cannot take, are refused by name."""
    longest = min(max_length, loaded.context)
    shorter = "take out what is longer, as the model takes no more"
    if longest < loaded.context:
        shorter = "give --max-length more, or take out what is longer"
    refused = RefusedRows()
    end, ends = end_of_turn(loaded), end_tokens(loaded)
    prompts = DecoderPrompts(loaded.tokenizer, _ANY_LENGTH)
    vocabulary = int(loaded.model.get_input_embeddings().weight.shape[0])
    examples = []
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
            text = loaded.tokenizer.decode([min(inside)])
            refused.add(
                row.where,
                f"its reply holds '{text}', with which the model would end it there",
                f"write replies without '{text}': each gets its end by itself",
            )
        elif len(tokens) > longest:
            refused.add(row.where, f"it has {len(tokens):,} tokens, and {longest:,} are taken", shorter)
        elif max(tokens) >= vocabulary:
            text = loaded.tokenizer.decode([max(tokens)])
            refused.add(row.where, f"the tokenizer writes '{text}' as a token that the model does not know")
        else:
            examples.append(Example(row.id, tokens, len(prompt)))
    refused.check()
    return examples


def end_of_turn(loaded: Loaded) -> int:
    """Return the token that a reply ends with in the model's chat template; a model that writes it has finished.

    Some templates write more around a reply than its text, so the end is looked for behind a probe word.
    """
    tokenizer = loaded.tokenizer
    ends = end_tokens(loaded)
    turns = [{"role": "user", "content": "A?"}, {"role": "assistant", "content": _PROBE}]
    try:
        text = str(tokenizer.apply_chat_template(turns, tokenize=False))
    except Exception:  # the template is a program of the model's makers
        text = ""
    for token in tokenizer.encode(text.rpartition(_PROBE)[2], add_special_tokens=False):
        if token in ends:
            return int(token)
    if tokenizer.eos_token_id is None:
        raise ConfigError(
            "The tokenizer has no token that ends a reply.", "Write eos_token into its tokenizer_config.json."
        )
    return int(tokenizer.eos_token_id)


def pack(examples: Iterable[Example], max_length: int) -> list[PackedSequence]:
    """Pack the examples into few sequences of at most `max_length` tokens (first fit, longest first)."""
    bins: list[list[Example]] = []
    for example in sorted(examples, key=lambda example: (-len(example.tokens), example.id)):
        size = len(example.tokens)
        fitting = (place for place in bins if sum(len(other.tokens) for other in place) + size <= max_length)
        place = next(fitting, None)
        if place is None:
            bins.append([example])
        else:
            place.append(example)
    return [_join(place) for place in bins]


def _join(examples: Sequence[Example]) -> PackedSequence:
    joined = PackedSequence([], [], [], [])
    for example in examples:
        begin = len(joined.tokens)
        joined.tokens.extend(example.tokens)
        joined.positions.extend(range(len(example.tokens)))
        joined.kept.extend(range(begin + example.prompt - 1, begin + len(example.tokens) - 1))
        joined.targets.extend(example.tokens[example.prompt :])
    return joined
