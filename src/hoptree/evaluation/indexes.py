"""Indexes for experiment files, which name a corpus: made once, then used by every run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hoptree.errors import CorpusError, InputError
from hoptree.indexing import build_index, update_index
from hoptree.retrieval.index.manifest import MANIFEST, read_manifest

__all__ = ["index_for"]


def index_for(corpus: Path, folder: Path) -> Path:
    """The corpus itself if it is an index, else the index of it below `folder`, made or brought up to date."""
    if (corpus / MANIFEST).exists():
        return corpus
    if not corpus.exists():
        raise InputError(f"There is no corpus at {corpus}.", "Give the folder of the data with --data.")
    place = str(corpus.resolve())
    name = "-".join(part.split(".")[0] for part in corpus.resolve().parts[-2:])
    out = folder / f"{name}-{hashlib.sha256(place.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    try:
        known = place in read_manifest(out).sources
    except CorpusError:
        known = False
    if known:
        update_index(out)
    else:
        build_index(corpus, out)
    return out
