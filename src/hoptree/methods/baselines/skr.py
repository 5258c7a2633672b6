"""SKR: retrieve only if the model does not know the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think
from hoptree.methods.steps.route import Labels, YesNoJudged, ask_yes_no, read_labels
from hoptree.retrieval.encoder import Encoder, open_encoder


@decision("need", shown_as="need")
class NeedJudged(YesNoJudged):
    """Whether the model says that it needs information; not `read` if unclear."""


@decision("route", shown_as="way")
class NeighboursVoted(Decision):
    """Whether documents help, by the nearest labelled questions with similarities."""

    value: bool
    step: str = "neighbours"
    near: list[list[Any]]
    labels: str
    encoder: str


def _digests(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of the labels, if any: a changed file makes another run."""
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
    uses=_digests,
    shared_prompts=REASONING_PROMPTS,
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
    """Think with documents if the question needs them, else without.

    With `how=prompt` the model says whether it needs additional information; a reply that is neither yes nor no counts
    as yes. With `how=knn`, the paper's best form, the `neighbours` nearest questions of `labels` decide: a file that
    says of train questions whether documents made the answer better or worse, which hoptree align skr makes from two
    runs. `encoder` turns questions into vectors; the paper's is SimCSE (st/NAME of its weights).
    """
    ctx.require_corpus()
    if how == "knn":
        needed = await _ask_neighbours(ctx, question.text, labels, encoder, neighbours)
    else:
        prompt = prompt_for(ctx.method, "need").fill(question=question.text)
        needed = await ask_yes_no(ctx, prompt, NeedJudged, default=True, role="route")
    passages = await ctx.search(question.text, k=k) if needed else ()
    (answer,) = await think(ctx, question.text, passages=passages, shots=shots, draw=draw, titles=titles)
    return answer


async def _ask_neighbours(ctx: Context, question: str, path: str, encoder_name: str, count: int) -> bool:
    """Return whether documents help, by the `count` nearest labelled questions."""
    if count < 1:
        raise ConfigError(f"{count} neighbours cannot vote.", "Set neighbours to 1 or more: --set neighbours=5.")
    labels, encoder, rows = await open_labels(path, encoder_name)
    (vector,) = await encoder.encode([question], role="query")
    similarity = (rows @ vector).tolist()
    nearest = sorted(range(len(similarity)), key=lambda place: (-similarity[place], place))[:count]
    better, all_better = sum(labels.better[place] for place in nearest), sum(labels.better)
    helps = documents_help(
        better,
        len(nearest) - better,
        all_better=all_better,
        all_worse=len(labels.better) - all_better,
        total=len(labels.better) + labels.ties,
    )
    near = [[labels.questions[place], labels.better[place], round(similarity[place], 4)] for place in nearest]
    ctx.emit(NeighboursVoted(value=helps, near=near, labels=labels.digest, encoder=encoder.identity))
    return helps


def documents_help(better: int, worse: int, *, all_better: int, all_worse: int, total: int) -> bool:
    """Return SKR's vote of the nearest questions, with a bound from all questions.

    If documents made more of all answers worse than better, they are left out only if a majority of neighbours says so,
    by at least the share of that surplus among as many questions; else the other way round. `total` counts ties too,
    which are never neighbours: so the bound is often 0, and the majority decides.
    """
    surplus = abs(all_worse - all_better) * (better + worse) // total
    if all_better < all_worse:
        return not (worse > better and worse - better >= surplus)
    return better > worse and better - worse >= surplus


_Opened = tuple[Labels, Encoder, Any]
_opened: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[asyncio.Lock, dict[Hashable, _Opened]]]
_opened = WeakKeyDictionary()


async def open_labels(path: str, encoder_name: str) -> _Opened:
    """Return labelled questions, encoder and vectors, made once for each event loop."""
    lock, opened = _opened.setdefault(asyncio.get_running_loop(), (asyncio.Lock(), {}))
    async with lock:
        stat = Path(path).stat() if Path(path).is_file() else None  # a missing file is refused by `read_labels`
        key = (path, stat and (stat.st_mtime_ns, stat.st_size), encoder_name)
        if key not in opened:
            labels, encoder = read_labels(path), open_encoder(encoder_name)
            opened[key] = (labels, encoder, await encoder.encode(labels.questions, role="query"))
        return opened[key]
