"""hop: one reading first, and then the move that promises most for its tokens, until an answer is likely right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from hoptree.core.errors import BudgetSpent, ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import OMIT, ChainWritten, Decision
from hoptree.engine.explain import shorten
from hoptree.engine.registry import Explanation, method
from hoptree.engine.schedule import in_order, together
from hoptree.methods.hop.candidates import OPERATED, Pool, Standing
from hoptree.methods.hop.chooser import Boundary, Chooser, Outlook, Policy, frozen_chooser, read_boundary, read_chooser
from hoptree.methods.hop.nodes import PartOptions, Parts, Solved, count_listed, intersect_branches, which_of_two
from hoptree.methods.hop.word_plans import operator_of, plan_by_words
from hoptree.methods.steps.answer import answer_from, confident_answer, summarise_chain, synthesise
from hoptree.methods.steps.choose import MAX_CITED_PASSAGES, read_with_chains
from hoptree.methods.steps.compare import Compared, both_hold, compare_branches
from hoptree.methods.steps.decompose import decompose_tree, record_plan
from hoptree.methods.steps.demonstrations import copies_demonstration, fixed_demonstrations, nearest_demonstrations
from hoptree.text.question_tree import Node, Plan, single_node

FIRST, SETTLING = "read", "which"
Move = Callable[[], Awaitable[None]]
_BEST_PASSAGES = 2
"""Passages of the second reading, which little distracts."""
_MAIN_QUESTION_ORDER = 1
_USUAL_SHARE = 0.86
"""The share of the mean tokens of a split that half of them keep within; other moves vary little."""
_RECALL_TOKENS = 130
"""What asking the model itself takes, where no chooser knows."""
_MOVE_NAMES = {
    "again": "another reading",
    "split": "splitting the question",
    "own": "asking the model itself",
    "which": "a check of two answers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFound(Decision):
    """How the facts of the question are put together, by its words."""

    kind: ClassVar[str] = "operator"
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed(Decision):
    """How likely the best answer is right, and why; nothing of it is set while there is no answer."""

    probability: float | None = field(default=None, metadata=OMIT)
    over: list[list[Any]] | None = field(default=None, metadata=OMIT)
    why: str | None = field(default=None, metadata=OMIT)
    given: bool | None = field(default=None, metadata=OMIT)
    why_not: str | None = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings(Weighed):
    """How every answer stands after a move; `added` are the candidates that it brought."""

    kind: ClassVar[str] = "standings"
    value: list[dict[str, Any]]
    after: str
    operator: str
    added: list[dict[str, Any]] = field(default_factory=list)
    checked: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChosen(Weighed):
    """The likeliest answer at the end."""

    kind: ClassVar[str] = "chosen"
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToSplit(Decision):
    """A plan of one part is the question once more."""

    kind: ClassVar[str] = "no_plan"
    value: str


class _HopExplanation(Explanation):
    """Why the likeliest answer is so, and what the others came to."""

    def explain_answer(self, decisions: Sequence[Decision]) -> str:
        chosen: list[Weighed] = [decision for decision in decisions if isinstance(decision, AnswerChosen)]
        weighed = chosen or [decision for decision in decisions if isinstance(decision, Standings)]
        if not weighed or (best := weighed[-1]).why is None:
            return super().explain_answer(decisions)
        others = ", ".join(f"{shorten(answer)} ({likely:.0%})" for answer, likely in best.over or ())
        over = f" over {others}" if others else ""
        compared = [decision for decision in decisions if isinstance(decision, Compared)]
        by = f"; {compared[-1].reason()}" if compared and compared[-1].value else ""
        withheld = "" if best.given else f"; not given: {best.why_not or 'it is too unlikely'}"
        return f"likely right by {best.probability:.0%}{over}: {best.why}{by}{withheld}"


def next_move(
    moves: Collection[str], standings: Sequence[Standing], outlook: Callable[[str], Outlook | None], policy: Policy
) -> str:
    """Return the next move; "" where an answer is likely enough, or no move that is left is worth its tokens.

    One reading comes first whatever is known of it. Two answers are held against each other only where they are close.
    A policy that is never sure makes every move whose gain is not under what it asks for.
    """
    if FIRST in moves:
        return FIRST
    likely = standings[0].probability if standings else 0.0
    if likely >= policy.sure and policy.sure < 1:
        return ""
    close = len(standings) > 1 and likely - standings[1].probability <= policy.close
    outlooks = {name: outlook(name) for name in moves if name != SETTLING or close}
    gains = {name: known.gain(likely) if known else 0.0 for name, known in outlooks.items()}
    best = max(gains, key=lambda name: gains[name], default="")
    return best if best and gains[best] >= policy.worth else ""


def _inputs(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run rests on beside its options: the numbers of its chooser and of its measured boundary."""
    inputs = {"chooser": _open_chooser(str(options.get("chooser") or "")).digest}
    if path := str(options.get("boundary") or ""):
        inputs["boundary"] = str(read_boundary(path))
    return inputs


