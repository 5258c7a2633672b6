"""hop's reading of passages for an answer."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage, Source
from hoptree.engine.context import Context
from hoptree.engine.events import PassageTruncated
from hoptree.engine.prompts import MAX_WORDS, is_readable_id, prompt_for, show_passages
from hoptree.engine.schedule import in_turns
from hoptree.methods.steps.answer import Answered, note_answer, supporting_ids
from hoptree.models.model import LearnsCapabilities, Model, Reply, trained_on
from hoptree.text.grounding import stems
from hoptree.text.names import sentences
from hoptree.text.parse import clean_answer, find_refusal
from hoptree.text.question_tree import Node

TrainedPrompts = Literal["auto", "on", "off"]  # auto: if the model was trained on hop's short prompts
# READ_PROMPT comes first if log-probabilities show doubt, as small models overuse NOT FOUND.
READ_PROMPT, READ_OR_REFUSE_PROMPT = "read", "read_or_not_found"
TRAINED_READ_PROMPT, TRAINED_GUESS_PROMPT = "trained_read", "trained_guess"
_MAX_TOKENS = 128
_WHOLE_PASSAGES = 2  # the first passages keep all sentences
_CUT_MARGIN = 0.7  # a sentence stays if it scores no further below the best one of its passage
_MAX_PIECE_WORDS = 60
_BEGINNING_WORDS = 250  # words at the beginning of a long passage that always stay
_ANSWER_LABEL = lazy_re(r"answer:\s*", re.IGNORECASE)
_SENTENCE_LABEL = lazy_re(r"^[ \t]*sentence:", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader's answer, and the sentence that it copied, or ""."""

    answer: Answer
    copied: str = ""


def uses_trained_prompt(model: Model, prompt: str, trained: TrainedPrompts) -> bool:
    """Return whether to use a short prompt, for models that were trained on it."""
    return trained == "on" or (trained == "auto" and prompt_for("hop", prompt).template in trained_on(model))


async def read_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    prompt: str,
    chains: Sequence[str] = (),
    node: Node | None = None,
    cut: bool = False,
) -> Reading:
    """Read passages, after the `chains` of answered parts; `cut` leaves out sentences."""
    step = "final" if chains else "read"
    source: Source = "synthesis" if chains else "external"
    if not passages and not chains:
        ctx.emit(Answered(value=False, step=step, continuation_hit="no passages"), node=node)
        return Reading(Answer("", "", "unknown", source))
    wanted = " ".join([question, *chains])
    shown = await cut_passages(ctx, wanted, passages) if cut else passages
    shown = await in_turns(lambda passage: shorten_for(ctx, wanted, passage), shown)
    documents = "\n".join([*chains, show_passages(ctx, shown, titles=True)])
    filled = prompt_for(ctx.method, prompt).fill(documents=documents, question=question)
    model = ctx.model_for("answer")
    top = int("logprobs" in model.capabilities)
    reply = await ctx.generate(step, filled, max_tokens=_MAX_TOKENS, node=node, top_logprobs=top)
    if top and not reply.choices[0].tokens and isinstance(model, LearnsCapabilities):
        model.drop_capability("logprobs")
    text, copied, begin = parse_reading(reply.text)
    refusal = "no answer" if not text else find_refusal(text)
    note_answer(ctx, step, text, clean_answer(text))
    ctx.emit(Answered(value=not refusal, step=step, continuation_hit=refusal or None, raw=reply.text), node=node)
    if refusal:
        return Reading(Answer("", reply.text, "unknown", source))
    confidence = _least_probability(reply, begin, begin + len(text))
    answer = Answer(clean_answer(text), reply.text, "answered", source, confidence=confidence)
    return Reading(replace(answer, support=supporting_ids(answer.text, passages)), copied)


async def cut_passages(ctx: Context, question: str, passages: Sequence[Passage]) -> list[Passage]:
    """Leave out sentences that the retriever scores well below the best."""
    scores = await ctx.sentence_scores(question, passages)
    if scores is None:
        return list(passages)
    shown = list(passages[:_WHOLE_PASSAGES])
    for passage, row in list(zip(passages, scores, strict=True))[_WHOLE_PASSAGES:]:
        least = max(row, default=0.0) - _CUT_MARGIN
        kept = [text for place, text in enumerate(sentences(passage.text)) if place == 0 or row[place] >= least]
        shown.append(replace(passage, text=" ".join(kept)))
    return shown


def shorten_for(ctx: Context, question: str, passage: Passage) -> Passage:
    """Shorten a long passage, with a warning."""
    shown = shorten(question, passage)
    if shown is not passage:
        words, kept = len(passage.text.split()), len(shown.text.split())
        ctx.emit(PassageTruncated(passage=passage.id, words=words, kept=kept))
        name = f"Passage {passage.id}" if is_readable_id(passage.id) else "A passage"
        ctx.warn("truncated", f"{name} is long; {kept} of its {words} words were read, those nearest to the question.")
    return shown


def shorten(question: str, passage: Passage) -> Passage:
    """Cut a long passage to its beginning, its end, and what is nearest to a question.

    The beginning alone lacks what comes late on a page, such as a marriage or a death.
    """
    if len(passage.text) < 2 * MAX_WORDS or len(passage.text.split()) <= MAX_WORDS:
        return passage
    pieces = (
        words[at : at + _MAX_PIECE_WORDS]
        for words in map(str.split, sentences(passage.text))
        for at in range(0, len(words), _MAX_PIECE_WORDS)
    )
    text = [(" ".join(piece), stems(" ".join(piece)), len(piece)) for piece in pieces]
    counts = Counter(word for _, words, _ in text for word in words)
    rarity = {word: math.log(1 + len(text) / (1 + counts[word])) for word in stems(question)}
    title = stems(passage.title)
    begins = list(itertools.accumulate(size for *_, size in text))
    beginning = [place for place, words in enumerate(begins) if words <= _BEGINNING_WORDS] or [0]

    def shared(place: int) -> float:
        """Return the weight of the question's words in a piece and the title."""
        words = text[place][1]
        if not rarity.keys() & (words - title):
            return 0.0
        return sum(rarity[word] for word in rarity.keys() & (words | title))

    nearest = sorted(range(len(text)), key=lambda place: -shared(place))
    kept, left = set[int](), MAX_WORDS
    for place in (*beginning, len(text) - 1, len(text) - 2, *nearest):
        if place not in kept and text[place][2] <= left:
            kept.add(place)
            left -= text[place][2]
    return replace(passage, text=" ".join(text[place][0] for place in sorted(kept)))


def parse_reading(reply: str) -> tuple[str, str, int]:
    """Return the answer, the copied sentence, and where the answer begins."""
    label = _SENTENCE_LABEL.search(reply)
    text = reply[: label.start()] if label else reply
    begin = len(text) - len(text.lstrip())
    if answer := _ANSWER_LABEL.match(text, begin):
        begin = answer.end()
    copied = reply[label.end() :].strip(" \t\r\n\"'“”") if label else ""
    return text[begin:].strip(), copied, begin


def _least_probability(reply: Reply, begin: int, end: int) -> float | None:
    """Return the probability of the least likely token in a span, or None."""
    tokens = reply.choices[0].tokens
    spelled = "".join(token.text for token in tokens)
    least, at = None, len(spelled.lstrip()) - len(spelled)  # the text of a reply begins with its first word
    for token in tokens:
        starts, at = at, at + len(token.text)
        if at > begin and starts < end and token.text.strip():
            least = token.logprob if least is None else min(least, token.logprob)
    return None if least is None else math.exp(least)
