"""How well an answer is supported, by which passages, and its sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hoptree.core.lazy import lazy_re
from hoptree.core.values import CONTENTS, Level, Passage
from hoptree.engine.answer_sentence import (
    MAX_VALUE_CHARS,
    NOT_SAID,
    OWN_KNOWLEDGE,
    Chance,
    Confidence,
    cite_answer,
    cite_steps,
    frame_of,
    shorten,
)

if TYPE_CHECKING:
    from hoptree.engine.result import TreeNode


def describe_answer(
    question: str,
    answer: str,
    source: str,
    *,
    nodes: Sequence[TreeNode],
    evidence: Sequence[Passage],
    cited: Sequence[Passage],
    read: Sequence[Passage],
    computed: bool,
    measured: Chance | None,
    language: str = "",
) -> tuple[str, Confidence | None]:
    """Return the sentence for an answer, and how well it is supported.

    `nodes` are those of the tree, `evidence` the passages behind the answer, `cited` those only behind nodes, and
    `read` all passages that were read. [N] in the sentence is the Nth of evidence and cited. An answer that code
    `computed` is not compared with the last step. `language` is that of the conversation, for unclear questions.
    """
    frame, count = frame_of(question, answer, language), len(read)
    if not answer:
        return frame.none if not count else frame.none_in_passage if count == 1 else frame.none_in.format(count), None
    from hoptree.text import answer_fit, grounding  # late, so that the first call starts sooner

    holding, stated = answer_fit.places_of(answer, question, evidence)
    asked_nodes, backed, complete = _split_steps(nodes)
    steps = [node for node in asked_nodes if node.answer]
    if source == "internal" or (not holding and not complete):
        recalled = source == "internal"
        confidence = Confidence("a guess", OWN_KNOWLEDGE if recalled else NOT_SAID, *measured or ())
        return frame.possibly.format(answer, frame.own_knowledge if recalled else frame.not_said), confidence
    contrary = None if computed else _contrary_end(question, answer, nodes, backed)
    against = f", but its last step says “{shorten(contrary.answer, MAX_VALUE_CHARS)}”" if contrary else ""
    against = against or answer_fit.explain_doubt(question, answer, computed=computed) or _unanswered(asked_nodes)
    passages = (*evidence, *cited)
    if not against and len(steps) < 2 and holding and all(CONTENTS in evidence[at].metadata for at in holding):
        against = ", but only in a list of contents"
    if not stated and cited and not steps:  # they link what the question names to the passage of the answer
        holding += range(len(evidence), len(passages))
        stated = True
    if not steps and grounding.read_verdict(answer):
        stated = stated and _names_thing(question, answer, passages)
    if not against and not (_name_things(backed, passages) if steps else stated):
        against = _explain_unnamed(answer, len(steps), len(backed))
    if not against and answer_fit.rests_on_country(answer, evidence):
        against = ", but only by the name of its country"
    asked = next((node.resolved for node in reversed(steps) if node.answer == answer and node.resolved), question)
    holding = answer_fit.without_copies(holding, passages, answer, asked)
    quote = answer_fit.quote_from([passages[place] for place in holding], answer, asked)
    if not against and not computed and quote and answer_fit.is_of_other_end(asked, answer, quote.text):
        against = _explain_unnamed(answer, len(steps), len(backed))
    chosen = answer_fit.is_choice(question, answer, quote.text if quote else "")
    concluded, stating = (chosen and not complete) or bool(grounding.read_verdict(answer)), len(holding)
    numbers = {passage.id: place for place, passage in enumerate(passages)}
    agreeing = [node for node in backed if node is not contrary]
    rested = {numbers[name] for node in agreeing for name in node.evidence if name in numbers}
    if complete and rested and any(node.answer == answer for node in agreeing):  # other passages only share the name
        holding = [place for place in holding if place in rested]
    named = [numbers[name] for node in agreeing for name in node.evidence[:1] if name in numbers]
    places = [*dict.fromkeys((*holding, *named))]
    against = against or _explain_document(question, read, [passages[place] for place in places])
    level, reason = _weigh_support(
        stating, len(backed), len(steps), against, measured[0] if measured else None, concluded=concluded
    )
    confidence = Confidence(level, reason, *measured or ())
    ends = _ends(agreeing) if complete and (computed or chosen or concluded) else []
    if ends and all(node.answer != answer for node in ends):
        return cite_steps(question, answer, ends, named, passages), confidence
    return cite_answer(question, answer, places, passages, asked=asked, quoted=complete or not chosen), confidence


def _split_steps(nodes: Sequence[TreeNode]) -> tuple[list[TreeNode], list[TreeNode], bool]:
    """Return the steps, those backed by what was read, and whether these are all."""
    steps = [node for node in nodes if node.id]
    verified = ("external", "synthesis")
    backed = [node for node in steps if node.answer and (node.verdict == "supported" or node.source in verified)]
    return steps, backed, bool(backed) and len(backed) == len(steps)


def select_supporting(
    question: str,
    answer: str,
    source: str,
    *,
    nodes: Sequence[TreeNode],
    evidence: Sequence[Passage],
    computed: bool,
) -> tuple[Passage, ...]:
    """Return the evidence that states an answer, or that its steps cite.

    If all steps are backed, a verdict, a choice or the one name that a step has found rests on what they cite alone; a
    guess rests on nothing. A list rests on all that has one of its names.
    """
    from hoptree.text import answer_fit, grounding  # late, so that the first call starts sooner

    places, _ = answer_fit.places_of(answer, question, evidence)
    _, backed, complete = _split_steps(nodes)
    if source == "internal" or not (places or complete):
        return ()
    rested = {name for node in backed for name in node.evidence}
    follows = bool(grounding.read_verdict(answer)) or answer_fit.is_choice(question, answer, "")
    parts = grounding.parts_of(answer)
    follows = follows or (len(parts) < 2 and any(node.answer == answer for node in backed))
    if not (complete and rested and follows):
        rested |= {evidence[place].id for place in places}
    if computed and len(parts) > 1:
        rested = rested.union(*(grounding.holding(part, "", evidence) for part in parts))
    return tuple(passage for passage in evidence if passage.id in rested)


def _unanswered(nodes: Sequence[TreeNode]) -> str:
    """Return which steps have no answer, as a reason against the answer, or ""."""
    steps = [str(node.id) for node in nodes if not node.answer]
    named = f"steps {', '.join(steps)} have" if len(steps) > 1 else f"step {''.join(steps)} has"
    return f", but {named} no answer" if steps else ""


def _name_things(steps: Sequence[TreeNode], passages: Sequence[Passage]) -> bool:
    """Return whether what each step cites names what the step asks about."""
    known = {passage.id: passage for passage in passages}
    cited = [(step, [known[name] for name in step.evidence if name in known]) for step in steps if not step.children]
    return all(_names_thing(step.resolved or step.question, step.answer, read) for step, read in cited if read)


def _names_thing(question: str, answer: str, passages: Sequence[Passage]) -> bool:
    """Return whether a passage with an answer names what a question asks about.

    For a yes, a passage must have all that the question names.
    """
    from hoptree.text import answer_fit, grounding

    verdict = grounding.read_verdict(answer)
    if not verdict:
        held, named = answer_fit.stating(answer, question, passages)
        if held:
            return bool(named)
    return any(answer_fit.names_thing(question, passage, wholly=verdict == "yes") for passage in passages)


def _ends(nodes: Sequence[TreeNode]) -> list[TreeNode]:
    """Return the steps that no other step needs."""
    needed = {ref for node in nodes for ref in node.refs}
    return [node for node in nodes if node.id not in needed and not node.children]


def _contrary_end(question: str, answer: str, nodes: Sequence[TreeNode], backed: Sequence[TreeNode]) -> TreeNode | None:
    """Return the only last step if it is backed and its answer contradicts."""
    ends = _ends(nodes)
    if len(ends) != 1 or not all(node.id for node in nodes) or not any(node is ends[0] for node in backed):
        return None
    (end,) = ends
    if end.answer == answer:
        return None
    from hoptree.text.comparison import contradicts  # rarely needed: most answers are that of the last step

    return end if contradicts(question, answer, end.resolved or end.question, end.answer) else None


def _explain_unnamed(answer: str, steps: int, backed: int) -> str:
    """Return why an answer is not well supported if no passage names its thing.

    Steps that are not `backed` are a reason themselves.
    """
    if steps > 1:
        return ", but what was read for a step does not mention what it asks about" if backed == steps else ""
    from hoptree.text.grounding import read_verdict

    if read_verdict(answer):
        return ", but that does not mention what the question asks about"
    return ", but not together with what the question names"


_FILE_NAME = lazy_re(r"(?<![\w.])[\w-][\w.-]*\.[A-Za-z]\w{0,5}\b")


def _explain_document(question: str, read: Iterable[Passage], cited: Iterable[Passage]) -> str:
    """Return that nothing cited is of a file that was read and is asked about."""
    for name in dict.fromkeys(map(str.casefold, _FILE_NAME.findall(question))):
        own = {passage.id for passage in read if _is_of_file(passage, name)}
        if own and not own & {passage.id for passage in cited}:
            return f", but nothing cited is from {name}"
    return ""


def _is_of_file(passage: Passage, name: str) -> bool:
    file = passage.id.partition("#")[0].rpartition("/")[2].casefold()
    return file == name or file.startswith(f"{name}.") or passage.title.casefold() == name


_WELL_SUPPORTED, _PARTLY_SUPPORTED = 2 / 3, 1 / 3
"""The least probability of an answer that is called well, or partly, supported."""


def _weigh_support(
    holding: int, backed: int, steps: int, against: str, probability: float | None, *, concluded: bool
) -> tuple[Level, str]:
    """Return how well passages support an answer and `backed` of its `steps`, and why.

    `against` begins with a comma; a `probability` was measured with other questions.
    """
    several = holding > 1
    named = f"{holding} passages name it" if several else "a passage names it"
    if steps > 1:
        of_all = f"each of its {steps} steps rests" if backed == steps else f"only {backed} of its {steps} steps rest"
        reason = f"{of_all} on what was read"
    elif concluded:
        reason = f"it follows from {f'{holding} passages' if several else 'what was read'}"
    elif against or (probability is not None and probability < _WELL_SUPPORTED):
        reason = named
    else:
        reason = f"{holding} passages that were read say so" if several else "a passage that was read says so"
    reason += against
    if probability is not None and probability < _PARTLY_SUPPORTED:
        return "a guess", f"{named}{against}; of such answers to other questions, most were wrong"
    if probability is not None and probability < _WELL_SUPPORTED:
        joined = ";" if against else ", but"
        return "partly supported", f"{reason}{joined} of such answers to other questions, many were wrong"
    well = backed == steps and not against and (probability is not None or steps > 0 or not concluded)
    return ("well supported" if well else "partly supported"), reason
