"""RA-ISF: self-knowledge, then relevant passages, then sub-questions that go the same way."""

from __future__ import annotations

from typing import Literal

from hoptree.core.errors import ConfigError
from hoptree.core.singleflight import Once
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import grow, plant, spent_under, together
from hoptree.methods.ra_isf_modules import Branch, Careful, Looked, Modules, Pairs, Paper, Setting
from hoptree.methods.steps.decompose import drop_asked, split_question
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

DepthRule = Literal["faithful", "prune"]


@method(
    "ra_isf",
    title="Retrieval-augmented iterative self-feedback",
    paper="RA-ISF",
    needs=("corpus",),
    iterative=True,
    dynamic=True,
    strategy="Self-knowledge and passage relevance",
    query="The question, then sub-questions decomposed from it",
    beyond=("robust", "link_siblings", "fallthrough", "unfiltered"),
    roles=("know", "relevance", "decompose", "answer"),
)
async def ra_isf(
    question: Question,
    ctx: Context,
    *,
    depth: int = 3,
    depth_rule: DepthRule = "faithful",
    k: int = 5,
    relevance: Literal["each", "listwise"] = "each",
    link_siblings: bool = False,
    fallthrough: bool = False,
    no_self_knowledge: bool = False,
    no_relevance: bool = False,
    unfiltered: bool = False,
    no_decomposition: bool = False,
    titles: bool = False,
    robust: bool = False,
) -> Answer:
    """Answer what the model knows, look up what it does not, and split what passages do not answer.

    `depth` is the paper's D_th. Under the `faithful` rule a question at that depth is still split, into sub-questions
    that are unknown; `prune` does not split it. `relevance=listwise` judges all passages in one call, and whether they
    suffice. `link_siblings` asks sub-questions one after another, each with the answers before it; `fallthrough` splits
    a question whose relevant passages do not answer it. `no_self_knowledge`, `no_relevance` (nothing is looked up) and
    `no_decomposition` are the paper's ablations; `unfiltered` reads all passages. `titles` shows passages to those who
    judge and read them with their titles. `robust` goes beyond the paper: memory counts only where nothing that was
    read stands in the passages. What stands there settles a sub-question, and the question itself only if the relevant
    passages name all that it names; these go down with its sub-questions. Titles are always shown, and `fallthrough`
    changes nothing.
    """
    if no_relevance and unfiltered:
        raise ConfigError(
            "no_relevance looks nothing up, unfiltered reads all that is found.", "Set one of the two, not both."
        )
    if not no_relevance:
        ctx.require_corpus()
    setting = Setting(
        k=k,
        listwise=relevance == "listwise",
        know=not no_self_knowledge,
        search=not no_relevance,
        judge=not unfiltered,
        fallthrough=fallthrough,
        titles=titles or robust,
    )
    modules: Modules = Careful(ctx, setting) if robust else Paper(ctx, setting)
    if no_decomposition:
        depth, depth_rule = 0, "prune"
    recursion = _Recursion(ctx, modules, depth=depth, prune=depth_rule == "prune", in_turn=link_siblings)
    return await recursion.solve(plant(ctx, question.text), question.text)


