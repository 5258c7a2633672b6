"""hop's reader: the answer that passages state and the sentence it rests on, or NOT FOUND."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage, Source
from hoptree.engine.context import Context
from hoptree.engine.events import PassageTruncated
from hoptree.engine.prompts import prompt_for
from hoptree.methods.hop.signals import stems
from hoptree.methods.steps.answer import Answered, note_answer, supporting_ids
from hoptree.methods.steps.evidence import MAX_WORDS, is_readable_id, show_passages
from hoptree.models.model import LearnsCapabilities, Model, Reply, trained_on
from hoptree.text.names import sentences
from hoptree.text.parse import clean_answer, find_refusal, question_key
from hoptree.text.question_tree import Node

Trained = Literal["auto", "on", "off"]
_MAX_TOKENS = 128
_WHOLE_PASSAGES = 2
"""The first passages, of which no sentence is left out."""
_MAX_PIECE_WORDS = 60
_BEGINNING_WORDS = 250
"""Words at the beginning of a long passage that are kept whatever the question."""
_ANSWER_LABEL = lazy_re(r"answer:\s*", re.IGNORECASE)
_SENTENCE_LABEL = lazy_re(r"^[ \t]*sentence:", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader replied: its answer, and the sentence it copied, "" where it copied none."""

    answer: Answer
    copied: str = ""


def asks_trained(model: Model, prompt: str, trained: Trained) -> bool:
    """Return whether a model is asked by a short prompt, for models that were trained on it."""
    return trained == "on" or (trained == "auto" and prompt_for("hop", prompt).template in trained_on(model))


async def read_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    prompt: str,
    chains: Sequence[str] = (),
    node: Node | None = None,
    cut: float = 0.0,
) -> Reading:
    """Read passages, behind the `chains` of parts answered before, for the answer to a question.

    The answer's confidence is the probability of its least likely token, where the model tells it. Above 0, `cut`
    leaves sentences out, as in `cut_passages`.
    """
    step = "final" if chains else "read"
    source: Source = "synthesis" if chains else "external"
    if not passages and not chains:
        ctx.emit(Answered(value=False, step=step, continuation_hit="no passages"), node=node)
        return Reading(Answer("", "", "unknown", source))
    wanted = " ".join([question, *chains])
    shown = cut_passages(wanted, passages, cut) if cut else passages
    shown = [shorten_for(ctx, wanted, passage) for passage in shown]
    documents = "\n".join([*chains, show_passages(ctx, shown, titles=True)])
    filled = prompt_for(ctx.method, prompt).fill(documents=documents, question=question)
    model = ctx.model_for("answer")
    top = int("logprobs" in model.capabilities)
    reply = await ctx.generate(step, filled, max_tokens=_MAX_TOKENS, node=node, top_logprobs=top)
    if top and not reply.choices[0].tokens and isinstance(model, LearnsCapabilities):
        model.lacks("logprobs")
    text, copied, begin = parse_reading(reply.text)
    refusal = "no answer" if not text else find_refusal(text)
    note_answer(ctx, step, text, clean_answer(text))
    ctx.emit(Answered(value=not refusal, step=step, continuation_hit=refusal or None, raw=reply.text), node=node)
    if refusal:
        return Reading(Answer("", reply.text, "unknown", source))
    confidence = _least_probability(reply, begin, begin + len(text))
    answer = Answer(clean_answer(text), reply.text, "answered", source, confidence=confidence)
    return Reading(replace(answer, support=supporting_ids(answer.text, passages)), copied)


def cut_passages(question: str, passages: Sequence[Passage], cut: float) -> list[Passage]:
    """Leave out the sentences that score less than the share `cut` of the best one.

    The score of a sentence is the words it shares with the question beside those of its title, the rare ones more, and
    then the title's, too. Whole stay the first passages, those that the question names, and those that any of these
    name; of the others always the first sentence.
    """
    texts = [[(text, stems(text)) for text in sentences(passage.text)] for passage in passages]
    held = [words for text in texts for _, words in text]
    rarity = {word: math.log(1 + len(held) / (1 + sum(word in other for other in held))) for word in stems(question)}
    scores = [
        [_shared(rarity, words, stems(passage.title)) for _, words in text]
        for passage, text in zip(passages, texts, strict=True)
    ]
    least = cut * max((score for row in scores for score in row), default=0.0)
    asked = named = f" {question_key(question)} "
    shown = []
    for place, (passage, text, row) in enumerate(zip(passages, texts, scores, strict=True)):
        title = question_key(passage.title.partition(" (")[0])
        if place < _WHOLE_PASSAGES or (title and f" {title} " in asked):
            named += f"{question_key(passage.text)} "
        elif not title or f" {title} " not in named:
            kept = [line for number, (line, _) in enumerate(text) if not number or row[number] >= least]
            passage = replace(passage, text=" ".join(kept))
        shown.append(passage)
    return shown


