"""Decompose a question into a tree, a list, or follow-ups."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, Planned, decision
from hoptree.engine.prompts import Filled, prompt_for, read_demonstrations, read_rows
from hoptree.engine.schedule import plan_row, plant
from hoptree.methods.steps.answer import note_reply
from hoptree.text.loose_json import read_json
from hoptree.text.names import name_spans
from hoptree.text.parse import question_key, read_questions
from hoptree.text.question_tree import Issue, Node, Plan, make_plan, single_node

if TYPE_CHECKING:
    from hoptree.text.parse_dialogue import DialogueTurn

T = TypeVar("T")
MAX_SUB_QUESTIONS = 4  # of one question, if a method or a training set caps them
_TREE_TOKENS = 512
_LIST_TOKENS = 256
_UNCLEAR = {"ref_dangling", "ref_cycle"}
_WARNED_OF = {*_UNCLEAR, "cap_nodes", "cap_depth"}
DEMONSTRATIONS = 3
_BANK = "bank.jsonl"
_SAME_KIND_FACTOR = 1.5
_LINK_PENALTY = 2.0  # for each hop more or less than the question has
_FOREIGN_WORD_PENALTY = 0.2  # the weight of words that only the demonstration has
_LINK = lazy_re(r"\b(?:of|where|who|that|whose|by|behind|on which)\b|['’]s\b")
_COMPARING = lazy_re(r"first|last|more|(?:earli|lat|old|young|tall|high|long|larg|bigg|small|short)er")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A question with its plan as JSON text."""

    kind: str
    question: str
    plan: str


def load_bank() -> tuple[Demonstration, ...]:
    """Load all demonstrations; the first three are shaped like the paper's."""
    return _read_bank(read_demonstrations(_BANK))


@lru_cache(maxsize=32)
def _read_bank(text: str) -> tuple[Demonstration, ...]:
    return tuple(
        Demonstration(row["kind"], row["question"], json.dumps(row["plan"], ensure_ascii=False))
        for row in read_rows(text)
    )


def copies_demonstration(plan: Plan, question: str, shots: Sequence[Demonstration]) -> bool:
    """Return whether a plan copies a demonstration's question."""
    copied = (n.question for n in plan.nodes if not n.refs and any(f'"{n.question}"' in shot.plan for shot in shots))
    return any(not any(asked[start:end] in question for start, end in name_spans(asked, 1)) for asked in copied)


def fixed_demonstrations() -> tuple[Demonstration, ...]:
    """Return the first three, which are the paper's in other words."""
    return load_bank()[:DEMONSTRATIONS]


def nearest_demonstrations(question: str, n: int = DEMONSTRATIONS) -> tuple[Demonstration, ...]:
    """Return the n demonstrations most similar to the question, the most similar last.

    Similarity is of the wording without names: the form of a question decides how it splits, not its subject.
    """
    bank = load_bank()
    shape, hops = _shape(question), _count_links(question)

    def similarity(known: _Shape) -> float:
        shared = sum(known.weights[word] for word in known.weights.keys() & shape)
        foreign = known.total - shared
        return shared - _FOREIGN_WORD_PENALTY * foreign - _LINK_PENALTY * abs(hops - known.links)

    scores = [similarity(known) for known in _read_shapes(read_demonstrations(_BANK))]
    first = max(range(len(bank)), key=lambda place: (scores[place], -place))
    # Examples of one kind are preferred: after a mixture of kinds, models mix them in one plan.
    factors = [_SAME_KIND_FACTOR if shot.kind == bank[first].kind else 1.0 for shot in bank]
    ranked = sorted(range(len(bank)), key=lambda place: (place != first, -scores[place] * factors[place], place))
    return tuple(bank[place] for place in reversed(ranked[:n]))


class _Shape(NamedTuple):
    """The rarity of each word of a demonstration's question, their sum, and its links."""

    weights: Mapping[str, float]
    total: float
    links: int


@lru_cache(maxsize=32)
def _read_shapes(text: str) -> tuple[_Shape, ...]:
    bank = _read_bank(text)
    bags = [_shape(shot.question) for shot in bank]
    counts = Counter(word for bag in bags for word in bag)
    weights = [{word: math.log(1 + len(bags) / counts[word]) for word in bag} for bag in bags]
    links = [_count_links(shot.question) for shot in bank]
    return tuple(_Shape(each, sum(each.values()), count) for each, count in zip(weights, links, strict=True))


def _shape(question: str) -> frozenset[str]:
    """Return the words and word pairs of a question, with names masked."""
    text = _without_names(question[:1].lower() + question[1:])
    words = [word.casefold() for word in re.findall(r"[^\W_]+|@", text)]
    kept = ["~" if _COMPARING.fullmatch(word) else word for word in words if word not in ("the", "a", "an")]
    return frozenset(kept) | {f"{a} {b}" for a, b in pairwise(kept)}


def _count_links(question: str) -> int:
    """Count how often a question goes from one thing to another: roughly its hops."""
    return len(_LINK.findall(_without_names(question, 1)))


def _without_names(text: str, start: int = 0) -> str:
    for first, last in reversed(name_spans(text, start)):
        text = f"{text[:first]}@{text[last:]}"
    return text


@decision("split")
class QuestionSplit(Decision):
    """The sub-questions asked; `loops` were asked before, `beyond` exceed the cap."""

    value: int
    questions: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)


def record_plan(ctx: Context, plan: Plan) -> None:
    """Record a plan and its issues."""
    issues = [{"kind": i.kind, "node": i.node, "detail": i.detail} for i in plan.issues]
    ctx.emit(Planned(nodes=[*map(plan_row, plan.nodes)], issues=issues))


