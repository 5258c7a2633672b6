"""How many stored passages tantivy packs together."""

from __future__ import annotations

import json
from pathlib import Path

import tantivy

from hoptree.whole_files import write_whole

__all__ = ["open_packed"]

_BLOCK = 4_096
"""Bytes of stored passages that are packed together: a passage is read from tantivy's own 16,384 in twice the time."""


def open_packed(folder: Path, schema: tantivy.Schema) -> tantivy.Index:
    """An index to write to, new or old.

    How much is packed together is told to tantivy in a new index's file: no argument does; an old one stays as it is.
    A ValueError, as tantivy's own are, where that file is not as it is known, or cannot be written.
    """
    meta = folder / "meta.json"
    fresh = not meta.exists()
    index = tantivy.Index(schema, path=str(folder))
    if not fresh:
        return index
    try:
        settings = json.loads(meta.read_text(encoding="utf-8"))
        settings["index_settings"]["docstore_blocksize"] = _BLOCK
        write_whole(meta, [json.dumps(settings)])
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{meta.name} is garbled") from error
    except PermissionError:
        raise
    except OSError as error:
        raise ValueError(f"{meta.name} cannot be written ({error.strerror or error})") from error
    return tantivy.Index(schema, path=str(folder))
