"""Read logic trees with hypotheses from any reply. Nothing here raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hoptree.core.lazy import lazy_re
from hoptree.text.parse import MAX_ANSWER_CHARS, looks_unanswered, question_key, says_unknown
from hoptree.text.question_tree import Issue, Pairs

MAX_NODES = 16
MAX_DEPTH = 5
_MAX_NESTING = 50
_MIN_STATEMENT_WORDS = 4  # a shorter text such as "not available" is not a hypothesis
_MAY_BE_NONE = lazy_re(r"\b(?:how (?:many|much|often)|number|which of|any|either|neither)\b", re.IGNORECASE)
_SUB_QUESTION = ("sub_question", "subquestion", "sub_query")
_QUESTION = ("sub_question", "subquestion", "question", "query", "sub_query")
_HYPOTHESIS = ("hypothesis_answer", "hypothesis", "hypothetical_answer", "answer", "hypothesisanswer")
_TREE = ("logic_tree", "logictree", "tree")
_CHILDREN = ("children", "sub_questions", "subquestions", "sub_nodes", "nodes", "child")
_MAIN_QUESTION = ("input_question", "question", "query")  # keys of the main question beside its tree
_NOT_NODES = {*_HYPOTHESIS, *_MAIN_QUESTION, "final_answer", "correct_answer", "ref", "refs", "references", "reason"}
_NOT_NODES |= {"facts"}


@dataclass(frozen=True, slots=True)
class Claim:
    """A sub-question, its hypothesis ("" if none), and the claims below it."""

    question: str
    hypothesis: str
    children: tuple[Claim, ...] = ()

    def all(self) -> Iterator[Claim]:
        """Yield the claim and all below it, each before those below it."""
        yield self
        for child in self.children:
            yield from child.all()

    @property
    def size(self) -> int:
        return sum(1 for _ in self.all())

    @property
    def levels(self) -> int:
        return 1 + max((child.levels for child in self.children), default=0)

    def as_dict(self) -> dict[str, Any]:
        """Return the node as the paper writes it."""
        written: dict[str, Any] = {"sub_question": self.question, "hypothesis_answer": self.hypothesis}
        return written | ({"children": [child.as_dict() for child in self.children]} if self.children else {})

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=1)


@dataclass(frozen=True, slots=True)
class LogicTree:
    """The claims under a question, its draft answer, and repairs."""

    children: tuple[Claim, ...] = ()
    draft: str = ""
    issues: tuple[Issue, ...] = ()


def read_tree(value: object, question: str) -> LogicTree:
    """Read the tree in a parsed reply; children of a node without a question move up."""
    issues: list[Issue] = []
    draft = _first_text(value, ("answer", "final_answer"), question) if isinstance(value, Mapping) else ""
    claims = _claims(_without_main_question(value), 1, issues, root=True)
    if len(claims) == 1 and claims[0].children and question_key(claims[0].question) == question_key(question):
        issues.append(Issue("root_restated", 0, "the first node repeats the question; its children take its place"))
        draft, claims = draft or claims[0].hypothesis, list(claims[0].children)
    kept = first_claims(claims, MAX_NODES)
    if dropped := sum(claim.size for claim in claims) - sum(claim.size for claim in kept):
        issues.append(Issue("cap_nodes", 0, f"{dropped} nodes beyond {MAX_NODES} dropped"))
    return LogicTree(kept, draft, tuple(issues))


def read_subtree(value: object, old: Claim, *, levels: int) -> tuple[Claim | None, tuple[Issue, ...]]:
    """Read the rebuilt node in a parsed reply, cut to `levels` and MAX_NODES.

    None if it lacks a sub-question or a hypothesis. The old children are never kept: they depend on a hypothesis that
    was refuted.
    """
    issues: list[Issue] = []
    bare = _without_main_question(value)
    claims = _claims(bare, 1, issues, root=True)
    if not claims:
        return None, tuple(issues)
    same = [node for top in claims for node in top.all() if question_key(node.question) == question_key(old.question)]
    claim = same[0] if same and (bare is not value or len(claims) > 1) else claims[0]
    if len(claims) > 1:
        issues.append(Issue("rebuild_siblings", 0, f"one of {len(claims)} nodes taken for the rebuilt one"))
    if not claim.hypothesis:
        return None, tuple(issues)
    if claim.levels > levels:
        issues.append(Issue("rebuild_deeper", 0, f"cut from {claim.levels} to {levels} levels"))
        claim = cut(claim, levels)
    if (dropped := claim.size - MAX_NODES) > 0:
        issues.append(Issue("cap_nodes", 0, f"{dropped} nodes beyond {MAX_NODES} dropped"))
        (claim,) = first_claims([claim], MAX_NODES)
    return claim, tuple(issues)


def cut(claim: Claim, levels: int) -> Claim:
    """Drop what is deeper than `levels`, of which the claim itself is one."""
    return replace(claim, children=tuple(cut(child, levels - 1) for child in claim.children) if levels > 1 else ())


def first_claims(claims: Sequence[Claim], most: int) -> tuple[Claim, ...]:
    """Return the first `most` claims, each before those below it."""
    kept: list[Claim] = []
    for claim in claims:
        if most < 1:
            break
        kept.append(replace(claim, children=first_claims(claim.children, most - 1)))
        most -= kept[-1].size
    return tuple(kept)


def text_of(value: object, nesting: int = 0) -> str:
    """Return a value as one line of text; "" if it is empty or a refusal."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        text = " ".join(str(value).split())[:MAX_ANSWER_CHARS]
        return "" if len(text.split()) < _MIN_STATEMENT_WORDS and looks_unanswered(text) else text
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence) and nesting < _MAX_NESTING:
        return ", ".join(filter(None, (text_of(item, nesting + 1) for item in value)))[:MAX_ANSWER_CHARS]
    return ""


