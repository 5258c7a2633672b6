"""The words, names and sentences of a text, and which words carry content."""

from __future__ import annotations

import importlib
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
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
_HAVE = word_set("have has had having")  # auxiliaries that may be full verbs: "he has two brothers"
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
_NAME_LIKE = word_set("may will mark can")  # with a capital, they are names or months
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
    """Open a tagger: `rules[:LANGUAGE]`, or an installed `spacy[:MODEL]`."""
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


_spacy_tagger = cache(SpacyTagger)  # loading takes seconds, and each question opens it


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
    """Strip the part from an apostrophe on: "doesn't" is "does", "it's" is "it"."""
    head, mark, tail = word.partition("'")
    if tail == "t" and head.endswith("n"):
        return head[:-1] if head[:-1] in CLOSED else head
    return head if mark and tail in ("s", "re", "ve", "ll", "d", "m", "") else word


def _is_number(word: str) -> bool:
    return any(character.isdigit() for character in word)


def begins_sentence(text: str, start: int) -> bool:
    """Return whether a sentence begins here; opening marks may come before."""
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
_CONTEXT_CHARS = 24  # how far beside a month a date is searched for


def is_time_expression(text: str, span: Span) -> bool:
    """Return whether capitalised words are a time: "June 1920", not "June Carter"."""
    start, end = span
    begin = max(0, start - _CONTEXT_CHARS)
    if any(
        begin + first <= start and end <= begin + last for first, last in date_spans(text[begin : end + _CONTEXT_CHARS])
    ):
        return True
    if not _ONLY.fullmatch(text, start, end):
        return False
    return bool(_BEFORE.search(text[begin:start]) or _BEHIND.match(text, end))


_WORD = lazy_re(r"\w[\w'’.-]*")
_INSIDE = frozenset(("of", "the", "de", "la", "van", "von", "der", "da", "del", "di", "el", "in"))


def name_spans(text: str, start: int = 0) -> list[tuple[int, int]]:
    """Return the spans of names: capitalised words in a row."""
    spans: list[tuple[int, int]] = []
    last = ""
    for match in _WORD.finditer(text, start):
        word = match[0].rstrip(".'’-")
        if not word[:1].isupper():
            continue
        begin, end = match.start(), match.start() + len(word)
        between = text[spans[-1][1] : begin].removeprefix("." if len(last) == 1 else "") if spans else ""
        if spans and all(small in _INSIDE for small in between.replace(":", " ").split()):
            begin = spans.pop()[0]
        spans.append((begin, end))
        last = word
    return spans


_ORDINARY = word_set(
    "many several few other others one two three answer answers question questions reason reasoning step context "
    "note fact facts actor actors actress actresses artist artists author authors band bands book books brother "
    "brothers characters children cities composer composers countries critics daughter daughters director "
    "directors documentary family father fathers film films husband king members mother mothers movie movies "
    "musicians nationality novel novels parents people place places player players president producer producers "
    "queen scientists sister sisters singer singers son song songs sons students wife women men writer writers "
    "year years date born built came composed created died directed featuring filmed following formed founded "
    "given held including known led located made named produced published raised recorded released set shot "
    "starred starring sung taken using won written"
)  # nouns, participles and numbers that sentences about people and their works begin with
_PARTICIPLE = lazy_re(r"(?!.*(?:[^aeiour]red|ha?mm?ed)$)[a-z]{3,}ed")  # Alfred, Mildred, Ahmed and Mohammed are none
_BESIDE = lazy_re(r"\s+(?:in|on|at|by|for|from|to|as|into|with|after|before|during|around)\b")
_PART = lazy_re(r"\w+")
_LOOKAHEAD_CHARS = 60


def is_ordinary_start(text: str, span: Span) -> bool:
    """Return whether a word begins a sentence and is unlikely to begin a name.

    Such a word is in a list, is a participle before a preposition, or occurs in lower case elsewhere. Before another
    capital it is part of a name ("Film Socialisme"); after a colon or quotation mark it may be a name.
    """
    start, end = span
    word, plain = text[start:end], text[start:end].lower()
    before = text[max(0, start - 8) : start].rstrip(" ")
    if not word[:1].isupper() or word[1:] != plain[1:] or before.endswith((":", '"', "“", "”")):
        return False
    behind = text[end : end + _LOOKAHEAD_CHARS]
    if not begins_sentence(text, start) or (behind[:1].isspace() and behind.lstrip()[:1].isupper()):
        return False
    if plain in _ORDINARY or (_PARTICIPLE.fullmatch(plain) and _BESIDE.match(behind)):
        return True
    return plain in _written_words(text)


@lru_cache(maxsize=8)
def _written_words(text: str) -> frozenset[str]:
    """Return the words of a text; joined ones also in parts."""
    joined = (text[start:end] for start, end in word_spans(text))
    return frozenset((*_PART.findall(text), *joined))


