"""The question tree: nodes, references, and repairs of plans.

Dependencies come from references, not from nesting, since models nest independent questions too. A reference is always
a whole token (`#query10` does not contain `#query1`).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hoptree.core.lazy import lazy_re
from hoptree.text.names import name_spans

MAX_NODES = 12
MAX_DEPTH = 5
_MAX_NESTING = 50  # depth of nested JSON that is searched for nodes

_LONG = r"#\s*query\s*_?\s*(\d+)"
_REFERENCE = lazy_re(_LONG, re.IGNORECASE)
_ANY_REFERENCE = lazy_re(rf"{_LONG}|#(\d+)\b", re.IGNORECASE)
_SHORT = lazy_re(r"#\d+\b")
_KEY_ID = lazy_re(r"query\s*_?\s*(\d+)", re.IGNORECASE)
_QUESTION_KEYS = ("question", "query", "sub_question", "subquestion", "text")
_CHILDREN_KEYS = ("children", "sub_queries", "subqueries", "sub_questions")


class Pairs(dict[str, Any]):
    """A JSON object that keeps the pairs of duplicate keys."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self.pairs = tuple(pairs)
        super().__init__(self.pairs)


@dataclass(frozen=True, slots=True)
class Issue:
    """A problem of a plan, and how it was repaired."""

    kind: str
    node: int
    detail: str


