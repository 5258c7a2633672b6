"""Chain-of-Knowledge: correct a chain of thought step by step if several disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.engine.schedule import both, together
from hoptree.graph.facts import Fact
from hoptree.methods.steps import chain_of_thought as chain
from hoptree.methods.steps.answer import agreement_gate, note_reply, supporting_ids
from hoptree.methods.steps.chain_of_thought import Generator
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.link import Edge, edges_in
from hoptree.methods.steps.mentions import EvidenceKinds, require_sources
from hoptree.text.parse import question_key, read_conclusion, states_fact
from hoptree.text.parse_method_replies import read_corrected, read_graph_query, read_rationales
from hoptree.text.uncertainty import agreement as overlap

_RATIONALE_TOKENS, _DOMAIN_TOKENS, _QUERY_TOKENS = 128, 32, 256
_FACTUAL = "factual"


@decision("domains")
class DomainsChosen(Decision):
    """The domains of knowledge that a question belongs to."""

    value: list[str]
    raw: str


@decision("mended")
class RationaleMended(Decision):
    """Whether a rationale was changed, and by which passages and facts."""

    value: bool
    before: str
    after: str
    passages: list[str]
    facts: list[str]


@method(
    "cok",
    title="Chain of knowledge",
    paper="CoK",
    needs=("corpus", "graph"),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Chains of thought that disagree",
    query="Each rationale, after those before it were mended",
    roles=("route", "query", "answer"),
    trained=True,
    other_wording=True,
    shared_prompts=chain.REASONING_PROMPTS,
)
async def cok(
    question: Question,
    ctx: Context,
    *,
    samples: int = 10,
    voters: int = 5,
    agreement: float = 0.5,
    temperature: float = 0.7,
    domains: str = "factual, medical, physical, biology",
    checkpoint: bool = False,
    evidence: EvidenceKinds = "hybrid",
    k: int = 3,
    rationales: int = 6,
    shots: int = 6,
    draw: int = 0,
    max_tokens: int = 256,
) -> Answer:
    """Correct a chain of thought by looking up each of its rationales, unless several chains agree.

    Of `samples` chains the first `voters` with an answer vote; if a share of `agreement` agrees, theirs is the answer.
    As in the released code, that is a share of the chains whose answer could be read. Else the chain of most of them is
    mended: a rationale is looked up and corrected, and what follows it is written anew from the corrected text,
    `rationales` of them at most; one that only calculates or concludes stays as it is. The answer is concluded from
    what results. Before that the model chooses among `domains` (role `route`): factual is the graph and the whole
    corpus, another one the passages with it as their metadata `domain`, or all where there are none. `evidence` is
    where to look: `k` passages by the rationale, and facts of the graph by a query that the role `query` writes for it.
    Its things are found by their names, and facts of the relation with most words of the one sought. With
    `checkpoint` that role is the paper's generator of SPARQL, asked in its form but other words. Each sentence, or each
    of First, Second and so on, is a rationale.
    """
    require_sources(ctx, evidence)
    asked = question.text
    chains = await chain.think(
        ctx, asked, shots=shots, draw=draw, samples=samples, temperature=temperature, max_tokens=max_tokens
    )
    voted, agreed = agreement_gate(ctx, [each for each in chains if each.known][:voters], least=agreement)
    if agreed:
        return voted
    generator = Generator(ctx, asked, chain.draw_examples(shots, draw))
    text, ahead = "", read_rationales(next((each.raw for each in (voted, *chains) if each.raw), ""))
    box, chosen = EvidenceBox(), await _choose_domains(ctx, asked, domains)
    look_up = partial(_look_up, ctx, domains=chosen, kinds=evidence, keep=k, trained=checkpoint)
    for number in range(rationales):
        if number:
            ahead = read_rationales((await generator.write(text, step="go_on", max_tokens=max_tokens)).text)
        while ahead and chain.adds_text(ahead[0], text) and not states_fact(ahead[0]):
            text, ahead = f"{text} {ahead[0]}".strip(), ahead[1:]
        if not ahead or not chain.adds_text(ahead[0], text):
            break
        sources = await look_up(ahead[0])
        text = f"{text} {await _mend(ctx, asked, ahead[0], sources)}".strip()
        box = box.over(sources)
    if text:
        text = await chain.add_conclusion(generator, text)
        ctx.emit(ChainWritten(text=text))
        answer = read_conclusion(text, asked)
        note_reply(ctx, "conclude", "" if answer.known else "no answer")
    else:  # nothing to mend: the question itself is looked up
        box = await look_up(asked)
        (answer,) = await chain.think(ctx, asked, passages=box.passages, shots=shots, draw=draw, max_tokens=max_tokens)
    if not answer.known:
        return replace(voted, source="fallback")
    return replace(answer, support=supporting_ids(answer.text, box.passages))


async def _choose_domains(ctx: Context, question: str, domains: str) -> list[str]:
    """Return the domains that the model chooses, by default the factual one."""
    offered = [name.strip().casefold() for name in domains.split(",") if name.strip()]
    if len(offered) < 2:
        return offered or [_FACTUAL]
    prompt = prompt_for(ctx.method, "domains").fill(domains=", ".join(offered), question=question)
    reply = (await ctx.generate("domains", prompt, role="route", max_tokens=_DOMAIN_TOKENS, part=True)).text
    chosen = [name for name in offered if question_key(name) in question_key(reply).split()]
    note_reply(ctx, "domains", "" if chosen else "no domain")
    ctx.emit(DomainsChosen(value=chosen or [_FACTUAL], raw=reply))
    return chosen or [_FACTUAL]


async def _look_up(
    ctx: Context, statement: str, *, domains: Sequence[str], kinds: EvidenceKinds, keep: int, trained: bool
) -> EvidenceBox:
    """Return the passages and graph facts of the chosen domains for a statement."""

    async def passages() -> tuple[Passage, ...]:
        if kinds == "graph":
            return ()
        others = [{"domain": name} for name in domains if name != _FACTUAL]
        in_domains = [passage for where in others for passage in await ctx.search(statement, k=keep, where=where)]
        more = await ctx.search(statement, k=keep) if _FACTUAL in domains or not in_domains else ()
        return tuple({passage.id: passage for passage in (*in_domains, *more)}.values())

    async def facts() -> tuple[Fact, ...]:
        if kinds == "text" or (_FACTUAL not in domains and kinds != "graph"):
            return ()
        prompt = prompt_for(ctx.method, "trained_query" if trained else "query").fill(rationale=statement)
        reply = (await ctx.generate("query", prompt, role="query", max_tokens=_QUERY_TOKENS, part=True)).text
        names, relations = read_graph_query(reply)
        note_reply(ctx, "query", "" if names else "no thing")
        entities = [entity for name in names for entity in await ctx.entities(name, limit=1)]
        edges = edges_in(await together(ctx.facts(entity) for entity in entities))
        best = list[Edge]()
        for sought in relations:
            fits = {edge: overlap(edge.relation, sought) for edge in edges}
            best += [edge for edge in edges if fits[edge] == max(fits.values()) > 0][:keep]
        ctx.decide("graph_query", list(names), relations=list(relations), found=[edge.line for edge in best], raw=reply)
        return tuple(dict.fromkeys(fact for edge in best for fact in edge.facts[:keep]))

    return EvidenceBox(*await both(passages(), facts()))


async def _mend(ctx: Context, question: str, rationale: str, box: EvidenceBox) -> str:
    """Return the rationale, corrected by the evidence if there is any."""
    mended = rationale
    if box:
        texts, facts = box.shown(ctx)
        prompt = prompt_for(ctx.method, "mend").fill(texts=texts, facts=facts, question=question, rationale=rationale)
        reply = await ctx.generate("mend", prompt, max_tokens=_RATIONALE_TOKENS)
        mended, read = read_corrected(reply.text, rationale, cut=reply.finish == "length")
        note_reply(ctx, "mend", "" if read else "no rationale")
    passages, statements = [passage.id for passage in box.passages], [fact.text for fact in box.facts]
    changed = mended != rationale
    ctx.emit(RationaleMended(value=changed, before=rationale, after=mended, passages=passages, facts=statements))
    return mended
