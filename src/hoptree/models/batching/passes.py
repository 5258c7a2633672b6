"""Passes through a model: over the prompts of new rows, and over one token of every row."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from hoptree.models.batching.kv import Memory, Prefix, Reading, Step, Writing, aligned
from hoptree.models.batching.prefixes import groups
from hoptree.models.batching.rows import Row

__all__ = ["Passes"]

torch: Any = importlib.import_module("torch")

# Tokens of one pass over prompts: more would not make a large accelerator faster, and would hold up the running rows.
READ_TOKENS = 16384
# Tokens that a pass may look at, beginnings included, for each one it reads.
SEEN_PER_READ = 4
# Padding may be this part of a pass; an accelerator has read so many tokens before it notices more.
PADDING_PART = 8
FREE_PADDING = 2048
# A beginning that prompts share is read once if it has this many tokens.
SHARED_TOKENS = 64
# A pass of its own must save an accelerator this many tokens: a small pass takes it as long as a larger one.
WORTH_A_PASS = 4096
# New rows are compared with so many of the running ones, those that joined last.
COMPARED_ROWS = 64
# Beginnings that are remembered may take this part of the batch's tokens.
REMEMBERED_PART = 8


class Passes:
    """A model with the memory of the rows it works on.

    The last token of a prompt is not read with the others but written, as if it were the reply's own: so every pass
    that asks for a next token is one over a single token of each row.
    """

    def __init__(self, model: Any, device: Any) -> None:
        self._model = model
        self._device = device
        self._prefixes: OrderedDict[tuple[int, ...], Prefix] = OrderedDict()
        self._free_padding = 0 if str(device) == "cpu" else FREE_PADDING
        self._worth_a_pass = 0 if str(device) == "cpu" else WORTH_A_PASS
        self.read_tokens = READ_TOKENS
        self.memory = Memory()

    def clear(self) -> None:
        self.memory.clear()
        self._prefixes.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def read(self, rows: Sequence[Row], running: Sequence[Row], max_batch_tokens: int) -> None:
        """Read the prompts of rows that have their places; a beginning they share with others is read once."""
        prompts = [tuple(row.tokens[:-1]) for row in rows]
        beside = running[-COMPARED_ROWS:]
        everyone = [*prompts, *(tuple(row.prompt[:-1]) for row in beside)]
        fresh: set[tuple[int, ...]] = set()
        for group in groups(everyone):
            worth = group.length >= SHARED_TOKENS and len(group.members) * group.length >= self._worth_a_pass
            if min(group.members) < len(rows) and worth:
                older = [beside[member - len(rows)] for member in group.members if member >= len(rows)]
                fresh.add(self._begin(everyone[group.members[0]][: group.length], older))
        for shared, same in self._by_prefix(rows, prompts).items():
            for row in same:
                if not row.output:
                    row.cached = 0 if shared in fresh else len(shared)
                fresh.discard(shared)  # whoever comes first has read it, the others found it
            for part in self._portions(same, len(shared)):
                self._read(part, self._prefixes.get(shared))
        self._forget(max_batch_tokens // REMEMBERED_PART)

    def _by_prefix(self, rows: Sequence[Row], prompts: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[Row]]:
        """The rows by the beginning they need not read; those of too small a gain have none."""
        found: dict[tuple[int, ...], list[Row]] = {}
        for row, prompt in zip(rows, prompts, strict=True):
            found.setdefault(self._longest_known(prompt), []).append(row)
        for shared in [shared for shared, same in found.items() if len(shared) * len(same) < self._worth_a_pass]:
            if shared and len(found) > 1:
                found.setdefault((), []).extend(found.pop(shared))
        return found

    def write(self, rows: Sequence[Row]) -> Any:
        """The scores of every row's next token, in the order of the rows."""
        top = max(row.place for row in rows) + 1
        tokens, lengths = [0] * top, [0] * top
        for row in rows:
            tokens[row.place] = row.output[-1] if row.output else row.prompt[-1]
            lengths[row.place] = row.length - 1
        columns = min(aligned(max(lengths) + 1), self.memory.width)
        positions = self._tensor(lengths)
        step = Writing(self.memory, torch.arange(top, device=self._device), positions, columns)
        logits = self._pass(self._tensor(tokens)[:, None], positions[:, None], step)
        return logits[self._tensor([row.place for row in rows])]

    def _pass(self, tokens: Any, positions: Any, step: Step) -> Any:
        self.memory.step = step
        done = self._model(
            input_ids=tokens,
            position_ids=positions,
            past_key_values=self.memory,
            use_cache=True,
            logits_to_keep=1,
            hoptree_step=step,
        )
        return done.logits[:, -1]

    def _begin(self, shared: tuple[int, ...], older: list[Row]) -> tuple[int, ...]:
        """Remember a beginning unless most of it is known: from a row that has read it, else by reading it now.

        What was read now is returned.
        """
        if 2 * len(self._longest_known(shared)) >= len(shared):
            return ()
        if older:
            self._prefixes[shared] = self.memory.copied(older[0].place, len(shared))
            return ()
        step = Reading(self.memory, None)
        self._pass(self._tensor([shared]), torch.arange(len(shared), device=self._device)[None], step)
        self._prefixes[shared] = Prefix(step.keys, step.values)
        return shared

    def _longest_known(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        known = (key for key in self._prefixes if len(key) <= len(prompt) and key == prompt[: len(key)])
        best = max(known, key=len, default=())
        if best:
            self._prefixes.move_to_end(best)
        return best

    def _portions(self, rows: list[Row], shared: int) -> list[list[Row]]:
        """Rows of like length together, as many as one pass may read with their padding."""
        portions: list[list[Row]] = []
        longest = real = 0
        for row in sorted(rows, key=lambda row: -row.length):
            if portions:
                count, read = len(portions[-1]) + 1, real + row.length - shared
                padded = count * (longest - shared)
                padding = padded - read
                fits = padded <= self.read_tokens and count * longest <= SEEN_PER_READ * self.read_tokens
                if fits and (padding <= self._free_padding or PADDING_PART * padding <= padded):
                    portions[-1].append(row)
                    real = read
                    continue
            portions.append([row])
            longest, real = row.length, row.length - shared
        return portions

    def _read(self, rows: list[Row], prefix: Prefix | None) -> None:
        shared = prefix.length if prefix else 0
        texts = [row.tokens[shared:-1] for row in rows]
        longest = max(map(len, texts))
        places = [row.place for row in rows]
        if longest == 0:
            if prefix is not None:
                self.memory.put(places, prefix)
            return
        tokens = self._tensor([text + [0] * (longest - len(text)) for text in texts])
        positions = torch.arange(shared, shared + longest, device=self._device).expand(len(rows), -1)
        self._pass(tokens, positions, Reading(self.memory, self._tensor(places), prefix))

    def _forget(self, tokens: int) -> None:
        """Drop the beginnings that were not used for longest until the rest have no more than so many tokens."""
        while sum(map(len, self._prefixes)) > tokens:
            self._prefixes.popitem(last=False)

    def _tensor(self, numbers: Any) -> Any:
        return torch.tensor(numbers, dtype=torch.long, device=self._device)
