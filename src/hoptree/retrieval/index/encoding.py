"""The vector pass: encode the passages a change brought, and forget those it took out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from hoptree.errors import CorpusError
from hoptree.retrieval.encoders import Encoder, open_encoder
from hoptree.retrieval.index.folder import Change, open_vectors
from hoptree.retrieval.rerank import whole_text
from hoptree.retrieval.vectors import HEADER, Vectors, VectorWriter
from hoptree.values import Passage

__all__ = ["encode_passages"]

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
