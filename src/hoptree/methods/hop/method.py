"""hop: one reading first, and then the move that promises most for its tokens, until an answer is likely right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import BudgetSpent, ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import in_order, together
from hoptree.methods.hop.candidates import OPERATED, Pool, Standing
from hoptree.methods.hop.chooser import Boundary, Chooser, Outlook, Policy, frozen_chooser, read_boundary, read_chooser
from hoptree.methods.hop.nodes import Parts, Solved, borne_out_of_two, count_listed, intersect_branches
from hoptree.methods.hop.word_plans import operator_of, plan_by_words
from hoptree.methods.steps.answer import answer_from, confident_answer, synthesise
from hoptree.methods.steps.both import both_hold
from hoptree.methods.steps.combine import summarise_chain
from hoptree.methods.steps.compare import compare_branches
from hoptree.methods.steps.decompose import decompose_tree, tell_plan
from hoptree.methods.steps.demonstrations import copies, fixed, nearest
from hoptree.methods.steps.multi_read import CITED, read_with_chains
from hoptree.text.question_tree import Node, Plan, single_node

FIRST, SETTLING = "read", "which"


def next_move(
    moves: Collection[str], standings: Sequence[Standing], outlook: Callable[[str], Outlook | None], policy: Policy
) -> str:
    """The name of the next move; "" where an answer is likely enough, or no move that is left is worth its tokens.

    One reading comes first whatever is known of it. Two answers are held against each other only where they are close.
    A policy that is never sure makes every move whose gain is not under what it asks for.
    """
    if FIRST in moves:
        return FIRST
    likely = standings[0].probability if standings else 0.0
    if likely >= policy.sure and policy.sure < 1:
        return ""
    close = len(standings) > 1 and likely - standings[1].probability <= policy.close
    gains = {name: _gain(outlook(name), likely) for name in moves if name != SETTLING or close}
    best = max(gains, key=lambda name: gains[name], default="")
    return best if best and gains[best] >= policy.worth else ""


def _gain(outlook: Outlook | None, likely: float) -> float:
    return outlook.gain(likely) if outlook else 0.0


_BEST = 2
"""Passages of the reading that little distracts."""
_WHOLE = 1
"""The order of an answer to the question itself: those to its parts are offered to nobody."""
_USUAL = 0.86
"""The share of the mean tokens of a split that half of them keep within; other moves vary little."""
_IN_WORDS = {
    "again": "another reading",
    "split": "splitting the question",
    "own": "asking the model itself",
    "which": "a check of two answers",
}
"""The moves that come after the first."""
_OWN_TOKENS = 130
"""What asking the model itself takes, where no chooser knows."""


def _weighs_by(options: Mapping[str, Any]) -> dict[str, str]:
    """What a run rests on beside its options: the numbers of its chooser, and of the boundary that was measured."""
    found = {"chooser": _opened(str(options.get("chooser") or "")).digest}
    if path := str(options.get("boundary") or ""):
        found["boundary"] = str(read_boundary(path))
    return found


def _opened(path: str) -> Chooser:
    if not path:
        return frozen_chooser()
    try:
        return read_chooser(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", "Give chooser a file of hoptree methods chooser fit."
        ) from error


@method(
    "hop",
    title="One engine of the four: read, and go on where it pays",
    needs=("corpus",),
    iterative=True,
    dynamic=True,
    strategy="Calibrated probability that the best answer is right",
    query="The question itself, then parts of it with the pages of what was found",
    roles=("answer", "decompose", "know", "summarise", "verify"),
    differs="It is of no paper.",
    uses=_weighs_by,
    bounds={"sure": (0.0, 1.0), "worth": (0.0, 100.0), "close": (0.0, 1.0), "abstain": (0.0, 1.0)},
)
async def hop(
    question: Question,
    ctx: Context,
    *,
    k: int = 5,
    sure: float | None = None,
    worth: float | None = None,
    close: float | None = None,
    abstain: float = 0.0,
    again: bool = True,
    split: bool = True,
    own: bool = True,
    check: bool = False,
    deepen: bool = False,
    worded: bool = True,
    titles: bool = True,
    plain: bool = False,
    chooser: str = "",
    boundary: str = "",
) -> Answer:
    """Read what the question finds, and go on only while an answer is in doubt and a move is worth its tokens.

    The moves: another reading (`again`), splitting the question and answering its parts (`split`; its own words tell
    them where `worded` is on and they can, else a planner that sees the titles that were found unless `titles` is off;
    comparisons are made in code), and the model's own knowledge (`own`). With `check`, a half-sure part that others
    rest on is checked, and so are two answers that are `close`: with a small model that mends as much as it breaks, and
    is off. With `deepen`, a part that nothing answers is split once more: with a small model that hardly ever answers
    it, and is off. Before each move, a small frozen model tells from countable things how likely each answer is right:
    what reaches `sure` is given, and no move is made whose gain in probability for a thousand tokens is under `worth`;
    what is not set is as the model was fitted. Below `abstain` there is no answer. `plain` asks by the prompts of
    TAIKC's paper, which adapters are trained on. `chooser` is a file of such a model in place of the one that comes
    with Hoptree, and `boundary` one that hoptree eval boundary measured: without it, or if it is not usable, what only
    the model knows is no answer, nor what only such parts come to.
    """
    ctx.require_corpus()
    weighing = _opened(chooser)
    wanted = {"sure": sure, "worth": worth, "close": close}
    policy = replace(weighing.policy, **{part: value for part, value in wanted.items() if value is not None})
    trusted = read_boundary(boundary) if boundary else Boundary(0.0, False)
    parts = {"own": own, "check": check, "deepen": deepen, "worded": worded and not plain}
    chosen = _Hop(question.text, ctx, weighing, trusted, abstain=abstain, k=k, titles=titles, plain=plain, parts=parts)
    moves = chosen.moves(again=again, split=split, own=own, check=check)
    while name := chosen.next_move(moves, policy):
        await moves.pop(name)()
        chosen.note(name)
    answer = chosen.conclude()
    chosen.tell_left_out(moves, policy, answer)
    return answer


Move = Callable[[], Awaitable[None]]


class _Hop:
    """One question on its way: its candidates, and what every move has found."""

    def __init__(
        self,
        question: str,
        ctx: Context,
        chooser: Chooser,
        boundary: Boundary,
        *,
        abstain: float,
        k: int,
        titles: bool,
        plain: bool,
        parts: Mapping[str, bool],
    ) -> None:
        self._question, self._ctx, self._chooser, self._boundary = question, ctx, chooser, boundary
        self._k, self._titles, self._plain, self._parts = k, titles, plain, parts
        self._operator = operator_of(question)
        self._tells = "logprobs" in ctx.model_for("answer").capabilities
        self._abstain = abstain
        self._pool = Pool(question, chooser, operated=self._operator in OPERATED, trusted=boundary.usable)
        self._told = 0
        self._found: tuple[Passage, ...] = ()
        self._seen: dict[str, Passage] = {}
        ctx.decide("operator", self._operator)

    def moves(self, *, again: bool, split: bool, own: bool, check: bool) -> dict[str, Move]:
        """The moves there are, by name, in the order in which equals are made."""
        named: dict[str, tuple[bool, Move]] = {
            "read": (True, self._read),
            "again": (again, self._read_again),
            "split": (split, self._split),
            "own": (own, self._recall),
            "which": (check, self._settle),
        }
        return {name: move for name, (wanted, move) in named.items() if wanted}

    def next_move(self, moves: Mapping[str, Move], policy: Policy) -> str:
        return self._best_of(moves if FIRST in moves else self._payable(moves), policy)

    def tell_left_out(self, moves: Mapping[str, Move], policy: Policy, answer: Answer) -> None:
        """Say that a move was left out: for the budget, which ends the run, or for its worth where nothing is found."""
        if self._best_of(moves, policy):
            raise BudgetSpent("tokens", self._ctx.tokens_left)  # what is left does not pay it
        able = [name for name in self._payable(moves) if name != "own" or self._boundary.usable]
        left_out = [] if answer.known else [name for name in able if self._best_of([name], replace(policy, worth=0.0))]
        if left_out:
            what = " and ".join(_IN_WORDS[name] for name in left_out).capitalize()
            were = "were not worth their" if left_out[1:] else "was not worth its"
            self._ctx.warn("not_worth", f"{what} {were} cost by these weights; --set worth=0 tries every move.")

    def _payable(self, moves: Collection[str]) -> list[str]:
        """The moves that what is left of the budget can be expected to pay."""
        left = self._ctx.tokens_left
        return [name for name in moves if (told := self._outlook(name)) is None or _USUAL * told.tokens <= left]

    def _best_of(self, moves: Collection[str], policy: Policy) -> str:
        return next_move(moves, self._pool.standings(), self._outlook, policy)

    def _outlook(self, move: str) -> Outlook | None:
        """What a move is worth here; asking the model itself is worth what was measured, where it knows its bounds."""
        known = self._chooser.outlook(move, self._operator)
        if move != "own" or not self._boundary.usable:
            return known
        return Outlook(self._boundary.settles, known.tokens if known else _OWN_TOKENS)

    def note(self, move: str) -> None:
        """Tell the trace how every answer stands after a move, and have the best one ready."""
        standings, told = self._pool.standings(), self._pool.candidates[self._told :]
        self._told += len(told)
        self._ctx.decide(
            "standings",
            [one.as_dict() for one in standings],
            after=move,
            operator=self._operator,
            added=[one.as_dict() for one in told],
            checked=dict(self._pool.checked),
            **self._told_of(standings),
        )
        if standings and self._may_give(standings[0]):
            self._ctx.propose(standings[0].answer, order=_WHOLE)
        else:
            self._ctx.best = None  # what was likely enough before this move may not be so any more

    def conclude(self) -> Answer:
        standings = self._pool.standings()
        if not standings:
            return Answer("", status="unknown")
        best = standings[0]
        self._ctx.decide("chosen", best.answer.text, **self._told_of(standings))
        return best.answer if self._may_give(best) else Answer("", best.answer.raw, "unknown", best.answer.source)

    def _may_give(self, one: Standing) -> bool:
        return not self._pool.why_not(one, self._abstain)

    def _told_of(self, standings: Sequence[Standing]) -> dict[str, Any]:
        """Why the first answer is before the others, if there is one."""
        if not standings:
            return {}
        best, *others = standings
        return {
            "probability": round(best.probability, 4),
            "over": [[one.answer.text, round(one.probability, 4)] for one in others],
            "why": self._pool.why(standings),
            "given": self._may_give(best),
            "why_not": self._pool.why_not(best, self._abstain),
        }

    async def _read(self) -> None:
        """What the question itself finds, read once."""
        self._found = await self._ctx.search(self._question, k=self._k)
        self._seen |= {passage.id: passage for passage in self._found}
        self._pool.add(await self._reading(self._found, "read"), "read", self._found)

    async def _read_again(self) -> None:
        """The best passages alone, with the question before them too: a reading that errs in other ways."""
        best = self._found[:_BEST]
        prompt = "read" if self._plain else "read_asked_first"
        self._pool.add(await self._reading(best, prompt), "again", best)

    async def _reading(self, passages: Sequence[Passage], prompt: str) -> Answer:
        return await answer_from(
            self._ctx, self._question, passages, prompt=prompt, titles=not self._plain, logprobs=self._tells
        )

    async def _recall(self) -> None:
        """The model's own knowledge is a candidate among others, and as sure as it was measured to be."""
        said = await confident_answer(self._ctx, self._question)
        sure = self._boundary.right_if_sure if self._boundary.usable else None
        self._pool.add(replace(said, confidence=sure), "own")

    async def _settle(self) -> None:
        """Two answers that are close: what do the passages behind them bear out?"""
        first, second = self._pool.standings()[:2]
        place = await borne_out_of_two(
            self._ctx, self._question, (first.answer.text, second.answer.text), self._behind(first, second)
        )
        if place is not None:
            for number, one in enumerate((first, second)):
                self._pool.note_check(one.answer.text, 1.0 if number == place else -1.0)

    def _behind(self, *some: Standing) -> list[Passage]:
        cited = {name for one in some for name in one.answer.support}
        return [passage for passage in self._seen.values() if passage.id in cited] or list(self._found)

    async def _split(self) -> None:
        """The parts of the question, each answered by itself, and what they come to."""
        if self._operator == "both":
            checked = await both_hold(self._ctx, self._question, self._search, offered=False)
            if checked:
                self._pool.add(checked, "split", self._found, computed=True, supported=1.0)
                return
        told = plan_by_words(self._ctx, self._question) if self._parts["worded"] else None
        plan = told or await self._planned()
        if len(plan.nodes) < 2:
            self._ctx.decide("no_plan", plan.nodes[0].question)  # one part is the question once more
            tell_plan(self._ctx, Plan(()))
            return
        parts = Parts(self._ctx, self._found, k=self._k, plain=self._plain, **self._parts)
        solved = await in_order(plan, lambda node, done: parts.solve(plan, node, done), parallel=True)
        self._seen |= parts.seen
        await self._put_together(plan, solved, parts)

    async def _planned(self) -> Plan:
        shots = fixed() if self._plain else nearest(self._question)
        seen = dict.fromkeys(passage.title for passage in self._found) if self._titles and not self._plain else ()
        plan = await decompose_tree(
            self._ctx, self._question, demonstrations=shots, mend_leaks=True, titles=tuple(seen)
        )
        return single_node(self._question) if copies(plan, self._question, shots) else plan

    async def _put_together(self, plan: Plan, solved: dict[int, Solved], parts: Parts) -> None:
        """What the parts come to: by code where the question has an operator, else by a last reading."""
        share = sum(one.supported for one in solved.values()) / len(solved)
        answers = {node: one.answer for node, one in solved.items()}
        recalled = all(one.source == "internal" for one in answers.values() if one.known)
        cited = [name for one in solved.values() for name in one.answer.support[:CITED]]
        read = [parts.seen[name] for name in dict.fromkeys(cited)]
        if computed := self._computed(plan, {node: one.asked for node, one in solved.items()}, answers):
            self._pool.add(computed, "split", read, computed=True, supported=share, recalled=recalled)
            return
        found = [[(node.id, solved[node.id]) for node in path if solved[node.id].answer.known] for path in plan.paths()]
        if not (known := [path for path in found if path]):
            return  # the passages alone were read before
        if self._plain:
            paths = ([(number, one.asked, one.answer.text) for number, one in path] for path in known)
            chains = await together(summarise_chain(self._ctx, path) for path in paths)
        else:
            chains = [" ".join(f"{one.asked} {one.answer.text}." for _, one in path) for path in known]
        for chain in chains:
            self._ctx.trace.add("chain", text=chain)
        if self._plain:
            last = await synthesise(self._ctx, self._question, chains, logprobs=self._tells)
        else:
            last, read = await read_with_chains(
                self._ctx,
                self._question,
                chains,
                cited=cited,
                own=self._found,
                seen=parts.seen,
                k=self._k,
                logprobs=self._tells,
            )
        self._pool.add(last, "split", read, supported=share, recalled=recalled)

    def _computed(self, plan: Plan, asked: dict[int, str], answers: dict[int, Answer]) -> Answer | None:
        """What code makes of the parts; None where the question has no operator, or values cannot be read."""
        if self._operator == "intersect":
            return intersect_branches(self._ctx, plan, answers)
        if self._operator == "count":
            return count_listed(self._ctx, plan, answers)
        return compare_branches(self._ctx, self._question, plan, asked, answers)

    async def _search(self, asked: str, node: Node) -> tuple[Passage, ...]:
        return await self._ctx.search(asked, k=self._k, node=node)
