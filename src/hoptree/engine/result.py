"""A question's result, read off its trace: the same whether the trace is fresh or comes from a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hoptree.core.errors import HoptreeError, TraceError
from hoptree.core.values import Passage, Usage
from hoptree.engine.events import Event
from hoptree.engine.explain import Decisions, SoFar, module_of, so_far, told_why, why_at_last
from hoptree.engine.generation_view import Writing, read_writing
from hoptree.text.grounding import supports_answer

_CUT = ("cap_nodes", "cap_depth")
_WITHOUT_CHILDREN = {
    "rebuild_unreadable": "could not be read",
    "rebuild_noop": "repeated what was refuted",
}
_SMALLER = {
    "rebuild_deeper": "was too deep: what lay deepest was dropped.",
    "rebuild_siblings": "had several first nodes: all but one were dropped.",
    "cap_nodes": "was too large: what came last was dropped.",
    "cap_depth": "was too deep: what lay deepest was dropped.",
}


def losses(events: Iterable[Event]) -> Iterator[str]:
    """A sentence for each thing that the last plan, or a tree rebuilt in it, lost; the same one may come twice.

    Rebuilt trees are told of by the nodes that were settled with them: others were made in vain.
    """
    said: list[str] = []
    for event in events:
        if event["event"] == "plan":
            if event.get("under") is None:
                said = []
            told = (issue for issue in event.get("issues", ()) if issue["kind"] in _CUT)
            # In the words in which other methods warn of it, so that nobody reads it twice.
            said += [f"The model's plan was repaired: {issue['detail']}." for issue in told]
        elif event["event"] == "node":
            said += _rebuilt(event)
    yield from said


def _rebuilt(event: Event) -> Iterator[str]:
    subject = f"What the model wrote anew for sub-question {event['id']}"
    for kind in event.get("rebuild_issues", ()):
        if kind in _WITHOUT_CHILDREN and event.get("size_before", 0) > 1:
            yield f"{subject} {_WITHOUT_CHILDREN[kind]}: all that stood below it was dropped."
        elif kind in _SMALLER:
            yield f"{subject} {_SMALLER[kind]}"


UNSUPPORTED = "what was read does not hold the answer: it is a guess that documents do not support"
"""The warning of an answer that stands in none of the passages that were read for it."""
STOPPED = "stopped"
"""The state of a node that a budget ended."""


@dataclass(slots=True)
class TreeNode:
    """A sub-question as it was asked and answered, with what it was answered from, and why so if the method tells.

    `know` is what the model said of its own knowledge, None where it was not asked. Number 0 is the question itself,
    where a method counts it as a node. `hypothesis` is an answer guessed beforehand, `verdict` what evidence said of
    it, `struck` are those it took the place of, and `facts` the triples that were cited. `module` is the part of the
    method that answered. A node that a budget ended is `stopped`, with what it had come to until then.
    """

    id: int
    question: str
    resolved: str = ""
    answer: str = ""
    source: str = ""
    state: str = "waiting"
    evidence: tuple[str, ...] = ()
    why: str = ""
    module: str = ""
    know: bool | None = None
    hypothesis: str = ""
    verdict: str = ""
    struck: tuple[str, ...] = ()
    facts: tuple[tuple[str, ...], ...] = ()
    children: list[TreeNode] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "question": self.question,
            "resolved": self.resolved or self.question,
            "answer": self.answer,
            "source": self.source,
            "evidence": list(self.evidence),
            **({"state": self.state} if self.state == STOPPED else {}),
            **({"module": self.module} if self.module else {}),
            **({"why": self.why} if self.why else {}),
            **({"know": self.know} if self.know is not None else {}),
            **({"hypothesis": self.hypothesis} if self.hypothesis else {}),
            **({"verdict": self.verdict} if self.verdict else {}),
            **({"struck": list(self.struck)} if self.struck else {}),
            **({"facts": [list(fact) for fact in self.facts]} if self.facts else {}),
            "children": [child.as_dict() for child in self.children],
        }


@dataclass(frozen=True, slots=True)
class Result:
    """An answer with the tree, the evidence and the bill behind it.

    `stopped_by` names the budget limit that ended the run early, `error` the class of the failure that did; a
    failed question has an empty answer and counts as wrong. `failure` is the error itself, where it is at hand.
    `writing` tells how the text came about, of methods that look up what they doubt while they write. `evidence` is
    what the answer rests on, `cited` what only nodes of the tree name beside it. `why` says what decided between the
    answers that there were to the question itself.
    """

    question: str
    answer: str
    method: str
    model: str
    fidelity: str
    options: dict[str, Any]
    abstained: bool
    tree: tuple[TreeNode, ...]
    chains: tuple[str, ...]
    evidence: tuple[Passage, ...]
    usage: Usage
    stopped_by: str
    warnings: tuple[str, ...]
    error: str = ""
    error_message: str = ""
    failure: HoptreeError | None = None
    writing: Writing | None = None
    cited: tuple[Passage, ...] = ()
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        data: dict[str, Any] = {
            "question": self.question,
            "answer": self.answer,
            "abstained": self.abstained,
            **({"why": self.why} if self.why else {}),
            "method": self.method,
            "options": self.options,
            "fidelity": self.fidelity,
            "model": self.model,
            "tree": [node.as_dict() for node in self.tree],
            "chains": list(self.chains),
            "evidence": [_told(passage) for passage in self.evidence],
            **({"cited": [_told(passage) for passage in self.cited]} if self.cited else {}),
            "usage": self.usage.as_dict(),
            "stopped_by": self.stopped_by or None,
            "warnings": list(self.warnings),
        }
        if self.writing:
            data["writing"] = asdict(self.writing)
        if self.error:
            data["error"] = {"class": self.error, "message": self.error_message}
        return data


def _told(passage: Passage) -> dict[str, Any]:
    return {"id": passage.id, "title": passage.title, "text": passage.text, "score": passage.score}


def read_result(events: Sequence[Event], failure: HoptreeError | None = None) -> Result:
    """Put the events of one question together."""
    try:
        return _put_together(events, failure)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise TraceError(
            f"The trace holds an event that cannot be understood ({type(error).__name__}: {error}).",
            "Write it again with: hoptree ask … --trace FILE",
        ) from error


def _put_together(events: Sequence[Event], failure: HoptreeError | None) -> Result:
    by_kind: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_kind[event["event"]].append(event)
    start: Mapping[str, Any] = next(iter(by_kind["start"]), {})
    final: Mapping[str, Any] = next(reversed(by_kind["final"]), {})
    tree, decided = _read_tree(events)
    found = _read_found(by_kind["retrieve"])
    evidence = _read_evidence(by_kind["final"], tree, found)
    if stopped_by := final.get("stopped_by"):
        _stop(tree, decided, final, stopped_by)
    return Result(
        question=start.get("question", ""),
        answer=final.get("answer", ""),
        method=start.get("method", ""),
        model=start.get("model", ""),
        fidelity=_read_fidelity(start, by_kind["decision"]),
        options=start.get("options", {}),
        abstained=final.get("abstained", False),
        tree=tree,
        chains=tuple(e["text"] for e in by_kind["chain"]),
        evidence=evidence,
        usage=_read_usage(events, by_kind["llm"]),
        stopped_by=final.get("stopped_by") or ("" if final else "killed"),
        warnings=tuple(dict.fromkeys([*(e["message"] for e in by_kind["warning"]), *losses(events)])),
        error=final.get("error", ""),
        error_message=final.get("error_message", ""),
        failure=failure,
        writing=read_writing(events),
        cited=tuple(found[name] for name in _cited(tree) if name in found and found[name] not in evidence),
        why=why_at_last([e for e in by_kind["decision"] if "node" not in e]) if final else "",
    )


def _read_fidelity(start: Mapping[str, Any], decisions: Sequence[Event]) -> str:
    """The stamp that the run began with; what was noticed on the way to be other than the paper's is not exact."""
    noticed = any(one["kind"] == "fidelity" and one["value"] == "approx" for one in decisions)
    stamp: str = start.get("fidelity", "")
    return "approx" if noticed and stamp == "exact" else stamp


