"""Align tokens with their text, find words, and detect a language."""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from hoptree.core.lazy import lazy_re

Span = tuple[int, int]  # first character, and the one after the last
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts without spaces between words, for a pattern: Thai to Khmer, kana and Chinese."""


def overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Return whether a span overlaps one of the ordered others."""
    at = bisect_left(others, (span[1], 0))
    return at > 0 and others[at - 1][1] > span[0]


_DASH = "[-\u2010\u2011\u2212]"  # PDF files have other dashes in options
_SIGNS = lazy_re(
    rf"{_DASH}(?=[^\W\d_](?!\w)|[a-z])|{_DASH}{{2}}(?=\w)|(?:~|\.{{1,2}})?/\.?(?=\w)|[~.@#$%&\\](?=\w)"
    r"|\*{1,2}(?=[a-z_])(?!.{0,200}?\w\*)|_{1,2}(?=[a-z])"
)
"""The signs before the first word of an identifier: -x, --long, .env, /etc, @name, $HOME, *args, __init__."""
_OPTION_DASH = lazy_re(rf"(?<!\w){_DASH}(?=\w|{_DASH}\w)")


def identifier_signs(text: str, start: int = 0) -> str:
    """Return the signs of an identifier that begins here, or ""."""
    signs = _SIGNS.match(text, start)
    return signs[0] if signs else ""


def lstrip_marks(text: str, marks: str) -> str:
    """Strip marks before a text, but not the signs of an identifier.

    Asterisks that are also behind a word ("*kits*") are marks.
    """
    bare = text.lstrip(marks)
    begin = len(text) - len(bare)
    for start in range(max(0, begin - _MAX_SIGNS), begin):
        signs = identifier_signs(text, start)
        if signs and start + len(signs) >= begin:
            return text[start:]
    return bare


def strip_marks(text: str, marks: str) -> str:
    """Strip marks around a text, but not the signs of an identifier."""
    bare = lstrip_marks(text, marks)
    stripped = bare.rstrip(marks)
    return f"{stripped}__" if bare.startswith("__") and bare[len(stripped) :].startswith("__") else stripped


def keep_signs(answer: str, spelled: str) -> str:
    """Return words of a passage with the signs of an identifier that the answer has."""
    signs = identifier_signs(answer)
    if not signs or spelled.startswith(signs):
        return spelled
    return fold_option_dashes(f"{signs}{spelled}")


def fold_option_dashes(text: str) -> str:
    """Return a text with the plain dash before options, which PDF files have as minus."""
    return _OPTION_DASH.sub("-", text)


_MAX_SIGNS = 3  # before a word
_REPLACEMENT = "\ufffd"  # what a tokenizer writes for an incomplete character
_MAX_GAPS = 200  # texts that differ more often are not the same
_PROBE_CHARS, _WINDOW_CHARS, _MAX_TOKENS_AHEAD = 12, 400, 48  # identify a position; how far ahead to search for it


def token_spans(text: str, pieces: Sequence[str]) -> tuple[Span | None, ...]:
    """Return the span of text that each token wrote, or None.

    White space is ignored, so the text may have been stripped. Pieces may be decoded texts, or the forms of byte-level
    ("Ġ", "Ċ") and SentencePiece tokenizers ("▁", "<0xC3>") and endpoints ("bytes:\\xc3"). Tokens that share a character
    all get it; an empty token gets the first character of the next one. Text on one side only (special tokens, text cut
    off by a stop) is skipped.
    """
    shown = [(at, character) for at, character in enumerate(text) if not character.isspace()]
    visible = "".join(character for _, character in shown)
    written = _best_reading(pieces, visible)
    spans: list[Span | None] = [None] * len(pieces)
    for decoded_at, text_at in _aligned(written, visible):
        at = shown[text_at][0]
        for number in range(written.first[decoded_at], written.last[decoded_at] + 1):
            old = spans[number]
            spans[number] = (old[0], at + 1) if old else (at, at + 1)
    for number in range(len(spans) - 2, -1, -1):
        following = spans[number + 1]
        if spans[number] is None and following and not pieces[number]:
            spans[number] = (following[0], following[0] + 1)
    return tuple(spans)


class _Decoded(NamedTuple):
    """The visible characters of all tokens, with the first and last token of each."""

    text: str
    first: tuple[int, ...]
    last: tuple[int, ...]


def _best_reading(pieces: Sequence[str], visible: str) -> _Decoded:
    """Decode the pieces in the form that gives the text, or most of it."""
    read: list[_Decoded] = []
    for form in (_plain, _sentence_piece, _byte_level):
        read.append(_decode([form(piece) for piece in pieces]))
        if visible and visible in read[-1].text:
            return read[-1]
    return max(read, key=lambda written: sum(1 for _ in _aligned(written, visible)))


