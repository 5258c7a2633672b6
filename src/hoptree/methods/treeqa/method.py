"""TreeQA: validate a tree of hypotheses, and rebuild what is refuted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import NodeSettled, Planned
from hoptree.engine.registry import Explanation, method
from hoptree.engine.result import UNSUPPORTED, Result, TreeNode
from hoptree.graph.entity_linking import parse_linker, shared_mention_model
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.link import BySharedEncoder
from hoptree.methods.steps.mentions import PRESETS, Sources, require_sources
from hoptree.methods.treeqa.speculative import SpeculativeWalk
from hoptree.methods.treeqa.tree import Branch, build_tree, flatten, to_branches
from hoptree.methods.treeqa.walk import Outcome, ProcessNode, Traversal, Walk
from hoptree.text.comparison import agree, tells
from hoptree.text.grounding import guess_unless_supported
from hoptree.text.parse import looks_unanswered
from hoptree.text.question_tree import Node


def _ranking(*, relations: str, correct: bool, evidence: str, encoder: str, **_: Any) -> BySharedEncoder | None:
    """Return the encoder that ranks relations; None if none does, or without a graph."""
    return BySharedEncoder(encoder) if relations == "dense" and correct and evidence != "text" else None


def _uses(options: Mapping[str, Any]) -> dict[str, str]:
    return {"encoder": ranking.identity} if (ranking := _ranking(**options)) else {}


_DROPPED_BELOW = {"rebuild_unreadable": "could not be read", "rebuild_noop": "repeated what was refuted"}
_SHRUNK = {
    "rebuild_siblings": "had several first nodes: all but one were dropped.",
    "cap_nodes": "was too large: what came last was dropped.",
    **dict.fromkeys(("rebuild_deeper", "cap_depth"), "was too deep: what lay deepest was dropped."),
}


class _TreeExplanation(Explanation):
    def dropped_parts(self, node: NodeSettled) -> Iterator[str]:
        subject = f"What the model wrote anew for sub-question {node.id}"
        for kind in node.details.get("rebuild_issues", ()):
            if kind in _DROPPED_BELOW and node.details.get("size_before", 0) > 1:
                yield f"{subject} {_DROPPED_BELOW[kind]}: all that stood below it was dropped."
            elif kind in _SHRUNK:
                yield f"{subject} {_SHRUNK[kind]}"


@method(
    "treeqa",
    title="Logic tree of validated hypotheses",
    paper="TreeQA",
    needs=("corpus", "graph"),
    iterative=True,
    dynamic=True,
    strategy="Hypotheses that evidence refutes or leaves open",
    query="Sub-questions with their hypotheses, then new clues",
    roles=("decompose", "link", "verify", "answer"),
    deviating_options={
        "accumulate": "a clue may find less than the question did; the authors' code keeps both",
        "whole_corpus": "a corpus may have no page of an entity, or tell of it on others",
    },
    uses=_uses,
    explain=_TreeExplanation(),
    shared_prompts=("direct", "entities", "mentions", "relations"),
)
async def treeqa(
    question: Question,
    ctx: Context,
    *,
    max_attempts: int = 2,
    reason: Literal["inline", "separate"] = "inline",
    query: Literal["dual", "question"] = "dual",
    traversal: Traversal = "serial",
    evidence: Literal["hybrid", "graph", "text"] = "hybrid",
    preset: Literal["paper", "code"] = "paper",
    linker: str = "",
    relations: Literal["llm", "dense"] = "llm",
    encoder: str = "minilm",
    accumulate: bool = False,
    whole_corpus: bool = False,
    correct: bool = True,
    recursive: bool = False,
) -> Answer:
    """Guess the answers of a tree of sub-questions, validate each by graph and text, and rebuild what is refuted.

    `max_attempts` are validations of a node; between them the model gives a new clue. `reason` asks for the conflict
    with the verdict or in a call of its own, and `query` searches with the hypothesis or without it: the paper's text
    and algorithms differ there. `traversal` validates node by node, the nodes of a level at once, or all at once
    (speculative), where those below a refuted node are done again and the tree is the same as node by node. `evidence`
    is where to look, `preset` how many entities, relations and passages are kept (3, 3, 3 or 2, 1, 2). Names are found
    by the words of a query and by the model; a `linker` (gliner:FOLDER or relik:FOLDER) marks them instead of the
    words. Texts are those of the entities' pages, and a clue's evidence replaces the evidence before it (Algorithm 3);
    `whole_corpus` searches all passages where a query names no page, and `accumulate` keeps the evidence of all
    attempts. The model says which `relations` matter, or an `encoder` does (dense). With `correct` off the answer is
    the draft that comes with the tree, the paper's ablation. `recursive` builds the tree node by node (Algorithm 1).
    """
    if correct and max_attempts < 1:
        raise ConfigError("A hypothesis cannot be validated 0 times.", "Set max_attempts=1 or more, or correct=off.")
    ranking = _ranking(relations=relations, correct=correct, evidence=evidence, encoder=encoder)
    if linker:
        parse_linker(linker)
    reader = shared_mention_model(linker) if linker and correct else None
    sources = Sources(ctx, evidence, PRESETS[preset], reader=reader, ranking=ranking, whole_corpus=whole_corpus)
    if correct:
        require_sources(ctx, evidence)
    tree = await build_tree(ctx, question.text, recursive=recursive)
    tops = to_branches(tree.children, Node(0, "", depth=0), first=1)
    root = Branch(Node(0, question.text, depth=0), tree.draft, tops)
    issues = [{"kind": issue.kind, "node": issue.node, "detail": issue.detail} for issue in tree.issues]
    ctx.emit(Planned(nodes=[branch.as_plan_node() for branch in flatten([root])], issues=issues))
    draft = Answer(tree.draft, tree.draft, "answered" if tree.draft else "unknown", "internal")
    if not correct:
        ctx.end_node(root.node, draft, hypothesis=tree.draft)
        return draft
    note = "the answer is the draft, which nothing was held against"  # shown if the budget ends before a conclusion
    ctx.propose(replace(draft, source="fallback"), order=0, note=note)
    process = ProcessNode(ctx, question.text, sources, max_attempts, reason == "separate", query == "dual", accumulate)
    if traversal == "speculative":
        walk: Walk = SpeculativeWalk(ctx, process, root.children)
    else:
        walk = Walk(ctx, process, root.children, by_level=traversal == "level")
    await walk.run()
    lines = list(golden_lines(ctx, walk.tops, walk.outcomes))
    answer = strip_certainty(await synthesise(ctx, question.text, lines, prompt="final"))
    cited = (passage.id for outcome in walk.outcomes.values() for passage in outcome.verdict.cited.passages)
    answer = replace(answer, support=tuple(dict.fromkeys([*cited, *answer.support])))
    answer = _with_guess_marked(ctx, walk, answer)
    shown = replace(answer, support=()) if answer.source == "fallback" else answer
    ctx.end_node(root.node, shown, hypothesis=tree.draft, fixes=walk.fixes, validations=walk.validations)
    return answer


def _with_guess_marked(ctx: Context, walk: Walk, answer: Answer) -> Answer:
    """Mark the answer as a guess if no evidence says it."""
    if not answer.known:
        return answer
    boxes = [attempt.box for outcome in walk.outcomes.values() for attempt in outcome.attempts]
    facts = [Passage(fact.text, "", fact.text) for box in boxes for fact in box.facts]
    judged = guess_unless_supported(answer, [*(passage for box in boxes for passage in box.passages), *facts])
    verified = [branch for branch in flatten(walk.tops) if walk.outcomes[branch.node.id].checked]
    if not verified:
        ctx.warn("unsupported", "None of the answers below was verified; this one is put together from guesses.")
    elif any(tells(branch.hypothesis, answer.text) for branch in verified):
        return answer
    elif judged.source == "fallback":
        ctx.warn("unsupported", UNSUPPORTED)
    return replace(answer, source=judged.source)


# The certainty of an answer, which follows it in the golden tree.
_MARKS = _SUPPORTED, _CORRECTED, _REFUTED, _UNVERIFIED = (
    "supported by evidence", "corrected by evidence", "refuted by evidence", "not verified",
)  # fmt: skip
_MARK = re.compile(rf"\s*[(\[](?:{'|'.join(_MARKS)})(?:[:;].*)?[)\]]?\W*\Z", re.IGNORECASE)


def golden_lines(
    ctx: Context, branches: Iterable[Branch], outcomes: Mapping[int, Outcome], indent: str = ""
) -> Iterator[str]:
    """Yield each question with its answer, the certainty, and the cited evidence."""
    for branch in branches:
        outcome = outcomes[branch.node.id]
        yield f"{indent}- {branch.node.question}"
        yield f"{indent}  Answer: {branch.hypothesis or 'unknown'} ({_certainty(branch, outcome)})"
        cites = outcome.rebuilt is None or outcome.rebuilt.supported
        box = outcome.verdict.cited if cites else EvidenceBox()
        for present, shown in zip((box.passages, box.facts), box.shown(ctx), strict=True):
            yield from (f"{indent}  {line}" for line in shown.splitlines() if present)
        yield from golden_lines(ctx, branch.children, outcomes, indent + "  ")


def _certainty(branch: Branch, outcome: Outcome) -> str:
    correction = outcome.verdict.correction or outcome.verdict.reason
    if outcome.rebuilt and outcome.label == "refuted":
        if outcome.rebuilt.supported:
            return _CORRECTED
        differs = correction and not agree(correction, branch.hypothesis)
        return f"{_UNVERIFIED}; evidence says: {correction}" if differs else _UNVERIFIED
    if outcome.kept:
        return f"{_UNVERIFIED}: it was called wrong, and nothing else was given"
    if outcome.label == "refuted":
        return f"{_REFUTED}: {outcome.verdict.reason}".removesuffix(": ")
    return _SUPPORTED if outcome.label == "supported" else _UNVERIFIED


def strip_certainty(answer: Answer) -> Answer:
    """Remove the golden tree's words about certainty."""
    text = _MARK.sub("", answer.text)
    if text == answer.text:
        return answer
    raw = "\n".join(_MARK.sub("", line) for line in answer.raw.splitlines()) or text
    return replace(answer, text=text, status="unknown" if looks_unanswered(raw) else "answered")