def shorten_for(ctx: Context, question: str, passage: Passage) -> Passage:
    """Shorten a passage, and say so."""
    shown = shorten(question, passage)
    if shown is not passage:
        words, kept = len(passage.text.split()), len(shown.text.split())
        ctx.emit(PassageTruncated(passage=passage.id, words=words, kept=kept))
        name = f"Passage {passage.id}" if is_readable_id(passage.id) else "A passage"
        ctx.warn("truncated", f"{name} is long; {kept} of its {words} words were read, those nearest to the question.")
    return shown


def shorten(question: str, passage: Passage) -> Passage:
    """Keep of a passage that is too long for a prompt its beginning, its end, and what is nearest to the question.

    The first words alone lack what comes last on a page: whom somebody married, where they died.
    """
    if len(passage.text.split()) <= MAX_WORDS:
        return passage
    pieces = [piece for sentence in sentences(passage.text) for piece in _pieces(sentence.split())]
    text = [(piece, stems(piece), len(piece.split())) for piece in pieces]
    found = Counter(word for _, words, _ in text for word in words)
    rarity = {word: math.log(1 + len(text) / (1 + found[word])) for word in stems(question)}
    title = stems(passage.title)
    begins = list(itertools.accumulate(size for *_, size in text))
    beginning = [place for place, words in enumerate(begins) if words <= _BEGINNING_WORDS] or [0]
    nearest = sorted(range(len(text)), key=lambda place: -_shared(rarity, text[place][1], title))
    kept, left = set[int](), MAX_WORDS
    for place in (*beginning, len(text) - 1, len(text) - 2, *nearest):
        if place not in kept and text[place][2] <= left:
            kept.add(place)
            left -= text[place][2]
    return replace(passage, text=" ".join(text[place][0] for place in sorted(kept)))


def _pieces(words: Sequence[str]) -> Iterator[str]:
    """Yield a sentence, or pieces of one that is too long to be one."""
    for at in range(0, len(words), _MAX_PIECE_WORDS):
        yield " ".join(words[at : at + _MAX_PIECE_WORDS])


def _shared(rarity: Mapping[str, float], words: frozenset[str], title: frozenset[str]) -> float:
    """Return the weight of the question's words in a sentence and its title; 0 where only the title has any."""
    if not rarity.keys() & (words - title):
        return 0.0
    return sum(rarity[word] for word in rarity.keys() & (words | title))


def parse_reading(reply: str) -> tuple[str, str, int]:
    """Return the answer, the sentence copied behind it, and where the answer begins; labels may be left out."""
    label = _SENTENCE_LABEL.search(reply)
    text = reply[: label.start()] if label else reply
    begin = len(text) - len(text.lstrip())
    if answer := _ANSWER_LABEL.match(text, begin):
        begin = answer.end()
    return text[begin:].strip(), _unquoted(reply[label.end() :]) if label else "", begin


def _unquoted(sentence: str) -> str:
    return sentence.strip(" \t\r\n\"'“”")


def _least_probability(reply: Reply, begin: int, end: int) -> float | None:
    """Return the probability of the least likely token of a span of the reply; None without any."""
    tokens = reply.choices[0].tokens
    spelled = "".join(token.text for token in tokens)
    least, at = None, len(spelled.lstrip()) - len(spelled)  # the text of a reply begins with its first word
    for token in tokens:
        starts, at = at, at + len(token.text)
        if at > begin and starts < end and token.text.strip():
            least = token.logprob if least is None else min(least, token.logprob)
    return None if least is None else math.exp(least)
