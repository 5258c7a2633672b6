"""The link pass: after the passages of a change are in the text index, find out who mentions whom.

Fresh passages are searched for all names, and passages that were there before for the names that are new; what stays as
it was is not looked at. A new name of very common words is not looked for among older passages: those that write it
with capitals are known to mention it, the others come with the next compaction. Memory is bounded whatever the size of
the corpus: names are searched for in rounds (title shards), as many at a time as the budget holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from hoptree.retrieval.index.folder import Change
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.index.links import Links, LinkWriter
from hoptree.retrieval.index.mentions import NameFinder, capitalised, folded, mentions, names_of
from hoptree.retrieval.index.texts import Texts
from hoptree.values import Passage

__all__ = ["LINK_MEMORY", "link_passages"]

LINK_MEMORY = 768 * 2**20
"""Bytes the search for names may take, unless told otherwise."""
_BYTES_A_LETTER = 48
"""Of an Aho-Corasick automaton while it is built (measured with half a million names)."""
_WRITER_BYTES = 64 * 2**20
_FEW = 50_000
"""Passages whose words are worth collecting to leave out names that cannot occur in them."""
_CANDIDATES = 300
"""Passages with all words of a name that are read to see whether they mention it; a name with more is too common."""
_WORD = re.compile(r"\w+")


def link_passages(
    change: Change, *, memory: int = LINK_MEMORY, on_passage: Callable[[int], None] | None = None
) -> None:
    """Bring the mention graph of a staged change up to date.

    It counts only when all of it is there: a pass that was killed is done again.
    """
    texts, ledger, first = change.staged(), change.ledger, change.first_new
    writer = LinkWriter(change.part / "links", memory=_WRITER_BYTES)
    writer.remove(ledger.removed())
    if change.resumed:  # a pass that was killed at its very end may have put them in
        writer.remove(key for _, key, _ in texts.scan(first))
    words = _words(texts, first)
    sought = (name for name in ledger.names() if (words is None or _all_in(name, words)) and texts.terms(name))
    count = 0
    fresh = ledger.next_number > first
    for round_, finder in enumerate(_finders(sought, memory) if fresh else ()):
        for _, key, passage in texts.scan(first):
            _add(writer, key, passage, finder, first_round=round_ == 0)
            count += 1
            if on_passage is not None:
                on_passage(count)
    writer.commit()
    if first and fresh:
        _link_older(texts, ledger.names(since=first), Links(change.part / "links"), writer, first)
        writer.commit()
    writer.close()
    ledger.commit()


def _add(writer: LinkWriter, key: int, passage: Passage, finder: NameFinder, *, first_round: bool) -> None:
    found = {folded(name) for name in finder(passage.text)}
    if not found and not first_round:
        return
    own = {folded(name) for name in names_of(passage.title, passage.aliases)}
    written = {folded(name) for name in capitalised(passage.text)}
    if first_round:
        writer.add(key, _document(passage), bears=sorted(own), mentions=sorted((found | written) - own))
    elif found - written - own:
        writer.add(key, _document(passage), mentions=sorted(found - written - own))


def _document(passage: Passage) -> int:
    return key_of(passage.document or passage.id)


def _words(texts: Texts, first: int) -> set[str] | None:
    """The words of the fresh passages, if these are few among many: no other names need be looked for in them."""
    found: set[str] = set()
    for count, (_, _, passage) in enumerate(texts.scan(first), 1):
        if not first or count > _FEW:
            return None
        found.update(_WORD.findall(passage.text.lower()))
    return found


def _all_in(name: str, words: set[str]) -> bool:
    return words.issuperset(_WORD.findall(name.lower()))


def _finders(names: Iterable[str], memory: int) -> Iterator[NameFinder]:
    """Finders for as many names at a time as the memory holds; one at least."""
    some: list[str] = []
    letters, made = 0, False
    for name in names:
        some.append(name)
        letters += len(name)
        if letters * _BYTES_A_LETTER > memory:
            yield NameFinder(some)
            some, letters, made = [], 0, True
    if some or not made:
        yield NameFinder(some)


def _link_older(texts: Texts, names: Iterable[str], links: Links, writer: LinkWriter, first: int) -> None:
    """Find fresh names in the passages that were there before, with the help of the text index."""
    for name in names:
        known = links.mentioning(folded(name), _CANDIDATES)
        for key, passage in texts.containing(name, before=first, most=_CANDIDATES, without=known):
            if mentions(passage.text, name) and folded(name) not in {
                folded(own) for own in names_of(passage.title, passage.aliases)
            }:
                writer.add(key, _document(passage), mentions=[folded(name)])
