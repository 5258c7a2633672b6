"""One-time retrieval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import SurestChosen, answer_from
from hoptree.text.grounding import guess_unless_supported
from hoptree.text.parse import question_key

_READINGS = ("the two best passages", "the three best passages", "all passages found")
_WHOLE_QUESTION_ORDER = 1000  # above the order of any part of the question


@method(
    "oner",
    title="One-time retrieval",
    needs=("corpus",),
    query="The question itself",
    deviating_options={"surest": "several readings, of which the surest counts, are more than one"},
    shared_prompts=("read", "read_asked_first"),
)
async def oner(question: Question, ctx: Context, *, k: int = 5, titles: bool = False, surest: bool = False) -> Answer:
    """Retrieve once with the question itself, then read.

    With `surest`, the passages are read three times, in part and as a whole, always with titles, and the surest answer
    is taken.
    """
    ctx.require_corpus()
    passages = await ctx.search(question.text, k=k)
    if surest:
        answers = await _read_several_ways(ctx, question.text, passages)
        return choose_surest(ctx, answers, when="final", named=_READINGS)
    return await answer_from(ctx, question.text, passages, titles=titles)


async def _read_several_ways(ctx: Context, question: str, passages: Sequence[Passage]) -> list[Answer]:
    """Read the best two, the best three and all passages; propose the surest."""
    logprobs = "logprobs" in ctx.model_for("answer").capabilities
    ways = ((passages[:2], "read"), (passages[:3], "read_asked_first"), (passages[::-1], "read"))

    async def read(place: int, shown: Sequence[Passage], prompt: str) -> Answer:
        answer = await answer_from(ctx, question, shown, prompt=prompt, titles=True, logprobs=logprobs)
        ctx.propose(guess_unless_supported(answer, shown), order=_WHOLE_QUESTION_ORDER - len(ways) + place)
        return answer

    answers = await together(read(place, shown, prompt) for place, (shown, prompt) in enumerate(ways))
    best = choose_surest(ctx, answers, when="own", named=_READINGS)
    ctx.propose(guess_unless_supported(best, passages), order=_WHOLE_QUESTION_ORDER)
    return answers


def choose_surest(ctx: Context, answers: Sequence[Answer], *, when: str, named: Sequence[str] = ()) -> Answer:
    """Return the surest answer, or the most frequent one; of equals the last."""
    known = [place for place, answer in enumerate(answers) if answer.known]
    if len(known) < 2:
        return answers[known[0] if known else -1]
    if all(answers[place].confidence is None for place in known):
        counts = Counter(question_key(answers[place].text) for place in known)
        weights = {place: float(counts[question_key(answers[place].text)]) for place in known}
    else:
        weights = {place: answers[place].confidence or 0.0 for place in known}
    best = max(known, key=lambda place: (weights[place], place))
    texts = [answer.text if answer.known else "" for answer in answers]
    confidence = [answer.confidence for answer in answers]
    ctx.emit(SurestChosen(value=best, when=when, answers=texts, confidence=confidence, named=list(named)))
    return answers[best]
