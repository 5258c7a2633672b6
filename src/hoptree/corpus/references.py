"""Find cross-references between passages, and the places that they lead to.

A place is named by a file and an anchor in it ("manual/tables.html#keys"), the number of a section, or the id of an
entry ("[RFC2119]"). Links in HTML, Markdown or reStructuredText are resolved when a document is read; numbers and ids
are found in the text of passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from hoptree.core.lazy import lazy_re
from hoptree.core.values import PLACE, Passage
from hoptree.corpus.document import BETWEEN_HEADINGS

_MAX_PLACE_CHARS = 300
_MAX_PER_PASSAGE = 32
_SCHEME = lazy_re(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_PAGE = lazy_re(r"#page=\d+\Z")
_NUMBER = r"(?:[A-Z]|\d{1,3})(?:\.\d{1,3}){0,5}"
_PARTS = "sections?|sect?\\.|chapters?|chap\\.|appendix|annex|abschnitte?s?|abschn\\.|kapiteln?s?|kap\\.|anhang"
_NUMBERED = lazy_re(rf"(?:\b(?:{_PARTS})|§§?)\s?(?P<number>{_NUMBER})\b(?!\.\d)", re.IGNORECASE)
_NUMBERED_ZH = lazy_re(rf"第\s?(?P<number>{_NUMBER})\s?[章节節]")
_HEADED = lazy_re(
    rf"(?:第\s?(?P<zh>{_NUMBER})\s?[章节節]|(?:(?P<part>{_PARTS}|§)\s?)?(?P<number>{_NUMBER})(?P<dot>[.:)]?))(?:\s|\Z)",
    re.IGNORECASE,
)
_ENTRY = lazy_re(r"^\s{0,8}\[(?P<id>[A-Za-z0-9][\w.+-]{0,30})\]:?\s+(?=\S)", re.MULTILINE)
_CITED = lazy_re(r"(?<![\w\]\[])\[(?P<id>[A-Za-z0-9][\w.+-]{0,30})\](?![\w(\[:])")
_NOT_WORDS = lazy_re(r"[^\w\- ]")


def resolve_link(href: str, name: str) -> str:
    """Return the place that a link of a file leads to; "" if outside the documents."""
    target, _, anchor = href.strip().partition("#")
    path = unquote(target.partition("?")[0])
    if _SCHEME.match(href.strip()) or path.startswith("/") or not (path or anchor):
        return ""
    file = normpath(join(dirname(name), path)) if path else name
    return "" if file.startswith("..") else place_name(file, unquote(anchor))


def place_name(file: str, anchor: str = "") -> str:
    """Return the name of a place; "" if it is too long."""
    place = f"{file}#{anchor}" if anchor else file
    return place if len(place) <= _MAX_PLACE_CHARS else ""


def heading_anchor(words: str) -> str:
    """Return the anchor of a heading as Markdown renderers make it."""
    return _NOT_WORDS.sub("", words.casefold()).strip().replace(" ", "-")


def places_of(passage: Passage) -> set[str]:
    """Return the names of the places that are in a passage."""
    file = _file_of(passage)
    places = {PLACE + file, *(PLACE + anchor for anchor in passage.anchors)}
    if number := _number_of(passage.title.rpartition(BETWEEN_HEADINGS)[2]):
        places.add(_numbered(file, number))
    return places | {_entry(file, entry["id"]) for entry in _first(_ENTRY, passage.text)}


def references_of(passage: Passage) -> set[str]:
    """Return the names of the places that a passage points to."""
    file = _file_of(passage)
    targets = {PLACE + target for target in passage.references}
    for pattern in (_NUMBERED, _NUMBERED_ZH):
        targets |= {_numbered(file, match["number"]) for match in _first(pattern, passage.text)}
    targets |= {_entry(file, match["id"]) for match in _first(_CITED, passage.text)}
    return targets - places_of(passage)


def _number_of(heading: str) -> str:
    """Return the number of a heading such as "4.2. Pools" or "Chapter 5", or ""."""
    match = _HEADED.match(heading)
    if match is None:
        return ""
    number: str = match["zh"] or match["number"]
    # "A dog's life" and "7 ways out" have no number.
    return number if match["zh"] or match["part"] or match["dot"] or "." in number else ""


def _numbered(file: str, number: str) -> str:
    return f"{PLACE}{file}§{number.upper()}"


def _entry(file: str, entry_id: str) -> str:
    return f"{PLACE}{file}[{entry_id.casefold()}]"


def _file_of(passage: Passage) -> str:
    return _PAGE.sub("", passage.document or passage.id)


def _first(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the first matches of a pattern, up to the limit for a passage."""
    return islice(pattern.finditer(text), _MAX_PER_PASSAGE)
