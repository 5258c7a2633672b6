"""Passes through a model that reads and writes in one sequence."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from hoptree.models.batching.cuda_graphs import Replays, Said, Shape, rounded_columns, rounded_rows
from hoptree.models.batching.kv_cache import Memory, Prefix, Reading, Step, Writing, aligned, groups, numbers_on
from hoptree.models.batching.passes import EMPTY_PART, Portions, give_back
from hoptree.models.batching.rows import Row, Watch, fitting

torch: Any = importlib.import_module("torch")

# A beginning that prompts share is read once if it has this many tokens.
SHARED_TOKENS = 64
# A pass of its own must save an accelerator this many tokens: a small pass takes it as long as a larger one.
WORTH_A_PASS = 4096
# New rows are compared with so many of the running ones, those that joined last.
COMPARED_ROWS = 64
# Beginnings that are remembered may take this part of the batch's tokens.
REMEMBERED_PART = 8
# Forced tokens of one pass: the scores of each are as many as the vocabulary has words.
FORCED = 64


class DecoderOnly:
    """A model with one rectangle of memory for the rows it works on, each at its own position.

    The last token of a prompt is not read with the others but written, as if it were the reply's own: so every pass
    that asks for a next token is one over a single token of each row.
    """

    def __init__(self, model: Any, device: Any, max_rows: int) -> None:
        self._model = model
        self._device = device
        self._max_rows = max_rows
        self._prefixes: OrderedDict[tuple[int, ...], Prefix] = OrderedDict()
        self._worth_a_pass = 0 if str(device) == "cpu" else WORTH_A_PASS
        self._portions = Portions(str(device))
        self._memory = Memory()
        self._layers = int(model.config.get_text_config().num_hidden_layers)
        self._replays: Replays | None = None
        if str(device).startswith("cuda"):
            self._replays = Replays(str(device), max_rows, self._write)
            # cuDNN makes a plan for each new shape of attention, which takes as long as reading 16,000 tokens.
            torch.backends.cuda.enable_cudnn_sdp(False)

    @property
    def held(self) -> int:
        return self._memory.places * self._memory.width

    def clear(self) -> None:
        self._memory.clear()
        self._prefixes.clear()
        self._forget_replays()
        give_back()

    def read_less(self) -> None:
        self._portions.read_less()

    def join(self, joining: Sequence[Row], running: Sequence[Row], tokens: int) -> None:
        everyone = [*running, *joining]
        rows, width = len(everyone), max(row.width for row in everyone)
        if rows > self._memory.places or width > self._memory.width:
            if rows * self._memory.width <= tokens:
                width = max(width, self._memory.width)
            places = rows * 5 // 4
            if self._replays is not None:  # what was recorded is lost with the old memory, so that it grows seldom
                width = rounded_columns(width) if rows * rounded_columns(width) <= tokens else width
                places = rounded_rows(places)
            self._resize(max(rows, min(places, tokens // width, self._max_rows)), width, running)
        taken = {row.place for row in running}
        free = (place for place in range(self._memory.places) if place not in taken)
        for row, place in zip(joining, free, strict=False):
            row.place = place
        self._memory.wipe([row.place for row in joining])
        self._read_all(joining, running)
        self._forget(tokens // REMEMBERED_PART)

    def make_room(self, rows: Sequence[Row], tokens: int) -> int:
        if max(row.length for row in rows) <= self._memory.width:
            return len(rows)
        kept = rows[: fitting(rows, tokens)]
        if max(row.length for row in kept) > self._memory.width:
            width = max(row.width for row in kept)
            self._resize(max(len(kept), min(self._memory.places, tokens // width)), width, kept)
        return len(kept)

    def write(self, rows: Sequence[Row]) -> Any:
        self._move_together(rows)
        looking = [row for row in rows if "attention" in row.signals and len(row.output) > 1]
        asking = [row for row in rows if "hidden" in row.signals]
        shape = self._shape(rows, watched=bool(looking), hidden=bool(asking))
        tokens, lengths = [0] * shape.rows, [0] * shape.rows
        for row in rows:
            tokens[row.place] = row.last
            lengths[row.place] = row.length - 1
        if self._replays is None:
            watched = self._tensor([row.place for row in looking])
            said = self._write(shape, self._tensor(tokens), self._tensor(lengths), watched)
            seen = said.weights
        else:
            said = self._replays.step(shape, tokens, lengths)
            seen = self._of(looking, said.weights) if looking else None
        if seen is not None:
            for row, weights in zip(looking, seen.cpu(), strict=True):
                row.note_attention(weights, len(row.output) - 1)
        if asking:
            for row, state in zip(asking, self._of(asking, said.hidden), strict=True):
                row.hidden = state
        return self._of(rows, said.logits)

    def force(self, row: Row) -> Iterator[Any]:
        assert row.forced is not None
        fed = [*row.prompt[-1:], *row.forced]
        for start in range(0, len(fed), FORCED):
            part = fed[start : start + FORCED]
            at = row.read - 1 + start
            positions = torch.arange(at, at + len(part), device=self._device)[None]
            known = self._memory.copied(row.place, at) if at else None
            step = Reading(self._memory, self._tensor([row.place]), known)
            looks = "attention" in row.signals or row.looking
            watch = Watch(self._layers - 1, self._tensor([0]), positions) if looks else None
            hidden = "hidden" in row.signals
            done = self._pass(self._tensor([part]), positions, step, watch, scores=len(part), hidden=hidden)
            if watch is not None:
                # The first token that is fed is the prompt's last, and no part of the reply.
                row.note_attention(watch.weights[0].cpu()[0 if start else 1 :], max(0, start - 1))
            if hidden:
                row.hidden = self._half_way(done)[0]
            yield done.logits[0, : len(row.forced) - start]

    def _shape(self, rows: Sequence[Row], *, watched: bool, hidden: bool) -> Shape:
        places, columns = max(row.place for row in rows) + 1, aligned(max(row.length for row in rows))
        if self._replays is not None:
            places, columns = min(rounded_rows(places), self._memory.places), rounded_columns(columns)
        return Shape(places, min(columns, self._memory.width), watched, hidden)

    def _write(self, shape: Shape, tokens: Any, lengths: Any, watched: Any = None) -> Said:
        """Write one token of each of the first places, those without a row too, each at its own position.

        What is `watched` is the attention of these places, else of all.
        """
        places = torch.arange(shape.rows, device=self._device)
        watched = places if watched is None else watched
        watch = Watch(self._layers - 1, watched, lengths[watched, None]) if shape.watched else None
        step = Writing(self._memory, places, lengths, shape.columns)
        done = self._pass(tokens[:, None], lengths[:, None], step, watch, hidden=shape.hidden)
        return Said(
            done.logits[:, -1], watch.weights if watch else None, self._half_way(done) if shape.hidden else None
        )

    def _of(self, rows: Sequence[Row], told: Any) -> Any:
        """What was told of these rows' places, as a copy."""
        return told[self._tensor([row.place for row in rows])]

    def _half_way(self, done: Any) -> Any:
        return done.hidden_states[self._layers // 2][:, -1]

    def _resize(self, places: int, width: int, running: Sequence[Row]) -> None:
        self._forget_replays()
        self._memory.resize(places, width, [row.place for row in running])
        give_back()  # the smaller rectangles, which would not be used again
        for place, row in enumerate(running):
            row.place = place

    def _forget_replays(self) -> None:
        if self._replays is not None:
            self._replays.forget()

    def _move_together(self, running: Sequence[Row]) -> None:
        top = max(row.place for row in running) + 1
        rows = len(running)
        if EMPTY_PART * (top - rows) <= top:
            return
        taken = {row.place for row in running}
        behind = [row for row in running if row.place >= rows]
        free = [place for place in range(rows) if place not in taken]
        self._memory.move([row.place for row in behind], free)
        for row, place in zip(behind, free, strict=True):
            row.place = place

    def _read_all(self, rows: Sequence[Row], running: Sequence[Row]) -> None:
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
            alone, twins = _told_apart(same)
            for part in self._portions.of((row.length for row in alone), len(shared)):
                self._read([alone[number] for number in part], self._prefixes.get(shared))
            if twins:
                self._memory.move([first.place for first, _ in twins], [row.place for _, row in twins])

    def _by_prefix(self, rows: Sequence[Row], prompts: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[Row]]:
        """The rows by the beginning they need not read; those of too small a gain have none."""
        found: dict[tuple[int, ...], list[Row]] = {}
        for row, prompt in zip(rows, prompts, strict=True):
            found.setdefault(self._longest_known(prompt), []).append(row)
        for shared in [shared for shared, same in found.items() if len(shared) * len(same) < self._worth_a_pass]:
            if shared and len(found) > 1:
                found.setdefault((), []).extend(found.pop(shared))
        return found

    def _pass(
        self,
        tokens: Any,
        positions: Any,
        step: Step,
        watch: Watch | None = None,
        *,
        scores: int = 1,
        hidden: bool = False,
    ) -> Any:
        """One pass through the weights; `scores` is for how many of the last tokens those of a next one are told."""
        self._memory.step = step
        return self._model(
            input_ids=tokens,
            position_ids=positions,
            past_key_values=self._memory,
            use_cache=True,
            logits_to_keep=scores,
            output_hidden_states=hidden,
            hoptree_step=step,
            hoptree_watch=watch,
        )

    def _begin(self, shared: tuple[int, ...], older: list[Row]) -> tuple[int, ...]:
        """Remember a beginning unless most of it is known: from a row that has read it, else by reading it now.

        What was read now is returned.
        """
        if 2 * len(self._longest_known(shared)) >= len(shared):
            return ()
        if older:
            self._prefixes[shared] = self._memory.copied(older[0].place, len(shared))
            return ()
        step = Reading(self._memory, None)
        self._pass(self._tensor([shared]), torch.arange(len(shared), device=self._device)[None], step)
        self._prefixes[shared] = Prefix(step.keys, step.values)
        return shared

    def _longest_known(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        known = (key for key in self._prefixes if len(key) <= len(prompt) and key == prompt[: len(key)])
        best = max(known, key=len, default=())
        if best:
            self._prefixes.move_to_end(best)
        return best

    def _read(self, rows: list[Row], prefix: Prefix | None) -> None:
        shared = prefix.length if prefix else 0
        texts = [row.tokens[shared:-1] for row in rows]
        longest = max(map(len, texts))
        places = [row.place for row in rows]
        if longest == 0:
            if prefix is not None:
                self._memory.put(places, prefix)
            return
        tokens = self._tensor([text + [0] * (longest - len(text)) for text in texts])
        positions = torch.arange(shared, shared + longest, device=self._device).expand(len(rows), -1)
        self._pass(tokens, positions, Reading(self._memory, self._tensor(places), prefix))

    def _forget(self, tokens: int) -> None:
        """Drop the beginnings that were not used for longest until the rest have no more than so many tokens."""
        while sum(map(len, self._prefixes)) > tokens:
            self._prefixes.popitem(last=False)

    def _tensor(self, numbers: Any) -> Any:
        return numbers_on(self._device, numbers)


def _told_apart(rows: Sequence[Row]) -> tuple[list[Row], list[tuple[Row, Row]]]:
    """Rows of which no two have the same text, and the others, each behind the one that is read for it.

    Samples of one prompt are such twins.
    """
    first: dict[tuple[int, ...], Row] = {}
    twins = []
    for row in rows:
        text = tuple(row.tokens[:-1])
        if text in first:
            twins.append((first[text], row))
            row.cached = row.cached if row.output else len(text)
        else:
            first[text] = row
    return list(first.values()), twins
