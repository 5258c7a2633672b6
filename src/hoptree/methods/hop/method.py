"""hop: read once, and split the question if that is worth its tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from hoptree.core.errors import BudgetSpent
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.answer_sentence import shorten
from hoptree.engine.context import Context
from hoptree.engine.events import OMIT, ChainWritten, Decision, decision, typed_event
from hoptree.engine.registry import Explanation, method
from hoptree.methods.hop.candidates import (
    CLOSED_BOOK,
    COMBINED_LISTS,
    COMPARED,
    LISTS,
    OPERATED,
    Move,
    Pool,
    RankedAnswer,
    question_features,
    reading_features,
    rounded,
)
from hoptree.methods.hop.chooser import (
    Boundary,
    Effort,
    Weights,
    effort_figures,
    open_chooser,
    read_boundary,
    run_inputs,
)
from hoptree.methods.hop.compare import Compared, both_hold, compare_branches
from hoptree.methods.hop.lists import ListsCombined, combine
from hoptree.methods.hop.parts import (
    AnsweredPart,
    Parts,
    answer_both_readings_agree_on,
    asks_for_several,
    chain_lines,
    operator_of,
    plan_by_words,
    supported_end,
)
from hoptree.methods.hop.reading import (
    READ_OR_REFUSE_PROMPT,
    READ_PROMPT,
    TRAINED_GUESS_PROMPT,
    TRAINED_READ_PROMPT,
    Reading,
    TrainedPrompts,
    read_passages,
    uses_trained_prompt,
)
from hoptree.methods.steps.answer import MAX_CITED_PASSAGES, MAX_FURTHER_PASSAGES, confident_answer
from hoptree.methods.steps.decompose import copies_demonstration, decompose_tree, nearest_demonstrations, record_plan
from hoptree.models.model import LearnsCapabilities
from hoptree.text.answer_fit import fits_question_type
from hoptree.text.question_tree import Plan, single_node

_MAIN_QUESTION_ORDER = 1
_USUAL_SHARE = 0.86  # the share of the mean tokens of a move that half of them keep within


@decision("operator")
class OperatorFound(Decision):
    """How facts must be combined for the answer, by the question's words."""

    value: str


@typed_event
class Weighed(Decision):
    """The probability of the best answer, and why; empty without an answer."""

    probability: float | None = field(default=None, metadata=OMIT)
    over: list[list[Any]] | None = field(default=None, metadata=OMIT)
    why: str | None = field(default=None, metadata=OMIT)
    given: bool | None = field(default=None, metadata=OMIT)
    why_not: str | None = field(default=None, metadata=OMIT)
    calibrated_on: str = field(default="", metadata=OMIT)


@decision("standings")
class RankedAnswers(Weighed):
    """All answers with probabilities after a move, and the features for the next."""

    value: list[dict[str, Any]]
    after: str
    operator: str
    state: dict[str, float] = field(default_factory=dict)


@decision("skipped")
class MoveSkipped(Decision):
    """A move that was not worth its tokens, or that the budget left no room for."""

    value: str
    why: str


@decision("chosen")
class AnswerChosen(Weighed):
    """The likeliest answer at the end."""

    value: str


@decision("no_plan")
class NothingToSplit(Decision):
    """The plan has only one part, which is the question again."""

    value: str


class _HopExplanation(Explanation):
    """Explains why the chosen answer is the likeliest, and what the others were."""

    def measure_answer(self, decisions: Sequence[Decision]) -> tuple[float, str] | None:
        best = _last_weighed(decisions)
        return None if best is None or best.probability is None else (best.probability, best.calibrated_on)

    def explain_answer(self, decisions: Sequence[Decision]) -> str:
        best = _last_weighed(decisions)
        if best is None or best.why is None:
            return super().explain_answer(decisions)
        over = f"chosen over {', '.join(shorten(answer) for answer, _ in best.over)}: " if best.over else ""
        concluded = [decision for decision in decisions if isinstance(decision, Compared) and decision.value]
        combined = [each for each in decisions if isinstance(each, ListsCombined) and each.answer == best.value]
        by = f"; {(combined or concluded)[-1].reason()}" if combined or concluded else ""
        withheld = "" if best.given else f"; not given: {best.why_not or 'it is too unlikely'}"
        return f"{over}{best.why}{by}{withheld}"


def _last_weighed(decisions: Sequence[Decision]) -> Weighed | None:
    """Return the last weighing: at the end, or before a budget ended the question."""
    return next((decision for decision in reversed(decisions) if isinstance(decision, Weighed)), None)


