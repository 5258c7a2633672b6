"""HippoRAG with IRCoT: search for every thought through the graph of facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.registry import method
from hoptree.methods.baselines.hipporag import SIGNALS, recall, require_facts
from hoptree.methods.baselines.ircot import read_collected, reason_and_search
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS
from hoptree.retrieval.rerank import normalise_scores


@decision("read")
class PassagesRead(Decision):
    """All passages that were ever among the best; others of a search were not read."""

    value: list[str]


@method(
    "hipporag_ircot",
    title="Facts and passages for every thought",
    paper="HippoRAG",
    needs=("corpus",),
    signals=(*SIGNALS, "prefix"),
    iterative=True,
    strategy="After every thought",
    query="Facts nearest to the last thought",
    roles=("answer", "recognise", "link"),
    bounds={"version": (1, 2)},
    shared_prompts=("mentions", "recognise", *REASONING_PROMPTS),
)
async def hipporag_ircot(
    question: Question,
    ctx: Context,
    *,
    version: int = 2,
    k: int = 5,
    facts: int = 5,
    recognise: bool = True,
    max_steps: int = 3,
    found: int = 20,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Think a sentence, search for it as `hipporag` does, keep the passages with the best scores, and read them.

    Every search gives `found` passages with scores from 0 to 1; a passage has the best of its scores. The `k` best are
    in view of the next thought and are read in the end. The reasoning ends with an answer, with nothing new, or after
    `max_steps` thoughts (2 to 4 in the released settings). `version`, `facts`, `recognise` and the corpus are those of
    `hipporag`: TreeQA compares with version 1.
    `shots` worked examples with documents fit any data set, where the released code has templates for some; another
    `draw` than 0 shows others. Plain IRCoT with `--retriever hippo` keeps what came first instead.
    """
    require_facts(ctx)
    best = BestFound(k)
    search = partial(recall, ctx, k=max(found, k), facts=facts, recognised=recognise, version=version)
    shown: dict[str, Any] = {"shots": shots, "draw": draw, "titles": titles}
    reasoning = await reason_and_search(ctx, question.text, best, search, max_sentences=max_steps, **shown)
    ctx.emit(PassagesRead(value=best.read))
    return await read_collected(ctx, question.text, reasoning, best.passages, **shown)


@dataclass(slots=True)
class BestFound:
    """The passages with the best scaled scores so far; `read` are all that ever were."""

    limit: int
    read: list[str] = field(default_factory=list)
    _found: dict[str, Passage] = field(default_factory=dict)

    @property
    def passages(self) -> list[Passage]:
        """The best ones; of equals, those that were found first."""
        return sorted(self._found.values(), key=lambda passage: -passage.score)[: self.limit]

    def add(self, passages: Iterable[Passage]) -> list[str]:
        """Add new or better passages, and return the ids new among the best."""
        before = {passage.id for passage in self.passages}
        batch = list(passages)
        for passage, score in zip(batch, normalise_scores([passage.score for passage in batch]), strict=True):
            if passage.id not in self._found or score > self._found[passage.id].score:
                self._found[passage.id] = replace(passage, score=score)
        new = [passage.id for passage in self.passages if passage.id not in before]
        self.read += [name for name in new if name not in self.read]
        return new