@dataclass(frozen=True, slots=True)
class Node:
    """One sub-question; `refs` are the nodes whose answers it needs."""

    id: int
    question: str
    parent: int | None = None
    depth: int = 1
    refs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A forest of sub-questions in pre-order, without the main question."""

    nodes: tuple[Node, ...]
    issues: tuple[Issue, ...] = ()

    def __getitem__(self, node_id: int) -> Node:
        return next(node for node in self.nodes if node.id == node_id)

    def paths(self) -> tuple[tuple[Node, ...], ...]:
        """Return every path from a top node down to a leaf."""
        parents = {node.parent for node in self.nodes}
        by_id: dict[int | None, Node] = {node.id: node for node in self.nodes}
        paths = []
        for leaf in (node for node in self.nodes if node.id not in parents):
            path = [leaf]
            while (above := by_id.get(path[-1].parent)) is not None:
                path.append(above)
            paths.append(tuple(reversed(path)))
        return tuple(paths)

    def ends(self) -> tuple[Node, ...]:
        """Return the leaves that no other node refers to."""
        needed = {ref for node in self.nodes for ref in (*node.refs, node.parent)}
        return tuple(node for node in self.nodes if node.id not in needed)

    def order(self) -> tuple[Node, ...]:
        """Return the nodes in topological order of references, else as written."""
        position = {node.id: index for index, node in enumerate(self.nodes)}
        waiting = {node.id: len(node.refs) for node in self.nodes}
        ready = [position[node.id] for node in self.nodes if not node.refs]
        heapq.heapify(ready)
        ordered = []
        while ready:
            done = self.nodes[heapq.heappop(ready)]
            ordered.append(done)
            for node in self.nodes:
                if done.id in node.refs:
                    waiting[node.id] -= 1
                    if waiting[node.id] == 0:
                        heapq.heappush(ready, position[node.id])
        return tuple(ordered)


def _number(digits: str) -> int:
    """Return digits as an id; -1 for absurdly long ones."""
    return int(digits) if len(digits) < 10 else -1


def references(question: str) -> tuple[int, ...]:
    """Return the ids that a canonical question refers to, each once."""
    return tuple(dict.fromkeys(_number(match[1]) for match in _REFERENCE.finditer(question)))


def resolve(question: str, answers: Mapping[int, str]) -> str:
    """Replace references by answers in one pass."""
    return _REFERENCE.sub(lambda match: answers.get(_number(match[1]), match[0]), question)


def single_node(question: str, issue: Issue | None = None) -> Plan:
    """Return a plan whose only node is the question."""
    return Plan((Node(1, question),), (issue,) if issue else ())


@dataclass(slots=True)
class _Draft:
    """A node as the model wrote it, with its number and parent."""

    name: int | None
    question: str
    above: int | None
    depth: int


def make_plan(raw: object, root: str, *, mend_leaks: bool = False) -> Plan:
    """Turn a parsed reply into a valid plan.

    With `mend_leaks`, an answer that the model leaks into a question is replaced by a reference.
    """
    plan = _PlanReader(root)
    plan.collect(raw)
    drafts, issues = plan.drafts, plan.issues
    if len(drafts) > 1 and drafts[0].question.casefold() == root.strip().casefold():
        issues.append(Issue("root_restated", 1, "the first node repeats the question; its children take its place"))
        del drafts[0]
        for draft in drafts:
            draft.above = draft.above - 1 if draft.above else None
            draft.depth = 1 if draft.above is None else drafts[draft.above].depth + 1
    if len(drafts) > MAX_NODES:
        issues.append(Issue("cap_nodes", MAX_NODES, f"{len(drafts) - MAX_NODES} nodes beyond {MAX_NODES} dropped"))
        del drafts[MAX_NODES:]
    names = [draft.name for draft in drafts]
    ids = [name or 0 for name in names]
    if sorted(ids) != list(range(1, len(drafts) + 1)):
        issues.append(Issue("ids_renumbered", 0, f"ids {names} renumbered in order of appearance"))
        ids = list(range(1, len(drafts) + 1))
    nodes = plan.link(ids)
    for index, node in enumerate(nodes):
        nodes[index] = _mend_leak(node, root, nodes if mend_leaks else None, issues)
    return Plan(tuple(nodes), tuple(issues))


class _PlanReader:
    """Collects nodes and references; `issues` lists the repairs."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.drafts: list[_Draft] = []
        self.issues: list[Issue] = []

    def collect(
        self, raw: object, name: int | None = None, above: int | None = None, depth: int = 1, nesting: int = 0
    ) -> None:
        """Append the drafts in `raw`: a node, a group of nodes, or a bare question."""
        if nesting > _MAX_NESTING:
            return
        if depth > MAX_DEPTH and raw and isinstance(raw, str | Mapping):
            here = above + 1 if above is not None else 0
            self.issues.append(Issue("cap_depth", here, f"deeper than {MAX_DEPTH}: dropped"))
        elif isinstance(raw, str):
            if raw.strip():
                self.drafts.append(_Draft(name, raw.strip(), above, depth))
        elif isinstance(raw, Sequence):
            for item in raw:
                self.collect(item, None, above, depth, nesting + 1)
        elif isinstance(raw, Mapping):
            self._collect_object(raw, name, above, depth, nesting + 1)

    def _collect_object(
        self, raw: Mapping[str, Any], name: int | None, above: int | None, depth: int, nesting: int
    ) -> None:
        question = next((raw[key] for key in _QUESTION_KEYS if isinstance(raw.get(key), str)), "")
        if question.strip():
            declared = raw.get("id", name)
            number = _KEY_ID.search(f"query{declared}") if isinstance(declared, int | str) else None
            self.drafts.append(_Draft(_number(number[1]) if number else name, question.strip(), above, depth))
            above, depth = len(self.drafts) - 1, depth + 1
        elif name is not None:
            detail = "a node without a question was dropped; its children moved up"
            self.issues.append(Issue("question_empty", name, detail))
        for key, value in raw.pairs if isinstance(raw, Pairs) else raw.items():
            if key_id := _KEY_ID.fullmatch(key.strip()):
                self.collect(value, _number(key_id[1]), above, depth, nesting)
            elif key in _CHILDREN_KEYS or isinstance(value, Mapping):
                self.collect(value, None, above, depth, nesting)

    def link(self, ids: list[int]) -> list[Node]:
        """Turn drafts into nodes with valid references."""
        written = [_written(draft.question, self._root) for draft in self.drafts]
        targets = [{name: self._target_of(name, at) for name in names.values()} for at, names in enumerate(written)]
        edges = {
            ids[index]: {ids[target] for target in named.values() if target is not None and target < index}
            for index, named in enumerate(targets)
        }
        nodes = []
        for index, draft in enumerate(self.drafts):
            by_name = {name: self._resolve(name, target, index, ids, edges) for name, target in targets[index].items()}
            stands_for = {text: by_name[name] for text, name in written[index].items()}
            question = _ANY_REFERENCE.sub(
                lambda match, known=stands_for: known.get(match[0], match[0]),  # type: ignore[misc]
                draft.question,
            )
            parent = ids[draft.above] if draft.above is not None else None
            nodes.append(Node(ids[index], question, parent, draft.depth, references(question)))
        return nodes

    def _target_of(self, name: int, index: int) -> int | None:
        """Return the draft a reference names, the nearest before it first."""
        drafts = self.drafts
        named = [other for other, draft in enumerate(drafts) if draft.name == name and other != index]
        if not named and 0 < name <= len(drafts) and name - 1 != index and drafts[name - 1].name is None:
            return name - 1  # a node without a number has its position as number
        return max((other for other in named if other < index), default=min(named, default=None))

    def _resolve(self, name: int, target: int | None, index: int, ids: list[int], edges: dict[int, set[int]]) -> str:
        """Return `#queryX` for a reference, or a description if no node can be meant."""
        here, kind = ids[index], "ref_dangling"
        if target is not None:
            if target < index:
                return f"#query{ids[target]}"
            if not _reaches(edges, ids[target], here):
                self.issues.append(Issue("ref_forward", here, f"#query{ids[target]} is asked later in the plan"))
                edges[here].add(ids[target])
                return f"#query{ids[target]}"
            kind = "ref_cycle"
        for candidate in (self.drafts[index].above, index - 1 if index else None):
            if candidate is None or ids[candidate] in edges[here] or _reaches(edges, ids[candidate], here):
                continue
            self.issues.append(Issue(kind, here, f"#query{name} cannot be meant; read as #query{ids[candidate]}"))
            edges[here].add(ids[candidate])
            return f"#query{ids[candidate]}"
        self.issues.append(Issue(kind, here, f"#query{name} cannot be meant; described instead"))
        return f'the one asked about in "{_ANY_REFERENCE.sub("it", self._root)}"'


