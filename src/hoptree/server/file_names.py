"""Names of uploaded files: what becomes a path below a corpus, and what is refused."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from hoptree.corpus.files import SUFFIXES, suffix_of
from hoptree.server.refusals import Refusal

__all__ = ["Names", "check_file_name", "check_kind", "is_added_by_packers", "shown"]

_LONGEST = 200
_DEEPEST = 8
_SHOWN = 80
_SPECIAL = '\\:*?"<>|'
_JOINERS = "\u200c\u200d"
_KINDS = f"Documents end in {', '.join(SUFFIXES)}; all but .pdf may be packed with gzip (.gz), several with .zip."


def check_file_name(name: str) -> str:
    """The name, with / between folders, if it leads nowhere but below the folder it is put into.

    Nothing is mended: what tries to lead elsewhere, or would be read in different ways, is refused.
    """
    if fault := next(_faults(name), None):
        raise Refusal(400, "BadFileName", *fault)
    return name


def is_added_by_packers(name: str) -> bool:
    """Whether a file in an archive is none that somebody put there: hidden, or the twin that macOS makes of each."""
    parts = name.split("/")
    leads_elsewhere = "\\" in name or any(part in ("", ".", "..") for part in parts)
    return not leads_elsewhere and (parts[0] == "__MACOSX" or any(part.startswith(".") for part in parts))


def shown(name: str) -> str:
    """A name as it can be told: short, and with what cannot be seen written out."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in name[:_SHOWN])


def _faults(name: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a name, and what to do about it."""
    told, parts = f"The file name '{shown(name)}'", name.split("/")
    if not name:
        yield "A file has no name.", "Give it one."
    if len(name.encode("utf-8", "replace")) > _LONGEST:
        yield f"{told} is longer than {_LONGEST} bytes.", "Shorten it, with the names of its folders."
    if len(parts) > _DEEPEST:
        yield f"{told} lies in more than {_DEEPEST - 1} folders.", "Move it up."
    if any(part in (".", "..") for part in parts):
        yield f"{told} has a part '.' or '..'.", "Name the file by where it is to lie."
    if "" in parts:
        yield f"{told} has an empty part.", "Write one / between folders, none before and none after."
    if any(part.startswith(".") for part in parts):
        yield f"{told} has a part that begins with a dot.", "Hidden files are not taken: rename it."
    if any(part != part.strip() for part in parts):
        yield f"{told} has a part that begins or ends with a space.", "Take the space out."
    for place, character in enumerate(name):
        if character in _SPECIAL or not _is_seen(name, place):
            what = character if character in _SPECIAL else f"the character U+{ord(character):04X}, which is not seen"
            yield f"{told} holds {what}.", f"Leave out {' '.join(_SPECIAL)} and characters that cannot be seen."


def _is_seen(name: str, place: int) -> bool:
    """Whether a character shows, or joins two that do, as in Persian words and in pictures of several signs.

    Beside plain letters a joiner would do nothing but make two names look alike.
    """
    if name[place] in _JOINERS:
        around = name[place - 1 : place] + name[place + 1 : place + 2]
        return len(around) == 2 and all(one > "\x7f" and unicodedata.category(one)[0] in "LMS" for one in around)
    return unicodedata.category(name[place])[0] != "C"


class Names:
    """The names of files that lie together, in their order, and the folders that they lie in."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._files: dict[str, None] = {}
        self._folders: set[str] = set()
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def add(self, name: str) -> None:
        self._files[name] = None
        self._folders.update(_folders(name))

    def check_beside(self, name: str) -> None:
        """Refuse a file that would have to be a folder as well, beside these."""
        if name in self._folders or any(folder in self._files for folder in _folders(name)):
            raise Refusal(400, "BadFileName", f"'{shown(name)}' is a file and a folder at once.", "Rename one of them.")


def _folders(name: str) -> Iterator[str]:
    """The folders that a file lies in, each with those above it."""
    return (name[:place] for place, character in enumerate(name) if character == "/")


def check_kind(name: str) -> str:
    """The name, if a file called so can be read."""
    if not suffix_of(name):
        raise Refusal(415, "UnknownKind", f"'{shown(name)}' is no document of a known kind.", _KINDS)
    return name