def golden_tree(result: Result) -> dict[str, Any]:
    """Return a result as the JSON of Appendix B.

    The paper's trees hold verified answers. A node with another answer also has a `verdict`: `unknown`, or `refuted` if
    nothing replaced it; evidence for another answer is not its `ref`. `stopped_by` says what ended a run early.
    """
    passages = {passage.id: passage for passage in (*result.evidence, *result.consulted)}

    def as_json(node: TreeNode) -> dict[str, Any]:
        unverified = node.unverified
        entry: dict[str, Any] = {
            "sub_question": node.resolved or node.question,
            "hypothesis_answer": node.answer or ("unknown" if node.verdict else node.hypothesis),
            **({"verdict": unverified} if unverified else {}),
        }
        if node.children:
            entry["children"] = [as_json(child) for child in node.children]
        texts = [f"{name}||{passages[name].text}" for name in node.evidence if name in passages]
        facts = ["-".join(fact) for fact in node.facts]
        cites = (texts or facts) and unverified != "unknown"
        return entry | ({"ref": {"Wikipedia": texts, "Wikidata": facts}} if cites else {})

    tops = [child for node in result.tree for child in (node.children if node.id == 0 else [node])]
    return {
        "input_question": result.question,
        "logic_tree": {"children": [as_json(node) for node in tops]},
        "answer": result.answer,
        **({"stopped_by": result.stopped_by} if result.stopped_by else {}),
    }