def _written(question: str, root: str) -> dict[str, int]:
    """Return the references of a question; "#1" is none beside "#query1"."""
    pattern = _REFERENCE if _REFERENCE.search(question) or _SHORT.search(root) else _ANY_REFERENCE
    return {match[0]: _number(match[match.lastindex or 1]) for match in pattern.finditer(question)}


def _reaches(edges: Mapping[int, set[int]], start: int, goal: int) -> bool:
    """Return whether `start` needs the answer of `goal`, directly or through others."""
    seen: set[int] = set()
    open_ids = [start]
    while open_ids:
        current = open_ids.pop()
        if current == goal:
            return True
        if current not in seen:
            seen.add(current)
            open_ids.extend(edges[current])
    return False


def _mend_leak(node: Node, root: str, mend_in: Sequence[Node] | None, issues: list[Issue]) -> Node:
    """Report or mend a node that names the answer of its parent."""
    if node.parent is None or node.refs:
        return node
    known = root.casefold()
    first_word = len(node.question.split(maxsplit=1)[0])
    for start, end in name_spans(node.question, first_word):
        span = node.question[start:end]
        if span.casefold().removesuffix("'s").removesuffix("’s") in known:
            continue
        edges = {other.id: set(other.refs) for other in mend_in or ()}
        if mend_in is None or _reaches(edges, node.parent, node.id):
            issues.append(Issue("plan_leak", node.id, f"names {span!r}, which the question does not"))
            return node
        issues.append(Issue("plan_leak", node.id, f"{span!r} replaced by #query{node.parent}"))
        question = f"{node.question[:start]}#query{node.parent}{node.question[end:]}"
        return replace(node, question=question, refs=references(question))
    return node
