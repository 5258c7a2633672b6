"""Chain-of-Knowledge: where chains of thought disagree, correct one of them step by step by what is looked up."""

from __future__ import annotations

from dataclasses import replace

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.engine.schedule import both, together
from hoptree.graph.facts import Fact
from hoptree.methods.steps.answer import note_reply, supporting_ids
from hoptree.methods.steps.chain_of_thought import add_conclusion, think
from hoptree.methods.steps.choose import agreement_gate
from hoptree.methods.steps.continuation import Generator, adds_text
from hoptree.methods.steps.demonstrations import REASONING_PROMPTS, draw_examples
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.link import choose_facts
from hoptree.methods.steps.mentions import EvidenceKinds, MentionLinker, graph_names, require_sources
from hoptree.text.parse import read_conclusion, states_fact
from hoptree.text.parse_method_replies import read_corrected, read_rationales

_RATIONALE_TOKENS = 128


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
    roles=("link", "answer"),
    differs="knowledge is what the corpus and the graph at hand have, where the paper chooses among domains and has a "
    "trained model write queries for them",
    shared_prompts=("entities", "mentions", "relations", *REASONING_PROMPTS),
)
async def cok(
    question: Question,
    ctx: Context,
    *,
    samples: int = 10,
    voters: int = 5,
    agreement: float = 0.5,
    temperature: float = 0.7,
    evidence: EvidenceKinds = "hybrid",
    k: int = 3,
    rationales: int = 6,
    shots: int = 6,
    draw: int = 0,
    max_tokens: int = 256,
) -> Answer:
    """Mend a chain of thought by what is looked up for each of its rationales, unless several chains agree.

    Of `samples` chains the first `voters` with an answer vote; if a share of `agreement` agrees, theirs is the answer.
    As in the released code, that is a share of the chains with an answer that could be read: where only one of ten has
    one, it agrees with itself. Else the chain of most of them is mended: a rationale is looked up and corrected, and
    what follows it is written anew from the corrected text, `rationales` of them at most; one that only calculates or
    concludes stays as it is. The answer is concluded from what results. `evidence` is where to look: `k` passages are
    kept, and facts of as many relations of as many entities. The paper has the model choose among domains of knowledge
    and a trained model write SPARQL queries; here the corpus and the graph are the one domain, and the graph is asked
    for facts of the entities in a rationale. The released code takes exactly two rationales; here each sentence, or
    each of First, Second and so on, is one.
    """
    require_sources(ctx, evidence)
    asked = question.text
    chains = await think(
        ctx, asked, shots=shots, draw=draw, samples=samples, temperature=temperature, max_tokens=max_tokens
    )
    voted, agreed = agreement_gate(ctx, [chain for chain in chains if chain.known][:voters], least=agreement)
    if agreed:
        return voted
    generator = Generator(ctx, asked, draw_examples(shots, draw))
    text, ahead = "", read_rationales(next((chain.raw for chain in (voted, *chains) if chain.raw), ""))
    box = EvidenceBox()
    for number in range(rationales):
        if number:
            ahead = read_rationales((await generator.write(text, step="go_on", max_tokens=max_tokens)).text)
        while ahead and adds_text(ahead[0], text) and not states_fact(ahead[0]):
            text, ahead = f"{text} {ahead[0]}".strip(), ahead[1:]
        if not ahead or not adds_text(ahead[0], text):
            break
        sources = await _look_up(ctx, ahead[0], evidence, keep=k)
        text = f"{text} {await _mend(ctx, asked, ahead[0], sources)}".strip()
        box = box.over(sources)
    if text:
        text = await add_conclusion(generator, text)
        ctx.emit(ChainWritten(text=text))
        answer = read_conclusion(text, asked)
        note_reply(ctx, "conclude", "" if answer.known else "no answer")
    else:  # nothing to mend: the question itself is looked up
        box = await _look_up(ctx, asked, evidence, keep=k)
        (answer,) = await think(ctx, asked, passages=box.passages, shots=shots, draw=draw, max_tokens=max_tokens)
    if not answer.known:
        return replace(voted, source="fallback")
    return replace(answer, support=supporting_ids(answer.text, box.passages))


async def _look_up(ctx: Context, statement: str, kinds: EvidenceKinds, *, keep: int) -> EvidenceBox:
    """Return what is found for a statement: passages, and facts of as many relations of as many entities."""

    async def passages() -> tuple[Passage, ...]:
        return () if kinds == "graph" else await ctx.search(statement, k=keep)

    async def facts() -> tuple[Fact, ...]:
        if kinds == "text":
            return ()
        entities = await MentionLinker(graph_names(ctx)).link(ctx, statement, keep=keep)
        around = await together(ctx.facts(entity) for entity in entities)
        return await choose_facts(ctx, statement, around, keep=keep)

    return EvidenceBox(*await both(passages(), facts()))


async def _mend(ctx: Context, question: str, rationale: str, box: EvidenceBox) -> str:
    """Return the rationale as corrected by what was found about it; unchanged, without asking, if that is nothing."""
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
