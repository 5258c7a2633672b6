"""The vector pass: encode the passages a change brought, and forget those it took out."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.core.versioned_folder import link_or_copy
from hoptree.retrieval.encoder import Encoder
from hoptree.retrieval.index.folder import Change, open_vectors
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.index.links import Links, LinkWriter, NameFinder, capitalised, folded, mentions, names_of
from hoptree.retrieval.index.text_index import Texts
from hoptree.retrieval.open_encoder import open_encoder
from hoptree.retrieval.rerank import whole_text
from hoptree.retrieval.vector_files import HEADER
from hoptree.retrieval.vectors import Vectors, VectorWriter

_AT_ONCE = 256
_SAVE_EVERY = 300.0
"""Seconds: saving costs a rewrite of what was added, losing it costs encoding it again."""
_IDENTITY = "encoder identity"
_FOR = "vectors for"
"""The digest of the passages of which no vector is out of date."""


async def encode_passages(change: Change, on_passage: Callable[[int], None], *, any_encoder: bool = False) -> None:
    """Bring the vectors of a staged change up to date; a pass that was killed goes on from its last save.

    With `any_encoder` vectors that another encoder made or that are damaged are thrown away; else they are an error.
    """
    encoder = open_encoder(change.settings.encoder)
    try:
        folder = change.part / "vectors"
        if any_encoder and (change.ledger.fact(_IDENTITY) != encoder.identity or not _opens(folder)):
            shutil.rmtree(folder, ignore_errors=True)
        await _encode(change, encoder, on_passage)
    finally:
        await encoder.aclose()


def _opens(folder: Path) -> bool:
    try:
        Vectors(folder)
    except CorpusError:
        return False
    return True


async def _encode(change: Change, encoder: Encoder, on_passage: Callable[[int], None]) -> None:
    texts, ledger, folder = change.staged(), change.ledger, change.part / "vectors"
    begun = (folder / HEADER).exists()
    if begun and ledger.fact(_IDENTITY) != encoder.identity:
        raise CorpusError(
            f"The vectors of the index were made by another encoder than {encoder.name} is now.",
            "Encode it again: hoptree index encode --encoder SPEC --out DIR",
        )
    if begun:
        open_vectors(folder, change.folder, change.settings.encoder)
    ledger.set_fact(_IDENTITY, encoder.identity)
    ledger.commit()
    writer = await _writer(folder, encoder, len(texts))
    if begun and ledger.fact(_FOR) != ledger.digest:  # else a run that was killed has taken them out already
        writer.remove(list(ledger.removed()))
        writer.save()
        ledger.set_fact(_FOR, ledger.digest)
        ledger.commit()
    some: list[tuple[int, Passage]] = []
    saved = time.monotonic()
    start = change.first_new if begun and not change.resumed else 0
    for count, (_, key, passage) in enumerate(texts.scan(start), 1):
        some.append((key, passage))
        if len(some) == _AT_ONCE:
            await _add(writer, encoder, some)
            some.clear()
            on_passage(count)
        if time.monotonic() - saved > _SAVE_EVERY:
            writer.save()
            saved = time.monotonic()
    await _add(writer, encoder, some)
    writer.save()
    if len(writer) != len(texts):
        raise CorpusError(f"{len(writer):,} vectors for {len(texts):,} passages.", "Run the same command again.")


async def _writer(folder: Path, encoder: Encoder, expected: int) -> VectorWriter:
    if (folder / HEADER).exists():
        return VectorWriter.open(folder)
    if not encoder.dimensions:  # an endpoint tells only with its first answer
        await encoder.encode(["dimensions"], role="passage")
    return VectorWriter.create(folder, encoder.dimensions, expected=expected)


async def _add(writer: VectorWriter, encoder: Encoder, some: list[tuple[int, Passage]]) -> None:
    """Encode those of the passages that have no vector yet."""
    missing = set(writer.missing([key for key, _ in some]))
    fresh = [(key, passage) for key, passage in some if key in missing]
    if fresh:
        vectors = await encoder.encode([whole_text(passage) for _, passage in fresh], role="passage")
        writer.add([key for key, _ in fresh], vectors)


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
            _linking_add(writer, key, passage, finder, first_round=round_ == 0)
            count += 1
            if on_passage is not None:
                on_passage(count)
    writer.commit()
    if first and fresh:
        _link_older(texts, ledger.names(since=first), Links(change.part / "links"), writer, first)
        writer.commit()
    writer.close()
    ledger.commit()


def _linking_add(writer: LinkWriter, key: int, passage: Passage, finder: NameFinder, *, first_round: bool) -> None:
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


def carry_vectors(old: Path, new: Path) -> None:
    """Give a folder the vectors of another one, all of them or none: a run may be killed in between."""
    if new.exists() or not old.is_dir():
        return
    half = new.with_name(f"{new.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(old, half, copy_function=link_or_copy)
    half.rename(new)
