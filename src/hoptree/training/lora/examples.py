"""Reading chat sets to train on; whatever is wrong with their rows is told at once."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, EndpointError, InputError
from hoptree.models.hf_text import DecoderPrompts
from hoptree.models.hf_weights import Loaded, end_tokens
from hoptree.models.model import Message, Request
from hoptree.training.taikc_rows import REFUSAL

_NAMED = 5
_ROLES = ("system", "user", "assistant")
_UNTOLD = "untold"
_LABELLED = "taikc-kbae"
"""The kind of sets whose labels say what one model knows."""
# An identity is KIND:DIGEST;… and a digest is one word of it.
_WORDS = re.compile(r"[^\w@/.-]+")


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A prompt and the reply to be learnt.

    `kind` is what the set calls its sort, `label` what it counts its rows by, `where` the file and line.
    """

    id: str
    where: str
    messages: tuple[Message, ...]
    reply: str
    kind: str
    evaluation: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class TrainingSet:
    path: Path
    digest: str
    rows: tuple[TrainingRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """The set as a card names it."""
        kinds = dict(sorted(Counter(row.kind for row in self.rows).items()))
        return {"file": str(self.path), "digest": self.digest, "rows": len(self.rows), "kinds": kinds}


@dataclass(slots=True)
class RefusedRows:
    """What is wrong with rows: the first few in words, how many there are, and what mends each kind of fault."""

    said: list[str] = field(default_factory=list)
    count: int = 0
    remedies: dict[str, None] = field(default_factory=dict)

    def add(self, where: str, why: str, remedy: str = "mend these rows or take them out") -> None:
        self.count += 1
        self.remedies[remedy] = None
        if self.count <= _NAMED:
            self.said.append(f"{where}: {why}")

    def check(self) -> None:
        if not self.count:
            return
        head = "1 row cannot be trained on:" if self.count == 1 else f"{self.count:,} rows cannot be trained on:"
        more = [f"  and {self.count - _NAMED:,} more"] if self.count > _NAMED else []
        remedy = "; ".join((*self.remedies, "nothing was written."))
        raise InputError(
            "\n".join((head, *(f"  {one}" for one in self.said), *more)), f"\n{remedy[0].upper()}{remedy[1:]}"
        )


def read_sets(paths: Sequence[Path], base: str) -> list[TrainingSet]:
    """The sets, if every row of them can be trained on; `base` is the digest of the weights that will be trained."""
    refused = RefusedRows()
    seen: dict[str, str] = {}
    found = []
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.", "Give --data a file.") from error
        if form := _other_form(data):
            raise InputError(
                f"{path} is of the form {form}, which is for another program.",
                "Build the set without --format: this command reads chat.",
            )
        rows = tuple(_rows(path, data, base, seen, refused))
        if not rows and not refused.count:
            raise InputError(f"{path} holds no row.", "hoptree align build makes sets.")
        found.append(TrainingSet(path, hashlib.sha256(data).hexdigest(), rows))
    refused.check()
    return found


def same_prompts(sets: Sequence[TrainingSet]) -> dict[str, Any]:
    """How many rows ask what one before them asks: with the same reply, and with another, of which the first is named.

    Another reply may be meant, as where an answer is written in two ways; so these are told and not refused.
    """
    told: dict[tuple[Message, ...], TrainingRow] = {}
    again, otherwise, first = 0, 0, ""
    for row in (row for one in sets for row in one.rows):
        before = told.setdefault(row.messages, row)
        if before is row:
            continue
        if before.reply == row.reply:
            again += 1
        else:
            otherwise += 1
            first = first or f"{before.where} and {row.where}"
    return {"same_reply": again, "other_reply": otherwise, "first": first}


def without_kind(sets: Sequence[TrainingSet]) -> int:
    """How many rows do not say of what kind they are: whose labels they have is not known."""
    return sum(row.kind == _UNTOLD for one in sets for row in one.rows)


def _other_form(data: bytes) -> str:
    """The form of a set that `align build` wrote for another program; "" for any other file."""
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"[\n{"):
        return "llama-factory"
    try:
        first = json.loads(text.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return ""
    return "trl" if isinstance(first, dict) and {"prompt", "completion"} <= set(first) else ""


def _rows(path: Path, data: bytes, base: str, seen: dict[str, str], refused: RefusedRows) -> Iterator[TrainingRow]:
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            refused.add(where, "it is no JSON")
            continue
        if not isinstance(value, dict):
            refused.add(where, "it is no object with messages, id and meta")
            continue
        known = value.get("id")
        if known is not None and known != "":
            where = f"{where} (id {known})"
        if why := _fault(value, base, seen):
            refused.add(where, why)
            continue
        seen[str(known)] = where
        *messages, last = (Message(turn["role"], turn["content"]) for turn in value["messages"])
        meta = value.get("meta", {})
        yield TrainingRow(
            str(known),
            where,
            tuple(messages),
            last.content,
            _kind(meta),
            evaluation=bool(meta.get("evaluation")),
            label=str(meta.get("label") or ""),
        )


def _fault(value: dict[str, Any], base: str, seen: dict[str, str]) -> str:
    known, meta = value.get("id"), value.get("meta", {})
    if not isinstance(known, str | int) or isinstance(known, bool) or not str(known).strip():
        return "it has no id"
    if str(known) in seen:
        return f"its id is also that of {seen[str(known)]}"
    if not isinstance(meta, dict):
        return "its meta is no object"
    if why := _turns_fault(value.get("messages")):
        return why
    labels_of = str(meta.get("labels_of") or "")
    if meta.get("kind") == _LABELLED and not labels_of:
        return "its label says what a model knows, and not which: labels_of is missing"
    if not labels_of and not meta.get("kind") and _asks_for_a_refusal(value["messages"]):
        return f"it is about {REFUSAL}, which says what a model knows, and not which: meta.labels_of is missing"
    if labels_of and not _is_of(labels_of, base):
        whose = meta.get("model") or "another model"
        return f"its label says what {whose} knows ({shortened(labels_of)}), and the base is {shortened(base)}"
    return ""


def _asks_for_a_refusal(turns: Sequence[Mapping[str, str]]) -> bool:
    return any(REFUSAL in turn["content"] for turn in turns)


def _is_of(identity: str, base: str) -> bool:
    """Whether labels are of these weights, and of nothing put on them."""
    return identity == base or (base in _WORDS.split(identity) and "adapter=" not in identity)


def _turns_fault(turns: Any) -> str:
    if not isinstance(turns, list) or not turns:
        return "it has no messages"
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict) or not isinstance(turn.get("content"), str):
            return f"message {number} is no object with a role and a text as content"
        if turn.get("role") not in _ROLES:
            return f"message {number} has the role {turn.get('role')!r}, and there are {', '.join(_ROLES)}"
        try:
            turn["content"].encode()
        except UnicodeEncodeError:
            return f"message {number} holds half a character"
    roles = [turn["role"] for turn in turns]
    asked = roles[1:] if roles[0] == "system" else roles
    if not asked or asked != [("user", "assistant")[place % 2] for place in range(len(asked))] or len(asked) % 2:
        return (
            f"its messages are by {', '.join(roles)}; after a system message, if there is one, user and assistant take "
            "turns, and the assistant comes last"
        )
    for number, turn in enumerate(turns, 1):
        if turn["role"] == "user" and not turn["content"].strip():
            return f"message {number} asks nothing"
    return "" if turns[-1]["content"].strip() else "its reply is empty"


def _kind(meta: dict[str, Any]) -> str:
    said = [str(meta[name]) for name in ("kind", "part") if meta.get(name)]
    return " ".join(said) or _UNTOLD


def shortened(text: str) -> str:
    """A text as it is, or the beginning of a long one: enough to tell digests apart."""
    return text if len(text) <= 40 else f"{text[:12]}…"


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
    prompts = DecoderPrompts(loaded.tokenizer, _ANY_LENGTH)
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
