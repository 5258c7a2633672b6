"""Names of uploaded files: what becomes a path below a corpus, and what is refused."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from hoptree.corpus.files import SUFFIXES, suffix_of
from hoptree.server.refusals import Refusal

__all__ = ["check_beside", "check_file_name", "check_kind"]

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


def check_beside(name: str, others: Iterable[str]) -> None:
    """Refuse a file that would have to be a folder as well, beside others."""
    if any(name.startswith(f"{other}/") or other.startswith(f"{name}/") for other in others):
        raise Refusal(400, "BadFileName", f"'{name[:80]}' is a file and a folder at once.", "Rename one of them.")


def check_kind(name: str) -> str:
    """The name, if a file called so can be read."""
    if not suffix_of(name):
        raise Refusal(415, "UnknownKind", f"'{name[:80]}' is no document of a known kind.", _KINDS)
    return name
