"""Build, add to, update, remove from, compact and encode indexes, each atomically."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import cache_dir, is_busy
from hoptree.core.values import Passage
from hoptree.corpus.read import readers_version
from hoptree.retrieval.hippo_store import FOLDER, AddedFacts, add_facts_to, read_facts
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.enrichment import carry_vectors
from hoptree.retrieval.index.folder import FORMAT, MANIFEST, Index, Manifest, Settings, read_manifest
from hoptree.retrieval.index.tantivy_files import analyzer_for
from hoptree.retrieval.indexing.check import is_current, try_encoder
from hoptree.retrieval.indexing.run import Run
from hoptree.retrieval.indexing.sources import (
    Listener,
    Outcome,
    Progress,
    Reading,
    run_coroutine,
    source_name,
    sources_of,
)


def build_index(
    sources: Path | Sequence[Path],
    out: Path,
    *,
    settings: Settings | None = None,
    reading: Reading | None = None,
    on_progress: Listener | None = None,
) -> Outcome:
    """Build an index of files or folders; an old one stays usable until the end."""
    paths = [sources] if isinstance(sources, Path) else list(sources)
    settings, reading = settings or Settings(), reading or Reading()
    names = [source_name(path) for path in paths]
    # Without `skip_broken`: raising it after an error resumes the build.
    options = {name: value for name, value in reading.stored().items() if name != "skip_broken"}
    intent = {"what": "build", "sources": "\n".join(names), **options}
    with Change(out, settings, intent=intent, from_scratch=True) as change:
        run = Run(change, reading, on_progress)
        run.add_sources(paths)
        return run.finish()


def cached_index(documents: Path, *, on_progress: Listener | None = None) -> tuple[Path, Outcome | None]:
    """Return the up-to-date index in the cache, and the Outcome of a change, if any.

    All files are read again where the readers have changed, or have a library that they lacked.
    """
    name = hashlib.sha256(source_name(documents).encode()).hexdigest()[:16]
    readers = readers_version()
    out = cache_dir() / f"documents-{name}-{FORMAT}"
    try:
        if not (out / MANIFEST).exists():
            return out, build_index(documents, out, reading=Reading(readers=readers), on_progress=on_progress)
        if read_manifest(out).reading.get("readers") != readers:
            return out, update_index(out, reread=True, readers=readers, on_progress=on_progress)
        return out, None if is_current(out) else update_index(out, on_progress=on_progress)
    except IndexUnavailable as error:
        if is_busy(error) and (out / MANIFEST).exists():  # another process brings it up to date
            return out, None
        raise


def check_build(out: Path, settings: Settings, reading: Reading) -> None:
    """Raise an error if an index cannot be made this way; write nothing."""
    analyzer_for(settings.language)
    reading.check()
    above = next(path for path in (out.resolve(), *out.resolve().parents) if path.exists())
    if above != out.resolve() and not above.is_dir():
        raise CorpusError(f"No folder can be made inside {above}, which is a file.", "Choose another --out.")
    Change(out, settings, intent={}, from_scratch=True)  # raises an error if something else is there
    if settings.encoder:
        try_encoder(settings.encoder)


def add_to_index(
    sources: Sequence[Path], out: Path, *, skip_broken: int | None = None, on_progress: Listener | None = None
) -> Outcome:
    """Add or update documents of these sources, read as the index was made."""
    intent = {"what": "add", "sources": "\n".join(source_name(path) for path in sources)}
    with Change(out, intent=intent) as change:
        run = Run(change, _stored_reading(change), on_progress, skip_broken=skip_broken)
        run.add_sources(sources)
        return run.finish()


def update_index(
    out: Path,
    *,
    reread: bool = False,
    readers: str = "",
    skip_broken: int | None = None,
    on_progress: Listener | None = None,
) -> Outcome:
    """Update an index from its sources; `reread` reads unchanged files, too.

    `readers` is noted as the version that all have been read with.
    """
    paths = sources_of(out)
    # An interrupted rereading starts over, as the files it has read are not known.
    intent = {"what": "update", **({"reread": uuid4().hex} if reread else {})}
    with Change(out, intent=intent) as change:
        reading = _stored_reading(change)
        reading = replace(reading, readers=readers or reading.readers)
        run = Run(change, reading, on_progress, skip_broken=skip_broken)
        run.add_sources(paths, may_be_empty=True, reread=reread)
        if not change.ledger.passages:
            if refused := run.refused:
                raise CorpusError(
                    f"Nothing that the sources of the index {out} hold can be indexed any more: {refused}; "
                    "the index is as it was.",
                    "Fix that, or put further documents there.",
                )
            cause = f"No source of the index {out} holds a document any more; the index is as it was."
            raise CorpusError(cause, f"Put documents into {paths[0]}, or remove the folder {out}.")
        return run.finish()


def remove_from_index(
    out: Path, *, ids: Iterable[str] = (), sources: Sequence[Path] = (), on_progress: Listener | None = None
) -> Outcome:
    """Remove passages by id or document, or those that only these sources hold."""
    manifest = read_manifest(out)
    names = [source_name(path) for path in sources]
    for name in names:
        if name not in manifest.sources:
            cause = f"{name} is not a source of the index {out}."
            raise CorpusError(cause, f"Its sources are: {', '.join(manifest.sources) or 'none'}.")
    with Change(out, intent={"what": "remove", "run": uuid4().hex}) as change:
        run = Run(change, _stored_reading(change), on_progress)
        run.remove_passages(ids)
        run.drop_sources(names)
        if not change.ledger.passages:
            raise CorpusError("That would leave the index empty.", f"Remove the folder {out} instead.")
        return run.finish()


def compact_index(out: Path, *, on_progress: Listener | None = None) -> Outcome:
    """Rewrite an index from its own passages, as if it had been built at once."""
    read_manifest(out)  # there must be an index
    with Change(out, intent={"what": "compact"}, from_scratch=True) as change:
        run = Run(change, _stored_reading(change), on_progress)
        index = Index(out)  # opened under the lock, with what another writer has finished
        index.verify_all(without="links/")
        run.copy(index)
        carry_vectors(index.generation / FOLDER, change.part / FOLDER)
        return run.finish()


def encode_index(out: Path, encoder: str, *, on_progress: Listener | None = None) -> Outcome:
    """Encode the passages of an index, or encode them again with another encoder."""
    pending = Change(out, intent={"what": "encode"}, encoder=encoder)  # raises an error if there is no index
    try_encoder(encoder)
    with pending as change:
        return Run(change, _stored_reading(change), on_progress).finish(any_encoder=True)


def add_facts(facts: Path, out: Path, *, encoder: str | None = None, on_progress: Listener | None = None) -> AddedFacts:
    """Add extracted facts to the passages of an index; facts of others stay.

    `encoder` None is that of the facts, or of the index. With "" facts are found by words, and phrases are equal only
    if their words are.
    """
    tell = on_progress or (lambda progress: None)
    rows = list(read_facts(facts))  # first: a damaged file is reported before any work
    if encoder:
        try_encoder(encoder)
    intent = {"what": "facts", "of": source_name(facts), "encoder": str(encoder)}
    with Change(out, intent=intent) as change:
        change.save()  # a killed run resumes from here

        def report(stage: str, done: int, total: int) -> None:
            tell(Progress(stage, done, total, done))

        taken = run_coroutine(add_facts_to(change, rows, encoder, report))
        Run(change, _stored_reading(change), on_progress).finish()
        return taken


def index_passages(passages: Iterable[Passage], out: Path, *, settings: Settings | None = None) -> Manifest:
    """Build an index of passages in memory."""
    settings = settings or Settings()
    with Change(out, settings, intent={"what": "passages", "run": uuid4().hex}, from_scratch=True) as change:
        run = Run(change, Reading(), None)
        run.add_passages(passages, change.ledger.enter_file("", "", 0, 0), set())
        return run.finish().manifest


def _stored_reading(change: Change) -> Reading:
    """Return how the sources of an index were read when it was made."""
    return Reading.restored(change.base.reading if change.base else {})