@dataclass(frozen=True, slots=True)
class NameTagger:
    """A tagger that skips ordinary words at sentence starts."""

    tagger: Tagger

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]:
        return tuple(
            carries and not is_ordinary_start(text, span)
            for span, carries in zip(spans, self.tagger.content(text, spans), strict=True)
        )


LANGUAGES = ("en", "mul", "")  # of names, best first: "mul" is Wikidata's tag for all languages, "" is not a tag
MAX_NAME_CHARS = 300  # the rest of a name is not looked up


def fold(name: str) -> str:
    """Fold a name for look-ups: case, accents, spaces, quotes, dashes."""
    if name.isascii():  # ten times as fast, for most names
        return " ".join(name[:MAX_NAME_CHARS].casefold().split())
    split = name[:MAX_NAME_CHARS]
    for _ in range(2):  # a capital may appear only after the first decomposition
        split = unicodedata.normalize("NFKD", split.casefold())
    plain = "".join(letter for letter in split if not unicodedata.combining(letter)).translate(_PLAIN)
    # A name of nothing but combining marks is kept.
    return " ".join((plain if plain.strip() else split).encode("utf-8", "replace").decode().split())


_PLAIN = {ord(odd): plain for odd, plain in zip("‘’ʼ‛“”„‐‑‒–—−", "''''\"\"\"------", strict=True)}
# Letters that Unicode does not decompose, as people write them on other keyboards.
_PLAIN |= {ord(odd): plain for odd, plain in zip("łøđðħŧıŋ", "loddhtin", strict=True)}
_PLAIN |= {ord("þ"): "th", ord("æ"): "ae", ord("œ"): "oe"}


def language_rank(tag: str, order: Sequence[str]) -> int:
    """Rank a language among the wanted ones: en-gb comes after en, unwanted ones last."""
    tag = tag.lower()
    if tag in order:
        return 2 * order.index(tag)
    general = tag.partition("-")[0]
    return 2 * order.index(general) + 1 if general in order else 2 * len(order)


def is_wanted_language(tag: str, order: Sequence[str]) -> bool:
    return not order or language_rank(tag, order) < 2 * len(order)


def best_name(names: Iterable[tuple[str, str]], order: Sequence[str]) -> str:
    """Choose the name to show, by language, length and alphabet."""
    return min(names, key=lambda pair: (language_rank(pair[1], order), len(pair[0]), pair[0]), default=("", ""))[0]


_CLOSING = "\"'”’»)\\]*"
_STOP, _WIDE_STOP = "[.!?…।؟۔]", "[。！？]"
# A run of marks or spaces is matched once, however long; a pattern that begins with a character set is fastest.
_MARK = (
    rf"[.!?…।؟۔。！？](?:(?<={_STOP})(?<!{_STOP}.){_STOP}*[{_CLOSING}]*\s+(?=[\"'“‘«(\[¿¡*]*([^\W_]))"
    rf"|(?<={_WIDE_STOP})(?<!{_WIDE_STOP}.){_WIDE_STOP}*[」』”’）]*\s*(?=[「『“‘（]*([^\W_])))"
)  # scripts without spaces have none after a mark
_END = lazy_re(_MARK)
_END_OR_BREAK = lazy_re(rf"{_MARK}|(?<!\s)\s*\n\s*(?=\S)")
_TITLE = lazy_re(
    r"(?:^|[\s(\[\"“‘'/-])(?:mr|mrs|ms|messrs|mme|mlle|dr|drs|prof|rev|fr|msgr|mons|bp|abp|gen|brig|maj|col|adm|cmdr|comdr|cdr"
    r"|capt|lt|lieut|ens|sgt|cpl|pvt|pfc|supt|insp|det|atty|gov|sen|rep|hon|pres|amb|wm|thos|chas|geo|jas|jos"
    r"|ste|mt|ft|vs|v|cf|viz|ca|approx|est|esp|incl|fl|op|e\.g|i\.e|bzw|evtl|geb|ggf|hr|inkl|sog|vgl)\Z",
    re.IGNORECASE,
)  # abbreviations that never end a sentence
_SHORTENED = lazy_re(
    r"(?:^|[\s(\[\"“‘.-]|(?<!\w)')(?:[^\W\d_]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|jr|sr|esq|inc|ltd|co|corp|bros|llc|etc"
    r"|et al|dept|univ|assn|st|ave|blvd"
    r"|(?-i:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Mon|Tues?|Wed|Thurs?|Fri|Sat|Sun))\Z",
    re.IGNORECASE,
)  # abbreviations that end a sentence if the next word begins no name
_TITLED = lazy_re(r"\S\s+[^\W\d_a-z][\w'’-]*\s+[^\W\d_a-z][\w'’-]*\Z")  # a title, after whose "!" a sentence may go on
_BEFORE_A_NUMBER = lazy_re(
    r"(?:^|[\s(])(?:nos?|vols?|pp?|ch|fig|figs|art|sec|chap|c|b|d|r|m|nr|abs|abb|bd|kap)\Z", re.IGNORECASE
)
_NUMBERED = lazy_re(r"\s*[(\[]?(?:\d{1,2}|[ivx]{1,4}|[a-h])\Z", re.IGNORECASE)
_GERMAN_ORDINAL = lazy_re(
    r"\b(?P<article>d(?:er|ie|as|en|em|es)|am|im|vom|zum|zur|beim)\s+\d{1,3}\Z|(?:^|\D)\d{1,2}\Z", re.IGNORECASE
)
_GERMAN_MONTH = lazy_re(
    r"(?:Januar|Jänner|Februar|Feber|März|Mai|Juni|Juli|Oktober|Dezember|Jahrhunderts?)\b"
    r"|(?:April|August|September|November)(?:\s+\d|\W*\Z)"  # these are English too
)
_MAX_ABBREVIATION_CHARS = 24
_BEGINS = lazy_re(
    r"[\"'“‘«(\[*]*(?:the|an?|this|that|these|those|he|she|it|they|we|you|i|his|her|its|their|our|my|there|here|in|on|at|by"
    r"|from|for|to|with|of|as|after|before|during|since|until|when|while|where|who|what|which|why|how|if|although"
    r"|though|because|but|and|or|so|yet|thus|hence|therefore|however|moreover|also|then|now|both|some|many|most|all"
    r"|no|not|one|two|another|each|was|were|is|are|did|does|do|has|have|had|according|first|second|finally|next)\b(?!\.)",
    re.IGNORECASE,
)


