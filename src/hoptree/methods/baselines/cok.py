"""Chain-of-Knowledge: where chains of thought disagree, mend one of them, step by step, by what is looked up."""

from __future__ import annotations

from dataclasses import replace

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import holding
from hoptree.steps.answering.conclusion import last_words, read_conclusion
from hoptree.steps.answering.thinking import think
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.sources import Kinds, knowledge_of, require_sources
from hoptree.steps.planning.gate import agreement_gate
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.writing.interleaving import tells_facts
from hoptree.steps.writing.rationales import mend_rationale, read_rationales
from hoptree.steps.writing.rewriting import adds
from hoptree.steps.writing.stretch import Pen
from hoptree.steps.writing.worked import draw_worked
from hoptree.values import Answer, Question

__all__ = ["cok"]


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
)
async def cok(
    question: Question,
    ctx: Context,
    *,
    samples: int = 10,
    voters: int = 5,
    agreement: float = 0.5,
    temperature: float = 0.7,
    evidence: Kinds = "hybrid",
    k: int = 3,
    rationales: int = 6,
    shots: int = 6,
    draw: int = 0,
    max_tokens: int = 256,
) -> Answer:
    """Mend a chain of thought by what is looked up for each of its rationales, unless several chains agree.

    Of `samples` chains the first `voters` with an answer vote; from a share of `agreement` on, theirs is the answer.
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
    pen = Pen(ctx, asked, draw_worked(shots, draw), telling=None)
    written, ahead = "", read_rationales(next((one.raw for one in (voted, *chains) if one.raw), ""))
    box = EvidenceBox()
    for number in range(rationales):
        if number:
            ahead = read_rationales((await pen.write(written, step="go_on", max_tokens=max_tokens)).text)
        while ahead and adds(ahead[0], written) and not tells_facts(ahead[0]):
            written, ahead = f"{written} {ahead[0]}".strip(), ahead[1:]
        if not ahead or not adds(ahead[0], written):
            break
        found = await knowledge_of(ctx, ahead[0], evidence, keep=k)
        written = f"{written} {await mend_rationale(ctx, asked, ahead[0], found)}".strip()
        box = box.over(found)
    if written:
        written = await last_words(pen, written)
        ctx.trace.add("chain", text=written)
        answer = read_conclusion(written, asked)
        note_reply(ctx, "conclude", "" if answer.known else "no answer")
    else:  # nothing to mend: the question itself is looked up
        box = await knowledge_of(ctx, asked, evidence, keep=k)
        (answer,) = await think(ctx, asked, passages=box.passages, shots=shots, draw=draw, max_tokens=max_tokens)
    if not answer.known:
        return replace(voted, source="fallback")
    return replace(answer, support=holding(answer.text, box.passages))
