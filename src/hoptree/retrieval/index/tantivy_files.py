"""Files of tantivy, and the analysis of text into terms."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
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
ALLOW = "Ask its owner for permission to read it (and to write, to change it)."
_DISK_FULL = lazy_re("StorageFull|QuotaExceeded|No space left|Disk quota exceeded")
_LOCK = ".tantivy-meta.lock"
_META = "meta.json"
_STORE_BLOCK_BYTES = 4_096
"""Stored passages compressed together: reading one from tantivy's default of 16,384 takes twice as long."""
KEYS_AT_ONCE = 1_000
ANALYZER = "hoptree"
LANGUAGE = "language"  # name of the metadata with a passage's language


@dataclass(frozen=True, slots=True)
class TantivyErrors:
    """Translates tantivy's errors: a ValueError, or a panic of its Rust code.

    A class and no generator, for speed: a search enters it for every name. It can be entered repeatedly.
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
    """Writes documents with a field `key`; changes take effect on `commit`.

    `what` names the index in errors.
    """

    def __init__(self, index: tantivy.Index, what: str, *, memory: int, threads: int) -> None:
        self._schema = index.schema
        self._writer = index.writer(memory, threads)
        self._writer.garbage_collect_files()  # of an interrupted commit: the next one writes files of the same names
        # The writer's threads notice a full disk first; the caller may only learn that they are gone.
        self._writing = TantivyErrors(f"{what} cannot be written", FREE_SPACE, IndexUnavailable)

    def remove(self, keys: Iterable[int]) -> None:
        # By query: removing by a term reads the number as signed, and removes nothing.
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
    """Open an index for writing; a new one gets smaller blocks.

    tantivy has no argument for the block size, so its file is edited. Raises a ValueError, as tantivy does, on failure.
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


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Hard-link files that are written once; copy others, or if linking fails."""
    if not str(source).endswith((".json", ".sqlite")):
        with suppress(OSError):
            os.link(source, target)
            return
    import shutil

    shutil.copyfile(source, target)


@contextmanager
def lockable_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to open the index in: links if its own cannot be locked."""
    if not folder.is_dir() or _may_write(folder):
        yield folder
        return
    from tempfile import TemporaryDirectory  # most indexes can be read where they are

    with TemporaryDirectory(prefix="hoptree-", ignore_cleanup_errors=True) as place:  # threads may still read it
        for path in folder.iterdir():
            if path.suffix != ".lock":  # tantivy could not open a foreign one; it makes its own
                Path(place, path.name).symlink_to(path.resolve())
        yield Path(place)


def _may_write(folder: Path) -> bool:
    try:
        (folder / _LOCK).open("ab").close()  # as tantivy would; os.access may be wrong
    except OSError:
        return False
    return True


def failed_change(folder: Path, error: OSError) -> CorpusError:
    """Return the error for a failed change, whether writing or reading failed."""
    if _came_from_writing(error, folder):
        return unwritable(folder, error)
    what = error.filename if error.filename is not None else "What the index is to be made of"
    cause = f"{what} cannot be read: {error.strerror or error}; what was in {folder} is as it was."
    return CorpusError(cause, "Give what can be read.")


def _came_from_writing(error: OSError, folder: Path) -> bool:
    """Return whether writing caused an error; others name a file outside the folder."""
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
    """Return an analyzer that removes case, stop words, endings and accents.

    `none` keeps stop words and endings. Accents are removed last, since stop words and endings are written with them;
    in English, before endings: only names have accents, and the stemmer changes Emile, but not Émile.
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
    """Return the terms of a text in a language other than the index's, marked."""
    return [f"{language}:{term}" for term in _analyzer(language).analyze(composed(text))]


_analyzer = cache(analyzer_for)


def tag_of(name: str, value: str) -> str:
    return composed(f"{name}\x1f{value}")


def without_asking(query: str, language: str) -> str:
    """Return a query without question words, but for capitalised ones inside it."""
    pattern = _QUESTION_WORDS.get(language)
    if pattern is None:
        return query
    first = len(query) - len(query.lstrip())
    return pattern.sub(lambda word: " " if word[0].islower() or word.start() == first else word[0], query)


def inverse_document_frequency(total: int, having: int) -> float:
    """Return the BM25 inverse document frequency of a term in `having` of `total`."""
    return log(1 + (total - having + 0.5) / (having + 0.5))


def composed(text: str) -> str:
    """Return the text in NFC, without lone surrogates."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())


def pairs(text: str) -> list[str]:
    """Return every two adjacent characters of unspaced scripts: their terms."""
    if max(text, default="") < "\u0e00":  # the first of those scripts is Thai
        return []
    terms: list[str] = []
    for run in _UNSPACED.findall(text):
        terms += [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
    return terms


def key_of(passage_id: str) -> int:
    """Return the 63-bit key of a passage id."""
    return int.from_bytes(hashlib.blake2b(encode(passage_id), digest_size=8).digest()) >> 1


def encode(text: str) -> bytes:
    """Return a text as bytes for hashing."""
    return text.encode("utf-8", "replace")


def is_plain(passage: Passage) -> bool:
    """Return whether a passage is a whole document with id, title and text only."""
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
    """Return the stored fields except title and text; only the id if it is plain."""
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
