"""Files of tantivy, and the analysis of text into terms."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path

import tantivy

from hoptree.core.errors import ConfigError, CorpusError, IndexUnavailable
from hoptree.core.files import atomic_write, batched
from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.text.tokens import UNSPACED

BUILD_AGAIN = "Build it again: hoptree index … --out DIR"
FREE_SPACE = "Free some space, then run the same command again."
ALLOW = "Let whoever owns it allow reading (and writing, to change it)."
_DISK_FULL = lazy_re("StorageFull|QuotaExceeded|No space left|Disk quota exceeded")
_LOCK = ".tantivy-meta.lock"
_META = "meta.json"
_STORE_BLOCK_BYTES = 4_096
"""Stored passages compressed together: reading one from tantivy's own 16,384 takes twice the time."""
KEYS_AT_ONCE = 1_000
ANALYZER = "hoptree"
LANGUAGE = "language"  # the name of the metadata that says which language a passage is in


@dataclass(frozen=True, slots=True)
class TantivyErrors:
    """Translates tantivy's errors: a ValueError or a panic for a damaged file, or whatever a full disk causes.

    No generator, since a search enters it for every name it meets. It can be entered again and again.
    """

    what: str
    remedy: str = BUILD_AGAIN
    kind: type[CorpusError] = CorpusError

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None:
            return
        if isinstance(error, PermissionError):  # from looking into the folder
            raise CorpusError(f"{error.filename} cannot be read: {error.strerror}.", ALLOW) from error
        if isinstance(error, ValueError) or type(error).__name__ == "PanicException":
            if "PermissionDenied" in str(error):
                raise CorpusError("A file of the index may not be used by you.", ALLOW) from error
            if _DISK_FULL.search(str(error)):
                raise IndexUnavailable(f"{self.what}: {error}.", FREE_SPACE) from error
            reason = "the disk is full, or a thread failed" if "writer was killed" in str(error) else str(error)
            raise self.kind(f"{self.what}: {reason}.", self.remedy) from error


class KeyedWriter:
    """Writes documents with a field `key`; `what` is the index in errors. Nothing counts before `commit`."""

    def __init__(self, index: tantivy.Index, what: str, *, memory: int, threads: int) -> None:
        self._schema = index.schema
        self._writer = index.writer(memory, threads)
        self._writer.garbage_collect_files()  # of a killed commit: the next one writes files of the same names
        # The writer's threads meet a full disk first; what reaches the caller may only say that they are gone.
        self._writing = TantivyErrors(f"{what} cannot be written", FREE_SPACE, IndexUnavailable)

    def remove(self, keys: Iterable[int]) -> None:
        # By query: removing by a term takes a number for a signed one, and removes nothing.
        for batch in batched(keys, KEYS_AT_ONCE):
            self._writer.delete_documents_by_query(tantivy.Query.term_set_query(self._schema, "key", batch))

    def commit(self) -> None:
        with self._writing:
            self._writer.commit()

    def close(self) -> None:
        """Wait for tantivy's threads, which write to the folder until then."""
        with self._writing:
            self._writer.wait_merging_threads()


def open_for_writing(folder: Path, schema: tantivy.Schema) -> tantivy.Index:
    """Open an index to write to, new or old; a new one gets smaller blocks, an old one keeps its own.

    tantivy has no argument for that, so its file is edited. Raises a ValueError, as tantivy does, if that fails.
    """
    meta = folder / _META
    is_new = not meta.exists()
    index = tantivy.Index(schema, path=str(folder))
    if not is_new:
        return index
    try:
        settings = json.loads(meta.read_text(encoding="utf-8"))
        settings["index_settings"]["docstore_blocksize"] = _STORE_BLOCK_BYTES
        atomic_write(meta, [json.dumps(settings)])
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{_META} is garbled") from error
    except PermissionError:
        raise
    except OSError as error:
        raise ValueError(f"{_META} cannot be written ({error.strerror or error})") from error
    return tantivy.Index(schema, path=str(folder))


@contextmanager
def lockable_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to open the index in: links if its own cannot be locked."""
    if not folder.is_dir() or _may_write(folder):
        yield folder
        return
    from tempfile import TemporaryDirectory  # most indexes can be read where they are

    with TemporaryDirectory(prefix="hoptree-", ignore_cleanup_errors=True) as place:  # its threads may still look
        for path in folder.iterdir():
            if path.suffix != ".lock":  # one that somebody left there could not be opened; tantivy makes its own
                Path(place, path.name).symlink_to(path.resolve())
        yield Path(place)


def _may_write(folder: Path) -> bool:
    try:
        (folder / _LOCK).open("ab").close()  # as tantivy would; asking for the right alone may lie
    except OSError:
        return False
    return True


def failed_change(folder: Path, error: OSError) -> CorpusError:
    """Return the error for a failed change: of the index folder, or of what was to be indexed."""
    if _came_from_writing(error, folder):
        return unwritable(folder, error)
    what = error.filename if error.filename is not None else "What the index is to be made of"
    cause = f"{what} cannot be read: {error.strerror or error}; what was in {folder} is as it was."
    return CorpusError(cause, "Give what can be read.")


def _came_from_writing(error: OSError, folder: Path) -> bool:
    """Tell errors of writing from others: those name a file elsewhere, or are not the system's own."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return True
    named = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return error.errno is not None and (not named or any(path.is_relative_to(folder) for path in named))


