"""Fetch a release, find its files in archives, and convert them."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from hoptree import __version__
from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.files import FolderLock, atomic_write
from hoptree.corpus.files import Damaged, open_bytes
from hoptree.evaluation.datasets.convert import Converted, convert
from hoptree.evaluation.datasets.formats import FORMS
from hoptree.evaluation.datasets.releases import PublicSet, Release, Remote
from hoptree.models.catalogue import Unreachable, download_url

RECORD = "release.json"  # in a data set's folder: where each of its files comes from
_DOWNLOADS = ".downloads"
_SCRATCH = ".unpacked-"
_BLOCK_BYTES = 2**20
_SHA256_DIGITS = 64
_ALWAYS_ALLOWED_BYTES = 2**30  # any archive may unpack to this size
_MAX_RATIO = 200  # larger archives may unpack to this many times their size
_ARCHIVES = ("*.zip", "*.tar", "*.tgz", "*.tar.gz")
_GONE = (401, 403, 404, 410)  # statuses after which a retry is useless
_DOWNLOAD_AGAIN = "Download it again."

OnStage = Callable[[str, int, int], None]  # gets the stage, and bytes done of a total (0 if unknown)


@dataclass(frozen=True, slots=True)
class Order:
    """How to get a release: its sources and options."""

    sources: Sequence[Path] = ()  # files, folders and archives on this machine; if empty, the release is fetched
    url: str = ""  # replaces the release's own address
    sha256: str = ""  # required digest of the file, if there is only one
    aliases: Path | None = None  # file of names for answers that are ids
    skip_bad: bool = False
    replace: bool = False


def get(public: PublicSet, release: Release, data: Path, order: Order, on_stage: OnStage) -> Converted:
    """Write the files of a release to the folder of its data set below `data`."""
    _check(release, order)
    folder = data / public.name
    files = tuple(folder / name for name in release.files)
    with _disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not order.replace and (there := [file for file in files if file.exists()]):
            raise InputError(f"{there[0]} exists already.", "Give --replace to write it anew, or another --data.")
        with FolderLock(folder, InputError):
            for leftover in folder.glob(f"{_SCRATCH}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            remotes = () if order.sources else remotes_of(release, order)
            fetched = (fetch(remote, folder, public, on_stage, again=order.replace) for remote in remotes)
            sources = [*order.sources, *fetched]
            digests = {source.name: _digest(source, on_stage) for source in sources if source.is_file()}
            _verify(order, remotes, digests, sources)
            with tempfile.TemporaryDirectory(dir=folder, prefix=_SCRATCH) as scratch:
                located = locate(release, sources, Path(scratch), on_stage)
                for path in located.values():
                    if path.name not in digests and scratch not in map(str, path.parents):
                        digests[path.name] = _digest(path, on_stage)
                converted = _make(public, release, located, order, folder, on_stage)
            for remote in release.remotes:
                if remote.sha256 and digests.get(remote.name, remote.sha256) != remote.sha256:
                    converted.notes.append(f"{remote.name} is not the known release, SHA-256 {remote.sha256}.")
            unchecked = ", ".join(remote.name for remote in remotes if not remote.sha256)
            if unchecked:
                converted.notes.append(f"Hoptree knows no digest of {unchecked}, and checked none: give --sha256.")
            converted.files, converted.sha256 = [str(file) for file in files if file.exists()], digests
            counts = {name: getattr(converted, name) for name in ("questions", "passages", "unanswered", "skipped")}
            record = {"from": digests, "url": order.url, **counts, "version": __version__}
            known = read_record(folder) | {release.split: record}
            atomic_write(folder / RECORD, [json.dumps(known, indent=1, ensure_ascii=False), "\n"])
    return converted


def _check(release: Release, order: Order) -> None:
    if order.sha256 and (len(order.sha256) != _SHA256_DIGITS or set(order.sha256.lower()) - set("0123456789abcdef")):
        raise ConfigError(f"'{order.sha256}' is not a SHA-256.", f"Give its {_SHA256_DIGITS} hexadecimal digits.")
    if order.url and (order.sources or urlsplit(order.url).scheme not in ("http", "https")):
        raise ConfigError(f"{order.url} cannot be fetched.", "Give --url an http or https address, and no --from.")
    if order.aliases and not (release.form in FORMS and FORMS[release.form].aliased):
        known = ", ".join(name for name, form in FORMS.items() if form.aliased)
        raise ConfigError(f"{release.split} takes no aliases: its answers are names.", f"They go with {known}.")
    if order.url and not release.form and not _fits(_name_at(order.url), (*release.rows, *_ARCHIVES)):
        cause = f"{order.url} is not an address of {' or '.join(release.rows)}."
        raise ConfigError(cause, "Give one that ends in that name, or download it yourself and give --from FILE.")
    for source in order.sources:
        if not source.exists():
            raise InputError(f"There is no {source}.", "Give a file, a folder or an archive of the release.")
    if order.sha256 and (len(order.sources) > 1 or any(source.is_dir() for source in order.sources)):
        raise ConfigError("--sha256 is the digest of one file.", "Give one file with --from.")
    if not order.sources and not order.url and not release.remotes:
        raise InputError(f"{release.rows[0]} has no public address. {release.note}", "Give it with --from FILE.")


def remotes_of(release: Release, order: Order) -> tuple[Remote, ...]:
    """Return the files to fetch, with their sizes and digests if known."""
    name = _name_at(order.url) or release.rows[0] if order.url else ""
    place = next((number for number, remote in enumerate(release.remotes) if remote.name == name), 0)
    known = release.remotes[place] if release.remotes else None
    if not order.url:
        first = known
    else:
        first = replace(known, url=order.url) if known and known.name == name else Remote(name, order.url)
    if first and order.sha256 and order.sha256.lower() != first.sha256:
        first = replace(first, sha256=order.sha256.lower(), size=0)
    return (*release.remotes[:place], *((first,) if first else ()), *release.remotes[place + 1 :])


def _name_at(url: str) -> str:
    return PurePosixPath(urlsplit(url).path).name


def fetch(remote: Remote, folder: Path, public: PublicSet, on_stage: OnStage, *, again: bool = False) -> Path:
    """Return a file of a release, downloading it if needed.

    With `again`, an existing file is kept only if it has the remote's digest. A file from another address than the
    release's, without a known digest for its name, gets its own folder: it may be another file of the same name.
    """
    own = [known for release in public.releases.values() for known in release.remotes]
    is_ours = any(remote.url == known.url or (known.sha256 and remote.name == known.name) for known in own)
    place = "" if is_ours else hashlib.sha256(remote.url.encode("utf-8", "replace")).hexdigest()[:12]
    target = folder / _DOWNLOADS / place / remote.name
    if target.is_file() and (not again or (remote.sha256 and _digest(target, on_stage) == remote.sha256)):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    part.touch()
    if shutil.disk_usage(folder).free < remote.size - part.stat().st_size:
        raise OSError(errno.ENOSPC, "no space left")
    by_hand = f"or download it by hand ({public.home}) and give --from FILE."
    try:
        download_url(remote.url, part, lambda done: on_stage(f"fetching {remote.name}", done, remote.size))
    except Unreachable as error:
        have = f" {part.stat().st_size:,} bytes are kept." if part.stat().st_size else ""
        cause = f"{remote.name} could not be fetched: {error.cause.rstrip('.')}.{have}"
        if isinstance(error.__cause__, HTTPError) and error.__cause__.code in _GONE:
            raise InputError(cause, f"Give another address with --url, {by_hand}") from error
        raise HoptreeError(cause, f"Give the same command again to resume, {by_hand}") from error
    with part.open("rb") as file:
        head = file.read(512).lstrip().lower()
    wrong = ""
    if head.startswith((b"<!doctype html", b"<html")) and not remote.name.endswith(".html"):
        wrong = f"{urlsplit(remote.url).hostname} sent a web page in the place of {remote.name}."
    elif remote.size and part.stat().st_size != remote.size:
        wrong = f"{remote.name} has {part.stat().st_size:,} bytes, not {remote.size:,}."
    if wrong:
        for leftover in target.parent.glob(f"{part.name}*"):
            leftover.unlink(missing_ok=True)
        raise InputError(wrong, f"It was deleted; fetch it again, {by_hand}")
    part.replace(target)
    part.with_name(f"{part.name}.tag").unlink(missing_ok=True)
    return target


def _digest(path: Path, on_stage: OnStage) -> str:
    digest, size, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            on_stage(f"checking {path.name}", done, size)
    return digest.hexdigest()


def _verify(order: Order, remotes: Iterable[Remote], digests: Mapping[str, str], sources: Sequence[Path]) -> None:
    """Raise an error for a file with a wrong digest; delete it if it was fetched."""
    expected = {remote.name: remote.sha256 for remote in remotes if remote.sha256}
    if order.sha256 and order.sources:
        expected[next(iter(digests))] = order.sha256.lower()
    for name, sha256 in expected.items():
        if digests[name] != sha256:
            for fetched in sources if not order.sources else ():
                if fetched.name == name:
                    fetched.unlink(missing_ok=True)
            other = "" if order.sha256 else f" If you trust it as it is, give --sha256 {digests[name]}."
            raise InputError(f"The SHA-256 of {name} is {digests[name]}, not {sha256}.", f"{_DOWNLOAD_AGAIN}{other}")


def locate(release: Release, sources: Sequence[Path], scratch: Path, on_stage: OnStage) -> dict[str, Path]:
    """Return the files of a release by part, unpacking archives to `scratch`.

    A given file that is not an archive holds the questions, whatever its name; other parts may lie beside it. A file
    that is kept unchanged must have its original name.
    """
    wanted = {"rows": release.rows, "aliases": (release.aliases,), "passages": (release.passages,)}
    inside = [path for source in sources if source.is_dir() for path in sorted(source.rglob("*")) if path.is_file()]
    archives = [source for source in sources if source.is_file() and _is_archive(source)]
    plain = [source for source in sources if source.is_file() and source not in archives]
    located: dict[str, Path] = {}
    _match(wanted, [*plain, *inside], located)
    others = [source for source in plain if source not in located.values()]
    if release.form and "rows" not in located and others:
        located["rows"] = others[0]
    _match(dict(list(wanted.items())[1:]), [path for source in plain for path in source.parent.iterdir()], located)
    remote_names = {remote.name for remote in release.remotes}
    archives += [path for path in inside if path.name in remote_names and path not in located.values()]
    names = [path.name for path in inside]
    for archive in archives:
        names += _unpack(archive, wanted, scratch, located, on_stage)
    if "rows" not in located:
        given, wanted_names = ", ".join(source.name for source in sources), " or ".join(release.rows)
        listed = ", ".join(sorted(set(names))[:5]) or "nothing"
        raise InputError(
            f"{given} is not {wanted_names}."
            if len(plain) == len(sources)
            else f"{wanted_names} is not in {given}, which holds {listed}.",
            "Give the release's own file, folder or archive.",
        )
    return located


def _match(wanted: Mapping[str, Sequence[str]], paths: Iterable[Path], located: dict[str, Path]) -> None:
    """Add the first path with a name of each missing part; earlier names come first."""
    known = [path for path in paths if path.is_file()]
    for part, patterns in wanted.items():
        named = [path for pattern in patterns for path in known if _fits(path.name, (pattern,))]
        if part not in located and named:
            located[part] = named[0]


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return not name.startswith(".") and any(fnmatch(name.lower(), pattern.lower()) for pattern in patterns)


def _is_archive(path: Path) -> bool:
    try:
        if zipfile.is_zipfile(path):
            return True
        with open_bytes(path) as stream:
            head = stream.read(512)
    except Damaged:
        head = b""
    return _fits(path.name, _ARCHIVES) or head[257:262] == b"ustar"


def _unpack(
    archive: Path, wanted: Mapping[str, tuple[str, ...]], scratch: Path, located: dict[str, Path], on_stage: OnStage
) -> list[str]:
    """Unpack the wanted members; return the names of all members."""
    limit = max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * archive.stat().st_size)
    names: list[str] = []
    try:
        for name, size, open_member in _members(archive, limit, on_stage):
            base = PurePosixPath(name.replace("\\", "/")).name
            names.append(base)
            part = next((part for part in wanted if part not in located and _fits(base, wanted[part])), "")
            if not part:
                continue
            if size > limit:
                raise OverflowError
            if shutil.disk_usage(scratch).free < size:
                raise OSError(errno.ENOSPC, "no space left")
            (scratch / part).mkdir()
            target = scratch / part / base
            with open_member() as packed, target.open("wb") as out:
                shutil.copyfileobj(_Bounded(packed, limit), out, _BLOCK_BYTES)
            if target.stat().st_size != size:
                raise EOFError(f"{base} ends too early")
            located[part] = target
    except OverflowError:
        cause = f"{archive.name} unpacks to more than {limit:,} bytes, which no release does."
        raise InputError(cause, "Unpack it yourself if you trust it, and give --from FOLDER.") from None
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, Damaged, RuntimeError) as error:
        cause = str(error).rstrip(".") or type(error).__name__
        raise InputError(f"{archive.name} is cut short or damaged: {cause}.", _DOWNLOAD_AGAIN) from error
    return names


@dataclass(slots=True)
class _Bounded:
    """A stream that raises OverflowError beyond its size limit."""

    stream: IO[bytes]
    left: int

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(size)
        self.left -= len(block)
        if self.left < 0:
            raise OverflowError
        return block


def _members(archive: Path, limit: int, on_stage: OnStage) -> Iterator[tuple[str, int, Callable[[], IO[bytes]]]]:
    """Yield name, size and opener of each file in an archive."""
    total = archive.stat().st_size
    if archive.name.lower().endswith(".zip") or zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for number, info in enumerate(packed.infolist()):
                on_stage(f"unpacking {archive.name}", number, len(packed.infolist()))
                if not info.is_dir():
                    yield info.filename, info.file_size, lambda info=info: packed.open(info)  # type: ignore[misc]
        return
    with open_bytes(archive, lambda done: on_stage(f"unpacking {archive.name}", done, total)) as stream:
        bounded: Any = _Bounded(stream, limit)
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for member in tar:
                if member.isreg():
                    yield member.name, member.size, lambda member=member: tar.extractfile(member)  # type: ignore[misc]
        while bounded.read(_BLOCK_BYTES):
            """Read to the end, where a truncated file is detected."""


def _make(
    public: PublicSet, release: Release, located: dict[str, Path], order: Order, folder: Path, on_stage: OnStage
) -> Converted:
    """Convert a release; a corpus is kept unchanged."""
    rows = located["rows"]
    size = rows.stat().st_size
    if not release.form:
        fresh = folder / f"{rows.name}.new"
        fresh.unlink(missing_ok=True)
        try:
            fresh.hardlink_to(rows)
        except OSError:  # another disk
            shutil.copyfile(rows, fresh)
        fresh.replace(folder / rows.name)
        return Converted(notes=[release.note])
    if order.aliases is not None:
        located["aliases"] = order.aliases

    def on_bytes(done: int) -> None:
        on_stage(f"reading {rows.name}", done, size)

    return convert(public.name, release, located, folder, skip_bad=order.skip_bad, on_bytes=on_bytes)


def read_record(folder: Path) -> dict[str, Any]:
    """Return the origin of a data set's files, by split."""
    try:
        known = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Raise an OSError as an error with a remedy: a full disk, or no permission."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            cause = f"The disk of {folder} has no room for it."
            raise InputError(cause, "Free some, or give another --data.") from error
        cause = f"{error.filename or folder} cannot be used: {error.strerror or error}."
        raise InputError(cause, "Give a folder that can be written with --data, and files that can be read.") from error
