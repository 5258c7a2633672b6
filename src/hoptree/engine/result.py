"""A question's result, folded from the events of its trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hoptree.core.errors import HoptreeError, TraceError
from hoptree.core.values import Passage, Usage
from hoptree.engine.answer_sentence import Confidence, cut_around
from hoptree.engine.events import (
    ChainWritten,
    Decision,
    Event,
    Finished,
    NodeSettled,
    NodeStarted,
    Planned,
    Started,
    Warned,
)
from hoptree.engine.registry import Explanation, load_method
from hoptree.engine.support import describe_answer, select_supporting
from hoptree.engine.trace import QuestionRewritten, Retrieved, passage_of, usage_of
from hoptree.text.grounding import correct_spelling, is_stated, supports_answer

if TYPE_CHECKING:
    from hoptree.engine.generation_view import Writing

STOPPED = "stopped"  # the state of a node that a budget ended
UNSUPPORTED = "what was read does not hold the answer: it is a guess that documents do not support"
"""The warning for an answer that no passage read for it holds."""
_CUT = ("cap_nodes", "cap_depth")
_MAX_BACKING = 2  # passages of a step that was guessed at first
E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class TreeNode:
    """A sub-question and its answer; number 0 is the question itself."""

    id: int
    question: str
    resolved: str = ""
    answer: str = ""
    source: str = ""
    state: str = "waiting"
    evidence: tuple[str, ...] = ()
    refs: tuple[int, ...] = ()  # the nodes whose answers its question needs
    why: str = ""
    branch: str = ""  # the part of the method that answered
    know: bool | None = None  # whether the model claims to know the answer; None if it was not asked
    hypothesis: str = ""  # an answer guessed beforehand
    verdict: str = ""  # of the evidence on the hypothesis
    struck: tuple[str, ...] = ()  # hypotheses that the answer replaced
    facts: tuple[tuple[str, ...], ...] = ()  # cited triples
    children: list[TreeNode] = field(default_factory=list)

    @property
    def unverified(self) -> str:
        """Why the answer is only a guess; "" if it is verified."""
        if not self.verdict:
            return "unknown" if self.hypothesis and not self.answer else ""
        replaced = bool(self.struck) or self.answer != self.hypothesis
        if self.verdict == "refuted" and replaced:
            return "unknown" if self.source == "internal" else ""  # the replacement may be a guess too
        return "" if self.verdict == "supported" else self.verdict

    def walk(self) -> Iterator[TreeNode]:
        """Yield the node and all below it, each before its children."""
        open_nodes = [self]
        while open_nodes:
            node = open_nodes.pop()
            yield node
            open_nodes.extend(reversed(node.children))

    def as_dict(self) -> dict[str, Any]:
        optional = {
            "state": self.state if self.state == STOPPED else "",
            "module": self.branch,
            "why": self.why,
            "know": self.know,
            "hypothesis": self.hypothesis,
            "verdict": self.verdict,
            "struck": list(self.struck),
            "facts": [list(fact) for fact in self.facts],
        }
        return {
            "id": self.id,
            "question": self.question,
            "resolved": self.resolved or self.question,
            "answer": self.answer,
            "source": self.source,
            "evidence": list(self.evidence),
            **{name: value for name, value in optional.items() if value or value is False},
            "children": [child.as_dict() for child in self.children],
        }


@dataclass(frozen=True, slots=True)
class Result:
    """An answer with its tree, evidence and cost.

    | `evidence` | passages that the answer or a node of the tree rests on; [N] in `sentence` is the Nth of them |
    | `consulted` | what the method named as support, even if it does not state the answer; all that was read for none |
    | `support` | how well the answer is supported, in words |
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
    evidence: tuple[Passage, ...]  # those that support the answer, then those that only nodes of the tree cite
    usage: Usage
    stopped_by: str  # the budget limit that ended the run early
    warnings: tuple[str, ...]
    error: str = ""  # the class of the failure; a failed question counts as wrong
    error_message: str = ""
    failure: HoptreeError | None = None  # the error itself, unless the result was read from a trace
    writing: Writing | None = None  # how the text was generated, of methods that look up what they doubt
    why: str = ""  # what decided between candidate answers to the question itself
    decisions: tuple[Decision, ...] = ()  # decisions on the question itself that are shown
    consulted: tuple[Passage, ...] = ()  # what the method named as support, and all that it read for no answer
    prompts: dict[str, str] = field(default_factory=dict)  # digests, by file name, of own prompts
    sentence: str = ""  # the answer in a sentence; [N] in it is the Nth of `evidence`
    confidence: Confidence | None = None  # None without an answer
    asked: str = ""  # the original words of a follow-up question; `question` is the rewritten one

    @property
    def shown(self) -> tuple[Passage, ...]:
        """What the answer rests on, or else what was read."""
        return self.evidence or self.consulted

    def excerpt(self, passage: Passage, max_chars: int) -> str:
        """Return what a passage says on the nodes that cite it, or else on the question."""
        citing = [node for top in self.tree for node in top.walk() if passage.id in node.evidence and node.answer]
        asked = " ".join(f"{node.resolved or node.question} {node.answer}" for node in citing)
        answer = citing[-1].answer if citing else self.answer
        return cut_around(passage.text, answer, max_chars, asked or self.question)

    @property
    def support(self) -> str:
        """How well the answer is supported, with the reason; "" if its sentence says that."""
        if self.confidence is None or self.guesses:
            return ""
        return f"{self.confidence.level}: {self.confidence.reason}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings that the sentence does not contain."""
        return tuple(warning for warning in self.warnings if not (self.guesses and warning == UNSUPPORTED))

    @property
    def guesses(self) -> bool:
        """Whether the sentence says that the answer is a guess, and why."""
        return bool(self.sentence) and self.confidence is not None and self.confidence.is_in_sentence

    def __str__(self) -> str:
        from hoptree.engine.result_text import result_text  # late, here and below: most results are only read

        return result_text(self)

    def _repr_html_(self) -> str:
        """Draw the answer and its tree in a notebook."""
        from hoptree.engine.result_text import result_html

        return result_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        read_in_vain = not set(self.consulted).issubset(self.evidence)
        data: dict[str, Any] = {
            "question": self.question,
            **({"asked": self.asked} if self.asked else {}),
            "answer": self.answer,
            "sentence": self.sentence,
            "confidence": self.confidence.as_dict() if self.confidence else None,
            "abstained": self.abstained,
            **({"why": self.why} if self.why else {}),
            "method": self.method,
            "options": self.options,
            **({"prompts": self.prompts} if self.prompts else {}),
            "fidelity": self.fidelity,
            "model": self.model,
            "tree": [node.as_dict() for node in self.tree],
            "chains": list(self.chains),
            "evidence": [passage.as_dict() for passage in self.evidence],
            **({"consulted": [passage.as_dict() for passage in self.consulted]} if read_in_vain else {}),
            "usage": self.usage.as_dict(),
            "stopped_by": self.stopped_by or None,
            "warnings": list(self.warnings),
            "decisions": [
                {name: value for name, value in decision.as_dict().items() if name not in ("event", "run", "t")}
                for decision in self.decisions
            ],
        }
        if self.writing:
            data["writing"] = _as_json(self.writing)
        if self.error:
            data["error"] = {"class": self.error, "message": self.error_message}
        return data