def unwritable(folder: Path, error: OSError) -> CorpusError:
    """Return the error for an index folder that cannot be written to, with its remedy."""
    cause = f"The index cannot be written to {folder}: {error.strerror or error}; what was there is as it was."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IndexUnavailable(cause, FREE_SPACE)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return CorpusError(cause, "Allow writing there, or choose another --out.")
    permanent = isinstance(error, NotADirectoryError | FileExistsError | IsADirectoryError)
    return (CorpusError if permanent else IndexUnavailable)(cause, "Look at that folder, or choose another --out.")


_MAX_TERM_BYTES = 60
STEMMED = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
    *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
)
_WITH_STOP_WORDS = frozenset(STEMMED) - {"arabic", "greek", "romanian", "tamil", "turkish"}
_QUESTION_WORDS = {
    "english": lazy_re(r"\b(?:what|which|who|whom|whose|when|where|why|how|do|does|did)\b", re.IGNORECASE),
}
_UNSPACED = lazy_re(f"[{UNSPACED}]+")  # Hangul has spaces


def analyzer_for(language: str) -> tantivy.TextAnalyzer:
    """Return an analyzer that drops case, stop words, endings and accents; `none` keeps stop words and endings.

    Accents go last, since stop words and endings are written with them. In English they go before endings: only names
    have them, and the stemmer makes "emil" of Emile and leaves Émile.
    """
    if language not in (*STEMMED, "none"):
        raise ConfigError(f"There is no stemmer for '{language}'.", f"Use one of {', '.join(STEMMED)}, or none.")
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(
        tantivy.Filter.remove_long(_MAX_TERM_BYTES)
    )
    builder = builder.filter(tantivy.Filter.lowercase())
    if language in _WITH_STOP_WORDS:
        builder = builder.filter(tantivy.Filter.stopword(language))
    if language == "english":
        builder = builder.filter(tantivy.Filter.ascii_fold())
    if language != "none":
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.filter(tantivy.Filter.ascii_fold()).build()


def foreign_terms(language: str, text: str) -> list[str]:
    """Return the terms of a text in a language that is not that of the index, marked as such."""
    return [f"{language}:{term}" for term in _analyzer(language).analyze(composed(text))]


_analyzer = cache(analyzer_for)


def tag_of(name: str, value: str) -> str:
    return composed(f"{name}\x1f{value}")


def without_asking(query: str, language: str) -> str:
    """Return a query without its question words; The Who inside of it is a name."""
    pattern = _QUESTION_WORDS.get(language)
    if pattern is None:
        return query
    first = len(query) - len(query.lstrip())
    return pattern.sub(lambda word: " " if word[0].islower() or word.start() == first else word[0], query)


def inverse_document_frequency(total: int, having: int) -> float:
    """Return how much a term tells that `having` of `total` texts have, as BM25 counts it."""
    return log(1 + (total - having + 0.5) / (having + 0.5))


def composed(text: str) -> str:
    """Return the text with each accented letter as one character, and without lone surrogates."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())


def pairs(text: str) -> list[str]:
    """Return every two neighbouring characters of scripts without spaces: their terms."""
    if max(text, default="") < "\u0e00":  # the first of those scripts is Thai
        return []
    terms: list[str] = []
    for run in _UNSPACED.findall(text):
        terms += [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
    return terms


def key_of(passage_id: str) -> int:
    """Return the 63-bit number that stands for a passage id in the index."""
    return int.from_bytes(hashlib.blake2b(encode(passage_id), digest_size=8).digest()) >> 1


def encode(text: str) -> bytes:
    """Return a text as it is hashed."""
    return text.encode("utf-8", "replace")


def is_plain(passage: Passage) -> bool:
    """Tell whether a passage is a document of its own with nothing but id, title and text."""
    return (
        not passage.aliases
        and not passage.metadata
        and not passage.anchors
        and not passage.references
        and (not passage.document or (passage.document == passage.id and passage.end == len(passage.text)))
    )


_PLAIN = b"="  # the first byte of the record of a passage that is its own document
Names = tuple[str, ...]
Stored = tuple[str, str, str, str, int, int, Names, tuple[tuple[str, str], ...], Names, Names]
"""A passage without its score: id, title, text, document, start, end, aliases, metadata, anchors, references."""


def record_of(passage: Passage) -> bytes:
    """Return what is stored of a passage beside title and text; for a plain passage only its id."""
    if is_plain(passage):
        return _PLAIN + passage.id.encode("utf-8", "surrogatepass")
    rest = [passage.id, passage.document, passage.start, passage.end, passage.aliases, passage.metadata]
    if passage.anchors or passage.references:
        rest += [passage.anchors, passage.references]
    return json.dumps(rest).encode()


def read_stored(searcher: tantivy.Searcher, segment: int, place: int) -> Stored:
    stored = searcher.doc(tantivy.DocAddress(segment, place))
    body = stored.get_all("body")
    title, text = body[0], body[-1]
    record = bytes(stored["record"][0])
    if record.startswith(_PLAIN):
        name = record[len(_PLAIN) :].decode("utf-8", "surrogatepass")
        return name, title, text, name, 0, len(text), (), (), (), ()
    name, document, start, end, aliases, metadata, *links = json.loads(record)
    fields = tuple((name, value) for name, value in metadata)
    anchors, references = map(tuple, links or ((), ()))
    return name, title, text, document, start, end, tuple(aliases), fields, anchors, references
