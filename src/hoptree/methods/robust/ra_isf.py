"""RA-ISF beyond its paper (`robust=on`).

The paper takes the first module that has an answer. Here all that was found is weighed: by the paper's Tables 6 and 7,
self-knowledge is the weakest of its exits (42.3 exact matches of 100 on HotpotQA, against 45.2 and 49.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, NodeSettled
from hoptree.engine.registry import Decisions
from hoptree.engine.schedule import SingleFlight, both
from hoptree.methods.ra_isf import (
    UNKNOWN,
    Branch,
    Lookup,
    Pairs,
    PaperModules,
    Setting,
    recall,
    relevance_summary,
    retrieve,
)
from hoptree.methods.steps.answer import answer_from, combine_answers, supporting_ids
from hoptree.methods.steps.choose import SurestChosen, surest
from hoptree.methods.steps.compare import Compared, compare_pairs, compares, compares_again
from hoptree.text.grounding import covers, grounded
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

_BRANCHES: dict[str, Branch] = {
    "internal": "self-knowledge",
    "external": "passages",
    "fallback": "guess",
    "synthesis": "sub-questions",
}
_CITED_PASSAGES = 2
"""Passages a sub-answer brings to the reading that combines."""
_EXTRA_PASSAGES = 3
"""Passages a reading sees beyond the k of one search."""
_MIN_PASSAGES = 3
"""Passages a reading sees at least: what a second step needs is easily judged irrelevant to the first."""


class RobustModules(PaperModules):
    """Memory is a candidate beside the passages, and passages that name only a part of the question do not settle it.

    A node's answer is the surest (by its least likely token) of: the passages found, those called relevant together
    with those carried down (and with others where these are few), memory where no reading stands in the passages, and
    the sub-answers read with all these. A question that compares is decomposed in any case, but not into comparisons of
    the same things, and what its parts found is compared in code. Memory, search and judgements are asked for once a
    question, whatever was carried down to it; only the reading differs.
    """

    def __init__(self, ctx: Context, setting: Setting) -> None:
        super().__init__(ctx, setting)
        self._logprobs = "logprobs" in ctx.model_for("answer").capabilities
        self._seen: dict[str, Passage] = {}
        self._found: dict[int, tuple[Passage, ...]] = {}
        self._once = SingleFlight()

    async def lookup(self, asked: str, node: Node, carried: tuple[Passage, ...]) -> Lookup:
        own, found, relevant, judged_by = await self._once(question_key(asked), lambda: self._gather(asked, node))
        self._seen |= {passage.id: passage for passage in found}
        self._found[node.id] = found
        chosen = _distinct((*relevant, *carried))[: self._setting.k + _EXTRA_PASSAGES]
        shown = _distinct((*chosen, *found))[: max(_MIN_PASSAGES, len(chosen))]
        readings = await both(self._read(asked, node, shown), self._read(asked, node, found, prompt="read_asked_first"))
        supported = [said for said in readings if said.known and grounded(said, asked, (*found, *shown)).known]
        best = surest(self._ctx, supported or readings, node=node, when="read")
        # A sub-question is settled by any supported reading; the main one only if all that it names was found.
        settled = bool(supported) and (node.depth > 0 or covers(asked, chosen)) and not compares(asked)
        if not supported:  # a reading that stands in no passage is a guess
            guess = replace(best, source="fallback", support=())
            best = surest(self._ctx, (guess, own), node=node, when="remembered")
        why = relevance_summary(relevant, found, self._setting)
        if shown:
            why += _support_summary(
                relevant, supported=bool(supported), lacking=bool(supported) and not settled and not compares(asked)
            )
        why += "; to be compared" if compares(asked) else ""
        return Lookup(best, settled, _BRANCHES.get(best.source, "none"), why, node.id, tuple(chosen), judged_by)

    def asks_again(self, question: str, above: Sequence[str]) -> bool:
        """Return whether a sub-question compares the same things as a question above it."""
        return compares_again(question, above)

    async def conclude(self, asked: str, node: Node, lookup: Lookup, pairs: Pairs) -> Answer:
        if compared := compare_pairs(self._ctx, asked, pairs, node=node):
            return compared
        behind = dict.fromkeys(passage_id for _, sub in pairs for passage_id in sub.support)
        cited = [self._seen[passage_id] for _, sub in pairs for passage_id in sub.support[:_CITED_PASSAGES]]
        candidates = (*cited[: self._setting.k], *lookup.passages, *self._found.get(lookup.node, ()))
        shown = _distinct(candidates)[: self._setting.k + _EXTRA_PASSAGES]
        answer = await combine_answers(self._ctx, asked, pairs, passages=shown, node=node, logprobs=self._logprobs)
        support = dict.fromkeys((*behind, *(supporting_ids(answer.text, shown) if answer.known else ())))
        combined = replace(answer, support=tuple(support))
        return surest(self._ctx, (lookup.answer, combined), node=node, when="combined")

    async def _gather(self, asked: str, node: Node) -> tuple[Answer, tuple[Passage, ...], tuple[Passage, ...], int]:
        """Return what does not depend on the passages carried down: memory, and passages found and relevant."""
        own, (found, relevant) = await both(self._recall(asked, node), self._retrieve(asked, node))
        return own, found, relevant, node.id

    async def _recall(self, asked: str, node: Node) -> Answer:
        own = await recall(self._ctx, asked, node, logprobs=self._logprobs) if self._setting.know else None
        return own or UNKNOWN

    async def _retrieve(self, asked: str, node: Node) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
        return await retrieve(self._ctx, asked, node, self._setting) if self._setting.search else ((), ())

    async def _read(self, asked: str, node: Node, passages: Sequence[Passage], prompt: str = "read") -> Answer:
        if not passages:
            return UNKNOWN
        return await answer_from(
            self._ctx, asked, passages, prompt=prompt, node=node, titles=True, logprobs=self._logprobs
        )


def _support_summary(relevant: Sequence[Passage], *, supported: bool, lacking: bool) -> str:
    """Say whether a reading stands in a passage; irrelevant passages are read as well."""
    joined = "and" if supported == bool(relevant) else "but"
    missing = "not all that the question names is there" if relevant else "only relevant passages settle the question"
    lacks = f"; {missing}" if lacking else ""
    return f", {joined} {'an' if supported else 'no'} answer stands in what was read{lacks}"


def _distinct(passages: Iterable[Passage]) -> list[Passage]:
    return list({passage.id: passage for passage in passages}.values())


def explain_choices(node: NodeSettled, decisions: Decisions) -> Iterator[str]:
    """Yield what was decided, in order; what a later decision made void is left out."""
    # A question that comes again is looked up and concluded for the node that was first to ask it, and for it alone.
    looked = decisions.get(node.details.get("looked_by", node.id), ())
    concluded = decisions.get(node.details.get("concluded_by", node.id), ())
    by_parts = node.source == "synthesis"
    compared = next((decision for decision in reversed(concluded) if isinstance(decision, Compared)), None)
    combined = _last_choice(concluded, "combined")
    if compared and compared.value and by_parts:
        yield compared.reason()
        return
    if not by_parts:
        yield from _before_split(_last_choice(looked, "read"), _last_choice(looked, "remembered"), node.answer)
    if compared:
        yield Compared(value=False, kind_of="").reason()
    if combined:
        yield _combination(combined, node.answer)
    elif node.details.get("sub_questions") and node.answer and not by_parts:
        known = "concluded_by" in node.details or concluded is looked
        yield f"kept from before the split{', as the sub-questions gave no answer' if known else ''}"


def _last_choice(decisions: Sequence[Decision], when: str) -> SurestChosen | None:
    choices = (choice for choice in reversed(decisions) if isinstance(choice, SurestChosen) and choice.when == when)
    return next(choices, None)


def _before_split(read: SurestChosen | None, remembered: SurestChosen | None, answer: str) -> Iterator[str]:
    """Yield what decided between readings, and between the surest of them and memory."""
    if read and (not remembered or remembered.taken == read.taken):
        words = f"{'surer' if read.rated else 'taken'} of two readings: {read.weighed(answer)}"
        yield "two readings agree" if read.unanimous else words
    if remembered:
        won, lost = ("memory", "the guess") if remembered.value else ("the guess", "memory")
        words = f"{won} is {'surer than' if remembered.rated else 'taken before'} {lost}: "
        yield f"{won} and {lost} agree" if remembered.unanimous else words + remembered.weighed(answer)


def _combination(choice: SurestChosen, answer: str) -> str:
    weighed = choice.weighed(answer)
    if choice.value:
        words = f"{'surer than' if choice.rated else 'taken instead of what was read'} before the split: {weighed}"
        return "as before the split" if choice.unanimous else words
    if choice.unanimous:
        return "kept from before the split, and the sub-questions agree"
    return f"kept from before the split{', being surer' if choice.rated else ''}: {weighed} from the sub-questions"