_BYTES = lazy_re(r"<0x([0-9A-Fa-f]{2})>|\\x([0-9A-Fa-f]{2})")


def _plain(piece: str) -> bytes:
    if piece.startswith("bytes:") and _BYTES.search(piece):
        return b"".join(_with_bytes(piece[len("bytes:") :]))
    return piece.encode("utf-8", "replace")


def _sentence_piece(piece: str) -> bytes:
    return b"".join(_with_bytes(piece.replace("▁", " ")))


def _with_bytes(piece: str) -> Iterator[bytes]:
    at = 0
    for match in _BYTES.finditer(piece):
        yield piece[at : match.start()].encode("utf-8", "replace")
        yield bytes((int(match[1] or match[2], 16),))
        at = match.end()
    yield piece[at:].encode("utf-8", "replace")


def _byte_alphabet() -> dict[str, int]:
    """Return the characters that stand for the 256 bytes in byte-level BPE."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in set(seen)]
    return {**{chr(byte): byte for byte in seen}, **{chr(256 + place): byte for place, byte in enumerate(hidden)}}


_BYTE_OF = _byte_alphabet()


def _byte_level(piece: str) -> bytes:
    if all(character in _BYTE_OF for character in piece):
        return bytes(_BYTE_OF[character] for character in piece)
    return piece.encode("utf-8", "replace")  # a special token


def _decode(parts: Sequence[bytes]) -> _Decoded:
    data = b"".join(parts)
    owner = [number for number, part in enumerate(parts) for _ in part]
    characters: list[str] = []
    first: list[int] = []
    last: list[int] = []
    at = 0
    while at < len(data):
        character, size = _character(data, at)
        if not character.isspace():
            characters.append(character)
            first.append(owner[at])
            last.append(owner[at + size - 1])
        at += size
    return _Decoded("".join(characters), tuple(first), tuple(last))


def _character(data: bytes, at: int) -> tuple[str, int]:
    """Return the character that begins here, and its byte length."""
    lead = data[at]
    if lead < 0x80:
        return chr(lead), 1
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    try:
        return data[at : at + size].decode("utf-8"), size
    except UnicodeDecodeError:
        return _REPLACEMENT, 1


def _aligned(written: _Decoded, visible: str) -> Iterator[tuple[int, int]]:
    """Yield pairs of equal written and visible characters, in order."""
    decoded = written.text
    if decoded != visible and visible and visible in decoded:  # the tokens hold the text, and more around it
        shift = decoded.find(visible)
        yield from ((shift + text_at, text_at) for text_at in range(len(visible)))
        return
    decoded_at = text_at = gaps = 0
    while decoded_at < len(decoded) and text_at < len(visible) and gaps < _MAX_GAPS:
        if decoded[decoded_at] == visible[text_at]:
            yield decoded_at, text_at
            decoded_at, text_at = decoded_at + 1, text_at + 1
        elif decoded[decoded_at] == _REPLACEMENT:
            ahead, beyond = _skip_replacements(decoded, decoded_at, visible, text_at)
            yield from _shared(range(decoded_at, ahead), range(text_at, beyond))
            decoded_at, text_at = ahead, beyond
        else:
            decoded_at, text_at = _resynchronise(written, decoded_at, visible, text_at)
            gaps += 1


def _skip_replacements(decoded: str, decoded_at: int, visible: str, text_at: int) -> tuple[int, int]:
    """Return the positions after a run of incomplete characters."""
    ahead = decoded_at
    while ahead < len(decoded) and decoded[ahead] == _REPLACEMENT:
        ahead += 1
    probe = decoded[ahead : ahead + _PROBE_CHARS].partition(_REPLACEMENT)[0]
    most = min(len(visible), text_at + ahead - decoded_at)
    if not probe:
        return ahead, most
    position = visible.find(probe, text_at, most + len(probe))
    return ahead, position if position >= 0 else min(most, text_at + 1)


def _shared(decoded: range, visible: range) -> Iterator[tuple[int, int]]:
    """Distribute incomplete characters evenly over the characters they are part of."""
    for number, decoded_at in enumerate(decoded):
        begin = number * len(visible) // len(decoded)
        end = max(begin + 1, (number + 1) * len(visible) // len(decoded))
        yield from ((decoded_at, text_at) for text_at in visible[begin:end])


def _resynchronise(written: _Decoded, decoded_at: int, visible: str, text_at: int) -> tuple[int, int]:
    """Return where one of the next tokens occurs in the text, at best with successors."""
    starts = _token_starts(written.first, decoded_at)
    window = visible[text_at : text_at + _WINDOW_CHARS]
    for alone in (False, True):
        best: tuple[int, int, int] | None = None
        for at, end in starts:
            if best and at - decoded_at >= best[0]:
                break
            if alone and end - at > _WINDOW_CHARS:
                continue
            probe = written.text[at : end if alone else at + _PROBE_CHARS].partition(_REPLACEMENT)[0]
            offset = window.find(probe) if probe else -1
            if offset >= 0 and (best is None or at - decoded_at + offset < best[0]):
                best = (at - decoded_at + offset, at, text_at + offset)
        if best:
            return best[1], best[2]
    return starts[0][1], text_at


def _token_starts(owners: Sequence[int], start: int) -> list[Span]:
    """Return the spans of this token and the next ones."""
    starts: list[Span] = []
    at = start
    while at < min(len(owners), start + _WINDOW_CHARS) and len(starts) < _MAX_TOKENS_AHEAD:
        end = bisect_right(owners, owners[at], at)
        starts.append((at, end))
        at = end
    return starts


class _Kinds(dict[int, str]):
    """Maps ASCII to itself, and other characters to one that stands for their kind."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isascii():
            kind = character
        elif is_unspaced(character):
            kind = "一"
        elif character.isalpha():
            kind = "a"
        elif character.isdigit():
            kind = "0"
        elif character.isalnum() or unicodedata.category(character).startswith("M"):
            kind = "½"
        else:
            kind = "-" if character in "’‐‑" else " "
        self[code] = kind
        return kind