def _read_tree(events: Sequence[Event]) -> tuple[tuple[TreeNode, ...], dict[int, list[Event]]]:
    """The last plan with all that was hung under its nodes since, what became of each of them, and what was decided.

    What was `rebuilt` under a node takes the place of all that was there.
    """
    nodes: dict[int, TreeNode] = {}
    tops: list[TreeNode] = []
    decided: dict[int, list[Event]] = {}
    for event in events:
        if event["event"] == "plan":
            if event.get("under") is None:
                nodes, tops, decided = {}, [], {}
            if event.get("rebuilt") and event["under"] in nodes:
                nodes[event["under"]].children.clear()
            for written in event["nodes"]:
                hypothesis = written.get("hypothesis", "")
                node = nodes[written["id"]] = TreeNode(written["id"], written["question"], hypothesis=hypothesis)
                above = nodes.get(written["parent"])
                (above.children if above else tops).append(node)
        elif event["event"] == "decision" and "node" in event:
            decided.setdefault(event["node"], []).append(event)
        elif event["event"] == "node" and event["id"] in nodes:
            node = nodes[event["id"]]
            for name in ("resolved", "answer", "source", "state", "know", "hypothesis", "verdict"):
                if name in event:
                    setattr(node, name, event[name])
            node.why, node.module = told_why(event, decided) or node.why, module_of(event) or node.module
            node.evidence = tuple(event.get("evidence", node.evidence))
            node.struck = tuple(event.get("struck", node.struck))
            node.facts = tuple(map(tuple, event.get("facts", node.facts)))
    return tuple(tops), decided


