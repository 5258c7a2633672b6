"""What TreeQA does with one node: Algorithms 2 and 3 of its paper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Literal, Protocol

from hoptree.core.singleflight import Once
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.schedule import both, together
from hoptree.graph.facts import Candidates, Entity, Fact
from hoptree.graph.linking.mention_models import MentionModel, MentionModelCandidates
from hoptree.methods.steps.agreement import agree
from hoptree.methods.steps.evidence_box import Cited, EvidenceBox
from hoptree.methods.steps.link import Linker, choose_facts
from hoptree.methods.steps.logic_tree import Claim
from hoptree.methods.steps.mentions import (
    Kinds,
    MentionLinker,
    Titles,
    extract_mentions,
    find_titles,
    graph_names,
    require_sources,
)
from hoptree.methods.steps.own_pages import own_page
from hoptree.methods.steps.relations import RelationRanking
from hoptree.methods.steps.verify import Label, Verdict, find_conflict, validate
from hoptree.methods.treeqa.hypotheses import Rebuilt, new_clue, rebuild
from hoptree.text.parse import looks_unanswered
from hoptree.text.question_tree import Node

__all__ = [
    "MODEL_SAYS",
    "PRESETS",
    "SEARCHED",
    "Ahead",
    "Attempt",
    "Branch",
    "Kept",
    "Kinds",
    "NodeProcess",
    "Outcome",
    "Processing",
    "Sources",
    "Wanted",
    "last_stated",
    "told",
    "unmarked",
]


Wanted = Callable[[], bool]
"""Whether what is being looked for is still of use."""
SEARCHED = 5
"""Passages of a search in the whole corpus: where no page is that of an entity, and beyond the paper always."""


_YES_OR_NO = re.compile(r"(?<=\?) (?:yes|no)\.?\Z", re.IGNORECASE)
"""A hypothesis behind its question that names nothing to look up."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A `Wanted` of work that is done before it is known to be needed: to be there early, it may cost a call more.

    `refuted` is to be told of a verdict that refutes, before what that leads to is worked out.
    """

    wanted: Wanted
    refuted: Callable[[Verdict], None]

    def __call__(self) -> bool:
        return self.wanted()


@dataclass(frozen=True, slots=True)
class Kept:
    """How much is kept: entities of a query, relations of these, and passages of each page."""

    entities: int
    relations: int
    passages: int


PRESETS = {"paper": Kept(3, 3, 3), "code": Kept(2, 1, 2)}


class Sources:
    """The knowledge graph, the corpus, or both, asked with one query.

    What a query finds is remembered for the question. Entities are those of the words of a query and of the names that
    the model reads out of it; a `reader` marks names in the query, which then count in the place of its words. The
    model says which of their relations matter, or a `ranking` does.
    """

    def __init__(
        self,
        ctx: Context,
        kinds: Kinds,
        kept: Kept,
        *,
        reader: MentionModel | None = None,
        ranking: RelationRanking | None = None,
    ) -> None:
        self._ctx, self._kinds, self._kept, self._ranking = ctx, kinds, kept, ranking
        plain = Titles if kinds == "text" else graph_names(ctx)

        def names(ctx: Context, node: Node | None) -> Candidates:
            return MentionModelCandidates(reader, plain(ctx, node)) if reader else plain(ctx, node)

        self._linkers: dict[bool, Linker] = {
            ahead: MentionLinker(names, ahead=ahead, read=self._read) for ahead in (False, True)
        }
        self._once, self._names = Once(), Once()
        self._asking: dict[str, list[Wanted]] = {}
        self._given_up: Counter[str] = Counter()

    async def _read(self, ctx: Context, query: str, *, node: Node | None = None) -> tuple[str, ...]:
        """The names in a query, read once for graph and corpus."""
        return await self._names(query, lambda: extract_mentions(ctx, query, node=node))

    def require(self) -> None:
        """Refuse to start without a source that is to be asked."""
        require_sources(self._ctx, self._kinds)

    async def look_up(self, query: str, node: Node, wanted: Wanted) -> EvidenceBox:
        """What there is about the entities of a query. Nothing further is asked once it is not wanted any more."""
        query = _YES_OR_NO.sub("", query)
        asking = self._asking.setdefault(query, [])
        asking.append(wanted)
        while True:
            key = (query, self._given_up[query])
            found = await self._once(
                key, lambda: self._found(query, node, lambda: any(one() for one in asking), isinstance(wanted, Ahead))
            )
            if found is not None or not wanted():
                return found or EvidenceBox()
            # Nobody wanted it any more when it was given up.
            self._given_up[query] = key[1] + 1

    async def _found(self, query: str, node: Node, wanted: Wanted, ahead: bool) -> EvidenceBox | None:
        """None where it was given up."""
        entities, titles = await self._linked(query, node, ahead)
        if not wanted():
            return None
        facts, passages = await both(
            self._facts(query, entities, node, wanted), self._passages(query, titles, entities, node, wanted)
        )
        return EvidenceBox(passages, facts) if facts is not None and passages is not None else None

    async def _linked(self, query: str, node: Node, ahead: bool) -> tuple[tuple[Entity, ...], tuple[Entity, ...]]:
        """The entities of a query, and those of its names that are titles of the corpus."""
        entities = self._linkers[ahead].link(self._ctx, query, keep=self._kept.entities, node=node)
        if self._kinds == "hybrid":  # a graph may know some of the names only
            return await both(entities, find_titles(self._ctx, query, self._read, node=node))
        found = await entities
        return found, found if self._kinds == "text" else ()

    async def _facts(
        self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Fact, ...] | None:
        if self._kinds == "text" or not entities:
            return ()
        found = await together(self._ctx.facts(entity, node=node) for entity in entities)
        if not wanted():
            return None
        return await choose_facts(self._ctx, query, found, keep=self._kept.relations, ranking=self._ranking, node=node)

    async def _passages(
        self, query: str, titles: tuple[Entity, ...], entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Passage, ...] | None:
        """The best passages of the pages that the query names, and of the entities' own; where either has none, of the
        whole corpus too. What the graph leads to comes beside what the corpus alone gives, and never instead.
        """
        if self._kinds == "graph":
            return ()
        there = {one.page for one in titles}
        others = [one for one in entities if (one.page or one.label) not in there]
        most = max(self._kept.entities * self._kept.passages, SEARCHED)
        named, own = await both(self._pages(query, titles[:most], most, node), self._pages(query, others, most, node))
        if named and (own or len(others) < len(entities)):
            return _each(named, own)[:most]
        if not wanted():  # a part of it would be remembered as the whole, for who comes to want it again
            return None
        searched = await self._ctx.search(query, k=SEARCHED, node=node)
        if named:
            return _each(named, searched)[:most]
        return _each(own[: most - len(searched)], searched)

    async def _pages(self, query: str, entities: Sequence[Entity], most: int, node: Node) -> tuple[Passage, ...]:
        """The best passages of each page; of more than there is room for, the best of each in turn."""
        k = self._kept.passages
        pages = await together(own_page(self._ctx, entity, query, k=k, node=node) for entity in entities)
        if sum(map(len, pages)) <= most:
            return _each(*pages)
        return _each([one for rank in zip_longest(*pages) for one in rank if one])[:most]


def _each(*groups: Sequence[Passage]) -> tuple[Passage, ...]:
    """Passages in their order, each once."""
    return tuple({passage.id: passage for group in groups for passage in group}.values())


@dataclass(slots=True)
class Branch:
    """A node of the tree with its hypothesis as it is now, and what hangs below it; `dropped` as in a `Claim`."""

    node: Node
    hypothesis: str
    children: list[Branch] = field(default_factory=list)
    dropped: str = ""

    @property
    def claim(self) -> Claim:
        return Claim(self.node.question, self.hypothesis, tuple(child.claim for child in self.children), self.dropped)

    def below(self) -> list[Branch]:
        """All branches below this one."""
        return [one for child in self.children for one in (child, *child.below())]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One validation: what was searched for, what was found, and what it says."""

    query: str
    verdict: Verdict
    box: EvidenceBox

    def as_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "verdict": self.verdict.label,
            "reason": self.verdict.reason,
            "passages": [passage.id for passage in self.box.passages],
            "facts": [fact.text for fact in self.box.facts],
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a node: its validations, and the tree that takes its place.

    There is one for what was refuted, and beyond the paper where what hangs below a node without a hypothesis names
    what was once guessed there. `stated` is an answer that the node has without having been refuted: read from evidence
    where it had none, or brought in line with what was corrected below it, which is then `aligned`. `stays` is set
    where a refutation came to nothing but the same hypothesis: the node, and what is below it, stays as it is.
    """

    attempts: tuple[Attempt, ...] = ()
    rebuilt: Rebuilt | None = None
    stated: str = ""
    aligned: bool = False
    stays: bool = False

    @property
    def checked(self) -> bool:
        """Whether evidence says what the node says now."""
        return self.label == "supported" or (self.rebuilt is not None and self.rebuilt.borne_out)

    @property
    def verdict(self) -> Verdict:
        return self.attempts[-1].verdict if self.attempts else Verdict()

    @property
    def label(self) -> Label:
        return self.verdict.label

    @property
    def replants(self) -> bool:
        """Whether what hung below the node does not stay there."""
        return self.rebuilt is not None or (self.label == "refuted" and not self.stays)

    def within(self, validations: int) -> Outcome:
        """The outcome if only so many validations had been allowed."""
        if len(self.attempts) <= validations:
            return self
        left = self.attempts[:validations]
        return Outcome(left, stated=last_stated(left) if self.stated else "")


def last_stated(attempts: Sequence[Attempt]) -> str:
    """The answer that the last validation gives that gives any."""
    return next((one.verdict.stated for one in reversed(attempts) if one.verdict.stated), "")


class NodeProcess(Protocol):
    """Validates one node, and corrects what is refuted; `max_attempts` is how often it validates at most."""

    max_attempts: int

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome: ...


class Processing:
    """ProcessNode (Algorithm 3), with VerifyAndCorrect (Algorithm 2) inside its loop.

    `reason` says whether the conflict is told with the verdict or asked for afterwards, `query` whether the hypothesis
    is searched for too. Evidence is kept from one attempt to the next, the newest first.
    """

    def __init__(
        self,
        ctx: Context,
        whole: str,
        sources: Sources,
        *,
        max_attempts: int,
        reason: Literal["inline", "separate"],
        query: Literal["dual", "question"],
    ) -> None:
        self._ctx, self._whole, self._sources = ctx, whole, sources
        self.max_attempts, self._reason, self._query = max_attempts, reason, query

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome:
        """Validate a node, at most `allowed` times; what is not wanted any more is left as it is."""
        ctx, node, claim = self._ctx, branch.node, branch.claim
        query, box = self._first_query(claim), EvidenceBox()
        attempts: tuple[Attempt, ...] = ()
        for number in range(1, allowed + 1):
            if not wanted():
                break
            box = (await self._sources.look_up(query, node, wanted)).over(box)
            if not wanted():
                break
            verdict = await validate(
                ctx,
                claim.question,
                claim.hypothesis,
                box,
                attempt=number,
                with_reason=self._reason == "inline",
                node=node,
            )
            attempts += (Attempt(query, verdict, box),)
            if verdict.label == "refuted":
                return await self._correct(branch, attempts, may_rebuild=may_rebuild, wanted=wanted)
            if verdict.label == "supported" or number == allowed or not wanted():
                break
            query = await new_clue(ctx, claim.question, claim.hypothesis, box, node=node)
            if not query:
                break
        return Outcome(attempts)

    async def _correct(
        self, branch: Branch, attempts: tuple[Attempt, ...], *, may_rebuild: bool, wanted: Wanted
    ) -> Outcome:
        ctx, node, claim, last = self._ctx, branch.node, branch.claim, attempts[-1]
        if self._reason == "separate" and wanted():
            verdict = await find_conflict(ctx, claim.question, claim.hypothesis, last.verdict, last.box, node=node)
            attempts = (*attempts[:-1], replace(last, verdict=verdict))
        if not may_rebuild or not wanted():
            return Outcome(attempts)
        if isinstance(wanted, Ahead):
            wanted.refuted(attempts[-1].verdict)
        rebuilt = await rebuild(ctx, self._whole, claim, attempts[-1].verdict, last.box, node=node)
        return Outcome(attempts, rebuilt, stays=rebuilt is None)

    def _first_query(self, claim: Claim) -> str:
        if self._query == "question" or not claim.hypothesis:
            return claim.question
        return f"{claim.question} {claim.hypothesis}"


MODEL_SAYS = "the model says"
"""Beyond the paper, what evidence says is what code finds there."""
_SUPPORTED, _CORRECTED, _REFUTED = "supported by evidence", "corrected by evidence", "refuted by evidence"
_UNVERIFIED = "not verified"
_FOLLOWS = "as it follows from what was corrected below"
_MOOT = "it is asked about what turned out wrong"
_MARKS = "|".join((_SUPPORTED, _CORRECTED, _REFUTED, _UNVERIFIED, _FOLLOWS, _MOOT))
_MARK = re.compile(rf"\s*[(\[](?:{_MARKS})(?:[:;].*)?[)\]]?\W*\Z", re.IGNORECASE)
"""How sure an answer is, as it stands behind it in the tree."""


def told(
    ctx: Context,
    branches: Sequence[Branch],
    outcomes: Mapping[int, Outcome],
    *,
    texts: bool = True,
    says: str = "evidence says",
    resting: Collection[int] = (),
    indent: str = "",
) -> Iterator[str]:
    """The golden tree: what was asked, what is the answer, how sure that is, and what it rests on.

    Without `texts`, passages are left out; the facts stay. `says` introduces what a verdict gives for right where that
    was not borne out. What is cited is not told where it says something else: of such a node, which it only refuted
    before, and of the nodes `resting` on what is wrong.
    """
    for branch in branches:
        number = branch.node.id
        outcome, moot = outcomes[number], number in resting
        unsaid = outcome.rebuilt is not None and not outcome.rebuilt.borne_out
        cited = Cited() if moot or unsaid else outcome.verdict.cited
        sure = _MOOT if moot else _sure(outcome, branch.hypothesis, says)
        yield f"{indent}- {branch.node.question}"
        yield f"{indent}  Answer: {branch.hypothesis or 'unknown'} ({sure})"
        passages, facts = EvidenceBox(cited.passages if texts else (), cited.facts).shown(ctx)
        for there, shown in ((cited.passages if texts else (), passages), (cited.facts, facts)):
            yield from (f"{indent}  {line}" for line in shown.splitlines() if there)
        below = branch.children
        yield from told(ctx, below, outcomes, texts=texts, says=says, resting=resting, indent=indent + "  ")


def unmarked(answer: Answer) -> Answer:
    """An answer that was read in a tree, without what the tree says of how sure it is: small models copy that."""
    text = _MARK.sub("", answer.text)
    if text == answer.text:
        return answer
    said = "\n".join(_MARK.sub("", line) for line in answer.raw.splitlines()) or text
    return replace(answer, text=text, status="unknown" if looks_unanswered(said) else "answered")


def _sure(outcome: Outcome, answer: str, says: str) -> str:
    said = outcome.verdict.correction or outcome.verdict.reason
    if outcome.rebuilt and outcome.label == "refuted":
        if outcome.rebuilt.borne_out:
            return _CORRECTED
        return f"{_UNVERIFIED}; {says}: {said}" if said and not agree(said, answer) else _UNVERIFIED
    if outcome.stays:
        return f"{_UNVERIFIED}: it was called wrong, and nothing else was given"
    if outcome.label == "refuted":
        return f"{_REFUTED}: {outcome.verdict.reason}".removesuffix(": ")
    if outcome.aligned:
        return _FOLLOWS
    return _SUPPORTED if outcome.label == "supported" else _UNVERIFIED
