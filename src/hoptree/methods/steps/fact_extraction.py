"""Asking a model for the facts of one passage, and keeping those that the passage itself can vouch for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.evidence import show_passages
from hoptree.text.names import fold
from hoptree.text.parse_triples import Triple, read_triples
from hoptree.text.sentences import sentences

# Scripts that write words without spaces: each character counts as a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ABBREVIATED = re.compile(r"(?:^|[\s.])(?:[^\W\d_]|jr|sr|inc|ltd|co|corp|bros|st|no|vol)\.\Z", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)

_SHORT, _STEM = 3, 5

Held = Literal[0, 1, 2]
"""How a text holds a name: not at all, its words here and there, or in a row."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One text with its words as they are compared, and where each of them stands."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str) -> _Line:
        found = [(word, match.span()) for match in _WORD.finditer(text) if (word := fold(match[0]))]
        return cls(text, tuple(word for word, _ in found), tuple(span for _, span in found))

    def find(self, wanted: Sequence[str]) -> int | None:
        """The number of the word from which on the wanted ones stand in a row."""
        count = len(wanted)
        places = range(len(self.words) - count + 1) if count else range(0)
        return next((at for at in places if self.words[at : at + count] == tuple(wanted)), None)


class Wording:
    """A passage, to be asked for names: its title, its sentences, and all of it in a row."""

    def __init__(self, title: str, text: str) -> None:
        self.sentences = sentences(text)
        whole = " ".join(text.split())
        self._title, self._whole = _Line.of(title), _Line.of(whole)
        self._lines = tuple(_Line.of(sentence) for sentence in self.sentences)
        of_title = Counter(self._title.words)
        self._bags = tuple(of_title | Counter(line.words) for line in self._lines) or (of_title,)

    def spelled(self, name: str) -> str:
        """The name as the passage spells it, "" if its words do not stand there.

        Words in a row are looked for in the title, then in the text; without an article before them if need be. Words
        that stand apart count if one sentence has them all as often, together with the title: the name stays as it is.
        """
        name = _without_stop(" ".join(name.split()))
        if not (wanted := _Line.of(name).words):
            return ""
        if _stands(name, self._title.text) or _stands(name, self._whole.text):
            return name
        for tried in dict.fromkeys((name, _ARTICLE.sub("", name, count=1) if _ARTICLE.match(name) else name)):
            for line in (self._title, self._whole):
                if found := _as_written(line, tried):
                    return found
        return name if any(Counter(wanted) <= bag for bag in self._bags) else ""

    def sentence(self, subject: str, relation: str, said: str) -> str:
        """The first sentence that states it best: with the object and the subject, then with words of the relation.

        What the title names is the subject of any sentence, under whatever pronoun. "" if no sentence holds a name.
        """
        pair = (_Line.of(subject).words, _Line.of(said).words)
        between = _stems(_Line.of(relation).words)
        titled = bool(pair[0]) and set(pair[0]) <= set(self._title.words)
        best, found = (False, 0, 0, 0), ""
        for line in self._lines:
            of_subject, of_object = (_held(line, words) for words in pair)
            both = bool(of_object and (of_subject or titled))
            if (rank := (both, both * len(between & _stems(line.words)), int(of_object), int(of_subject))) > best:
                best, found = rank, line.text
        return found


def _stems(words: Sequence[str]) -> set[str]:
    """The beginnings of words that are long enough to tell something: "published" for "publisher"."""
    return {word[:_STEM] for word in words if len(word) > _SHORT}


def _held(line: _Line, words: Sequence[str]) -> Held:
    if not words or not set(words) <= set(line.words):
        return 0
    return 1 if line.find(words) is None else 2


