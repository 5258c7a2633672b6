"""SKR: look up only what the model does not know by itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.route import says_yes
from hoptree.retrieval.encoder import Encoder
from hoptree.retrieval.open_encoder import open_encoder

Label = Literal["better", "worse", "tie"]
"""What documents made of the answer to a question."""

_HOW = "Make the file from two runs over train questions: hoptree align skr RUN_WITHOUT RUN_WITH --out FILE"


@dataclass(frozen=True, slots=True)
class Labels:
    """Questions for which documents made a difference, whether for the better, and for how many they made none."""

    questions: tuple[str, ...]
    better: tuple[bool, ...]
    ties: int
    digest: str = ""

    def help(self, near: Sequence[bool]) -> bool:
        """Whether documents help with a question whose neighbours are these."""
        all_better = sum(self.better)
        return documents_help(
            sum(near),
            len(near) - sum(near),
            all_better=all_better,
            all_worse=len(self.better) - all_better,
            total=len(self.better) + self.ties,
        )


def documents_help(better: int, worse: int, *, all_better: int, all_worse: int, total: int) -> bool:
    """SKR's vote of the nearest, against a bound that is shifted by what prevails among all questions.

    Where documents made more answers worse than better, they are done without only if more neighbours say so, by at
    least the share of that surplus among as many questions; and the other way round where they did not. `total` counts
    ties too, which are no neighbours: so the bound is often 0, and the majority decides.
    """
    surplus = abs(all_worse - all_better) * (better + worse) // total
    if all_better < all_worse:
        return not (worse > better and worse - better >= surplus)
    return better > worse and better - worse >= surplus


def read_labels(path: str) -> Labels:
    """The labelled questions of a file with an object a line, of a `question` and its `label`."""
    if not path:
        raise ConfigError("skr with how=knn needs labelled questions: --set labels=FILE was not given.", _HOW)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"The labels in {path} cannot be read: {error.strerror or error}.", _HOW) from error
    read = [_row(path, number, line) for number, line in enumerate(raw.split(b"\n"), 1) if line.strip()]
    telling = [(question, label == "better") for question, label in read if label != "tie"]
    if not telling:
        raise InputError(f"{path} holds no question for which documents made a difference.", "Label more questions.")
    questions, better = zip(*telling, strict=True)
    return Labels(questions, better, len(read) - len(telling), hashlib.sha256(raw).hexdigest()[:12])


def _row(path: str, number: int, line: bytes) -> tuple[str, Label]:
    try:
        row: Any = json.loads(line)
        question, label = row["question"], row["label"]
        if not isinstance(question, str) or label not in get_args(Label):
            raise TypeError("its label is none of better, worse and tie")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"Line {number} of {path} is no labelled question: {error}.", _HOW) from error
    return question, label


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Labelled questions that can be searched by their likeness to another."""

    labels: Labels
    encoder: Encoder
    rows: Any

    async def retrieval_pays(self, ctx: Context, question: str, count: int) -> bool:
        """Whether documents help with a question, by so many of the labelled ones that are nearest to it."""
        if count < 1:
            raise ConfigError(f"{count} neighbours cannot vote.", "Set neighbours to 1 or more: --set neighbours=5.")
        (asked,) = await self.encoder.encode([question], role="query")
        likeness = (self.rows @ asked).tolist()
        nearest = sorted(range(len(likeness)), key=lambda place: (-likeness[place], place))[:count]
        pays = self.labels.help([self.labels.better[place] for place in nearest])
        near = [
            [self.labels.questions[place], self.labels.better[place], round(likeness[place], 4)] for place in nearest
        ]
        ctx.decide(
            "route", pays, step="neighbours", near=near, labels=self.labels.digest, encoder=self.encoder.identity
        )
        return pays


@dataclass(frozen=True, slots=True)
class _Opened:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    found: dict[Hashable, Neighbours] = field(default_factory=dict)


_opened: WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = WeakKeyDictionary()


async def open_neighbours(path: str, encoder: str) -> Neighbours:
    """The labelled questions of a file as vectors, which are made once, whoever asks first."""
    opened = _opened.setdefault(asyncio.get_running_loop(), _Opened())
    async with opened.lock:
        key = (path, _state(path), encoder)
        if key not in opened.found:
            labels, vectors = read_labels(path), open_encoder(encoder)
            opened.found[key] = Neighbours(labels, vectors, await vectors.encode(labels.questions, role="query"))
        return opened.found[key]


def _state(path: str) -> tuple[int, int]:
    """What tells a file from what it was before; one that is missing is for `read_labels` to refuse."""
    try:
        found = Path(path).stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


def _uses(options: Mapping[str, Any]) -> dict[str, str]:
    """The labels that decide, where labels do: a changed file makes another run."""
    if options.get("how") != "knn":
        return {}
    return {"labels": read_labels(str(options.get("labels") or "")).digest}


@method(
    "skr",
    title="Self-knowledge guided retrieval",
    paper="SKR",
    needs=("corpus",),
    signals=("prefix",),
    dynamic=True,
    strategy="What the model knows of questions like this one",
    query="The question itself",
    roles=("answer", "route"),
    trained=True,
    trained_by=("how", "knn"),
    uses=_uses,
)
async def skr(
    question: Question,
    ctx: Context,
    *,
    how: Literal["prompt", "knn"] = "prompt",
    labels: str = "",
    neighbours: int = 5,
    encoder: str = "minilm",
    k: int = 5,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Think with documents if the question wants them, else without.

    With `how=prompt` the model says whether it needs additional information; a reply that is neither yes nor no counts
    as yes. With `how=knn`, the paper's best form, it is decided by the `neighbours` nearest questions of `labels`, a
    file that says of train questions whether documents made the answer better or worse: hoptree align skr makes it from
    two runs. `encoder` turns questions into vectors; the paper's is SimCSE (st/NAME of its weights).
    """
    ctx.require_corpus()
    if how == "knn":
        found = await open_neighbours(labels, encoder)
        look_up = await found.retrieval_pays(ctx, question.text, neighbours)
    else:
        prompt = prompt_for(ctx.method, "need").fill(question=question.text)
        look_up = await says_yes(ctx, prompt, default=True, step="need", role="route")
    passages = await ctx.search(question.text, k=k) if look_up else ()
    (answer,) = await think(ctx, question.text, passages=passages, shots=shots, draw=draw, titles=titles)
    return answer
