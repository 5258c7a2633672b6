"""TreeQA's `traversal=speculative`: validate all nodes at once.

The same replies give the same tree as node by node, caps included. Work ahead of the walk may be wasted: it has bounds
of its own, beyond which the walk is serial. Its failures count only if the walk reaches them. It counts for the budget,
so that a budget that is just enough for the serial walk may end sooner.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace

from hoptree.core.errors import HoptreeError
from hoptree.core.lazy import lazy_re
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.schedule import both, together
from hoptree.methods.steps.evidence_box import Verdict
from hoptree.methods.steps.logic_tree import MAX_NODES, Claim
from hoptree.methods.steps.mentions import Ahead
from hoptree.methods.treeqa.tree import Branch, Key, branches_below, flatten
from hoptree.methods.treeqa.walk import Outcome, ProcessNode, Walk
from hoptree.text.grounding import PartKind, numbered_names, typed_parts
from hoptree.text.quantities import date_spans


@decision("discarded")
class WorkDiscarded(Decision):
    """The nodes below a refuted one whose work ahead was abandoned."""

    value: list[int]


@decision("failed_ahead")
class FailedAhead(Decision):
    """The error of work ahead on a node."""

    value: str


class SpeculativeWalk(Walk):
    """The serial walk, with an exploration ahead of it."""

    def __init__(self, ctx: Context, process: ProcessNode, tops: list[Branch]) -> None:
        super().__init__(ctx, process, tops)
        self._ahead = True
        self._begun: set[Key] = set()
        self._begun_under: dict[Key | None, list[Key]] = {}
        self._discarded: set[Key] = set()
        self._refuted: dict[Key, asyncio.Future[Verdict | None]] = {}
        self._rebuilt: set[Key] = set()

    async def _traverse(self) -> None:
        # A copy, since the walk changes the tree, and may be ahead.
        await both(self._explore(deepcopy(self.tops)), self._in_turn_until_done())

    async def _in_turn_until_done(self) -> None:
        await self._in_turn(self.tops, (0,))
        self._ahead = False
        self._discarded |= self._begun - self._settled.keys()  # the walk never reaches these

    async def _explore(self, branches: Iterable[Branch], under: Key | None = None) -> None:
        """Begin all nodes at once; below a refuted one, begin what is new."""

        async def explore_one(branch: Branch) -> None:
            key, outcome = branch.key, await self._process_ahead(branch)
            if outcome and outcome.replaces_subtree:
                self._rebuilt.add(key)
                claims = outcome.rebuilt.claim.children if outcome.rebuilt else ()
                new = branches_below(branch, claims, self._room(key))
                self._give_up(branch, but=new)
                if key not in self._discarded:
                    await self._explore(new, key)

        begun = self._begin(branches, under)
        await together((*map(explore_one, begun), *(self._foresee(branch) for branch in begun if branch.children)))

    async def _foresee(self, branch: Branch) -> None:
        """Begin the likely new tree while a refuted one is rebuilt."""
        key = branch.key
        verdict = await self._refuted_by(key)
        if verdict is None or not verdict.correction or key in self._rebuilt or key in self._discarded:
            return
        claims = propagate_correction(branch.claim, verdict.correction) or ()
        likely = branches_below(branch, claims, self._room(key))
        await together(map(self._process_ahead, self._begin(likely, key)))

    def _begin(self, branches: Iterable[Branch], under: Key | None) -> list[Branch]:
        """Return the branches that may be begun, within the caps."""
        begun: list[Branch] = []
        for branch in branches:
            key = branch.key
            if key not in self._begun:
                bound = len(self._begun) >= self.max_validations or len(self._rebuilt) > self.max_fixes
                if bound or not self._ahead:
                    break
                self._begun.add(key)
                self._begun_under.setdefault(under, []).append(key)
            begun += [branch, *self._begin(branch.children, key)]
        return begun

    def _descendants(self, key: Key) -> list[Key]:
        """Return the nodes that were begun below a node."""
        return [below for child in self._begun_under.get(key, ()) for below in (child, *self._descendants(child))]

    def _room(self, key: Key) -> int:
        """Return how many nodes may be added below a node, as far as is known."""
        return MAX_NODES - len(self._begun.difference(self._discarded, self._descendants(key)))

    def _give_up(self, branch: Branch, *, but: Iterable[Branch] = ()) -> None:
        """Abandon the nodes that were begun below a node, but those in `but`."""
        kept = self._discarded.union(below.key for below in flatten(but))
        given_up = [key for key in dict.fromkeys(self._descendants(branch.key)) if key not in kept]
        if given_up:
            self._discarded.update(given_up)
            self._ctx.emit(WorkDiscarded(value=[number for number, _ in given_up]), node=branch.node)

    def _refuted_by(self, key: Key) -> asyncio.Future[Verdict | None]:
        """Return a future of the verdict that refutes a node; None if none does."""
        return self._refuted.setdefault(key, asyncio.get_running_loop().create_future())

    async def _reach(self, branch: Branch) -> Outcome:
        """Process a node, and again if it was abandoned too early."""
        key = branch.key
        try:
            outcome = await self._process_once(branch)
        except HoptreeError:
            if key not in self._discarded:
                raise
        else:
            if key not in self._discarded:
                return outcome
        return await self._once(("again", key), lambda: self._process_node(branch, lambda: True))

    async def _process_ahead(self, branch: Branch) -> Outcome | None:
        """Process a node ahead of the walk; return None if that failed."""
        try:
            return await self._process_once(branch)
        except HoptreeError as error:
            self._ctx.emit(FailedAhead(value=type(error).__name__), node=branch.node)
            return None

    async def _process_once(self, branch: Branch) -> Outcome:
        key = branch.key

        def wanted() -> bool:
            return key not in self._discarded

        if not self._ahead:
            return await self._once(key, lambda: self._process_node(branch, wanted))
        refuted = self._refuted_by(key)

        def announce(verdict: Verdict | None) -> None:
            if not refuted.done():
                refuted.set_result(verdict)
                if verdict is not None:  # at once, since the nodes below must not be rebuilt as well
                    self._give_up(branch)

        try:
            return await self._once(key, lambda: self._process_node(branch, Ahead(wanted, announce)))
        finally:  # `_foresee` may wait for the verdict even if the node failed
            announce(None)


_ARTICLE_OR_POSSESSIVE = lazy_re(r"^(?:the|an?)\s+|['’]s$", re.IGNORECASE)
_APPOSITION = lazy_re(r"\w, (?=\w)(.+)")
_LISTING = lazy_re(r",.*,|\b(?:and|or)\b|[;&]")  # a list, whose commas add nothing to a name
_DAY = lazy_re(r"(?<!\d)\d{1,2}(?!\d)")


def substituted(text: str, wrong: str, right: str) -> str | None:
    """Replace the wrong answer by the right one in a text; None if it is unclear how.

    - Names replace names and dates replace dates: of "Apollo 8, in December 1968" a question may have either part.
    - Neither a part of a longer name nor anything but names and dates (yes, no) is replaced.
    - It is unclear if the text already has the right answer, as it may ask to choose between the two.
    - "France" in "Paris, France" does not name the wrong answer; a text with both parts is unclear.
    """
    in_text = [(kind, part) for kind, part in typed_parts(wrong) if _as_words(part).search(text)]
    wrong_parts = _wrong_parts(wrong, right)
    named = [typed for typed in in_text if typed in wrong_parts]
    if named and any(typed not in named and not _as_words(typed[1]).search(right) for typed in in_text):
        return None
    counterparts: dict[str, str] = {}
    for kind, part in named:
        candidates = [other for other_kind, other in typed_parts(right) if other_kind == kind]
        if len(candidates) != 1 or candidates[0] in counterparts.values() or _is_inside_longer(part, text):
            return None
        if _as_words(candidates[0]).search(_as_words(part).sub("", text)):
            return None
        counterparts[part] = candidates[0]
    for part, counterpart in counterparts.items():
        if date_spans(part):  # in 1968, but on a day
            dated = f"{'on' if _DAY.search(counterpart) else 'in'} {counterpart}"
            text = _as_words(part, before=r"\b(?:in|on) ").sub(dated.replace("\\", r"\\"), text)
        text = _as_words(part).sub(counterpart.replace("\\", r"\\"), text)
    return text


def _is_inside_longer(part: str, text: str) -> bool:
    """Return whether a part occurs inside a longer one in a text: 1966 in May 1966."""

    def bare(name: str) -> str:
        return _ARTICLE_OR_POSSESSIVE.sub("", name).casefold()

    return any(
        start <= match.start() and match.end() <= end and bare(text[start:end]) != bare(part)
        for match in _as_words(part).finditer(text)
        for start, end in (*numbered_names(text), *date_spans(text))
    )


def mentions_wrong_answer(text: str, wrong: str, right: str = "") -> bool:
    """Return whether a text mentions a wrong answer, or a wrong part of it."""
    return any(_as_words(part).search(text) for _, part in _wrong_parts(wrong, right))


def propagate_correction(refuted: Claim, right: str) -> tuple[Claim, ...] | None:
    """Return the corrected children of a refuted claim; None if it needs a new tree.

    It needs one if no claim below names the wrong answer: then the relation or the shape may be wrong. Other hypotheses
    stay, as a model that rewrites the tree would likely keep them.
    """
    below = (claim.question for claim in refuted.all() if claim is not refuted)
    if not any(mentions_wrong_answer(question, refuted.hypothesis, right) for question in below):
        return None
    corrected = tuple(_correct_claim(child, refuted.hypothesis, right) for child in refuted.children)
    return None if None in corrected else tuple(claim for claim in corrected if claim is not None)


def _correct_claim(claim: Claim, wrong: str, right: str) -> Claim | None:
    question = substituted(claim.question, wrong, right)
    below = [_correct_claim(child, wrong, right) for child in claim.children]
    if question is None or None in below:
        return None
    changed = replace(claim, question=question, children=tuple(child for child in below if child))
    return replace(changed, hypothesis=substituted(claim.hypothesis, wrong, right) or claim.hypothesis)


def _wrong_parts(wrong: str, right: str) -> list[tuple[PartKind, str]]:
    """Return the parts of a wrong answer that the right one lacks."""
    parts = list(typed_parts(wrong))
    added = [] if _LISTING.search(wrong) else [match[1] for match in _APPOSITION.finditer(wrong)]
    return [
        (kind, part)
        for kind, part in parts
        if not (kind == "name" and len(parts) > 1 and any(text.startswith(part) for text in added))
        and not (right and _as_words(part).search(right))
    ]


def _as_words(part: str, *, before: str = "") -> re.Pattern[str]:
    return lazy_re(rf"{before}(?<!\w){re.escape(part)}(?!\w)", re.IGNORECASE)