@method(
    "hop",
    title="Read once, and split the question where that pays",
    needs=("corpus",),
    iterative=True,
    dynamic=True,
    strategy="Calibrated probability that the best answer is right",
    query="The question itself, then parts of it with the pages of what was found",
    roles=("answer", "decompose", "know"),
    always_deviates="It is of no paper.",
    explain=_HopExplanation(),
    uses=run_inputs,
    figures=effort_figures,
    bounds={"abstain": (0.0, 1.0)},
    shared_prompts=("bank.jsonl", "bear_out", "confident", "decompose", "read", "read_or_not_found"),
)
async def hop(
    question: Question,
    ctx: Context,
    *,
    k: int = 5,
    effort: Effort = "medium",
    abstain: float = 0.0,
    chooser: str = "",
    boundary: str = "",
    trained: TrainedPrompts = "auto",
    cut: TrainedPrompts = "auto",
) -> Answer:
    """Search and read; split the question if that is likely to improve the answer.

    The moves, in order: read the passages; answer the parts of the question and combine them; and, if the reader found
    nothing, have it guess. Before each, a small frozen model estimates how likely
    the best answer is right, now and after the move. `effort` sets how small the expected gain of a move may be: low,
    medium, or high, which makes every move. Below the probability `abstain`, no answer is given.

    `chooser` is a file of such a model in place of the one that comes with Hoptree. `boundary` is a file that hoptree
    eval boundary measured: without it, or if it is not usable, what only the model knows is not an answer. `trained`
    uses the short prompts of hoptree align build hop: auto if the model has an adapter that was trained on them, such
    as that of hoptree-weights; on for a trained model behind an endpoint. `cut` leaves out the sentences of passages
    that matter least, if the retriever can rank them (`ranked`): auto for a trained model, which answers as well
    without them.
    """
    ctx.require_corpus()
    known = read_boundary(boundary) if boundary else Boundary(0.0, False)
    run = _Run(question.text, ctx, effort, known, k=k, abstain=abstain, chooser=chooser, trained=trained, cut=cut)
    moves: dict[Move, Callable[[], Awaitable[None]]] = {
        "read": run.read,
        "split": run.split,
        CLOSED_BOOK: run.answer_closed_book,
        "guess": run.guess,
    }
    for name, move in moves.items():
        if run.applies(name) and run.decide_move(name):
            await move()
            run.record(name)
    return run.conclude()


