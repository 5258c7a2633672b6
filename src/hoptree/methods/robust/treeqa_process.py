"""TreeQA beyond its paper (`robust=on`): how a node is validated and corrected."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import zip_longest

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.schedule import both, together
from hoptree.graph.facts import Entity, Fact
from hoptree.methods.robust.treeqa_revision import RobustOutcome, last_stated
from hoptree.methods.steps.compare import chooses
from hoptree.methods.steps.evidence_box import Cited, EvidenceBox
from hoptree.methods.steps.graph_evidence import SEARCHED, Sources, Wanted
from hoptree.methods.steps.link import choose_facts, names_in
from hoptree.methods.steps.logic_tree import Claim, carried, names_it
from hoptree.methods.steps.mentions import EvidenceKinds
from hoptree.methods.steps.verify import Verdict, fill_evidence, judge, new_clue, validate
from hoptree.methods.treeqa.hypotheses import Rebuilt, rebuild
from hoptree.methods.treeqa.walk import Attempt, Branch
from hoptree.retrieval.retriever import TITLE
from hoptree.text.comparison import agree, same, tells
from hoptree.text.grounding import explain_type_mismatch
from hoptree.text.parse import question_key, read_yes_no
from hoptree.text.question_tree import Node

_RRF_CONSTANT = 60
_MIN_FUSED_PASSAGES = 6
"""Passages that are kept of several channels, unless the longest of them has more."""
_MAX_FUSED_FACTS = 12
_MENTIONED_NAMES, _MENTIONED_PASSAGES = 8, 3
"""Names in passages whose pages are looked at, and passages that are kept of these."""
_MENTIONED_ENTITIES = 3
"""Entities in facts whose own facts are looked at."""


@decision("sources_disagree")
class SourcesDisagree(Decision):
    """The reasons of texts and of facts, which contradict each other."""

    value: list[str]


@decision("held")
class VerdictOverruled(Decision):
    """The verdict that code finds tenable, where the model said another."""

    value: str
    said: str
    why: str


@decision("replaced")
class HypothesisReplaced(Decision):
    """The correction that took the place of a wrong answer; so many questions `below` were kept."""

    value: str
    wrong: str
    below: int


@decision("followed")
class MentionsFollowed(Decision):
    """The titles of new passages that the evidence mentions, and how many new facts."""

    value: list[str]
    facts: int


@decision("weighed")
class VerdictsWeighed(Decision):
    """The judgement where the verdicts of texts and facts differ."""

    value: str
    attempt: int
    texts: str
    facts: str


class RobustProcess:
    """Texts and facts are judged apart, and weighed only where they contradict each other.

    The question is searched for alone, and with its hypothesis, since a wrong one finds its own support. Where that
    settles nothing, the pages and facts that the evidence mentions are read, and only then a clue is asked for. What is
    refuted is replaced in the questions below it, if they name it; else the tree is rebuilt, as in the paper. A node
    without a hypothesis is answered from evidence.
    """

    def __init__(
        self, ctx: Context, question: str, sources: Sources, *, max_attempts: int, evidence: EvidenceKinds
    ) -> None:
        self._ctx, self._question, self._sources, self._evidence = ctx, question, sources, evidence
        self._max_clues = max_attempts
        self.max_attempts = max_attempts + 1  # following what is mentioned asks for no clue

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> RobustOutcome:
        """Validate a node, at most `allowed` times; what is not wanted any more is left as it is."""
        node, claim = branch.node, branch.claim
        query, channels = claim.question, await self._first_channels(claim, node, wanted)
        attempts: tuple[Attempt, ...] = ()
        newest, followed, clues = EvidenceBox(), False, 1
        for number in range(1, allowed + 1):
            if not wanted():
                break
            box = newest.over(_fuse(channels)) if newest else _fuse(channels)
            verdict = await self._judge(claim, box, number, node)
            attempts += (Attempt(query, verdict, box),)
            if verdict.label == "refuted":
                return await self._correct(claim, attempts, node, may_rebuild=may_rebuild, wanted=wanted)
            if verdict.label == "supported" or number == allowed or not wanted():
                break
            query, newest = claim.question, EvidenceBox()
            if not followed:
                followed, newest = True, await self._follow(claim, box, node)
            if not newest and clues < self._max_clues and wanted():
                clues += 1
                query = await new_clue(self._ctx, claim.question, claim.hypothesis, box, node=node)
                newest = _fuse(await self._channels(query, node, wanted)) if query else newest
            if not newest:
                break
            channels = [newest, *channels]
        return RobustOutcome(attempts) if claim.hypothesis else _answered(claim, attempts, may_rebuild=may_rebuild)

    async def retrieve(self, query: str, node: Node) -> EvidenceBox:
        """Return the evidence for a query, in the whole corpus and about the entities it names."""
        return _fuse(await self._channels(query, node, lambda: True))

    async def _first_channels(self, claim: Claim, node: Node, wanted: Wanted) -> list[EvidenceBox]:
        """Search for the question by itself, and with the hypothesis."""
        if not claim.hypothesis:
            return await self._channels(claim.question, node, wanted)
        guessed = self._sources.retrieve(f"{claim.question} {claim.hypothesis}", node, wanted)
        asked, with_hypothesis = await both(self._channels(claim.question, node, wanted), guessed)
        return [*asked, with_hypothesis]

    async def _channels(self, query: str, node: Node, wanted: Wanted) -> list[EvidenceBox]:
        linked = self._sources.retrieve(query, node, wanted)
        return [await linked] if self._evidence == "graph" else list(await both(self._search(query, node), linked))

    async def _search(self, query: str, node: Node) -> EvidenceBox:
        return EvidenceBox(await self._ctx.search(query, k=SEARCHED, node=node))

    async def _judge(self, claim: Claim, box: EvidenceBox, number: int, node: Node) -> Verdict:
        """Judge by texts and by facts, each checked against what it cites; by one kind where it is alone."""
        if not (box.passages and box.facts):
            return await self._judge_kind(claim, box, number, node)
        by_texts, by_facts = await both(
            self._judge_kind(claim, EvidenceBox(box.passages), number, node),
            self._judge_kind(claim, EvidenceBox((), box.facts), number, node),
        )
        if "unknown" in (by_texts.label, by_facts.label):
            silent = by_texts.label == "unknown" and not (by_facts.label == "unknown" and by_texts.stated)
            telling, other = (by_facts, by_texts) if silent else (by_texts, by_facts)
            return replace(telling, doubt=telling.doubt or other.doubt) if telling.label == "unknown" else telling
        # A verdict that states no answer contradicts none.
        agrees = not (by_texts.stated and by_facts.stated) or agree(by_texts.stated, by_facts.stated)
        if by_texts.label == by_facts.label and agrees:
            return _joined(by_texts, by_facts)
        self._ctx.emit(SourcesDisagree(value=[by_texts.reason, by_facts.reason]), node=node)
        verdict = await weigh(
            self._ctx, claim.question, claim.hypothesis, box, by_texts, by_facts, attempt=number, node=node
        )
        return _checked(verdict, claim, box)

    async def _judge_kind(self, claim: Claim, box: EvidenceBox, number: int, node: Node) -> Verdict:
        reply = await validate(self._ctx, claim.question, claim.hypothesis, box, attempt=number, node=node)
        verdict = _checked(reply, claim, box)
        if verdict.label != reply.label:
            self._ctx.emit(VerdictOverruled(value=verdict.label, said=reply.label, why=verdict.reason), node=node)
        return verdict

    async def _correct(
        self, claim: Claim, attempts: tuple[Attempt, ...], node: Node, *, may_rebuild: bool, wanted: Wanted
    ) -> RobustOutcome:
        last = attempts[-1]
        correction = last.verdict.correction
        if not may_rebuild or not wanted():
            return RobustOutcome(attempts)
        below = carried(claim, correction, guesses=False) if correction and claim.children else ()
        if correction and below is not None:
            self._ctx.emit(HypothesisReplaced(value=correction, wrong=claim.hypothesis, below=len(below)), node=node)
            return RobustOutcome(attempts, _with_support(Rebuilt(Claim(claim.question, correction, below)), last.box))
        rebuilt = await rebuild(self._ctx, self._question, claim, last.verdict, last.box, node=node)
        same_question = rebuilt and question_key(rebuilt.claim.question) == question_key(claim.question)
        if rebuilt and correction and same_question and not agree(rebuilt.claim.hypothesis, correction):
            wrong = rebuilt.claim.hypothesis
            self._ctx.emit(HypothesisReplaced(value=correction, wrong=wrong, below=claim.size - 1), node=node)
            rebuilt = replace(rebuilt, claim=_corrected(rebuilt.claim, correction))
        return RobustOutcome(attempts, _with_support(rebuilt, last.box) if rebuilt else None, stays=rebuilt is None)

    async def _follow(self, claim: Claim, box: EvidenceBox, node: Node) -> EvidenceBox:
        """Return the new evidence on the pages, and around the entities, that the evidence mentions."""
        passages, facts = await both(self._mentioned_pages(claim, box, node), self._mentioned_facts(claim, box, node))
        seen = {passage.id for passage in box.passages}
        new_passages = tuple(passage for passage in passages if passage.id not in seen)
        new = EvidenceBox(new_passages, tuple(fact for fact in facts if fact not in box.facts))
        titles = [passage.title for passage in new.passages]
        self._ctx.emit(MentionsFollowed(value=titles, facts=len(new.facts)), node=node)
        return new

    async def _mentioned_pages(self, claim: Claim, box: EvidenceBox, node: Node) -> tuple[Passage, ...]:
        if self._evidence == "graph":
            return ()
        titles = {passage.title.casefold() for passage in box.passages}
        counts = Counter(name for passage in box.passages for name in names_in(passage.text))
        counts.update(term.text for fact in box.facts for term in (fact.subject, fact.object) if term.id)
        full_names = [name for name, _ in counts.most_common() if not _is_word_of_another(name, counts)]
        names = [name for name in full_names if name.casefold() not in titles][:_MENTIONED_NAMES]
        # With the name: the question may share no word with such a page.
        pages = await together(
            self._ctx.search(f"{claim.question} {name}", k=1, where={TITLE: name}, node=node) for name in names
        )
        best = sorted((page[0] for page in pages if page), key=lambda passage: -passage.score)
        return tuple(best[:_MENTIONED_PASSAGES])

    async def _mentioned_facts(self, claim: Claim, box: EvidenceBox, node: Node) -> tuple[Fact, ...]:
        terms = {term.id: term for fact in box.facts for term in (fact.object, fact.subject) if term.id}
        if self._evidence == "text" or not terms:
            return ()
        around = await together(
            self._ctx.facts(Entity(term.id, term.text), node=node)
            for term in list(terms.values())[:_MENTIONED_ENTITIES]
        )
        return await choose_facts(self._ctx, claim.question, around, keep=_MENTIONED_ENTITIES, node=node)


def _is_word_of_another(name: str, names: Collection[str]) -> bool:
    """Return whether a name is but one word of a longer one: Alpha of Film Alpha."""
    word = f" {question_key(name)} "
    return " " not in name and any(word in f" {question_key(other)} " for other in names if len(other) > len(name))


def _checked(reply: Verdict, claim: Claim, box: EvidenceBox) -> Verdict:
    """Return the verdict as far as code agrees; without a hypothesis, an answer that the evidence holds is supported.

    An answer that stands there, but beside no name from the question, is stated and nothing more; so is one of the
    things that the question names to choose from, which stand there whatever is right. One that is plainly of another
    kind than is asked for is none.
    """
    if claim.hypothesis:
        return held(reply, claim.question, claim.hypothesis, box)
    if misfit := explain_type_mismatch(claim.question, reply.stated):
        return Verdict(reason=misfit, doubt=misfit)
    grounds = set(box.supporting(reply.stated, claim.question)) if reply.stated else set()
    if not grounds:
        stated = reply.stated if reply.stated and box.supporting(reply.stated) else ""
        return Verdict(reason=reply.reason, stated=stated)
    passages = tuple(passage for passage in box.passages if passage.id in grounds)
    cited = Cited(passages, tuple(fact for fact in box.facts if fact.text in grounds))
    return replace(reply, label="supported", cited=cited)


def _answered(claim: Claim, attempts: tuple[Attempt, ...], *, may_rebuild: bool) -> RobustOutcome:
    """Return the outcome of a node without a hypothesis: what evidence states, with what is below corrected."""
    outcome = RobustOutcome(attempts, stated=last_stated(attempts))
    if not (may_rebuild and outcome.checked and _is_named_below(claim)) or agree(claim.dropped, outcome.stated):
        return outcome
    return replace(outcome, rebuilt=Rebuilt(_corrected(replace(claim, hypothesis=claim.dropped), outcome.stated)))


def _is_named_below(claim: Claim) -> bool:
    """Return whether anything below a claim names what was thought to be its answer."""
    thought = claim.hypothesis or claim.dropped
    return any(names_it(below.question, thought) for below in claim.all() if below is not claim)


def _with_support(rebuilt: Rebuilt, box: EvidenceBox) -> Rebuilt:
    """Say of a rebuilt claim whether evidence holds it beside a name from its question.

    That a model gives it as the right answer is nothing: a name may stand there for something else.
    """
    claim = rebuilt.claim
    fits = not explain_type_mismatch(claim.question, claim.hypothesis)
    return replace(rebuilt, borne_out=fits and bool(box.supporting(claim.hypothesis, claim.question)))


def _corrected(claim: Claim, correction: str) -> Claim:
    """Return the claim with another hypothesis, and without what rests on the old one below it."""
    below = carried(claim, correction, guesses=False)
    if below is None:
        below = () if _is_named_below(claim) else claim.children
    return Claim(claim.question, correction, below)


def _joined(by_texts: Verdict, by_facts: Verdict) -> Verdict:
    """Join two verdicts that agree: the answer and reason of whichever gives them, what both rest on."""
    telling = by_texts if by_texts.stated or not by_facts.stated else by_facts
    fabricated = (*by_texts.cited.fabricated, *by_facts.cited.fabricated)
    cited = Cited(by_texts.cited.passages, by_facts.cited.facts, fabricated)
    return replace(telling, reason=telling.reason or by_texts.reason or by_facts.reason, cited=cited)


def _fuse(channels: Sequence[EvidenceBox]) -> EvidenceBox:
    """Fuse passages by reciprocal rank, no more than the longest channel has; facts in turn."""
    scores: defaultdict[str, float] = defaultdict(float)
    passages: dict[str, Passage] = {}
    for channel in channels:
        for rank, passage in enumerate(channel.passages, 1):
            scores[passage.id] += 1 / (_RRF_CONSTANT + rank)
            passages.setdefault(passage.id, passage)
    most = max(_MIN_FUSED_PASSAGES, *(len(channel.passages) for channel in channels)) if channels else 0
    best = sorted(passages, key=lambda name: (-scores[name], name))[:most]
    in_turn = [fact for group in zip_longest(*(channel.facts for channel in channels)) for fact in group if fact]
    return EvidenceBox(tuple(passages[name] for name in best), tuple(dict.fromkeys(in_turn))[:_MAX_FUSED_FACTS])


async def weigh(
    ctx: Context,
    question: str,
    hypothesis: str,
    box: EvidenceBox,
    by_texts: Verdict,
    by_facts: Verdict,
    *,
    attempt: int,
    node: Node | None = None,
) -> Verdict:
    """Judge once more where texts and facts contradict each other, with both and with what each was taken to say."""
    readings = {"of_texts": by_texts.reason or by_texts.label, "of_facts": by_facts.reason or by_facts.label}
    prompt = fill_evidence(ctx, "weigh", question, hypothesis, box, **readings)
    verdict = await judge(ctx, "weigh", prompt, question, hypothesis, box, node)
    weighed = VerdictsWeighed(value=verdict.label, attempt=attempt, texts=by_texts.label, facts=by_facts.label)
    ctx.emit(weighed, node=node)
    return verdict


def held(verdict: Verdict, question: str, hypothesis: str, box: EvidenceBox) -> Verdict:
    """Return the verdict, if code finds nothing against it; unknown if it contradicts itself or its evidence.

    A reply that calls the hypothesis true and gives another answer contradicts itself, and so does one that calls it
    false and gives the same. What is supported must stand in the evidence beside a name from the question, and rest on
    something that is there; a correction must stand there. Neither may plainly be of another kind than is asked for.
    Which of several things to choose is right is nothing that stands there.
    """
    stated, doubt = verdict.stated, ""
    if read_yes_no(hypothesis) is not None and read_yes_no(stated) is None:
        stated = ""  # whether something is so may be answered by naming it
    if verdict.label == "supported":
        if stated and not agree(stated, hypothesis):
            doubt = "it is called true, and another answer given"
        elif verdict.cited.fabricated and not (verdict.cited.passages or verdict.cited.facts):
            doubt = "it is said to rest on what is not there"
        elif misfit := explain_type_mismatch(question, stated or hypothesis):
            doubt = misfit
        elif chooses(question):
            doubt = "what is chosen stands there whatever is right"
        elif not any(box.supporting(one, question) for one in (hypothesis, stated) if tells(one, hypothesis)):
            doubt = "nothing that was found says so of what was asked about"
    elif verdict.label == "refuted" and stated:
        if same(stated, hypothesis):
            doubt = "it is called false, and the same answer given"
        elif misfit := explain_type_mismatch(question, stated):
            doubt = misfit
        elif not box.supporting(stated):
            doubt = "what should be right is not in the evidence"
    if not doubt:
        return verdict
    return replace(verdict, label="unknown", reason=doubt, correction="", cited=Cited(), doubt=doubt)
