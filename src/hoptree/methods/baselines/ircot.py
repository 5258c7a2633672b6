"""IRCoT: retrieval interleaved with reasoning, sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import note_written, supporting_ids
from hoptree.methods.steps.chain_of_thought import (
    REASONING_PROMPTS,
    Generator,
    adds_text,
    cut_at_answer,
    draw_examples_with_documents,
    show_context,
    think,
)
from hoptree.methods.steps.uncertain_sentences import Stopped, SubQuery
from hoptree.text.parse import gives_answer, read_conclusion, states_fact

_SENTENCE_TOKENS = 64  # only the first sentence is kept
_PROMPT_LABEL = re.compile(r"\W*(?:Question|Context|Answer so far|Go on):")

Search = Callable[[str], Awaitable[Iterable[Passage]]]


@method(
    "ircot",
    title="Interleaved retrieval and reasoning",
    paper="IRCoT",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="After every sentence",
    query="The last sentence of the reasoning",
    shared_prompts=REASONING_PROMPTS,
)
async def ircot(
    question: Question,
    ctx: Context,
    *,
    k: int = 6,
    max_docs: int = 15,
    max_sentences: int = 10,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Search with each sentence of the reasoning, collect the passages, and let a reader reason over all of them.

    Every search gives `k` passages; the first `max_docs` are kept. The reasoning ends with an answer, with nothing new,
    or after `max_sentences`. The reader does not see the reasoning, whose answer is taken only if the reader gives
    none. `shots` worked examples are shown, each with its documents; another `draw` than 0 shows others. Passages of
    the same title and text count once, so that a page cut into several can be read as a whole.
    """
    ctx.require_corpus()
    collected = FirstFound(max_docs)
    search = partial(ctx.search, k=k)
    shown: dict[str, Any] = {"shots": shots, "draw": draw, "titles": titles}
    reasoning = await reason_and_search(ctx, question.text, collected, search, max_sentences=max_sentences, **shown)
    return await read_collected(ctx, question.text, reasoning, collected.passages, **shown)


class Collection(Protocol):
    """The passages that the next sentence is written from."""

    @property
    def passages(self) -> Sequence[Passage]: ...

    def add(self, passages: Iterable[Passage]) -> list[str]:
        """Add passages, and return the ids of those that are new."""
        ...


@dataclass(slots=True)
class FirstFound:
    """The first passages found, each once, up to a limit."""

    limit: int
    passages: list[Passage] = field(default_factory=list)

    def add(self, passages: Iterable[Passage]) -> list[str]:
        """Add new passages up to the limit, and return their ids."""
        known = {(passage.title, passage.text) for passage in self.passages}
        new: list[str] = []
        for passage in passages:
            if len(self.passages) < self.limit and (passage.title, passage.text) not in known:
                known.add((passage.title, passage.text))
                self.passages.append(passage)
                new.append(passage.id)
        return new


async def reason_and_search(
    ctx: Context,
    question: str,
    collection: Collection,
    search: Search,
    *,
    max_sentences: int,
    shots: int,
    draw: int,
    titles: bool,
) -> str:
    """Write the reasoning, and search for each sentence that states a fact."""
    generator = Generator(ctx, question, draw_examples_with_documents(shots, draw, titles=titles))
    text, query, stopped = "", question, "sentences"
    collection.add(await search(query))
    for _ in range(max_sentences):
        context = show_context(ctx, collection.passages, titles=titles)
        draft = await generator.write(text, step="draft", max_tokens=_SENTENCE_TOKENS, context=context)
        draft = cut_at_answer(draft)
        ctx.propose(read_conclusion(f"{text} {draft.text}", question), order=0)
        sentence = draft.first_sentence().text
        new = adds_text(sentence, text) and not _PROMPT_LABEL.match(sentence)
        note_written(ctx, "draft", sentence if new else "", text)
        if not new:
            stopped = "no growth" if sentence else "end"
            break
        text = f"{text} {sentence}".strip()
        if gives_answer(sentence):
            stopped = "answer"
            break
        useful, added = states_fact(sentence), []
        if useful:
            query = sentence
            added = collection.add(await search(query))
        ctx.emit(SubQuery(value=query, sentence=sentence, repeated=not useful, new=added))
    ctx.emit(Stopped(value=stopped, text=text))
    ctx.emit(ChainWritten(text=text))
    return text


async def read_collected(
    ctx: Context, question: str, reasoning: str, passages: Sequence[Passage], *, shots: int, draw: int, titles: bool
) -> Answer:
    """Answer from the passages alone, or else return the answer of the reasoning."""
    (answer,) = await think(ctx, question, passages=passages, shots=shots, draw=draw, titles=titles)
    reasoned = read_conclusion(reasoning, question)
    if answer.known or not reasoned.known:
        return answer
    return replace(reasoned, support=supporting_ids(reasoned.text, passages))
