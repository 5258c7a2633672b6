"""What TreeQA does with one node beyond its paper (`robust`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.schedule import both, together
from hoptree.graph.facts import Entity, Fact
from hoptree.methods.steps.agreement import agree
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.evidence_box import Cited, EvidenceBox
from hoptree.methods.steps.link import choose_facts, names_in
from hoptree.methods.steps.logic_tree import Claim, carried, names_it, substituted
from hoptree.methods.steps.mentions import Kinds
from hoptree.methods.steps.verify import Verdict, held, validate, weigh
from hoptree.methods.treeqa.hypotheses import Rebuilt, new_clue, rebuild
from hoptree.methods.treeqa.nodes import (
    MODEL_SAYS,
    SEARCHED,
    Attempt,
    Branch,
    Outcome,
    Sources,
    Wanted,
    last_stated,
    told,
    unmarked,
)
from hoptree.methods.treeqa.walk import Walk
from hoptree.retrieval.retriever import TITLE
from hoptree.text.answer_types import explain_type_mismatch
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

_C = 60
"""The constant of reciprocal rank fusion, as is usual."""
_FEWEST = 6
"""Passages that are kept of several channels, unless the longest of them has more."""
_FACTS = 12
_FOLLOWED, _ARRIVED = 8, 3
"""Names in passages whose pages are looked at, and passages that are kept of these."""
_AROUND = 3
"""Entities in facts whose own facts are looked at."""


class Careful:
    """Texts and facts are heard apart, and weighed only where they contradict each other.

    What is searched for: the question alone, and the question with the hypothesis, since a wrong one fetches its own
    support; where that settles nothing, the pages and facts that the evidence mentions, and only then a clue. What is
    refuted is replaced in the questions below it, if they name it; else the tree is rebuilt, as in the paper. A node
    without a hypothesis is answered from evidence.
    """

    def __init__(self, ctx: Context, whole: str, sources: Sources, *, max_attempts: int, evidence: Kinds) -> None:
        self._ctx, self._whole, self._sources, self._evidence = ctx, whole, sources, evidence
        self._clues = max_attempts
        self.max_attempts = max_attempts + 1  # following what is mentioned asks for no clue

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome:
        """Validate a node, at most `allowed` times; what is not wanted any more is left as it is."""
        node, claim = branch.node, branch.claim
        query, channels = claim.question, await self._first(claim, node, wanted)
        attempts: tuple[Attempt, ...] = ()
        newest, followed, clues = EvidenceBox(), False, 1
        for number in range(1, allowed + 1):
            if not wanted():
                break
            box = newest.over(_fused(channels)) if newest else _fused(channels)
            verdict = await self._judge(claim, box, number, node)
            attempts += (Attempt(query, verdict, box),)
            if verdict.label == "refuted":
                return await self._correct(claim, attempts, node, may_rebuild=may_rebuild, wanted=wanted)
            if verdict.label == "supported" or number == allowed or not wanted():
                break
            query, newest = claim.question, EvidenceBox()
            if not followed:
                followed, newest = True, await self._follow(claim, box, node)
            if not newest and clues < self._clues and wanted():
                clues += 1
                query = await new_clue(self._ctx, claim.question, claim.hypothesis, box, node=node)
                newest = _fused(await self._look(query, node, wanted)) if query else newest
            if not newest:
                break
            channels = [newest, *channels]
        return Outcome(attempts) if claim.hypothesis else _answered(claim, attempts, may_rebuild=may_rebuild)

    async def look(self, query: str, node: Node) -> EvidenceBox:
        """What there is for a query, in the whole corpus and about the entities it names."""
        return _fused(await self._look(query, node, lambda: True))

    async def _first(self, claim: Claim, node: Node, wanted: Wanted) -> list[EvidenceBox]:
        """What the question finds by itself, and what it finds with the hypothesis."""
        if not claim.hypothesis:
            return await self._look(claim.question, node, wanted)
        guessed = self._sources.look_up(f"{claim.question} {claim.hypothesis}", node, wanted)
        asked, with_hypothesis = await both(self._look(claim.question, node, wanted), guessed)
        return [*asked, with_hypothesis]

    async def _look(self, query: str, node: Node, wanted: Wanted) -> list[EvidenceBox]:
        linked = self._sources.look_up(query, node, wanted)
        return [await linked] if self._evidence == "graph" else list(await both(self._search(query, node), linked))

    async def _search(self, query: str, node: Node) -> EvidenceBox:
        return EvidenceBox(await self._ctx.search(query, k=SEARCHED, node=node))

    async def _judge(self, claim: Claim, box: EvidenceBox, number: int, node: Node) -> Verdict:
        """The verdict of texts and facts, each held against what it stands on; of one kind alone where it is alone."""
        if not (box.passages and box.facts):
            return await self._heard(claim, box, number, node)
        by_texts, by_facts = await both(
            self._heard(claim, EvidenceBox(box.passages), number, node),
            self._heard(claim, EvidenceBox((), box.facts), number, node),
        )
        if "unknown" in (by_texts.label, by_facts.label):
            silent = by_texts.label == "unknown" and not (by_facts.label == "unknown" and by_texts.stated)
            told, other = (by_facts, by_texts) if silent else (by_texts, by_facts)
            return replace(told, doubt=told.doubt or other.doubt) if told.label == "unknown" else told
        if by_texts.label == by_facts.label and _same(by_texts, by_facts):
            return _joined(by_texts, by_facts)
        self._ctx.decide("sources_disagree", [by_texts.reason, by_facts.reason], node=node)
        verdict = await weigh(
            self._ctx, claim.question, claim.hypothesis, box, by_texts, by_facts, attempt=number, node=node
        )
        return _settled(verdict, claim, box)

    async def _heard(self, claim: Claim, box: EvidenceBox, number: int, node: Node) -> Verdict:
        said = await validate(self._ctx, claim.question, claim.hypothesis, box, attempt=number, node=node)
        verdict = _settled(said, claim, box)
        if verdict.label != said.label:
            self._ctx.decide("held", verdict.label, node=node, said=said.label, why=verdict.reason)
        return verdict

    async def _correct(
        self, claim: Claim, attempts: tuple[Attempt, ...], node: Node, *, may_rebuild: bool, wanted: Wanted
    ) -> Outcome:
        last = attempts[-1]
        right = last.verdict.correction
        if not may_rebuild or not wanted():
            return Outcome(attempts)
        below = carried(claim, right, guesses=False) if right and claim.children else ()
        if right and below is not None:
            self._ctx.decide("replaced", right, node=node, wrong=claim.hypothesis, below=len(below))
            return Outcome(attempts, _borne_out(Rebuilt(Claim(claim.question, right, below)), last.box))
        rebuilt = await rebuild(self._ctx, self._whole, claim, last.verdict, last.box, node=node)
        if rebuilt and right and _same_question(rebuilt.claim, claim) and not agree(rebuilt.claim.hypothesis, right):
            self._ctx.decide("replaced", right, node=node, wrong=rebuilt.claim.hypothesis, below=claim.size - 1)
            rebuilt = replace(rebuilt, claim=_put_right(rebuilt.claim, right))
        return Outcome(attempts, _borne_out(rebuilt, last.box) if rebuilt else None, stays=rebuilt is None)

    async def _follow(self, claim: Claim, box: EvidenceBox, node: Node) -> EvidenceBox:
        """What the pages and facts say that the evidence mentions, as far as it is new."""
        passages, facts = await both(self._mentioned_pages(claim, box, node), self._mentioned_facts(claim, box, node))
        seen = {passage.id for passage in box.passages}
        new = EvidenceBox(
            tuple(one for one in passages if one.id not in seen), tuple(one for one in facts if one not in box.facts)
        )
        self._ctx.decide("followed", [one.title for one in new.passages], node=node, facts=len(new.facts))
        return new

    async def _mentioned_pages(self, claim: Claim, box: EvidenceBox, node: Node) -> tuple[Passage, ...]:
        if self._evidence == "graph":
            return ()
        titles = {passage.title.casefold() for passage in box.passages}
        said = Counter(name for passage in box.passages for name in names_in(passage.text))
        said.update(term.text for fact in box.facts for term in (fact.subject, fact.object) if term.id)
        whole = [name for name, _ in said.most_common() if not _word_of_another(name, said)]
        names = [name for name in whole if name.casefold() not in titles][:_FOLLOWED]
        # The question may share no word with such a page, and would find nothing there by itself.
        pages = await together(
            self._ctx.search(f"{claim.question} {name}", k=1, where={TITLE: name}, node=node) for name in names
        )
        found = sorted((page[0] for page in pages if page), key=lambda passage: -passage.score)
        return tuple(found[:_ARRIVED])

    async def _mentioned_facts(self, claim: Claim, box: EvidenceBox, node: Node) -> tuple[Fact, ...]:
        ends = {term.id: term for fact in box.facts for term in (fact.object, fact.subject) if term.id}
        if self._evidence == "text" or not ends:
            return ()
        around = await together(
            self._ctx.facts(Entity(term.id, term.text), node=node) for term in list(ends.values())[:_AROUND]
        )
        return await choose_facts(self._ctx, claim.question, around, keep=_AROUND, node=node)


def _word_of_another(name: str, names: Collection[str]) -> bool:
    """Whether a name is but one word of a longer one among these: Alpha of Film Alpha."""
    word = f" {question_key(name)} "
    return " " not in name and any(word in f" {question_key(other)} " for other in names if len(other) > len(name))


def _settled(said: Verdict, claim: Claim, box: EvidenceBox) -> Verdict:
    """The verdict that code agrees with; without a hypothesis, an answer that the evidence holds is supported by it.

    An answer that stands there, but beside no name from the question, is stated and nothing more; so is one of the
    things that the question names to choose from, which stand there whatever is right. One that is plainly of another
    kind than is asked for is none.
    """
    if claim.hypothesis:
        return held(said, claim.question, claim.hypothesis, box)
    if misfit := explain_type_mismatch(claim.question, said.stated):
        return Verdict(reason=misfit, doubt=misfit)
    grounds = set(box.supporting(said.stated, claim.question)) if said.stated else set()
    if not grounds:
        stated = said.stated if said.stated and box.supporting(said.stated) else ""
        return Verdict(reason=said.reason, stated=stated)
    cited = Cited(
        tuple(one for one in box.passages if one.id in grounds), tuple(one for one in box.facts if one.text in grounds)
    )
    return replace(said, label="supported", cited=cited)


def _answered(claim: Claim, attempts: tuple[Attempt, ...], *, may_rebuild: bool) -> Outcome:
    """What became of a node without a hypothesis: what evidence says, if anything, and what is below put in line."""
    outcome = Outcome(attempts, stated=last_stated(attempts))
    if not (may_rebuild and outcome.checked and _rests(claim)) or agree(claim.dropped, outcome.stated):
        return outcome
    return replace(outcome, rebuilt=Rebuilt(_put_right(replace(claim, hypothesis=claim.dropped), outcome.stated)))


def _rests(claim: Claim) -> bool:
    """Whether anything below a claim names what was thought to be its answer."""
    thought = claim.hypothesis or claim.dropped
    return any(names_it(one.question, thought) for one in claim.all() if one is not claim)


def _borne_out(rebuilt: Rebuilt, box: EvidenceBox) -> Rebuilt:
    """What takes the place of a claim, with whether evidence holds it beside a name from its question.

    That a model says so in its reason, or gives it as the right answer, is nothing: a name may stand there for
    something else.
    """
    claim = rebuilt.claim
    fits = not explain_type_mismatch(claim.question, claim.hypothesis)
    return replace(rebuilt, borne_out=fits and bool(box.supporting(claim.hypothesis, claim.question)))


def _same_question(one: Claim, other: Claim) -> bool:
    return question_key(one.question) == question_key(other.question)


def _put_right(claim: Claim, right: str) -> Claim:
    """The claim with what evidence says in the place of its hypothesis; without what rests on that below it."""
    below = carried(claim, right, guesses=False)
    if below is None:
        below = () if _rests(claim) else claim.children
    return Claim(claim.question, right, below)


def _joined(by_texts: Verdict, by_facts: Verdict) -> Verdict:
    """Two verdicts that agree as one: the answer and the reason of whichever tells them, what both rest on."""
    told = by_texts if by_texts.stated or not by_facts.stated else by_facts
    cited = Cited(
        by_texts.cited.passages, by_facts.cited.facts, (*by_texts.cited.fabricated, *by_facts.cited.fabricated)
    )
    return replace(told, reason=told.reason or by_texts.reason or by_facts.reason, cited=cited)


def _same(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts of the same kind give the same answer; what one does not tell is nothing against it."""
    return not (one.stated and other.stated) or agree(one.stated, other.stated)


