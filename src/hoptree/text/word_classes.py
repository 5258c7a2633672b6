"""Function words of English, and taggers that tell content words from them."""

from __future__ import annotations

import importlib
import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from hoptree.core.errors import ConfigError
from hoptree.core.lazy import lazy_re
from hoptree.text.quantities import MONTHS, date_spans
from hoptree.text.tokens import Span, Word, is_unspaced, word_spans


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DETERMINERS = word_set("the a an this that these those each every either neither some any no all both half another")
_PRONOUNS = word_set(
    "i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself "
    "we us our ours ourselves they them their theirs themselves who whom whose which what whoever whatever whichever "
    "someone somebody something anyone anybody anything everyone everybody everything nobody nothing none there"
)
_PREPOSITIONS = word_set(
    "of in on at by for from to into onto upon with within without about above across after against along alongside "
    "amid among amongst around as before behind below beneath beside besides between beyond despite down during except "
    "inside like near off opposite out outside over past per since than through throughout till toward towards under "
    "underneath unlike until up via versus vs"
)
_CONJUNCTIONS = word_set(
    "and or but nor so yet if because although though while whereas unless whether when where why how whenever "
    "wherever once lest that"
)
_POSSESSION_STARTS = word_set("a an the no his her its their my our your this that these those some any many several")
"""Words before which "have" is a full verb."""
_HAVE = word_set("have has had having")  # auxiliaries that are often full verbs: "he has two brothers"
_DO = word_set("do does did doing")
_BE = word_set("be am is are was were been being")
_MODALS = word_set("will would shall should can could may might must ought cannot")
_AUXILIARIES = _HAVE | _DO | _BE | _MODALS
_PARTICLES = word_set("not n't to 's")
_ADVERBS = word_set(
    "also then now here again already always almost ago away back else even ever far forth further furthermore hence "
    "however indeed instead just later maybe meanwhile moreover much never nevertheless nonetheless nowadays often "
    "otherwise perhaps quite rather seldom so sometimes somewhat soon still such therefore thereby thereafter thus "
    "together too twice very well yet about longer sooner earlier only once more most less least abroad afterwards "
    "altogether anyway apart elsewhere everywhere likewise somewhere thereof today tomorrow tonight yesterday upstairs "
    "namely alike overall aside"
)
_ANSWERS = word_set("yes no oh ah well please okay ok")

_STRICT = _DETERMINERS | _PRONOUNS | _PREPOSITIONS | _CONJUNCTIONS | _PARTICLES | _BE | _HAVE | _DO | _ANSWERS
"""Words that are never content, even with a capital: "in The Hague"."""
_ACRONYMS = word_set("it us who")  # words that are content in capitals: "the WHO"
_NAME_LIKE = word_set("may will mark can")
"""Words that are a name or month with a capital inside a sentence, or before a name or number."""
CLOSED = _STRICT | _AUXILIARIES | _ADVERBS
_LY_CONTENT = word_set(
    "family early daily weekly monthly yearly friendly lovely lonely likely unlikely elderly holy ugly silly deadly "
    "costly orderly scholarly worldly cowardly reply supply apply imply comply multiply rely fly ally rally "
    "bully belly jelly lily folly assembly anomaly monopoly butterfly homily melancholy panoply july italy"
)  # words in -ly that are nouns, verbs or adjectives; the others are adverbs


_ENDS = frozenset('.!?:\n"“”')
_CONTENT_TAGS = frozenset(("NOUN", "PROPN", "ADJ", "VERB", "NUM"))
_MAX_SHORT_CHARS = 3
_DEFAULT_SPACY_MODEL = "en_core_web_sm"


class Tagger(Protocol):
    """Tells for each word span of a text whether the word carries content."""

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]: ...


def open_tagger(spec: str = "rules") -> Tagger:
    """Open a tagger: `rules[:LANGUAGE]`, or `spacy[:MODEL]`, which is never downloaded and never the default."""
    kind, _, name = spec.strip().partition(":")
    if kind == "rules":
        return LexiconTagger(name or "en")
    if kind == "spacy":
        return _spacy_tagger(name)
    remedy = "Choose rules, rules:LANGUAGE (as in rules:de), spacy, or spacy:MODEL (as in spacy:en_core_web_sm)."
    raise ConfigError(f"There is no tagger '{spec}'.", remedy)


def content_words(text: str, words: Sequence[Word], tagger: Tagger) -> tuple[bool, ...]:
    spans = word_spans(text)
    carrying = [start for (start, _), carries in zip(spans, tagger.content(text, spans), strict=True) if carries]
    return tuple(bisect_left(carrying, word.start) < bisect_left(carrying, word.end) for word in words)