def _stands(name: str, text: str) -> bool:
    """Whether a text has the name letter by letter, and not inside a longer word."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (_inside(before, name[:1]) or _inside(name[-1:], after)):
            return True
        at = text.find(name, at + 1)
    return False


def _inside(left: str, right: str) -> bool:
    """Whether two neighbouring characters belong to one word."""
    pair = left + right
    return len(pair) == 2 and _WORD.match(pair) is not None and _WORD.match(pair).end() == 2  # type: ignore[union-attr]


def _as_written(line: _Line, name: str) -> str:
    """The place of a line that reads as the name, with the marks around it that the name has too."""
    wanted = _Line.of(name)
    at = line.find(wanted.words)
    if at is None:
        return ""
    start, end = line.spans[at][0], line.spans[at + len(wanted.words) - 1][1]
    for mark in reversed(name[: wanted.spans[0][0]]):
        if line.text[start - 1 : start] != mark:
            break
        start -= 1
    for mark in name[wanted.spans[-1][1] :]:
        if line.text[end : end + 1] != mark:
            break
        end += 1
    return line.text[start:end].strip()


def _without_stop(name: str) -> str:
    """The name without a full stop that ends the model's line; that of an abbreviation stays."""
    return name[:-1].rstrip() if name.endswith(".") and not _ABBREVIATED.search(name) else name


MAX_TOKENS = 512
"""About thirty facts; a small model that has begun to repeat itself goes on to the end."""
_PROMPTS, _STEP = "graph", "facts"

LeftOut = Literal["malformed", "not in the passage", "no name", "repeated"]
"""Why something that a model wrote as a fact is none."""

_NO_NAMES = frozenset(
    (
        *("he", "she", "it", "they", "him", "her", "them", "his", "hers", "its", "their", "theirs", "i", "we", "you"),
        *("me", "us", "who", "whom", "whose", "which", "that", "this", "these", "those", "there", "someone", "one"),
        *("somebody", "something", "himself", "herself", "itself", "themselves", "the", "a", "an", "none", "unknown"),
    )
)


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact that a passage states; `sentence` is where, "" if nothing but its title holds both names."""

    subject: str
    relation: str
    object: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came of one passage.

    `readable` is False for a reply that holds neither facts nor the word that there are none, `cut_off` says that it
    ended for its length; what it had said until then counts.
    """

    facts: tuple[StatedFact, ...] = ()
    left_out: Mapping[LeftOut, int] = field(default_factory=dict)
    readable: bool = True
    cut_off: bool = False


def facts_template() -> str:
    """The name and digest of the prompt."""
    prompt = prompt_for(_PROMPTS, _STEP)
    return f"{prompt.name}@{prompt.digest}"


async def extract_facts(ctx: Context, passage: Passage) -> Extracted:
    """The facts that a model finds in a passage, names as the passage spells them.

    Sentences of the passage that give orders to a model are neither shown nor taken for evidence.
    """
    title = _shown(ctx, Passage(passage.id, "", passage.title))
    text = _shown(ctx, replace(passage, title=""))
    if not text:
        return Extracted()
    prompt = prompt_for(_PROMPTS, _STEP).fill(title=title or "(none)", passage=text)
    reply = await ctx.generate(_STEP, prompt, role="extract", max_tokens=MAX_TOKENS)
    cut_off = reply.finish == "length"
    read = read_triples(reply.text, cut=cut_off)
    facts, left_out = ground_triples(read.triples, title, text)
    if read.malformed:
        left_out["malformed"] = read.malformed
    return Extracted(facts, left_out, read.understood, cut_off)


def ground_triples(
    triples: Sequence[Triple], title: str, text: str
) -> tuple[tuple[StatedFact, ...], dict[LeftOut, int]]:
    """The triples whose subject and object stand in a passage, each once with its sentence; and how many do not."""
    wording = Wording(title, text)
    facts: dict[tuple[str, ...], StatedFact] = {}
    left_out: Counter[LeftOut] = Counter()
    for subject, relation, said in triples:
        if _nameless(subject) or _nameless(said) or fold(subject) == fold(said):
            left_out["no name"] += 1
            continue
        of, about = wording.spelled(subject), wording.spelled(said)
        if not of or not about:
            left_out["not in the passage"] += 1
            continue
        between = _relation(relation)
        key = (fold(of), fold(between), fold(about))
        if key in facts:
            left_out["repeated"] += 1
        else:
            facts[key] = StatedFact(of, between, about, wording.sentence(of, between, about))
    return tuple(facts.values()), dict(left_out)


def _shown(ctx: Context, passage: Passage) -> str:
    return show_passages(ctx, [passage], titles=False).removeprefix("passage:").strip()


def _nameless(name: str) -> bool:
    return all(word in _NO_NAMES for word in fold(name).split())


def _relation(relation: str) -> str:
    """A relation in words: models write date_of_birth, too."""
    words = relation.replace("_", " ").rstrip(".:")
    return " ".join(words.split()) or relation
