"""Indexes for experiment files, which name corpora: made once, then used by every run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from hoptree.errors import CorpusError, InputError
from hoptree.indexing import build_index, update_index
from hoptree.retrieval.index.manifest import MANIFEST, read_manifest

__all__ = ["index_for"]


def index_for(corpus: Path | Sequence[Path], folder: Path) -> Path:
    """The corpus itself if it is an index, else the index of it below `folder`, made or brought up to date.

    Several corpora share one index; none of them can be an index then.
    """
    corpora = [corpus] if isinstance(corpus, Path) else list(corpus)
    if len(corpora) == 1 and (corpora[0] / MANIFEST).exists():
        return corpora[0]
    for one in corpora:
        if not one.exists():
            raise InputError(f"There is no corpus at {one}.", "Give the folder of the data with --data.")
        if (one / MANIFEST).exists():
            raise InputError(f"{one} is an index, which others cannot be put together with.", "Name its documents.")
    places = [str(one.resolve()) for one in corpora]
    name = "-".join(part.split(".")[0] for part in corpora[0].resolve().parts[-2:])
    more = f"-and-{len(corpora) - 1}-more" if len(corpora) > 1 else ""
    digest = hashlib.sha256("\n".join(places).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    out = folder / f"{name}{more}-{digest}"
    try:
        known = set(places) <= set(read_manifest(out).sources)
    except CorpusError:
        known = False
    if known:
        update_index(out)
    else:
        build_index(corpora, out)
    return out
