"""Chain-of-Knowledge: where chains of thought disagree, mend one of them, step by step, by what is looked up."""

from __future__ import annotations

import re
from dataclasses import replace

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.baselines.ircot import tells_facts
from hoptree.methods.steps.answer import holding
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.choose import agreement_gate
from hoptree.methods.steps.conclusion import gives_answer, last_words, read_conclusion
from hoptree.methods.steps.continuation import Pen
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.mentions import Kinds, knowledge_of, require_sources
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.methods.steps.rewrite_loop import adds
from hoptree.methods.steps.worked_examples import draw_worked
from hoptree.text.parse import looks_unanswered, question_key
from hoptree.text.sentences import sentence_spans

_MAX_TOKENS = 128
_READ = 10_000
"""Characters of a reply that are looked at."""
_LONGEST = 600
"""Characters of a rationale."""
_ADDED = 200
"""Characters that a mended rationale may have beyond twice those it had."""
_MARK = re.compile(
    r"\W{0,4}(?:(?:first|second|third|fourth|fifth|sixth|last|final)(?:ly)?|next|then)\s{0,3}[,:]\s*"
    r"|\W{0,4}(?:step|rationale)\s*\d{1,2}\s*[.:)]\s*|\W{0,4}\d{1,2}[.)]\s+(?=\D)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"\W{0,4}(?:(?:the\s+)?(?:edited|corrected|revised|mended|new)\s+)?(?:sentence|rationale|statement)s?\W{0,4}:\s*",
    re.IGNORECASE,
)
_OF_THE_SOURCES = re.compile(
    r"\b(?:knowledge|information|texts?|facts?|documents?|passages?|sentence)\b", re.IGNORECASE
)
_AS_IT_IS = re.compile(
    r"\W*(?:(?:no|needs no|without)\s+(?:changes?|edits?|corrections?)\b.*|unchanged|same|correct|ok|none|n/a"
    r"|the (?:sentence|rationale|statement) (?:is|remains) (?:correct|unchanged|the same|right|accurate|true)\b.*)\W*",
    re.IGNORECASE | re.DOTALL,
)
_MARKS = ' \t"“”`*'
_ENDS = (".", "!", "?", "”", '"', ")")


def read_rationales(text: str) -> tuple[str, ...]:
    """The steps of a chain of thought, up to the one that gives the answer.

    A chain whose sentences are marked (First, Second, Step 3, 4.) has one rationale for each mark; else every sentence
    is one.
    """
    found: list[str] = []
    marked = False
    for start, end in sentence_spans(text[:_READ]):
        sentence = text[start:end]
        if gives_answer(sentence):
            break
        mark = _MARK.match(sentence)
        said = " ".join(sentence[mark.end() if mark else 0 :].split())
        if not question_key(said):
            continue
        if marked and not mark:
            found[-1] = f"{found[-1]} {said}"
        else:
            found.append(said)
        marked = marked or bool(mark)
    return tuple(rationale[:_LONGEST] for rationale in found)


def read_mended(reply: str, rationale: str, *, cut: bool = False) -> tuple[str, bool]:
    """The rationale as a reply has it, and whether the reply could be read.

    One that says that nothing is to be changed, or that the sources do not tell, leaves the rationale as it is; so does
    one that holds none, that says the same again, or that goes on and on. Of one that was `cut` off in its first line,
    whole sentences count.
    """
    label = _LABEL.match(reply[:_READ])
    body = reply[label.end() if label else 0 : _READ]
    lines = [one.strip() for one in body.splitlines() if question_key(one)]
    line = lines[0].strip(_MARKS) if lines else ""
    if _AS_IT_IS.fullmatch(line) or (looks_unanswered(line) and _OF_THE_SOURCES.search(line)):
        return rationale, bool(line)
    said = [line[start:end] for start, end in sentence_spans(line)]
    if cut and len(lines) == 1 and said and not said[-1].endswith(_ENDS):
        said = said[:-1]
    mended = " ".join(read_rationales(" ".join(said)))
    if not mended or len(set(said)) < len(said) or len(mended) > 2 * len(rationale) + _ADDED:
        return rationale, False
    return (mended if mended.endswith(_ENDS) else f"{mended}."), True


async def mend_rationale(ctx: Context, question: str, rationale: str, box: EvidenceBox) -> str:
    """The rationale, corrected by what was found about it; as it is, without asking, where that is nothing."""
    if not box:
        ctx.decide("mended", False, before=rationale, after=rationale, passages=[], facts=[])
        return rationale
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "mend").fill(texts=texts, facts=facts, question=question, rationale=rationale)
    reply = await ctx.generate("mend", prompt, max_tokens=_MAX_TOKENS)
    mended, read = read_mended(reply.text, rationale, cut=reply.finish == "length")
    note_reply(ctx, "mend", "" if read else "no rationale")
    ctx.decide(
        "mended",
        mended != rationale,
        before=rationale,
        after=mended,
        passages=[passage.id for passage in box.passages],
        facts=[fact.text for fact in box.facts],
    )
    return mended


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