def read_result(events: Sequence[Event], failure: HoptreeError | None = None) -> Result:
    """Fold the events of one question into its result."""
    try:
        return _fold(events, failure)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        cause = f"The trace holds an event that cannot be understood ({type(error).__name__}: {error})."
        raise TraceError(cause, "Write it again with: hoptree ask … --trace FILE") from error


def _fold(events: Sequence[Event], failure: HoptreeError | None) -> Result:
    start = next(iter(_of(Started, events)), Started())
    finals = _of(Finished, events)
    final = finals[-1] if finals else Finished(stopped_by="killed")
    rewritten = _of(QuestionRewritten, events)
    question = rewritten[-1].question if rewritten else start.question
    method = load_method(start.method)
    explain = method.explain if method else Explanation()
    decisions = [decision for decision in _of(Decision, events) if decision.node is None]
    tree, computed = _read_tree(events), any(decision.decides_alone() for decision in decisions)
    if finals and final.stopped_by:
        _end_unfinished(tree, final)
    passages = _passages_found(_of(Retrieved, events))
    tree = tuple(_back_guesses(node, tuple(passages.values())) for node in tree)
    consulted = _consulted(finals, tree, passages)
    if tree and not final.answer:  # all that was read is shown
        consulted += tuple(passage for passage in passages.values() if passage not in consulted)
    cited = tuple(passages[name] for name in _cited(tree) if name in passages and passages[name] not in consulted)
    warnings = dict.fromkeys(
        [*(event.message for event in _of(Warned, events)), *dropped_part_warnings(events, explain)]
    )
    evidence, answer = consulted if final.answer else (), final.answer
    deviated = any(decision.lowers_fidelity() for decision in decisions)
    fidelity = "approx" if deviated and start.fidelity == "exact" else start.fidelity
    published = method is not None and method.paper and fidelity == "exact"  # its answers must stay comparable
    if answer and final.source != "internal" and not published:
        answer = correct_spelling(answer, question, tuple(passages.values()))
    if answer != final.answer:
        warnings[f"The answer is spelled as in the passages; the model wrote {final.answer}."] = None
        for node in (node for top in tree for node in top.walk() if node.answer == final.answer):
            node.answer = answer
    if answer and consulted and tree:
        tree = tuple(_mark_guesses(node, {passage.id: passage for passage in consulted}) for node in tree)
    elif answer and consulted and not supports_answer(answer, consulted):
        evidence = ()
        warnings[UNSUPPORTED] = None
    nodes = [node for top in tree for node in top.walk()]
    if answer:
        evidence = select_supporting(question, answer, final.source, nodes=nodes, evidence=evidence, computed=computed)
    if evidence and not tree:
        cited = _bridge(question, answer, evidence, passages)
    sentence, confidence = "", None
    if finals and not final.error:
        sentence, confidence = describe_answer(
            question,
            answer,
            final.source,
            nodes=nodes,
            evidence=evidence,
            cited=cited,
            read=tuple(passages.values()),
            computed=computed,
            measured=explain.measure_answer(decisions),
            language=start.language,
        )
    if confidence and confidence.is_in_sentence:  # what only steps rest on does not support a guess
        consulted, cited = (*consulted, *cited), ()
    return Result(
        question=question,
        asked=start.question if rewritten else "",
        answer=answer,
        method=start.method,
        model=start.model,
        fidelity=fidelity,
        options=start.options,
        abstained=final.abstained,
        tree=tree,
        chains=tuple(event.text for event in _of(ChainWritten, events)),
        evidence=(*evidence, *cited),
        usage=usage_of(events),
        stopped_by=final.stopped_by,
        warnings=tuple(warnings),
        error=final.error,
        error_message=final.error_message,
        failure=failure,
        writing=_writing(events),
        why=explain.explain_answer(decisions) if finals else "",
        decisions=tuple(decision for decision in decisions if decision.shown_line()),
        consulted=consulted,
        prompts=start.prompts,
        sentence=sentence,
        confidence=confidence,
    )