async def decompose_tree(
    ctx: Context,
    question: str,
    *,
    demonstrations: Sequence[Demonstration],
    mend_leaks: bool = False,
    prompt: str = "decompose",
    shown: Mapping[str, str] | None = None,
    may_be_simple: bool = False,
) -> Plan:
    """Ask for a tree of sub-questions, twice if needed, and repair the rest.

    Without a readable tree the question is the only node, and with `may_be_simple` also if the tree is empty. `shown`
    are further variables of the `prompt`.
    """
    shots = [({"question": shot.question, **(shown or {})}, shot.plan) for shot in demonstrations]
    filled = prompt_for(ctx.method, prompt).fill(shots=shots, question=question, **(shown or {}))

    def read(value: object) -> tuple[Plan, str]:
        """Return the plan in a reply, and the complaint about it, if any."""
        if may_be_simple and value in ({}, []):
            return single_node(question), ""
        plan = make_plan(value, question, mend_leaks=mend_leaks)
        unclear = [issue for issue in plan.issues if issue.kind in _UNCLEAR]
        complaint = f"{unclear[0].detail.split(';')[0]} in query{unclear[0].node}" if unclear else ""
        return plan, complaint if plan.nodes else "it holds no question"

    plans = await ask_twice(ctx, "decompose", filled, read, tokens=_TREE_TOKENS)
    plan = next((plan for plan in reversed(plans) if plan.nodes), plans[0])
    if not plan.nodes:
        plan = single_node(question, Issue("decompose_failed", 1, "no tree in the reply; the question is its own node"))
        ctx.warn("decompose_failed", "The model's plan could not be read; the question was answered as one piece.")
    for issue in plan.issues:
        if issue.kind in _WARNED_OF:
            ctx.warn(issue.kind, f"The model's plan was repaired: {issue.detail}.")
    record_plan(ctx, plan)
    return plan


async def ask_twice(
    ctx: Context,
    step: str,
    prompt: Filled,
    read: Callable[[object], tuple[T, str]],
    *,
    tokens: int,
    node: Node | None = None,
) -> list[T]:
    """Read a JSON reply, and again after a complaint; return all readings."""
    readings: list[T] = []
    for _ in range(2):
        reply = (await ctx.generate(step, prompt, role="decompose", max_tokens=tokens, node=node)).text
        reading = read_json(reply)
        note_reply(ctx, step, reading.error, reading.repairs)
        parsed, wrong = read(reading.value)
        readings.append(parsed)
        if not wrong:
            break
        wrong = wrong if reading.ok else f"it is not valid JSON ({reading.error})"
        prompt = prompt.follow_up(reply, f"That cannot be used: {wrong}. Write the whole JSON again, corrected.")
    return readings


async def split_question(
    ctx: Context, question: str, *, linked: bool = False, node: Node | None = None
) -> tuple[str, ...]:
    """Return the sub-questions that a model lists."""
    prompt = prompt_for(ctx.method, "decompose_linked" if linked else "decompose").fill(question=question)
    reply = await ctx.generate("decompose", prompt, role="decompose", max_tokens=_LIST_TOKENS, node=node)
    questions = read_questions(reply.text)
    note_reply(ctx, "decompose", "" if questions else "no question")
    return questions


def drop_asked(
    ctx: Context, questions: Collection[str], asked: Collection[str], *, most: int | None, node: Node | None = None
) -> tuple[str, ...]:
    """Return at most `most` sub-questions that were not `asked` before."""
    new = [question for question in questions if question_key(question) not in asked]
    kept = new[:most]
    beyond = new[len(kept) :]
    loops = [question for question in questions if question not in new]
    ctx.emit(QuestionSplit(value=len(kept), questions=kept, loops=loops, beyond=beyond), node=node)
    return tuple(kept)


@decision("nothing_new")
class NothingNew(Decision):
    """The text of a reply without a new sub-question."""

    value: str
    step: str


class FollowUps:
    """The sub-questions so far with answers (`pairs`), as nodes of the question."""

    def __init__(self, ctx: Context, question: str) -> None:
        self._ctx, self.question = ctx, question
        self.pairs: list[tuple[str, Answer]] = []
        self._root = plant(ctx, question)
        ctx.begin_node(self._root, question)

    def begin(self, question: str) -> Node:
        """Begin a sub-question as a node of the tree."""
        node = Node(len(self.pairs) + 1, question, self._root.id, self._root.depth + 1)
        self._ctx.emit(Planned(under=self._root.id, nodes=[plan_row(node)]))
        self._ctx.begin_node(node, question)
        return node

    def end(self, node: Node, answer: Answer) -> None:
        """Keep the answer to a sub-question."""
        self._ctx.end_node(node, answer)
        self.pairs.append((node.question, answer))
        if question_key(node.question) == question_key(self.question):
            self._ctx.propose(answer, order=0)

    def conclude(self, answer: Answer) -> Answer:
        """Return the answer to the question, supported by its sub-questions."""
        support = dict.fromkeys(name for _, part in self.pairs if part.known for name in part.support)
        if answer.known and self.pairs:
            answer = replace(answer, source="synthesis", support=tuple(support))
        count = len(self.pairs)
        self._ctx.end_node(self._root, answer, why=f"from {count} sub-question{'' if count == 1 else 's'}")
        return answer


def note_turn(ctx: Context, step: str, turn: DialogueTurn) -> DialogueTurn:
    """Record whether a turn could be read, or held nothing new; return it."""
    note_reply(ctx, step, turn.error)
    if not turn.error and not turn.first and not turn.final:
        ctx.emit(NothingNew(value=turn.idle, step=step))
    return turn
