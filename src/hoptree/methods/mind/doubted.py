"""A sentence that a model is too unsure of, with what stands before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.steps.writing.rewriting import Doubt
from hoptree.steps.writing.stretch import Draft
from hoptree.uncertainty import Span, mentions

__all__ = ["Doubted"]


@dataclass(frozen=True, slots=True)
class Doubted:
    """A sentence in doubt, the last of a text, with the words in doubt by their places in it."""

    text: Draft
    before: str
    sentence: str
    hits: tuple[Span, ...]

    @classmethod
    def of(cls, doubt: Doubt, draft: Draft, written: Draft) -> Doubted:
        """The sentence that a doubt is about, behind what was written and what the draft has before it."""
        hits = tuple((start - doubt.start, end - doubt.start) for start, end in doubt.hits)
        before = written.followed_by(draft.until(doubt.start)).text
        return cls(written.followed_by(draft.until(doubt.end)), before, draft.text[doubt.start : doubt.end], hits)

    def is_hit(self, name: str) -> bool:
        """Whether a name stands in the sentence with a word in doubt."""
        return self.hits_any(mentions(name, self.sentence))

    def hits_any(self, places: Sequence[Span]) -> bool:
        """Whether a word in doubt stands at one of these places of the sentence."""
        return any(start < last and first < end for start, end in places for first, last in self.hits)

    def is_in_doubt(self, name: str, known: Sequence[str]) -> bool:
        """Whether a name stands in the sentence with a word in doubt, and neither before nor in what is known."""
        return self.is_hit(name) and not any(mentions(name, text) for text in (self.before, *known))