def _fused(channels: Sequence[EvidenceBox]) -> EvidenceBox:
    """The passages of all channels by reciprocal rank, no more than the longest has; facts in turn."""
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for channel in channels:
        for rank, passage in enumerate(channel.passages, 1):
            scores[passage.id] = scores.get(passage.id, 0.0) + 1 / (_C + rank)
            passages.setdefault(passage.id, passage)
    most = max(_FEWEST, *(len(channel.passages) for channel in channels)) if channels else 0
    best = sorted(passages, key=lambda name: (-scores[name], name))[:most]
    in_turn = [fact for group in zip_longest(*(channel.facts for channel in channels)) for fact in group if fact]
    return EvidenceBox(tuple(passages[name] for name in best), tuple(dict.fromkeys(in_turn))[:_FACTS])


Path = tuple[int, ...]
_Looked = tuple[int, str, int, str]
"""A node, its wrong answer, and the number and question of one that may rest on it."""


async def revise_siblings(ctx: Context, walk: Walk, whole: str) -> None:
    """Ask anew what names the refuted answer of a sibling, with the right one in its place; below its siblings too.

    What the main question names itself, a sibling may name for that reason. Each change may change the tree, so that it
    is looked at from its top again; what was looked at once for the same reason is left as it is.
    """
    seen: set[_Looked] = set()
    while case := next((one for one in _known(walk, whole) if not seen.issuperset(one.targets)), None):
        seen.update(case.targets)
        changed = _rewritten(ctx, case)
        seen.update(case.targets)  # with the questions that they have now
        for change in changed:
            if not any(one is change.branch for one in (case.other, *case.other.below())):
                continue  # what hung above it was rebuilt
            if walk.spent:
                change.undo()
                _leave(ctx, case, change.branch, "no validations left")
                continue
            branch = change.branch
            ctx.decide("sibling_revised", branch.node.id, node=case.corrected.node, asked=branch.node.question)
            await walk.again(branch, change.path)