def answer_of(value: object, question: str) -> str:
    """Return a text that may answer a question; "" if it says that none is known."""
    text = text_of(value)
    nothing = text.strip(" .").casefold() == "none" and not _MAY_BE_NONE.search(question)
    return "" if nothing or says_unknown(text) else text


def _claims(raw: object, depth: int, issues: list[Issue], *, root: bool = False, nesting: int = 0) -> list[Claim]:
    """Return the claims in a node, a group of nodes, or a bare question."""
    if nesting > _MAX_NESTING:
        return []
    if isinstance(raw, str) and not root:
        text = text_of(raw)
        return [Claim(text, "")] if text and _within(depth, issues) else []
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        return [claim for item in raw for claim in _claims(item, depth, issues, nesting=nesting + 1)]
    if not isinstance(raw, Mapping):
        return []
    question = _first_text(raw, _QUESTION)
    if question and not _within(depth, issues):
        return []
    hypothesis = _first_text(raw, _HYPOTHESIS, question) if question else ""
    below = _below(raw, depth + bool(question), issues, nesting=nesting + 1, anywhere=not question)
    if question:
        return [Claim(question, hypothesis, tuple(below))]
    if _first_text(raw, _HYPOTHESIS) and not root:
        issues.append(Issue("question_empty", 0, "a node without a question was dropped; its children moved up"))
    return below


def _below(raw: Mapping[str, Any], depth: int, issues: list[Issue], *, nesting: int, anywhere: bool) -> list[Claim]:
    """Return the claims under the keys of trees and children, or `anywhere`."""
    below: list[Claim] = []
    others: list[object] = []
    for key, value in raw.pairs if isinstance(raw, Pairs) else raw.items():
        name = _normalise_key(key)
        if name in _CHILDREN or name in _TREE:
            below += _claims(value, depth, issues, root=name in _TREE, nesting=nesting)
        elif isinstance(value, Mapping | list) and name not in _NOT_NODES:
            others.append(value)
    if anywhere and not below:
        below = [claim for value in others for claim in _claims(value, depth, issues, root=True, nesting=nesting)]
    return below


def _without_main_question(value: object) -> object:
    """Remove the main question beside its tree, which is not a node of the tree."""
    if not isinstance(value, Mapping):
        return value
    names = set(map(_normalise_key, value))
    beside = names.intersection(_TREE) and not names.intersection(_SUB_QUESTION)
    if "input_question" not in names and not (beside and names.intersection(_MAIN_QUESTION)):
        return value
    pairs = value.pairs if isinstance(value, Pairs) else value.items()
    return Pairs((key, held) for key, held in pairs if _normalise_key(key) not in _MAIN_QUESTION)


def _within(depth: int, issues: list[Issue]) -> bool:
    if depth > MAX_DEPTH:
        issues.append(Issue("cap_depth", 0, f"deeper than {MAX_DEPTH}: dropped"))
    return depth <= MAX_DEPTH


def _first_text(raw: Mapping[str, Any], keys: Sequence[str], question: str | None = None) -> str:
    """Return the first text under one of the keys; with `question`, an answer to it."""
    by_key = {_normalise_key(key): value for key, value in raw.items()}
    values = (by_key.get(key) for key in keys)
    texts = (text_of(value) if question is None else answer_of(value, question) for value in values)
    return next(filter(None, texts), "")


def _normalise_key(key: object) -> str:
    return str(key).strip().casefold().replace("-", "_").replace(" ", "_")
