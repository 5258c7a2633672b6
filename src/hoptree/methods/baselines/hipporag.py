"""HippoRAG: search through a graph of facts, from recognised facts or names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.core.values import Answer, Fact, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import number_lines, prompt_for, show_texts
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_from, note_reply
from hoptree.methods.steps.chain_of_thought import note_fidelity
from hoptree.methods.steps.mentions import extract_mentions
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse_labels import read_numbers

SIGNALS = ("facts", "synonyms")  # of the paper's corpus; without synonyms, only equal words connect facts
_FACT_TOKENS = 48
_NONE = re.compile(r"\W*(?:none|no|nothing|neither)\b|\[\s*\]|\bnone\s+of\s+(?:the|these|them)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_NEXT_QUESTION = re.compile(r"\n\W{0,4}(?:question|facts)\s{0,4}:", re.IGNORECASE)


@decision("searched_by")
class SearchedBy(Decision):
    """What a search started from; `kept` of the `near` facts count."""

    value: str
    query: str
    near: int
    kept: int


@decision("recognised")
class FactsRecognised(Decision):
    """The number of facts that the model finds helpful, and the facts."""

    value: int
    kept: list[str]
    raw: str


@method(
    "hipporag",
    title="Retrieval through a graph of extracted facts",
    paper="HippoRAG",
    needs=("corpus",),
    signals=SIGNALS,
    query="Facts nearest to the question",
    roles=("answer", "recognise", "link"),
    bounds={"version": (1, 2)},
    shared_prompts=("mentions", "read", "recognise"),
)
async def hipporag(
    question: Question,
    ctx: Context,
    *,
    version: int = 2,
    k: int = 5,
    facts: int = 5,
    recognise: bool = True,
    titles: bool = False,
) -> Answer:
    """Find facts near the question, keep those that help, walk from them over the graph of facts, and read.

    The corpus is an index with facts (`hoptree graph extract`, `hoptree index facts`), searched with `--retriever
    hippo`, which is the default here. The retriever has the rest of the method: personalised PageRank from the phrases
    of the facts, and the passages it leads to. Any other corpus is searched as it is, with a warning: then this is
    `oner`. Of the `facts` nearest ones the model keeps the helpful, or all with `recognise=off` or if its reply cannot
    be read. If it keeps none, passages are ranked by their own text. `k` passages are read. With `version=1` (HippoRAG)
    the model lists the names in the question (role `link`), each is linked to the nearest phrase, and the walk goes
    from these over phrases alone; passages count by how much they state of what it visits. In `version=2`, unlike the
    released code, a fact's nearness is measured by that of the nearest one, not by the span from there to the farthest
    of all; two phrases are tied once for each passage that relates them, not twice; and phrases with different numbers
    in them are not synonyms.
    """
    require_facts(ctx)
    passages = await recall(ctx, question.text, k=k, facts=facts, recognised=recognise, version=version)
    return await answer_from(ctx, question.text, passages, titles=titles)


def require_facts(ctx: Context) -> None:
    """Raise if there is no corpus; warn if it has no facts."""
    ctx.require_corpus()
    note_fidelity(ctx, [signal for signal in SIGNALS if signal not in ctx.corpus_tells])
    if "facts" not in ctx.corpus_tells:
        ctx.warn(
            "no_facts",
            f"{ctx.method} goes out from facts, which this search does not know: it is made as for any other method. "
            "An index that has facts (hoptree index info tells) is searched by them with --retriever hippo, or if none "
            "is named; another one is given them by hoptree graph extract and hoptree index facts.",
        )


async def recall(
    ctx: Context, query: str, *, k: int, facts: int, recognised: bool, version: int
) -> tuple[Passage, ...]:
    """Return k passages, found from names or kept facts, or else by text."""
    if version == 1 and "names" in ctx.corpus_tells:
        names = await extract_mentions(ctx, query)
        ctx.emit(SearchedBy(value="names" if names else "passages", query=query, near=len(names), kept=len(names)))
        return await ctx.search(query, k=k, names=names)
    if "facts" not in ctx.corpus_tells:
        ctx.emit(SearchedBy(value="passages", query=query, near=0, kept=0))
        return await ctx.search(query, k=k)
    near = await ctx.facts_near(query, k=facts)
    kept = await _recognise(ctx, query, near) if recognised and near else near
    ctx.emit(SearchedBy(value="facts" if kept else "passages", query=query, near=len(near), kept=len(kept)))
    return await ctx.search(query, k=k, facts=kept)


async def _recognise(ctx: Context, question: str, facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return the facts that the model finds helpful; all if its reply cannot be read."""
    texts = [f"{fact.subject} {fact.relation} {fact.object}" for fact in facts]
    passages = [Passage(fact.passage_id, "", text) for fact, text in zip(facts, texts, strict=True)]
    lines = number_lines(show_texts(ctx, passages, titles=False))
    prompt = prompt_for(ctx.method, "recognise").fill(question=question, facts=lines)
    raw = (await ctx.generate("recognise", prompt, role="recognise", max_tokens=_FACT_TOKENS)).text
    numbers = read_recognised(raw, texts)
    note_reply(ctx, "recognise", "no numbers" if numbers is None else "")
    places = [place for place in range(len(facts)) if numbers is None or place + 1 in numbers]
    ctx.emit(FactsRecognised(value=len(places), kept=[texts[place] for place in places], raw=raw))
    return tuple(facts[place] for place in places)


def read_recognised(text: str, facts: Sequence[str]) -> tuple[int, ...] | None:
    """Return the numbers, from 1, of the facts that a reply chooses; None if unclear."""
    text = _NEXT_QUESTION.split(text[:MAX_REPLY_CHARS].strip(), 1)[0]
    if numbers := read_numbers(text, len(facts)):
        return numbers
    if _NONE.match(text.strip()):
        return ()
    words = f" {_words(text)} "
    quoted = tuple(number for number, fact in enumerate(facts, 1) if _words(fact) and f" {_words(fact)} " in words)
    return quoted or (() if _NONE.search(text) else None)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