def resting(walk: Walk, whole: str) -> frozenset[int]:
    """The nodes that name what a sibling, or the node above, was wrongly thought to be, and what hangs below these.

    What evidence says of them it says of the wrong thing, however true that is.
    """
    found = [branch for case in _cases(walk, whole) for branch, _ in case.named]
    for above in (one for top in walk.tops for one in (top, *top.below())):
        if above.dropped and not agree(above.dropped, above.hypothesis) and not names_it(whole, above.dropped):
            found += [one for one in above.below() if names_it(one.node.question, above.dropped, above.hypothesis)]
    return frozenset(one.node.id for branch in found for one in (branch, *branch.below()))


async def align_ancestors(ctx: Context, walk: Walk, whole: str) -> None:
    """Bring nodes in line with what was corrected below them, the deepest first.

    Evidence of their own counts more: only those that none supports or refutes are asked again.
    """
    await _align(ctx, walk, walk.tops, (0,), resting(walk, whole))


async def _align(ctx: Context, walk: Walk, branches: Sequence[Branch], path: Path, wrongly: Collection[int]) -> bool:
    """Whether anything in these branches was corrected, and evidence says what is right."""
    touched = False
    for branch in branches:
        number = branch.node.id
        below = await _align(ctx, walk, branch.children, (*path, number), wrongly)
        if below and walk.outcomes[number].label == "unknown":
            said = list(told(ctx, branch.children, walk.outcomes, says=MODEL_SAYS, resting=wrongly))
            answer = unmarked(
                await synthesise(ctx, branch.node.question, said, prompt="final", step="align", node=branch.node)
            )
            if answer.known and not agree(answer.text, branch.hypothesis):
                ctx.decide("aligned", answer.text, node=branch.node, before=branch.hypothesis)
                walk.restate(branch, path, answer.text)
        touched = touched or below or (number in walk.struck and walk.outcomes[number].checked)
    return touched