class LexiconTagger:
    """Words are content unless a list or ending (English), or their length, says no."""

    def __init__(self, language: str = "en") -> None:
        self._english = language.partition("-")[0].lower() == "en"

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]:
        words = [text[start:end] for start, end in spans]
        begins = [begins_sentence(text, start) for start, _ in spans]
        if not self._english:
            return tuple(
                len(word) > _MAX_SHORT_CHARS
                or is_unspaced(word[:1])
                or _is_number(word)
                or (word[:1].isupper() and not begin)
                for word, begin in zip(words, begins, strict=True)
            )
        return tuple(
            _is_content(word, words[place + 1] if place + 1 < len(words) else "", begins[place])
            for place, word in enumerate(words)
        )


class SpacyTagger:
    """Parts of speech of an installed spaCy model; the first English one by default."""

    def __init__(self, model: str = "") -> None:
        try:
            spacy: Any = importlib.import_module("spacy")
        except ImportError as error:
            cause = "The tagger spacy needs spaCy, which is not installed."
            raise ConfigError(cause, "Install it (pip install spacy), or set tagger=rules.") from error
        if not model:
            model = next(
                (name for name in sorted(spacy.util.get_installed_models()) if name.startswith("en_")),
                _DEFAULT_SPACY_MODEL,
            )
        try:
            self._read: Any = spacy.load(model)
        except (OSError, ValueError) as error:
            cause = f"spaCy has no model {model} on this machine."
            raise ConfigError(cause, f"Install it (python -m spacy download {model}), or set tagger=rules.") from error

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]:
        tagged = [(token.idx, token.idx + len(token.text)) for token in self._read(text) if token.pos_ in _CONTENT_TAGS]
        flags = []
        at = 0
        for start, end in spans:
            while at < len(tagged) and tagged[at][1] <= start:
                at += 1
            flags.append(at < len(tagged) and tagged[at][0] < end)
        return tuple(flags)


_spacy_tagger = cache(SpacyTagger)  # loading takes seconds, and each question asks for it


def _is_content(word: str, following: str, begins: bool) -> bool:
    plain = _bare(word.casefold().replace("’", "'"))
    if _is_number(word) or (len(word) > 1 and word.isupper() and (plain not in CLOSED or plain in _ACRONYMS)):
        return True
    if word[:1].isupper() and plain not in _STRICT:
        if plain in _NAME_LIKE:
            return not begins or following[:1].isupper() or following[:1].isdigit()
        if not begins:
            return True
    if plain in _HAVE:
        return not begins and (following.casefold() in _POSSESSION_STARTS or _is_number(following))
    if plain in CLOSED:
        return False
    return not plain.endswith("ly") or plain in _LY_CONTENT or len(plain) < 5


def _bare(word: str) -> str:
    """Strip what follows an apostrophe: "doesn't" is "does", "it's" is "it"."""
    head, mark, tail = word.partition("'")
    if tail == "t" and head.endswith("n"):
        return head[:-1] if head[:-1] in CLOSED else head
    return head if mark and tail in ("s", "re", "ve", "ll", "d", "m", "") else word


def _is_number(word: str) -> bool:
    return any(character.isdigit() for character in word)


def begins_sentence(text: str, start: int) -> bool:
    """Whether a position begins a sentence; opening marks may come before it."""
    before = text[max(0, start - 8) : start].rstrip(" \t'‘(*[")
    return not before or before[-1] in _ENDS


_MONTH, _DAY = "|".join(MONTHS), "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_ONLY = lazy_re(rf"(?:{_MONTH}|(?:{_DAY})s?)(?:\s+(?:{_MONTH}))?")
_BEFORE = lazy_re(
    r"(?:\d(?:st|nd|rd|th)?|\b(?:in|on|from|to|since|until|till|during|each|every|last|next|this|early|late|mid))"
    r"[\s,-]+(?:(?:the|of|early|late|mid)[\s-]+)*\Z",
    re.IGNORECASE,
)
_BEHIND = lazy_re(rf",?\s+(?:the\s+|(?:{_MONTH})\s+)?\d")
_CONTEXT_CHARS = 24  # characters beside a month that are searched for a date


def is_time_expression(text: str, span: Span) -> bool:
    """Whether capitalised words give a time: "June 1920", not "June Carter"."""
    start, end = span
    begin = max(0, start - _CONTEXT_CHARS)
    if any(
        begin + first <= start and end <= begin + last for first, last in date_spans(text[begin : end + _CONTEXT_CHARS])
    ):
        return True
    if not _ONLY.fullmatch(text, start, end):
        return False
    return bool(_BEFORE.search(text[begin:start]) or _BEHIND.match(text, end))
