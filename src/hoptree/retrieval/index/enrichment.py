"""Vectors and the mention graph, which an indexing run adds to a staged change."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.references import places_of, references_of
from hoptree.retrieval.encoder import Encoder, open_encoder
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.folder import open_vectors
from hoptree.retrieval.index.links import Links, LinkWriter, NameFinder, capitalised_names, folded, mentions, names_of
from hoptree.retrieval.index.tantivy_files import composed, key_of, link_or_copy
from hoptree.retrieval.index.text_index import Texts
from hoptree.retrieval.rerank import full_text
from hoptree.retrieval.vectors import HEADER, Vectors, VectorWriter, encode_missing

LINK_MEMORY_BYTES = 768 * 2**20  # default limit for the search for names
_AUTOMATON_BYTES_PER_CHAR = 48  # of Aho-Corasick while it is built (measured with half a million names)
_WRITER_BYTES = 64 * 2**20
_FEW_PASSAGES = 50_000  # new passages up to which their words are collected, to skip names that cannot occur
_MAX_CANDIDATES = 300
"""Passages with all words of a name that are read to see whether they mention it; skipped for commoner names."""
_ENCODER_FACT = "encoder identity"
_VECTORS_FACT = "vectors for"  # the digest of the passages of which no vector is out of date
_WORD = re.compile(r"\w+")


async def encode_passages(change: Change, on_passage: Callable[[int], None], *, any_encoder: bool = False) -> None:
    """Update a change's vectors; `any_encoder` discards those of another encoder."""
    encoder = open_encoder(change.settings.encoder)
    try:
        folder = change.part / "vectors"
        if any_encoder and (change.ledger.fact(_ENCODER_FACT) != encoder.identity or not _opens(folder)):
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
    if begun and ledger.fact(_ENCODER_FACT) != encoder.identity:
        cause = f"The vectors of the index were made by another encoder than {encoder.name} is now."
        raise CorpusError(cause, "Encode it again: hoptree index encode --encoder SPEC --out DIR")
    if begun:
        open_vectors(folder, change.folder, change.settings.encoder)
    ledger.set_fact(_ENCODER_FACT, encoder.identity)
    ledger.commit()
    writer = await VectorWriter.open_for(folder, encoder, expected=len(texts))
    if begun and ledger.fact(_VECTORS_FACT) != ledger.digest:  # else a killed run has removed them already
        writer.remove(list(ledger.removed()))
        writer.save()
        ledger.set_fact(_VECTORS_FACT, ledger.digest)
        ledger.commit()
    start = change.first_new if begun and not change.resumed else 0
    passages = ((key, full_text(passage)) for _, key, passage in texts.scan(start))
    await encode_missing(writer, encoder, passages, on_passage)
    if len(writer) != len(texts):
        raise CorpusError(f"{len(writer):,} vectors for {len(texts):,} passages.", "Run the same command again.")


def link_passages(
    change: Change, *, memory: int = LINK_MEMORY_BYTES, on_passage: Callable[[int], None] | None = None
) -> None:
    """Update the mention graph of a staged change; an interrupted pass is repeated."""
    texts, ledger, first = change.staged(), change.ledger, change.first_new
    writer = LinkWriter(change.part / "links", memory=_WRITER_BYTES)
    writer.remove(ledger.removed())
    if change.resumed:  # an interrupted pass may have added them
        writer.remove(key for _, key, _ in texts.scan(first))
    words = _words_of_few(texts, first)
    names = (
        name
        for name in ledger.names()
        if (words is None or words.issuperset(_WORD.findall(name.lower()))) and texts.terms(name)
    )
    count = 0
    has_new = ledger.next_number > first
    for round_, finder in enumerate(_finders(names, memory) if has_new else ()):
        for _, key, passage in texts.scan(first):
            _add_links(writer, key, passage, finder, first_round=round_ == 0)
            count += 1
            if on_passage is not None:
                on_passage(count)
    writer.commit()
    if first and has_new:
        _link_older(texts, ledger.names(since=first), Links(change.part / "links"), writer, first)
        writer.commit()
    writer.close()
    ledger.commit()


def _add_links(writer: LinkWriter, key: int, passage: Passage, finder: NameFinder, *, first_round: bool) -> None:
    known = {folded(name) for name in finder(passage.text)}
    if not known and not first_round:
        return
    own = _own_names(passage)
    written = {folded(name) for name in capitalised_names(passage.text)}
    if first_round:
        bears = own.union(map(composed, places_of(passage)))
        mentioned = ((known | written) - own).union(map(composed, references_of(passage)))
        writer.add(key, _document_key(passage), bears=sorted(bears), mentions=sorted(mentioned))
    elif new := known - written - own:
        writer.add(key, _document_key(passage), mentions=sorted(new))


def _own_names(passage: Passage) -> set[str]:
    return {folded(name) for name in names_of(passage.title, passage.aliases)}


def _document_key(passage: Passage) -> int:
    return key_of(passage.document or passage.id)


def _words_of_few(texts: Texts, first: int) -> set[str] | None:
    """Return the words of the new passages, or None if these are not few among many."""
    words: set[str] = set()
    for count, (_, _, passage) in enumerate(texts.scan(first), 1):
        if not first or count > _FEW_PASSAGES:
            return None
        words.update(_WORD.findall(passage.text.lower()))
    return words


def _finders(names: Iterable[str], memory: int) -> Iterator[NameFinder]:
    """Yield finders for as many names at a time as the memory holds; one at least."""
    batch: list[str] = []
    chars, yielded = 0, False
    for name in names:
        batch.append(name)
        chars += len(name)
        if chars * _AUTOMATON_BYTES_PER_CHAR > memory:
            yield NameFinder(batch)
            batch, chars, yielded = [], 0, True
    if batch or not yielded:
        yield NameFinder(batch)


def _link_older(texts: Texts, names: Iterable[str], links: Links, writer: LinkWriter, first: int) -> None:
    """Find new names in the earlier passages, by means of the text index."""
    for name in names:
        linked = links.mentioning(folded(name), _MAX_CANDIDATES)
        for key, passage in texts.containing(name, before=first, most=_MAX_CANDIDATES, without=linked):
            if mentions(passage.text, name) and folded(name) not in _own_names(passage):
                writer.add(key, _document_key(passage), mentions=[folded(name)])


def carry_vectors(old: Path, new: Path) -> None:
    """Copy a folder of vectors, all or none: a run may be killed in between."""
    if new.exists() or not old.is_dir():
        return
    incomplete = new.with_name(f"{new.name}.half")
    shutil.rmtree(incomplete, ignore_errors=True)
    shutil.copytree(old, incomplete, copy_function=link_or_copy)
    incomplete.rename(new)