@dataclass(frozen=True, slots=True)
class _Case:
    """A node that was corrected, the wrong answer that it had, and a sibling that may rest on it."""

    corrected: Branch
    wrong: str
    other: Branch
    path: Path

    @property
    def named(self) -> list[tuple[Branch, Path]]:
        """The sibling and what is below it, as far as they name what is wrong, each with the path to it."""
        right = self.corrected.hypothesis
        walked = _walked(self.other, self.path)
        return [(one, path) for one, path in walked if names_it(one.node.question, self.wrong, right)]

    @property
    def targets(self) -> set[_Looked]:
        found = (branch.node for branch, _ in _walked(self.other, self.path))
        return {(self.corrected.node.id, self.wrong, node.id, node.question) for node in found}


@dataclass(frozen=True, slots=True)
class _Change:
    """A branch that was rewritten, and what it was before."""

    branch: Branch
    path: Path
    question: str
    hypothesis: str
    dropped: str

    def undo(self) -> None:
        self.branch.node = replace(self.branch.node, question=self.question)
        self.branch.hypothesis, self.branch.dropped = self.hypothesis, self.dropped


def _cases(walk: Walk, whole: str) -> Iterator[_Case]:
    """Siblings of which one may rest on what was wrong with another, those above before those below."""
    for branches, path in _groups(walk.tops, (0,)):
        for corrected in branches:
            for wrong in walk.struck.get(corrected.node.id, ()):
                if agree(wrong, corrected.hypothesis) or names_it(whole, wrong):
                    continue
                cases = (_Case(corrected, wrong, other, path) for other in branches if other is not corrected)
                yield from (case for case in cases if case.named)