class _Run:
    """One question: its candidates, and the findings of each move."""

    def __init__(
        self,
        question: str,
        ctx: Context,
        effort: Effort,
        boundary: Boundary,
        *,
        k: int,
        abstain: float,
        chooser: str,
        trained: TrainedPrompts,
        cut: TrainedPrompts,
    ) -> None:
        self._question, self._ctx, self._effort, self._boundary = question, ctx, effort, boundary
        self._operator, self._several = operator_of(question), asks_for_several(question)
        trained = "off" if self._operator in LISTS else trained  # no training set has lists
        self._k, self._abstain, self._trained = k, abstain, trained
        self._model = ctx.model_for("answer")
        reads_trained = uses_trained_prompt(self._model, TRAINED_READ_PROMPT, trained)
        self._cut = reads_trained if cut == "auto" else cut == "on"
        self._chooser = open_chooser(chooser)
        # Without log-probabilities, NOT FOUND is a reader's only sign of doubt. Only the replies of an endpoint show
        # whether it gives them.
        shows_doubt = "logprobs" in self._model.capabilities and not isinstance(self._model, LearnsCapabilities)
        self._prompt = TRAINED_READ_PROMPT if reads_trained else READ_PROMPT if shows_doubt else READ_OR_REFUSE_PROMPT
        operated, closed = self._operator in OPERATED, self._operator == "yes_no"
        self._pool = Pool(
            question,
            self._weights(),
            question_features(question) | {"operated": float(operated), "yes_no": float(closed)},
            combined_by_code=operated,
            knows_its_boundary=boundary.usable,
            asks_for_list=self._operator in LISTS,
            count_bridging_sentences=self._prompt == READ_OR_REFUSE_PROMPT,
        )
        self._passages: tuple[Passage, ...] = ()
        self._parts = Parts(ctx, (), k=k, prompt=self._prompt, cut=self._cut)
        self._skipped: list[str] = []
        self._chain_end: AnsweredPart | None = None
        self._out_of_budget = False
        ctx.emit(OperatorFound(value=self._operator))

    def _weights(self) -> Weights:
        return self._chooser.weights(logprobs="logprobs" in self._model.capabilities)

    def applies(self, move: Move) -> bool:
        """Return whether a move has anything to do."""
        if move == CLOSED_BOOK:
            return self._boundary.usable
        if move == "guess":
            supported = self._prompt == READ_OR_REFUSE_PROMPT and self._pool.is_supported
            return self._prompt != READ_PROMPT and bool(self._pool.features.get("not_found")) and not supported
        return True

    def decide_move(self, move: Move) -> bool:
        """Decide whether to make a move; record a skipped one. Reading is never skipped."""
        if move == "read" or (move == "split" and self._operator in COMBINED_LISTS and self._effort != "low"):
            return True
        worth, affordable = self._is_worth(move), self._is_affordable(move)
        if worth and affordable:
            return True
        if worth:
            self._out_of_budget = True
        self._skipped.append(move)
        why = "too little of the budget is left" if worth else "expected gain too small"
        self._ctx.emit(MoveSkipped(value=move, why=why))
        return False

    def _is_worth(self, move: Move) -> bool:
        """Return whether the expected gain of a move is worth its tokens."""
        ranked = self._pool.ranked_answers()
        likely = ranked[0].probability if ranked else 0.0
        if move == CLOSED_BOOK:
            return likely < self._boundary.right_if_sure
        if move == "guess" and not ranked:
            return True
        features = self._pool.features_for_next_move(ranked)
        return self._pool.weights.is_worth(move, features, likely, self._effort)

    def _is_affordable(self, move: Move) -> bool:
        prediction = self._pool.weights.after.get(move)
        return prediction is None or _USUAL_SHARE * prediction.tokens <= self._ctx.tokens_left

    def record(self, move: Move) -> None:
        """Record all answers after a move, and propose the best one."""
        ranked = self._pool.ranked_answers()
        self._ctx.emit(
            RankedAnswers(
                value=[answer.as_dict() for answer in ranked],
                after=move,
                operator=self._operator,
                state=rounded(self._pool.features_for_next_move(ranked)),
                **self._weighed(ranked),
            )
        )
        if ranked and not self._pool.reason_withheld(ranked[0], self._abstain):
            self._ctx.propose(ranked[0].answer, order=_MAIN_QUESTION_ORDER)
        else:
            self._ctx.withdraw_proposal()  # it may have become too unlikely by this move

    def conclude(self) -> Answer:
        """Return the likeliest answer; raise BudgetSpent if the budget left out a move."""
        if self._out_of_budget:
            raise BudgetSpent("tokens", self._ctx.tokens_left)
        if self._chain_end and not self._pool.candidates:  # the last reading refused, and no other move has an answer
            self._pool.add(self._chain_end.answer, "split", tuple(self._parts.seen.values()), supported=1.0)
        ranked = self._pool.ranked_answers()
        answer = Answer("", status="unknown")
        if ranked:
            best = ranked[0]
            self._ctx.emit(AnswerChosen(value=best.answer.text, **self._weighed(ranked)))
            may_give = not self._pool.reason_withheld(best, self._abstain)
            answer = best.answer if may_give else Answer("", best.answer.raw, "unknown", best.answer.source)
        if not answer.known and self._skipped:
            self._ctx.warn(
                "not_worth", "Some moves were skipped, as they promised too little; --set effort=high makes them all."
            )
        return answer

    def _weighed(self, ranked: Sequence[RankedAnswer]) -> dict[str, Any]:
        """Return the fields of `Weighed`."""
        if not ranked:
            return {}
        best, *others = ranked
        why_not = self._pool.reason_withheld(best, self._abstain)
        return {
            "probability": round(best.probability, 4),
            "over": [[other.answer.text, round(other.probability, 4)] for other in others],
            "why": self._pool.explain(ranked),
            "given": not why_not,
            "why_not": why_not,
            "calibrated_on": self._chooser.calibrated_on,
        }

    async def read(self) -> None:
        """Search with the question itself, and read the passages."""
        self._passages = await self._ctx.search(self._question, k=self._k)
        parts = self._parts = Parts(self._ctx, self._passages, k=self._k, prompt=self._prompt, cut=self._cut)
        if self._operator == "list":
            items = await parts.reader.list_all(self._question, self._question, self._passages)
            answer = combine(self._ctx, "list", {self._question: items}) or Answer("", status="unknown")
            copied = answer.raw.partition("; ")[0]  # the sentence of the first name represents all
        else:
            reading = await self._ask_reader(self._passages, self._prompt)
            answer, copied = reading.answer, reading.copied
        self._pool.weights = self._weights()  # by now an endpoint has shown whether it gives log-probabilities
        read = tuple(parts.seen.values())
        self._pool.features |= reading_features(self._question, read)
        self._pool.features["not_found"] = float(not answer.known)
        self._pool.add(answer, "read", read, copied=copied)

    async def guess(self) -> None:
        """Have the reader answer from the same passages without the option NOT FOUND."""
        prompt = TRAINED_GUESS_PROMPT if self._prompt == TRAINED_READ_PROMPT else READ_PROMPT
        reading = await self._ask_reader(self._passages, prompt)
        guess = replace(reading.answer, source="fallback")
        self._pool.add(guess, "guess", self._passages)

    async def answer_closed_book(self) -> None:
        """Ask the model itself; the measured boundary gives the answer's confidence."""
        answer = await confident_answer(self._ctx, self._question)
        self._pool.add(replace(answer, confidence=self._boundary.right_if_sure), CLOSED_BOOK)

    async def split(self) -> None:
        """Answer the parts of the question, each by itself, and put them together."""
        if self._operator == "both":
            checked = await both_hold(self._ctx, self._question, k=self._k)
            if checked:
                self._pool.add(checked, "split", self._passages, computed=True, supported=1.0)
                return
        worded = plan_by_words(self._ctx, self._question, self._operator)
        plan = worded or await self._decompose()
        if len(plan.nodes) < 2:
            self._ctx.emit(NothingToSplit(value=plan.nodes[0].question))
            record_plan(self._ctx, Plan(()))
            return
        solved = await self._parts.solve_all(plan, self._operator, complete=self._several or self._effort == "high")
        await self._put_together(plan, solved)

    async def _decompose(self) -> Plan:
        if uses_trained_prompt(self._ctx.model_for("decompose"), "trained_plan", self._trained):
            return await decompose_tree(
                self._ctx, self._question, demonstrations=(), mend_leaks=True, prompt="trained_plan", may_be_simple=True
            )
        shots = nearest_demonstrations(self._question)
        titles = dict.fromkeys(" ".join(passage.title.split()) for passage in self._passages)  # one line each
        shown = {"titles": "\n".join(titles)} if titles else {}
        plan = await decompose_tree(
            self._ctx,
            self._question,
            demonstrations=shots,
            mend_leaks=True,
            prompt="decompose_seen" if titles else "decompose",
            shown=shown,
            may_be_simple=True,
        )
        return single_node(self._question) if copies_demonstration(plan, self._question, shots) else plan

    async def _put_together(self, plan: Plan, solved: dict[int, AnsweredPart]) -> None:
        """Combine the parts by code if the question has an operator, else by reading."""
        share = sum(part.supported for part in solved.values()) / len(solved)
        answers = {node: part.answer for node, part in solved.items()}
        recalled = all(answer.source == "internal" for answer in answers.values() if answer.known)
        ids = [name for part in solved.values() for name in part.answer.support[:MAX_CITED_PASSAGES]]
        cited = [name for name in dict.fromkeys(ids) if name in self._parts.seen]
        computed = self._compute(plan, solved, answers)
        if computed:
            read = [self._parts.seen[name] for name in cited]
            several_for_one = "; " in computed.raw and self._operator in LISTS and not self._several
            copied = computed.raw.partition("; ")[0]
            self._pool.add(
                computed, "split", read, copied=copied, computed=not several_for_one, supported=share, recalled=recalled
            )
            return
        chains = chain_lines(plan, solved, guesses=self._prompt == READ_PROMPT)
        if not chains:
            return  # the first reading saw the same
        for chain in chains:
            self._ctx.emit(ChainWritten(text=chain))
        names = dict.fromkeys([*cited[: self._k], *(passage.id for passage in self._passages)])
        read = [self._parts.seen[name] for name in list(names)[: self._k + MAX_FURTHER_PASSAGES]]
        may_refuse, first = self._prompt == READ_OR_REFUSE_PROMPT, self._pool.first_reading
        if may_refuse and (agreed := answer_both_readings_agree_on(plan, solved, first)):
            last = Reading(agreed)  # a third reading would say the same again
        else:
            prompt = TRAINED_READ_PROMPT if self._prompt == TRAINED_READ_PROMPT else READ_PROMPT
            last = await self._ask_reader(read, prompt, chains)
        self._pool.add(last.answer, "split", read, copied=last.copied, supported=share, recalled=recalled)
        if not last.answer.known and self._operator == "lookup":
            end = supported_end(plan, solved)
            fits = end and fits_question_type(self._question, end.answer.text) is not False
            self._chain_end = end if fits else None

    def _compute(self, plan: Plan, solved: Mapping[int, AnsweredPart], answers: dict[int, Answer]) -> Answer | None:
        """Compute the answer; None without an operator, or if values cannot be read."""
        ends = [solved[node.id] for node in plan.ends()]
        if self._operator in (*LISTS, "count"):
            return combine(self._ctx, self._operator, {end.asked: end.items for end in ends})
        if self._operator not in COMPARED:
            return None
        asked = {node: part.asked for node, part in solved.items()}
        return compare_branches(self._ctx, self._question, plan, asked, answers)

    async def _ask_reader(self, passages: Sequence[Passage], prompt: str, chains: Sequence[str] = ()) -> Reading:
        return await read_passages(self._ctx, self._question, passages, prompt=prompt, chains=chains, cut=self._cut)
