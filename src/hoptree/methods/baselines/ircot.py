"""IRCoT: retrieval interleaved with reasoning step by step."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import holding
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.conclusion import gives_answer, read_conclusion, to_answer
from hoptree.methods.steps.continuation import Pen, show_context
from hoptree.methods.steps.reply_notes import note_written
from hoptree.methods.steps.rewrite_loop import adds
from hoptree.methods.steps.worked_examples import draw_documented

SENTENCE_TOKENS = 64
"""More than a sentence has; what is written behind the first one is not kept."""
_CONCLUDES = re.compile(
    r"\W*(?:thus|so|therefore|hence|consequently|accordingly|in conclusion|this means|that means|it follows)\b",
    re.IGNORECASE,
)
# "1946 - 1937 = 9", "12 + 3", "1937 is before 1946"; not "from 1914-1918".
_CALCULATES = re.compile(
    r"=\s{0,9}-?\d|\d\s{0,9}[<>+*×÷]\s{0,9}\d"
    r"|\A\W{0,9}\d[\d.,]{0,20}\s{1,9}(?:is|was|comes|came)\s{1,9}(?:\w{1,20}\s{1,9})?"
    r"(?:before|after|earlier|later|less|more|greater|smaller|larger|higher|lower|bigger|equal)\b"
    r"(?:\s{1,9}(?:than|to))?[^A-Za-z]*\Z",
    re.IGNORECASE,
)
_OWN_TURN = re.compile(r"\W*(?:Question|Context|Answer so far|Go on):")


Search = Callable[[str], Awaitable[Iterable[Passage]]]


class Gathering(Protocol):
    """What was found so far, and how that changes what is read."""

    @property
    def passages(self) -> Sequence[Passage]: ...

    def add(self, found: Iterable[Passage]) -> list[str]:
        """Take what is new; the ids of what was taken."""
        ...


@dataclass(slots=True)
class Gathered:
    """Passages in the order they were found, each once, up to a limit; pages of several passages may give several."""

    limit: int
    passages: list[Passage] = field(default_factory=list)

    def add(self, found: Iterable[Passage]) -> list[str]:
        """Take what is new as far as there is room; the ids of what was taken."""
        there = {(passage.title, passage.text) for passage in self.passages}
        taken: list[str] = []
        for passage in found:
            if len(self.passages) < self.limit and (passage.title, passage.text) not in there:
                there.add((passage.title, passage.text))
                self.passages.append(passage)
                taken.append(passage.id)
        return taken


async def reason_and_search(
    ctx: Context, pen: Pen, gathered: Gathering, *, search: Search, max_sentences: int, titles: bool
) -> str:
    """The reasoning, one sentence at a time with all that is gathered in view; each sentence is searched for.

    A sentence that only draws a conclusion or calculates says nothing to search for; the query before it, which would
    find the same again, stands.
    """
    text, query, why = "", pen.question, "sentences"
    gathered.add(await search(query))
    for _ in range(max_sentences):
        context = show_context(ctx, gathered.passages, titles=titles)
        draft = to_answer(await pen.write(text, step="draft", max_tokens=SENTENCE_TOKENS, context=context))
        ctx.propose(read_conclusion(f"{text} {draft.text}", pen.question), order=0)
        sentence = draft.first_sentence().text
        new = adds(sentence, text) and not _OWN_TURN.match(sentence)
        note_written(ctx, "draft", sentence if new else "", text)
        if not new:
            why = "no growth" if sentence else "end"
            break
        text = f"{text} {sentence}".strip()
        if gives_answer(sentence):
            why = "answer"
            break
        if useful := tells_facts(sentence):
            query = sentence
        taken = gathered.add(await search(query)) if useful else []
        ctx.decide("sub_query", query, sentence=sentence, repeated=not useful, new=taken)
    ctx.decide("stop", why, text=text)
    ctx.trace.add("chain", text=text)
    return text


async def read_afresh(
    ctx: Context, question: str, reasoning: str, found: Sequence[Passage], *, shots: int, draw: int, titles: bool
) -> Answer:
    """What a reader concludes who sees all that was gathered and none of the reasoning; else what the reasoning did."""
    (answer,) = await think(ctx, question, passages=found, shots=shots, draw=draw, titles=titles)
    if answer.known:
        return answer
    reasoned = read_conclusion(reasoning, question)
    return replace(reasoned, support=holding(reasoned.text, found)) if reasoned.known else answer


def tells_facts(sentence: str) -> bool:
    """Whether a sentence says something that documents may, and is no conclusion or calculation."""
    return not (_CONCLUDES.match(sentence) or _CALCULATES.search(sentence))


@method(
    "ircot",
    title="Interleaved retrieval and reasoning",
    paper="IRCoT",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="After every sentence",
    query="The last sentence of the reasoning",
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
    """Search with each sentence of the reasoning, gather what is found, and let a reader reason over all of it.

    Every search gives `k` passages; at most `max_docs` are gathered, those that came first. The reasoning ends with an
    answer, with nothing new, or after `max_sentences`. The reader begins afresh; only if it gives no answer is that of
    the reasoning taken. `shots` worked examples are shown, each with its documents; another `draw` than 0 shows others.
    A passage counts as there already if title and text are the same, so that a page cut into
    several can be read whole.
    """
    ctx.require_corpus()
    pen = Pen(ctx, question.text, draw_documented(shots, draw, titles=titles), telling=None)
    gathered = Gathered(max_docs)
    search = partial(ctx.search, k=k)
    reasoning = await reason_and_search(ctx, pen, gathered, search=search, max_sentences=max_sentences, titles=titles)
    found = gathered.passages
    return await read_afresh(ctx, question.text, reasoning, found, shots=shots, draw=draw, titles=titles)