def _known(walk: Walk, whole: str) -> Iterator[_Case]:
    """The cases of which evidence says what is right."""
    return (case for case in _cases(walk, whole) if walk.outcomes[case.corrected.node.id].checked)


def _groups(branches: Sequence[Branch], path: Path) -> Iterator[tuple[Sequence[Branch], Path]]:
    yield branches, path
    for branch in branches:
        yield from _groups(branch.children, (*path, branch.node.id))


def _walked(branch: Branch, path: Path) -> Iterator[tuple[Branch, Path]]:
    yield branch, path
    for child in branch.children:
        yield from _walked(child, (*path, branch.node.id))


def _rewritten(ctx: Context, case: _Case) -> list[_Change]:
    """Put what is right into what names what is wrong, wherever code can tell how."""
    wrong, right = case.wrong, case.corrected.hypothesis
    changed = []
    for branch, path in case.named:
        question = substituted(branch.node.question, wrong, right)
        if question is None or question == branch.node.question:
            _leave(ctx, case, branch, "cannot be rewritten")
            continue
        changed.append(_Change(branch, path, branch.node.question, branch.hypothesis, branch.dropped))
        branch.node = replace(branch.node, question=question)
        # What was thought to be the answer is one to another question.
        branch.hypothesis, branch.dropped = "", branch.hypothesis or branch.dropped
    return changed


def _leave(ctx: Context, case: _Case, branch: Branch, why: str) -> None:
    ctx.decide(
        "sibling_left",
        branch.node.id,
        node=case.corrected.node,
        asked=branch.node.question,
        names=case.wrong,
        right=case.corrected.hypothesis,
        why=why,
    )
