"""What TreeQA does with one node: Algorithms 2 and 3 of its paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from hoptree.methods.treeqa.evidence import Ahead, Sources, Wanted
from hoptree.runtime.context import Context
from hoptree.steps.hypotheses.clue import new_clue
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.logic_tree import Claim
from hoptree.steps.hypotheses.rebuild import Rebuilt, rebuild
from hoptree.steps.hypotheses.verify import Label, Verdict, find_conflict, validate
from hoptree.tree import Node

__all__ = ["Attempt", "Branch", "NodeProcess", "Outcome", "Processing", "last_stated"]


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