class _Recursion:
    """Algorithm 1, with a memory: a question that comes again is not looked up, split or concluded from the same again.

    Only work without recursion is remembered: so two branches cannot wait for each other, and what a question comes to
    does not depend on which of its places in the tree was reached first.
    """

    def __init__(self, ctx: Context, modules: Modules, *, depth: int, prune: bool, in_turn: bool) -> None:
        self._ctx, self._modules = ctx, modules
        self._depth, self._prune, self._in_turn = depth, prune, in_turn
        self._once = Once()

    async def solve(
        self, node: Node, asked: str, above: tuple[str, ...] = (), carried: tuple[Passage, ...] = ()
    ) -> Answer:
        """Problem-solving(q_t, iter): `iter` is the node's depth, `above` what was asked on the way down to it."""
        self._ctx.begin_node(node, asked)
        if node.depth > self._depth:  # lines 2 to 4
            return self._end(node, Answer("", status="unknown"), "none", f"deeper than {self._depth}")
        key = question_key(asked)
        known_by = (key, *(passage.id for passage in carried))
        looked = await self._once(("look", *known_by), lambda: self._modules.look(asked, node, carried))  # 5 to 15
        if looked.settled:
            return self._end(node, looked.answer, looked.branch, looked.why, looked)
        if self._prune and node.depth == self._depth:
            return self._end(node, looked.answer, looked.branch, f"{looked.why}; not split any further", looked)
        self._propose(node, looked.answer)
        self._note(node, looked)
        above += (asked, node.question)
        children = grow(self._ctx, node, await self._split(node, asked, above))  # 16
        if not children:
            return self._end(node, looked.answer, looked.branch, f"{looked.why}; no new sub-question", looked)
        pairs = await self._solve_all(children, above, looked.passages)  # 17 to 19
        found = tuple((question_key(said), answer.text if answer.known else None) for said, answer in pairs)
        answer, concluded_by = await self._once(  # 20
            ("conclude", *known_by, found), lambda: self._conclude(asked, node, looked, pairs)
        )
        unknown = sum(not sub.known for _, sub in pairs)
        why = f"{looked.why}; {len(pairs)} sub-question{'s' if len(pairs) > 1 else ''}, {unknown} unknown"
        branch = "sub-questions" if answer.source == "synthesis" else looked.branch
        return self._end(node, answer, branch, why, looked, sub_questions=len(pairs), concluded_by=concluded_by)

    async def _split(self, node: Node, asked: str, above: tuple[str, ...]) -> tuple[str, ...]:
        """The sub-questions of a question that none on the way down to them has asked."""
        ctx, linked = self._ctx, self._in_turn
        key = ("split", question_key(asked))
        listed = await self._once(key, lambda: split_question(ctx, asked, linked=linked, node=node))
        return drop_asked(
            ctx,
            listed,
            set(map(question_key, above)),
            again=lambda question: self._modules.asks_again(question, above),
            node=node,
        )

    async def _conclude(self, asked: str, node: Node, looked: Looked, pairs: Pairs) -> tuple[Answer, int]:
        """The answer from sub-questions, and the node for which it was found."""
        return await self._modules.conclude(asked, node, looked, pairs), node.id

    async def _solve_all(
        self, children: tuple[Node, ...], above: tuple[str, ...], carried: tuple[Passage, ...]
    ) -> Pairs:
        """Siblings at once, or one after another where each may build on those before it."""
        if not self._in_turn:
            answers = await together(self.solve(child, child.question, above, carried) for child in children)
            return [(child.question, answer) for child, answer in zip(children, answers, strict=True)]
        pairs: list[tuple[str, Answer]] = []
        for child in children:
            pairs.append((child.question, await self.solve(child, _linked(child.question, pairs), above, carried)))
        return pairs

    def _end(
        self, node: Node, answer: Answer, branch: Branch, why: str, looked: Looked | None = None, **of_parts: int
    ) -> Answer:
        """Record which module answered a node and why, with what the paper's tables are made from."""
        self._ctx.end_node(
            node,
            answer,
            depth=node.depth,
            branch=branch,
            why=why,
            unknown=not answer.known,
            **{"sub_questions": 0, **of_parts},
            looked_by=looked.node if looked else node.id,
            spent=spent_under(self._ctx, node),
            **_judgements(self._ctx, _judged_by(looked) if looked else node.id),
        )
        self._propose(node, answer)
        return answer

    def _note(self, node: Node, looked: Looked) -> None:
        """Record what a node has before it is split, for those who look at a question that the budget ended."""
        if (answer := looked.answer).known:
            told = {"source": answer.source, "support": list(answer.support), "branch": looked.branch}
            self._ctx.decide("so_far", answer.text, node=node, **told, why=looked.why)

    def _propose(self, node: Node, answer: Answer) -> None:
        """For the case that the budget ends: what answers a part of the question is no answer to it."""
        if node.depth == 0:
            self._ctx.propose(answer, order=0)


def _linked(question: str, before: Pairs) -> str:
    """A sub-question with the answers of those before it, which it may call "that person"."""
    said = "; ".join(f"{asked} {answer.text}" for asked, answer in before if answer.known)
    return f"{question} ({said})" if said else question


def _judged_by(looked: Looked) -> int:
    return looked.node if looked.judged_by is None else looked.judged_by


def _judgements(ctx: Context, node: int) -> dict[str, object]:
    """What was said of a question's self-knowledge, and of each of its passages, when it was looked up."""
    record: dict[str, object] = {}
    for event in ctx.trace.events:
        if event["event"] == "decision" and event.get("node") == node:
            if event["kind"] == "know":
                record |= {"know": event["value"], "know_raw": event["raw"]}
            elif event["kind"] == "relevance":
                record |= {"relevance": event["judged"]}
    return record