_KINDS = _Kinds()
_WORD = lazy_re(
    r"(?:[A-Za-z]\.(?=[A-Za-z]))?[0-9A-Za-z½]+"
    r"(?:(?:['&-]|(?<=[0-9])[.,](?=[0-9])|(?<=\.[A-Za-z])\.(?=[A-Za-z]))[0-9A-Za-z½]+)*|一"
)
"""A word of characters that stand for kinds; full stops join digits, and letters that each stand alone before them."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word, written by the tokens from `first` to `last` (exclusive)."""

    text: str
    start: int
    end: int
    first: int = 0
    last: int = 0

    @property
    def tokens(self) -> range:
        return range(self.first, self.last)


@lru_cache(maxsize=8)  # callers compare many names with the same text
def word_spans(text: str) -> tuple[Span, ...]:
    """Return the spans of words: letters, digits and their accents.

    "don't", "well-known", "AT&T", "1,000.5" and "U.S" are one word each; final full stops, brackets and dashes belong
    to none. In scripts without spaces every character is a word.
    """
    kinds = text if text.isascii() else text.translate(_KINDS)
    return tuple([match.span() for match in _WORD.finditer(kinds)])


def find_words(text: str, pieces: Sequence[str]) -> tuple[Word, ...]:
    """Return the words of a text with the tokens that wrote them.

    Several words of one token ("New York") count as one. Punctuation tokens belong to no word, unlike in DRAGIN, where
    the doubt whether a sentence ends counts for the word before the full stop.
    """
    spans = word_spans(text)
    words: list[tuple[int, int, int, int]] = []  # as of `Word`, without the text
    number = 0
    by_token = token_spans(text, pieces)
    for start, end in spans:
        while number < len(by_token) and ((span := by_token[number]) is None or span[1] <= start):
            number += 1
        first = number
        while number < len(by_token) and ((span := by_token[number]) is None or span[0] < end):
            number += 1
        last = number
        while last > first and by_token[last - 1] is None:
            last -= 1
        span = by_token[words[-1][3] - 1] if first == last and words and words[-1][2] < words[-1][3] else None
        if span is not None and span[1] > start:  # the last token of the previous word wrote this one too
            words[-1] = (words[-1][0], end, *words[-1][2:])
        else:
            words.append((start, end, first, last))
    return tuple(Word(text[start:end], start, end, first, last) for start, end, first, last in words)


def is_unspaced(character: str) -> bool:
    """Return whether a character is of a script without spaces between words."""
    return character > "\u303f" and (
        character <= "\u30ff"
        or "\u3400" <= character <= "\u4dbf"
        or "\u4e00" <= character <= "\u9fff"
        or "\uf900" <= character <= "\ufaff"
        or "\U00020000" <= character <= "\U0003ffff"
    )