def _stop(tree: Sequence[TreeNode], decided: Decisions, final: Mapping[str, Any], limit: str) -> None:
    """Give the nodes that a budget ended what they had come to; one with a hypothesis has that to show."""
    for node in _all(tree):
        if node.state != "asking" or node.hypothesis:
            continue
        until = so_far(node.id, decided)
        if node.id == 0 and final.get("answer"):
            same = until if until and until.answer == final["answer"] and until.source == final["source"] else SoFar("")
            until = replace(
                same, answer=final["answer"], source=final["source"], evidence=tuple(final.get("support", ()))
            )
        if until:
            node.answer, node.source = until.answer, until.source
            node.evidence, node.module = until.evidence, until.module
        node.state = STOPPED
        node.why = "; ".join(filter(None, (until.why if until else "", f"the budget of {limit} ended it")))


def _all(tree: Sequence[TreeNode]) -> Iterator[TreeNode]:
    """The nodes of a tree, each before those below it."""
    open_nodes = list(reversed(tree))
    while open_nodes:
        node = open_nodes.pop()
        yield node
        open_nodes.extend(reversed(node.children))


def _cited(tree: Sequence[TreeNode]) -> dict[str, None]:
    """The passages that nodes cite, in the order of the tree."""
    return dict.fromkeys(name for node in _all(tree) for name in node.evidence)


def _read_found(searches: Sequence[Event]) -> dict[str, Passage]:
    """All passages that were found, each once, with its best score."""
    found: dict[str, Passage] = {}
    for search in searches:
        for p in search["passages"]:
            if p["id"] not in found or found[p["id"]].score < p["score"]:
                found[p["id"]] = Passage(p["id"], p["title"], p["text"], p["score"])
    return found


def _read_evidence(
    finals: Sequence[Event], tree: Sequence[TreeNode], found: Mapping[str, Passage]
) -> tuple[Passage, ...]:
    """The passages that the answer rests on.

    They are those the method says at the end, else those behind the answers in the tree, else all that was found.
    """
    said = [name for final in finals for name in final.get("support", ())]
    ids: Iterable[str] = dict.fromkeys(said) or _cited(tree) if said or tree else found
    return tuple(found[name] for name in ids if name in found)


def _read_usage(events: Sequence[Event], llm: Sequence[Event]) -> Usage:
    timed = [e for e in events if e["event"] in ("llm", "retrieve", "titles", "facts", "entities")]
    return Usage(
        llm_calls=len(llm),
        cached_calls=sum(e["cached"] for e in llm),
        prompt_tokens=sum(e["prompt_tokens"] for e in llm),
        cached_tokens=sum(e["cached_tokens"] for e in llm),
        completion_tokens=sum(e["completion_tokens"] for e in llm),
        reasoning_tokens=sum(e["reasoning_tokens"] for e in llm),
        retrievals=sum(e["event"] in ("retrieve", "facts") for e in timed),
        price=round(sum(e["price"] if "price" in e else e["cost"] for e in llm), 6),
        cost=round(sum(e["cost"] for e in llm), 6),
        seconds=round(events[-1]["t"] if events else 0.0, 3),
        critical_path_seconds=round(_critical_path(timed), 3),
    )


def _critical_path(calls: Sequence[Event]) -> float:
    """Seconds of work along the chain of calls that decided when the question was done.

    From the call that ended last back to the last one that had ended when it was issued, and so on: what each call
    waited for. Time spent waiting for a slot is not in it; the work of a cached call is what it once took.
    """
    total = 0.0
    last = max(range(len(calls)), key=lambda i: (calls[i]["t"], i), default=None)
    while last is not None:
        total += calls[last]["seconds"]
        issued = calls[last]["issued"]
        # Events are in the order they ended, so that a predecessor always stands before.
        last = next((i for i in range(last - 1, -1, -1) if calls[i]["t"] <= issued), None)
    return total


def with_grounds(result: Result) -> Result:
    """Drop passages that are no evidence: none of them holds the answer, nor all its names together.

    Passages do not say yes or no, and the answer of a tree may follow from what its nodes cite without standing there:
    these are left as they are. A node of a tree that read its answer in none of what it cites has guessed it, but where
    a verdict tells what evidence said.
    """
    if not result.answer or not result.evidence:
        return result
    if result.tree:
        passages = {passage.id: passage for passage in result.evidence}
        return replace(result, tree=tuple(_judged(node, passages) for node in result.tree))
    if supports_answer(result.answer, result.evidence):
        return result
    return replace(result, evidence=(), warnings=(*result.warnings, UNSUPPORTED))


def _judged(node: TreeNode, passages: Mapping[str, Passage]) -> TreeNode:
    below = [_judged(child, passages) for child in node.children]
    read = tuple(passages[name] for name in node.evidence if name in passages)
    if node.source != "external" or node.verdict or node.facts or not read or supports_answer(node.answer, read):
        return replace(node, children=below)
    return replace(node, children=below, source="fallback", evidence=())