@lru_cache(maxsize=16)  # callers look for several answers in the same passages
def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the span of each sentence; line breaks end one too."""
    spans: list[tuple[int, int]] = []
    begin, stop = len(text) - len(text.lstrip()), len(text.rstrip())
    for end in (_END_OR_BREAK if "\n" in text else _END).finditer(text, begin, stop):
        if _is_end(text, begin, end):
            spans.append((begin, end.start() + len(end[0].rstrip())))
            begin = end.end()
    return (*spans, (begin, stop)) if stop > begin else tuple(spans)


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a passage; line breaks count as spaces."""
    text = " ".join(text.split())
    return tuple(text[start:end] for start, end in sentence_spans(text))


@lru_cache(maxsize=4096)
def _abbreviation(before: str) -> tuple[bool, bool]:
    """Return whether an abbreviation at the end never, or may, end a sentence."""
    needs_more = _TITLE.search(before) is not None or _NUMBERED.fullmatch(before) is not None
    return needs_more, _SHORTENED.search(before) is not None


def _is_end(text: str, begin: int, end: re.Match[str]) -> bool:
    """Return whether a mark before a space ends the sentence that begins at `begin`."""
    following = end[1]
    if "\n" in end[0] or not following:
        return True
    if following.islower():
        return False
    before = text[max(begin, end.start() - _MAX_ABBREVIATION_CHARS) : end.start()]
    if end[0].rstrip() == "!" and _TITLED.search(before):
        return _BEGINS.match(text, end.end()) is not None
    if end[0].rstrip() != ".":  # a question mark, an ellipsis, a closing quote
        return True
    needs_more, shortened = _abbreviation(before)
    if needs_more:
        return False
    ordinal = _GERMAN_ORDINAL.search(before) if before[-1:].isdigit() else None
    if ordinal and ordinal["article"] and not _BEGINS.match(text, end.end()):
        return False
    if ordinal and _GERMAN_MONTH.match(text, end.end()):
        return False
    if following.isdigit():
        return not shortened and not _BEFORE_A_NUMBER.search(before)
    return not shortened or _BEGINS.match(text, end.end()) is not None


def capitalised_names(text: str, tagger: Tagger) -> tuple[str, ...]:
    """Return the names in a text, recognised by capitals, without times."""
    names: list[str] = []
    words = word_spans(text)
    at = 0
    for start, end in name_spans(text):
        while at < len(words) and words[at][0] < start:
            at += 1
        first = at
        while at < len(words) and words[at][1] <= end:
            at += 1
        inside = words[first:at]
        carrying = tagger.content(text, inside)
        begin = next((span[0] for span, carries in zip(inside, carrying, strict=True) if carries), end)
        if begin < end and not is_time_expression(text, (begin, end)):
            names.append(text[begin:end].removesuffix("'s").removesuffix("’s"))
    return tuple(dict.fromkeys(names))
