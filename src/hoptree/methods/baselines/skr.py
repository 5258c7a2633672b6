"""SKR: look up only what the model does not know by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.thinking import think
from hoptree.steps.planning.neighbours import open_neighbours, read_labels
from hoptree.steps.planning.route import says_yes
from hoptree.values import Answer, Question

__all__ = ["skr"]


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
