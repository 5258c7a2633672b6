"""HippoRAG 2: facts that the model recognises lead to passages, through a graph of all facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hoptree.core.values import Answer, Fact, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_from
from hoptree.methods.steps.continuation import note_fidelity
from hoptree.methods.steps.evidence import show_passages
from hoptree.retrieval.fusion import normalised
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse_relevance import read_numbers

SIGNALS = ("facts", "synonyms")
"""What HippoRAG has in its corpus: without synonyms, facts are found and tied by their words alone."""
MAX_TOKENS = 48
_NONE = re.compile(r"\W*(?:none|no|nothing|neither)\b|\[\s*\]|\bnone\s+of\s+(?:the|these|them)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_NEXT = re.compile(r"\n\W{0,4}(?:question|facts)\s{0,4}:", re.IGNORECASE)
"""Where a model goes on with a question of its own."""


def require_facts(ctx: Context) -> None:
    """Refuse to start without documents; warn where they come without facts."""
    ctx.require_corpus()
    note_fidelity(ctx, [signal for signal in SIGNALS if signal not in ctx.corpus_tells])
    if "facts" not in ctx.corpus_tells:
        ctx.warn(
            "no_facts",
            f"{ctx.method} goes out from facts, which this search does not know: it is made as for any other method. "
            "An index that has facts (hoptree index info tells) is searched by them with --retriever hippo, or if none "
            "is named; another one is given them by hoptree graph extract and hoptree index facts.",
        )


@dataclass(slots=True)
class BestFound:
    """The passages with the best scores; one that several searches found has the best of its scores.

    The scores of each search are brought to between 0 and 1: those of a walk and those of texts have other scales.
    `read` are the ids of all that were ever among the best: the others of a search are looked at by nobody.
    """

    limit: int
    read: list[str] = field(default_factory=list)
    _found: dict[str, Passage] = field(default_factory=dict)

    @property
    def passages(self) -> list[Passage]:
        """The best ones; of equals, those that were found first."""
        return sorted(self._found.values(), key=lambda passage: -passage.score)[: self.limit]

    def add(self, found: Iterable[Passage]) -> list[str]:
        """Take what is new or better than before; the ids of what is now among the best and was not."""
        before = {passage.id for passage in self.passages}
        several = list(found)
        for passage, score in zip(several, normalised([one.score for one in several]), strict=True):
            if passage.id not in self._found or score > self._found[passage.id].score:
                self._found[passage.id] = replace(passage, score=score)
        new = [passage.id for passage in self.passages if passage.id not in before]
        self.read += [name for name in new if name not in self.read]
        return new


async def recall(ctx: Context, query: str, *, k: int, facts: int, recognised: bool) -> tuple[Passage, ...]:
    """The k passages that the facts nearest to a query lead to, those facts alone that the model keeps.

    Without any of them the corpus is searched by the texts of its passages, and so is one that has no facts.
    """
    if "facts" not in ctx.corpus_tells:
        ctx.decide("searched_by", "passages", query=query, near=0, kept=0)
        return await ctx.search(query, k=k)
    near = await ctx.facts_near(query, k=facts)
    kept = await recognise(ctx, query, near) if recognised and near else near
    ctx.decide("searched_by", "facts" if kept else "passages", query=query, near=len(near), kept=len(kept))
    return await ctx.search(query, k=k, facts=kept)


async def recognise(ctx: Context, question: str, facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Those of the facts that the model says help to answer a question; all of them if its reply cannot be read."""
    texts = [f"{fact.subject} {fact.relation} {fact.object}" for fact in facts]
    shown = [_shown(ctx, fact, text) for fact, text in zip(facts, texts, strict=True)]
    lines = "\n".join(f"[{number}] {text}" for number, text in enumerate(shown, 1))
    prompt = prompt_for(ctx.method, "recognise").fill(question=question, facts=lines)
    raw = (await ctx.generate("recognise", prompt, role="recognise", max_tokens=MAX_TOKENS)).text
    numbers = read_recognised(raw, texts)
    ctx.trace.add(
        "parse", step="recognise", ok=numbers is not None, repairs=[], error="" if numbers is not None else "no numbers"
    )
    kept = tuple(fact for number, fact in enumerate(facts, 1) if numbers is None or number in numbers)
    ctx.decide("recognised", len(kept), kept=[texts[facts.index(fact)] for fact in kept], raw=raw)
    return kept


def read_recognised(text: str, facts: Sequence[str]) -> tuple[int, ...] | None:
    """The numbers, from 1, of the facts that a reply names, by number or in their own words; None if it says nothing.

    Accepts anything and never raises.
    """
    text = _NEXT.split(text[:MAX_REPLY_CHARS].strip(), 1)[0]
    said = f" {_words(text)} "
    if found := read_numbers(text, len(facts)):
        return found
    if _NONE.match(text.strip()):
        return ()
    quoted = tuple(number for number, fact in enumerate(facts, 1) if (words := _words(fact)) and f" {words} " in said)
    return quoted or (() if _NONE.search(text) else None)


def _shown(ctx: Context, fact: Fact, text: str) -> str:
    """A fact as a prompt shows it: it comes from a document, and gives no orders."""
    return show_passages(ctx, [Passage(fact.passage_id, "", text)], titles=False).removeprefix("passage: ")


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


@method(
    "hipporag",
    title="Retrieval through a graph of extracted facts",
    paper="HippoRAG",
    needs=("corpus",),
    signals=SIGNALS,
    query="Facts nearest to the question",
    roles=("answer", "recognise"),
)
async def hipporag(
    question: Question,
    ctx: Context,
    *,
    k: int = 5,
    facts: int = 5,
    recognise: bool = True,
    titles: bool = False,
) -> Answer:
    """Find facts near the question, keep those that help, walk from them over the graph of facts, and read.

    The corpus is an index with facts (`hoptree graph extract`, `hoptree index facts`), searched with `--retriever
    hippo`, which `auto` is here, and which has the rest of the method: the walk from the phrases of the facts,
    personalised PageRank, and the passages it leads to. Any other corpus is searched as it is, with a warning: then
    this is `oner`. The model keeps what helps of the `facts` nearest ones, all of them with `recognise=off` or if its
    reply cannot be read; where it keeps none, passages are ranked by their own text, which a decision tells. `k` are
    read. Unlike the released code, a fact's nearness is measured by that of the nearest one, not by the span from there
    to the farthest of all; two phrases are tied once for each passage that relates them, not twice; and phrases with
    different numbers in them are no synonyms.
    """
    require_facts(ctx)
    passages = await recall(ctx, question.text, k=k, facts=facts, recognised=recognise)
    return await answer_from(ctx, question.text, passages, titles=titles)