def _open_chooser(path: str) -> Chooser:
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
    explain=_HopExplanation(),
    uses=_inputs,
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

    The moves: another reading (`again`), splitting the question and answering its parts (`split`), and the model's own
    knowledge (`own`). The parts follow from the question's words where `worded` is on and they can, else from a planner
    that sees the titles that were found unless `titles` is off; comparisons are made in code. With `check`, a half-sure
    part that others rest on is checked, and so are two answers that are `close`; with `deepen`, a part that nothing
    answers is split once more. Both are off: with a small model, checks mend as much as they break, and deepening
    hardly ever answers.

    Before each move, a small frozen model tells from countable things how likely each answer is right. What reaches
    `sure` is given, and no move is made whose gain in probability for a thousand tokens is under `worth`; what is not
    set is as the model was fitted. Below `abstain` there is no answer. `plain` asks by the prompts of TAIKC's paper,
    which adapters are trained on. `chooser` is a file of such a model in place of the one that comes with Hoptree.
    `boundary` is a file that hoptree eval boundary measured: without it, or if it is not usable, what only the model
    knows is no answer, nor what only such parts come to.
    """
    ctx.require_corpus()
    weights = _open_chooser(chooser)
    given = {name: value for name, value in (("sure", sure), ("worth", worth), ("close", close)) if value is not None}
    policy = replace(weights.policy, **given)
    known = read_boundary(boundary) if boundary else Boundary(0.0, False)
    parts = PartOptions(k=k, own=own, check=check, deepen=deepen, worded=worded and not plain, plain=plain)
    run = _Run(question.text, ctx, weights, known, parts, abstain=abstain, titles=titles)
    moves = run.moves(again=again, split=split)
    while move := run.next_move(moves, policy):
        await moves.pop(move)()
        run.record(move)
    answer = run.conclude()
    run.warn_of_moves_left(moves, policy, answer)
    return answer


class _Run:
    """One question: its candidates, and what every move has found."""

    def __init__(
        self,
        question: str,
        ctx: Context,
        chooser: Chooser,
        boundary: Boundary,
        options: PartOptions,
        *,
        abstain: float,
        titles: bool,
    ) -> None:
        self._question, self._ctx, self._chooser, self._boundary = question, ctx, chooser, boundary
        self._options, self._abstain, self._titles = options, abstain, titles
        self._operator = operator_of(question)
        self._logprobs = "logprobs" in ctx.model_for("answer").capabilities
        self._pool = Pool(question, chooser, operated=self._operator in OPERATED, trusted=boundary.usable)
        self._recorded = 0
        self._passages: tuple[Passage, ...] = ()
        self._seen: dict[str, Passage] = {}
        ctx.emit(OperatorFound(value=self._operator))

    def moves(self, *, again: bool, split: bool) -> dict[str, Move]:
        """Return the moves by name, in the order in which equals are made."""
        moves: dict[str, tuple[bool, Move]] = {
            "read": (True, self._read),
            "again": (again, self._read_again),
            "split": (split, self._split),
            "own": (self._options.own, self._recall),
            "which": (self._options.check, self._settle),
        }
        return {name: move for name, (wanted, move) in moves.items() if wanted}

    def next_move(self, moves: Mapping[str, Move], policy: Policy) -> str:
        return self._best_move(moves if FIRST in moves else self._affordable(moves), policy)

    def warn_of_moves_left(self, moves: Mapping[str, Move], policy: Policy, answer: Answer) -> None:
        """Raise BudgetSpent if the budget left out a move; warn of moves not worth it where nothing was found."""
        if self._best_move(moves, policy):
            raise BudgetSpent("tokens", self._ctx.tokens_left)
        able = [name for name in self._affordable(moves) if name != "own" or self._boundary.usable]
        left_out = (
            [] if answer.known else [name for name in able if self._best_move([name], replace(policy, worth=0.0))]
        )
        if left_out:
            names = " and ".join(_MOVE_NAMES[name] for name in left_out).capitalize()
            were = "were not worth their" if left_out[1:] else "was not worth its"
            self._ctx.warn("not_worth", f"{names} {were} cost by these weights; --set worth=0 tries every move.")

    def _affordable(self, moves: Collection[str]) -> list[str]:
        """Return the moves that what is left of the budget can be expected to pay."""
        outlooks = {name: self._outlook(name) for name in moves}
        left = self._ctx.tokens_left
        return [name for name, known in outlooks.items() if known is None or _USUAL_SHARE * known.tokens <= left]

    def _best_move(self, moves: Collection[str], policy: Policy) -> str:
        return next_move(moves, self._pool.standings(), self._outlook, policy)

    def _outlook(self, move: str) -> Outlook | None:
        """Return what a move is worth here; asking the model itself is worth what was measured, if it was."""
        known = self._chooser.outlook(move, self._operator)
        if move != "own" or not self._boundary.usable:
            return known
        return Outlook(self._boundary.settles, known.tokens if known else _RECALL_TOKENS)

    def record(self, move: str) -> None:
        """Record how every answer stands after a move, and propose the best one."""
        standings, added = self._pool.standings(), self._pool.candidates[self._recorded :]
        self._recorded += len(added)
        self._ctx.emit(
            Standings(
                value=[standing.as_dict() for standing in standings],
                after=move,
                operator=self._operator,
                added=[candidate.as_dict() for candidate in added],
                checked=dict(self._pool.checked),
                **self._weighed(standings),
            )
        )
        if standings and not self._pool.why_not(standings[0], self._abstain):
            self._ctx.propose(standings[0].answer, order=_MAIN_QUESTION_ORDER)
        else:
            self._ctx.best = None  # what was likely enough before this move may not be so any more

    def conclude(self) -> Answer:
        standings = self._pool.standings()
        if not standings:
            return Answer("", status="unknown")
        best = standings[0]
        self._ctx.emit(AnswerChosen(value=best.answer.text, **self._weighed(standings)))
        may_give = not self._pool.why_not(best, self._abstain)
        return best.answer if may_give else Answer("", best.answer.raw, "unknown", best.answer.source)

    def _weighed(self, standings: Sequence[Standing]) -> dict[str, Any]:
        """Return the fields of `Weighed`."""
        if not standings:
            return {}
        best, *others = standings
        why_not = self._pool.why_not(best, self._abstain)
        return {
            "probability": round(best.probability, 4),
            "over": [[other.answer.text, round(other.probability, 4)] for other in others],
            "why": self._pool.why(standings),
            "given": not why_not,
            "why_not": why_not,
        }

    async def _read(self) -> None:
        """Search with the question itself, and read what that finds."""
        self._passages = await self._ctx.search(self._question, k=self._options.k)
        self._seen |= {passage.id: passage for passage in self._passages}
        self._pool.add(await self._answer_from(self._passages, "read"), "read", self._passages)

    async def _read_again(self) -> None:
        """Read the best passages alone, with the question before them too: this errs in other ways."""
        best = self._passages[:_BEST_PASSAGES]
        prompt = "read" if self._options.plain else "read_asked_first"
        self._pool.add(await self._answer_from(best, prompt), "again", best)

    async def _answer_from(self, passages: Sequence[Passage], prompt: str) -> Answer:
        titles = not self._options.plain
        return await answer_from(
            self._ctx, self._question, passages, prompt=prompt, titles=titles, logprobs=self._logprobs
        )

    async def _recall(self) -> None:
        """Ask the model itself; its answer is as sure as it was measured to be."""
        answer = await confident_answer(self._ctx, self._question)
        confidence = self._boundary.right_if_sure if self._boundary.usable else None
        self._pool.add(replace(answer, confidence=confidence), "own")

    async def _settle(self) -> None:
        """Ask which of two close answers the passages behind them bear out."""
        pair = self._pool.standings()[:2]
        texts = (pair[0].answer.text, pair[1].answer.text)
        cited = {passage_id for standing in pair for passage_id in standing.answer.support}
        behind = [passage for passage in self._seen.values() if passage.id in cited] or list(self._passages)
        place = await which_of_two(self._ctx, self._question, texts, behind)
        if place is not None:
            self._pool.checked |= {text: 1.0 if number == place else -1.0 for number, text in enumerate(texts)}

    async def _split(self) -> None:
        """Answer the parts of the question, each by itself, and put them together."""
        if self._operator == "both":
            checked = await both_hold(self._ctx, self._question, self._search, propose=False)
            if checked:
                self._pool.add(checked, "split", self._passages, computed=True, supported=1.0)
                return
        worded = plan_by_words(self._ctx, self._question) if self._options.worded else None
        plan = worded or await self._decompose()
        if len(plan.nodes) < 2:
            self._ctx.emit(NothingToSplit(value=plan.nodes[0].question))
            record_plan(self._ctx, Plan(()))
            return
        parts = Parts(self._ctx, self._passages, self._options)
        solved = await in_order(plan, lambda node, done: parts.solve(plan, node, done), parallel=True)
        self._seen |= parts.seen
        await self._put_together(plan, solved, parts)

    async def _decompose(self) -> Plan:
        plain = self._options.plain
        shots = fixed_demonstrations() if plain else nearest_demonstrations(self._question)
        seen = dict.fromkeys(passage.title for passage in self._passages) if self._titles and not plain else ()
        plan = await decompose_tree(
            self._ctx, self._question, demonstrations=shots, mend_leaks=True, titles=tuple(seen)
        )
        return single_node(self._question) if copies_demonstration(plan, self._question, shots) else plan

    async def _put_together(self, plan: Plan, solved: dict[int, Solved], parts: Parts) -> None:
        """Put the parts together: by code where the question has an operator, else by a last reading."""
        share = sum(part.supported for part in solved.values()) / len(solved)
        answers = {node: part.answer for node, part in solved.items()}
        recalled = all(answer.source == "internal" for answer in answers.values() if answer.known)
        cited = [passage_id for answer in answers.values() for passage_id in answer.support[:MAX_CITED_PASSAGES]]
        read = [parts.seen[passage_id] for passage_id in dict.fromkeys(cited)]
        if computed := self._compute(plan, {node: part.asked for node, part in solved.items()}, answers):
            self._pool.add(computed, "split", read, computed=True, supported=share, recalled=recalled)
            return
        paths = [[(node.id, solved[node.id]) for node in path if answers[node.id].known] for path in plan.paths()]
        if not (known := [path for path in paths if path]):
            return  # the passages alone were read before
        if self._options.plain:
            pairs = ([(number, part.asked, part.answer.text) for number, part in path] for path in known)
            chains = await together(summarise_chain(self._ctx, path) for path in pairs)
        else:
            chains = [" ".join(f"{part.asked} {part.answer.text}." for _, part in path) for path in known]
        for chain in chains:
            self._ctx.emit(ChainWritten(text=chain))
        if self._options.plain:
            last = await synthesise(self._ctx, self._question, chains, logprobs=self._logprobs)
        else:
            last, read = await read_with_chains(
                self._ctx,
                self._question,
                chains,
                cited=cited,
                own=self._passages,
                seen=parts.seen,
                k=self._options.k,
                logprobs=self._logprobs,
            )
        self._pool.add(last, "split", read, supported=share, recalled=recalled)

    def _compute(self, plan: Plan, asked: dict[int, str], answers: dict[int, Answer]) -> Answer | None:
        """Compute the answer; None where the question has no operator, or values cannot be read."""
        if self._operator == "intersect":
            return intersect_branches(self._ctx, plan, answers)
        if self._operator == "count":
            return count_listed(self._ctx, plan, answers)
        return compare_branches(self._ctx, self._question, plan, asked, answers)

    async def _search(self, asked: str, node: Node) -> tuple[Passage, ...]:
        return await self._ctx.search(asked, k=self._options.k, node=node)