def _writing(events: Sequence[Event]) -> Writing | None:
    """Return how the text was generated; None if no decision records it."""
    if all(type(event).add_to in (Event.add_to, Retrieved.add_to) for event in events):
        return None
    from hoptree.engine.generation_view import read_writing

    return read_writing(events)


def _as_json(value: Any) -> Any:
    """Return dataclasses as objects, and tuples as lists, as in JSON."""
    if value is None or isinstance(value, str | float | int):
        return value
    if isinstance(value, list | tuple):
        return [_as_json(part) for part in value]
    return {name: _as_json(getattr(value, name)) for name in value.__dataclass_fields__}


def _of(kind: type[E], events: Iterable[Event]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def _read_tree(events: Sequence[Event]) -> tuple[TreeNode, ...]:
    """Return the last plan with all that was added or rebuilt under its nodes."""
    nodes: dict[int, TreeNode] = {}
    tops: list[TreeNode] = []
    for event in events:
        if isinstance(event, Planned):
            if event.under is None:
                nodes, tops = {}, []
            elif event.rebuilt and event.under in nodes:
                nodes[event.under].children.clear()
            for planned in event.nodes:
                hypothesis = planned.get("hypothesis", "")
                refs = tuple(planned.get("refs", ()))
                node = TreeNode(planned["id"], planned["question"], hypothesis=hypothesis, refs=refs)
                nodes[planned["id"]] = node
                above = nodes.get(planned["parent"])
                (above.children if above else tops).append(node)
        elif isinstance(event, NodeStarted) and event.id in nodes:
            nodes[event.id].state, nodes[event.id].resolved = event.state, event.resolved
        elif isinstance(event, NodeSettled) and event.id in nodes:
            _settle(nodes[event.id], event)
    return tuple(tops)


def _settle(node: TreeNode, event: NodeSettled) -> None:
    node.state, node.answer, node.source = event.state, event.answer, event.source
    node.evidence = tuple(event.evidence)
    node.why, node.branch = event.why or node.why, event.branch or node.branch
    for name in ("resolved", "know", "hypothesis", "verdict"):
        if (value := getattr(event, name)) is not None:
            setattr(node, name, value)
    if event.struck is not None:
        node.struck = tuple(event.struck)
    if event.facts is not None:
        node.facts = tuple(map(tuple, event.facts))


def _end_unfinished(tree: Sequence[TreeNode], final: Finished) -> None:
    """Mark the nodes that a budget ended, unless they have a hypothesis."""
    for node in (node for top in tree for node in top.walk() if node.state == "asking" and not node.hypothesis):
        if node.id == 0 and final.answer:
            node.answer, node.source, node.evidence = final.answer, final.source, tuple(final.support)
        node.state, node.why = STOPPED, f"the budget of {final.stopped_by} ended it"


def _cited(tree: Sequence[TreeNode]) -> dict[str, None]:
    """Return the ids of passages that nodes cite, in the order of the tree."""
    return dict.fromkeys(name for top in tree for node in top.walk() for name in node.evidence)


def _bridge(
    question: str, answer: str, evidence: tuple[Passage, ...], passages: Mapping[str, Passage]
) -> tuple[Passage, ...]:
    """Return the passage that links a question to evidence without its names, if any."""
    from hoptree.text.answer_fit import bridging, stating  # imported late, so that the first call starts sooner

    held, named = stating(answer, question, evidence)
    if named or not held:
        return ()
    bridge = bridging(question, answer, [each for each in evidence if each.id in held], passages.values())
    return (bridge,) if bridge and bridge not in evidence else ()


def _passages_found(searches: Sequence[Retrieved]) -> dict[str, Passage]:
    """Return all passages by id, each with its best score."""
    passages: dict[str, Passage] = {}
    for search in searches:
        for p in search.passages:
            if p["id"] not in passages or passages[p["id"]].score < p["score"]:
                passages[p["id"]] = passage_of(p)
    return passages


def _consulted(
    finals: Sequence[Finished], tree: Sequence[TreeNode], passages: Mapping[str, Passage]
) -> tuple[Passage, ...]:
    """Return the passages that the final event names, else the tree's, else all."""
    named = dict.fromkeys(name for final in finals for name in final.support)
    ids: Iterable[str] = named or _cited(tree) if named or tree else passages
    return tuple(passages[name] for name in ids if name in passages)


def _back_guesses(node: TreeNode, passages: tuple[Passage, ...]) -> TreeNode:
    """Name the passages, read at any time, that state the answer of a guessed step."""
    children = [_back_guesses(child, passages) for child in node.children]
    if node.source == "fallback" and node.answer and not node.verdict and not node.facts:
        from hoptree.text.answer_fit import states_as_asked  # imported late, so that the first call starts sooner

        asked = node.resolved or node.question
        if stated := tuple(each.id for each in passages if states_as_asked(node.answer, asked, each)):
            return replace(node, children=children, source="external", evidence=stated[:_MAX_BACKING])
    return replace(node, children=children)


def _mark_guesses(node: TreeNode, passages: Mapping[str, Passage]) -> TreeNode:
    """Drop the evidence of guesses; older traces also need their source marked."""
    children = [_mark_guesses(child, passages) for child in node.children]
    read = tuple(passages[name] for name in node.evidence if name in passages)
    stated = node.source != "external" or node.verdict or node.facts or not read or is_stated(node.answer, read)
    if stated and node.source != "fallback":
        return replace(node, children=children)
    return replace(node, children=children, source="fallback", evidence=())


def dropped_part_warnings(events: Iterable[Event], explain: Explanation) -> list[str]:
    """Return a warning for each dropped part of the last plan or of a rebuilt node."""
    sentences: list[str] = []
    for event in events:
        if isinstance(event, Planned):
            if event.under is None:
                sentences = []
            cuts = (issue["detail"] for issue in event.issues if issue["kind"] in _CUT)
            # The same words as the warning of other methods, so that it is shown once.
            sentences += [f"The model's plan was repaired: {detail}." for detail in cuts]
        elif isinstance(event, NodeSettled):
            sentences += explain.dropped_parts(event)
    return sentences
