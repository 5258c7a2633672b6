"""Building the logic tree of a question: in one call, or node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.runtime.schedule import together
from hoptree.steps.hypotheses.logic_tree import MAX_DEPTH, MAX_NODES, Claim, LogicTree, answer_of, read_tree, text_of
from hoptree.steps.reading.parse import question_key, read_json, read_questions
from hoptree.tree import Issue

__all__ = ["build_recursively", "build_tree", "complete"]

MAX_TOKENS = 2048
EXPAND_TOKENS = 384


async def build_tree(ctx: Context, question: str) -> LogicTree:
    """The whole tree with a hypothesis for every node and a draft answer; asked for once more if there is none in it.

    No children mean that the second reply holds none either.
    """
    prompt = prompt_for(ctx.method, "build").fill(question=question)
    tree = LogicTree()
    for _ in range(2):
        reply = (await ctx.generate("build", prompt, role="decompose", max_tokens=MAX_TOKENS)).text
        reading = read_json(reply)
        ctx.trace.add("parse", step="build", ok=reading.ok, repairs=list(reading.repairs), error=reading.error)
        tree = read_tree(reading.value, question)
        if tree.children:
            break
        wrong = f"it is not valid JSON ({reading.error})" if not reading.ok else "it holds no sub-question"
        prompt = prompt.follow_up(reply, f"That cannot be used: {wrong}. Write the whole JSON again, corrected.")
    return tree


@dataclass(slots=True)
class _Growing:
    """A node whose hypothesis and sub-questions are being asked for; the question itself is at depth 0."""

    question: str
    depth: int
    above: frozenset[str]
    hypothesis: str = ""
    children: list[_Growing] = field(default_factory=list)

    def claim(self) -> Claim:
        return Claim(self.question, self.hypothesis, tuple(child.claim() for child in self.children))


async def build_recursively(ctx: Context, question: str) -> LogicTree:
    """Algorithm 1: hypothesis and sub-questions node by node, until a question needs none; all of a level at once."""
    root = _Growing(question, 0, frozenset())
    issues: list[Issue] = []
    level, count = [root], 0
    while level:
        replies = await together(_expand(ctx, one.question) for one in level)
        for one, (hypothesis, questions) in zip(level, replies, strict=True):
            one.hypothesis = hypothesis
            above = one.above | {question_key(one.question)}
            new = [asked for asked in questions if question_key(asked) not in above] if one.depth < MAX_DEPTH else []
            if len(new) > MAX_NODES - count:
                issues.append(Issue("cap_nodes", 0, f"{len(new) - MAX_NODES + count} nodes beyond {MAX_NODES} dropped"))
            one.children = [_Growing(asked, one.depth + 1, above) for asked in new[: MAX_NODES - count]]
            count += len(one.children)
        level = [child for one in level for child in one.children]
    return LogicTree(root.claim().children, root.hypothesis, tuple(issues))


async def _expand(ctx: Context, question: str) -> tuple[str, Sequence[str]]:
    """A hypothesis for one question, and the sub-questions it rests on; none for what one fact answers."""
    prompt = prompt_for(ctx.method, "expand").fill(question=question)
    reply = (await ctx.generate("expand", prompt, role="decompose", max_tokens=EXPAND_TOKENS)).text
    reading = read_json(reply)
    ctx.trace.add("parse", step="expand", ok=reading.ok, repairs=list(reading.repairs), error=reading.error)
    value = reading.value
    if not isinstance(value, Mapping):
        return "", ()
    hypothesis = next(
        (text for name, said in value.items() if "hypo" in name.casefold() and (text := answer_of(said, question))), ""
    )
    listed: object = next((said for name, said in value.items() if "sub" in name.casefold() or name == "children"), [])
    texts = [text_of(item) for item in listed] if isinstance(listed, list) else read_questions(text_of(listed))
    return hypothesis, list(dict.fromkeys(filter(None, texts)))


def complete(tree: LogicTree, hypotheses: Mapping[str, str]) -> LogicTree:
    """The tree with hypotheses where it had none, by the questions they answer."""

    def filled(claim: Claim) -> Claim:
        hypothesis = claim.hypothesis or hypotheses.get(claim.question, "")
        return replace(claim, hypothesis=hypothesis, children=tuple(map(filled, claim.children)))

    return replace(tree, children=tuple(map(filled, tree.children)))
