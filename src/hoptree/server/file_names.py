"""Names of uploaded files: what becomes a path below a corpus, and what is refused."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from hoptree.corpus.files import SUFFIXES, suffix_of
from hoptree.server.refusals import Refusal

__all__ = ["Names", "check_file_name", "check_kind"]

_LONGEST = 200
_DEEPEST = 8
_KINDS = f"Documents end in {', '.join(SUFFIXES)}; all but .pdf may be packed with gzip (.gz), several with .zip."


def check_file_name(name: str) -> str:
    """The name, with / between folders, if it leads nowhere but below the folder it is put into.

    Nothing is mended: what tries to lead elsewhere, or would be read in different ways, is refused.
    """
    parts = name.split("/")
    bad = (
        not name
        or len(name.encode("utf-8", "replace")) > _LONGEST
        or len(parts) > _DEEPEST
        or any(not part or part.startswith(".") or part != part.strip() for part in parts)
        or any(character in '\\:*?"<>|' or unicodedata.category(character)[0] == "C" for character in name)
    )
    if bad:
        raise Refusal(
            400,
            "BadFileName",
            "A file has a name that cannot be taken.",
            f'Use up to {_LONGEST} bytes without .., hidden parts, \\ : * ? " < > | and control characters.',
        )
    return name


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
            raise Refusal(400, "BadFileName", f"'{name[:80]}' is a file and a folder at once.", "Rename one of them.")


def _folders(name: str) -> Iterator[str]:
    """The folders that a file lies in, each with those above it."""
    return (name[:place] for place, character in enumerate(name) if character == "/")


def check_kind(name: str) -> str:
    """The name, if a file called so can be read."""
    if not suffix_of(name):
        raise Refusal(415, "UnknownKind", f"'{name[:80]}' is no document of a known kind.", _KINDS)
    return name