_SCRIPTS = (
    ("japanese", "\u3040", "\u30ff"),
    ("chinese", "\u3400", "\u9fff"),
    ("korean", "\uac00", "\ud7a3"),
    ("russian", "\u0400", "\u04ff"),
    ("greek", "\u0370", "\u03ff"),
    ("arabic", "\u0600", "\u06ff"),
    ("hebrew", "\u0590", "\u05ff"),
    ("hindi", "\u0900", "\u097f"),
    ("tamil", "\u0b80", "\u0bff"),
    ("thai", "\u0e00", "\u0e7f"),
)
LANGUAGES = (
    *("english", "german", "french", "spanish", "italian", "portuguese", "dutch", "swedish", "danish", "norwegian"),
    *("finnish", "hungarian", "romanian", "turkish", *(name for name, _, _ in _SCRIPTS)),
)
_MIN_SCRIPT_SHARE, _MIN_KANA_SHARE, _MIN_WORD_SHARE = 0.2, 0.1, 0.08
_SAMPLE_CHARS = 4_000
_LETTERS = lazy_re(r"[^\W\d_]+")
_GERMAN_WHAT = lazy_re(
    r"\W*(?:[Uu]nd |[Aa]ber )?[Ww]as (?:ist|sind|waren|wird|wurden?|kann|muss|soll|darf|will|weiß|war(?! \w+ed\b)"
    r"|(?!(?:it|that|not|most|first|last|next|least|best|part|great|what|east|west|test|art|at)\b)[a-zäöüß]{2,}t(?:en?)?)\b"
)
"""The beginning of a German question of "was", which is English too: "Was kostet …", but "Was it …"."""
_GERMAN_QUESTION = lazy_re(
    r"(?i)\W*(?:und |aber )?(?:(?:in|an|auf|aus|bei|mit|seit|von|zu|bis|für|nach|vor|um|über|unter) )?"
    r"(?:welche[mnrs]?|we[mn]|wessen|wieso|weshalb|wo(?:hin|her|mit|für|durch|von)"
    r"|gibt es|\w\w+(?:st|ßt) du|\w\w+en sie)\b"
)
"""The beginning of a German question that may have no other function word: "Kennst du …", "Und in welchem …"."""
_ADDRESS = lazy_re(
    r"(?<![^\s<>])[^\s<>]*(?:@|://|www\.|\w_\w)[^\s<>]*"
)  # or a name such as Miles_per_Gallon; its words are of no language


@cache
def function_words() -> dict[str, frozenset[str]]:
    """Load the function words of each language, of which most sentences have some."""
    data = json.loads(Path(__file__).with_name("function_words.json").read_text(encoding="utf-8"))
    return {language: frozenset(words) for language, words in data.items()}


_GERMAN_ARTICLE = lazy_re(r"\b(?:[Dd](?:ie|as|e[mnrs])|[Ee]ine?[mnrs]?|[Ii]hr?e?[mnrs]?|[Ss]eine?[mnrs]?)\s\Z")
_GERMAN_OF = lazy_re(r"\w+\s+(?:von|in|im|aus|der)\s+(?=\w)")
_GERMAN_GENITIVE = lazy_re(r"\s+(?:des|vom|von|im)\s+[A-ZÄÖÜ]")


def after_german_noun(text: str, start: int, end: int) -> int:
    """Return where the name begins in "das Werk in Bilbao".

    It is `end` for a noun of a name that follows: "das Budget des Projekts Nordlicht".
    """
    if not _GERMAN_ARTICLE.search(text[max(0, start - 8) : start]):
        return start
    noun = _GERMAN_OF.match(text, start, end)
    return noun.end() if noun else end if _GERMAN_GENITIVE.match(text, end) else start


def language_of(text: str, default: str = "english") -> str:
    """Return the language of the middle of a text, or `default` if unclear."""
    start = max(0, (len(text) - _SAMPLE_CHARS) // 2)
    sample = text[start : start + _SAMPLE_CHARS].lower()
    letters = "".join(_LETTERS.findall(sample))
    if not letters:
        return default
    if not letters.isascii():
        counts = {name: sum(low <= each <= high for each in letters) for name, low, high in _SCRIPTS}
        name, most = max(counts.items(), key=lambda item: item[1])
        if most > len(letters) * _MIN_SCRIPT_SHARE:
            kana = counts["japanese"] > most * _MIN_KANA_SHARE
            return "japanese" if name in ("chinese", "japanese") and kana else name
    words = _LETTERS.findall(_ADDRESS.sub(" ", sample))
    if _GERMAN_WHAT.match(text) and not function_words()["english"] & {*words} - {"in", "was"}:
        return "german"
    if _GERMAN_QUESTION.match(text):
        return "german"
    hits = {name: sum(word in known for word in words) for name, known in function_words().items()}
    best = max(hits, key=lambda name: (hits[name], name == default))
    return best if hits[best] >= max(1, len(words) * _MIN_WORD_SHARE) else default
