"""hop's comparisons: facts about several things, compared in code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for, show_passages
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.decompose import record_plan
from hoptree.text.comparison_questions import Comparison, detect_comparison
from hoptree.text.names import fold
from hoptree.text.parse import question_key, read_yes_no
from hoptree.text.question_tree import Node, Plan

_MAX_PAGE_PASSAGES = 2
_YES_NO_TOKENS = 8
_BRACKETS = lazy_re(r"\([^)]*\)")
_ARTICLE = lazy_re(r"^the\s+")
_WHY = {
    "Yes": "its own page says so",
    "No": "its own page does not say so, which counts as no",
    "": "the reply was neither yes nor no",
}


@decision("compared")
class Compared(Decision):
    """Whether `facts` decide a comparison of the kind `kind_of`, and why."""

    value: bool
    kind_of: str
    facts: dict[str, str] = field(default_factory=dict)
    why: str = ""

    def reason(self) -> str:
        return f"compared: {self.why}" if self.value else "what was found could not be compared"

    def decides_alone(self) -> bool:
        return self.value


@decision("borne_out")
class ClaimChecked(Decision):
    """Whether a claim holds by a thing's own page; None if neither yes nor no."""

    value: bool | None
    raw: str
    passages: list[str] = field(default_factory=list)


def compare_branches(
    ctx: Context, question: str, plan: Plan, asked: Mapping[int, str], answers: Mapping[int, Answer]
) -> Answer | None:
    """Compare in code what the branches of a plan answered: dates, numbers, names."""
    comparison = detect_comparison(question)
    if comparison is None:
        return None
    about = {node.id: _named(asked[node.id], comparison.operands) for node in plan.nodes}
    ends = {operand: _end_of(operand, plan, about) for operand in comparison.operands}
    apart = len({end.id for end in ends.values() if end}) == len(ends)  # one fact about both cannot be compared
    answered = [
        (operand, asked[end.id], answers[end.id].text) for operand, end in ends.items() if end and answers[end.id].known
    ]
    from hoptree.text.comparison_plans import select_facts  # not needed for most questions

    facts = select_facts(comparison, question, answered) if apart else {}
    return _decide(ctx, comparison, facts, (answers[node.id] for node in plan.nodes))


def _decide(ctx: Context, comparison: Comparison, facts: Mapping[str, str], answers: Iterable[Answer]) -> Answer | None:
    """Decide by facts about the things compared, with the answers' support."""
    from hoptree.text.comparison import conclude

    conclusion = conclude(comparison, facts)
    why = conclusion.why if conclusion else ""
    decision = Compared(value=conclusion is not None, kind_of=comparison.kind, facts=dict(facts), why=why)
    ctx.emit(decision)
    if conclusion is None:
        return None
    support = dict.fromkeys(name for answer in answers for name in answer.support)
    return Answer(conclusion.answer, conclusion.why, source="synthesis", support=tuple(support))


def _end_of(operand: str, plan: Plan, about: Mapping[int, Sequence[str]]) -> Node | None:
    """Return the last node of the branch about the operand."""
    branch = [node for node in plan.nodes if operand in about[node.id]][:1]
    while branch:
        reached = {node.id for node in branch}
        later = [node for node in plan.nodes if node.id not in reached and node.refs and reached.issuperset(node.refs)]
        if not later:
            break
        branch.append(later[0])
    return branch[-1] if branch else None


def _named(text: str, operands: Sequence[str]) -> list[str]:
    """Return the operands that a text names, the longest first."""
    unmatched, named = f" {question_key(text)} ", []
    for operand in sorted(operands, key=len, reverse=True):
        if (name := f" {question_key(operand)} ") in unmatched:
            named.append(operand)
            unmatched = unmatched.replace(name, " | ")
    return named


async def both_hold(ctx: Context, question: str, *, k: int) -> Answer | None:
    """Answer "Are A and B both …?" by checking each alone; None for other questions.

    Asked about both at once, a small model says yes to nearly everything. If a thing's own page does not state the
    claim, that counts as no.
    """
    comparison = detect_comparison(question)
    if comparison is None or comparison.kind != "both":
        return None
    claim, names = comparison.claim, comparison.operands
    nodes = [Node(number, f"Is it true of {name}: {claim}?") for number, name in enumerate(names, 1)]
    record_plan(ctx, Plan(tuple(nodes)))
    answers = await together(_check_claim(ctx, name, claim, node, k) for name, node in zip(names, nodes, strict=True))
    facts = {name: answer.text or "unknown" for name, answer in zip(names, answers, strict=True)}
    return _decide(ctx, comparison, facts, answers)


async def _check_claim(ctx: Context, name: str, claim: str, node: Node, k: int) -> Answer:
    ctx.begin_node(node, node.question)
    pages = _own_page(name, await ctx.search(name, k=k, node=node))
    answer = Answer("", status="unknown", source="external")
    if pages:
        documents = show_passages(ctx, pages, titles=True)
        prompt = prompt_for(ctx.method, "bear_out").fill(documents=documents, name=name, claim=claim)
        raw = (await ctx.generate("bear_out", prompt, max_tokens=_YES_NO_TOKENS, node=node)).text
        holds = read_yes_no(raw)
        note_reply(ctx, "bear_out", "" if holds is not None else "neither yes nor no")
        ids = [page.id for page in pages]
        ctx.emit(ClaimChecked(value=holds, raw=raw, passages=ids), node=node)
        if holds is not None:
            answer = Answer("Yes" if holds else "No", raw, "answered", "external", tuple(ids))
    ctx.end_node(node, answer, why=_WHY[answer.text] if pages else "no page of its own was found")
    return answer


def _own_page(name: str, passages: Sequence[Passage]) -> list[Passage]:
    """Return the first passages of the thing's own page."""
    wanted, meaning = _split_brackets(name)

    def fits(passage: Passage) -> bool:
        title, other = _split_brackets(passage.title)
        return title == wanted and not (other and meaning and other != meaning)

    fitting = [passage for passage in passages if fits(passage)]
    return [passage for passage in fitting if passage.title == fitting[0].title][:_MAX_PAGE_PASSAGES]


def _split_brackets(text: str) -> tuple[str, str]:
    """Return a folded name, and what its brackets hold."""
    outside, inside = _BRACKETS.sub(" ", text), " ".join(_BRACKETS.findall(text))
    return _ARTICLE.sub("", question_key(fold(outside))), question_key(fold(inside))
