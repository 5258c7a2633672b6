"""From what a person writes to the address of a wiki's API."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from hoptree.errors import ConfigError

__all__ = ["WIKIPEDIA", "is_wiki", "wiki_url"]

WIKIPEDIA = "wikipedia"
_OTHER = "mediawiki+"
_LANGUAGE = re.compile(r"[a-z]{2,12}(?:-[a-z]{2,12}){0,2}")
_HOW = "Write wikipedia, wikipedia:de, or mediawiki+https://HOST/w/api.php."


def is_wiki(corpus: str) -> bool:
    """Whether a corpus is named as a wiki: `wikipedia`, `wikipedia:LANGUAGE` or `mediawiki+URL`."""
    return corpus == WIKIPEDIA or corpus.startswith((f"{WIKIPEDIA}:", _OTHER))


def wiki_url(corpus: str) -> str:
    """The address of the API of the wiki that a corpus names."""
    if corpus == WIKIPEDIA:
        from hoptree.retrieval.index.manifest import MANIFEST  # takes a native library along

        if (Path(corpus) / MANIFEST).exists():
            raise ConfigError(
                "'wikipedia' is an index here, and the name of the live Wikipedia.",
                "Write ./wikipedia for the index, wikipedia:en for the live one.",
            )
        return _of_language("en")
    if corpus.startswith(f"{WIKIPEDIA}:"):
        return _of_language(corpus.partition(":")[2])
    return _checked(corpus.partition("+")[2])


def _of_language(code: str) -> str:
    if not _LANGUAGE.fullmatch(code):
        raise ConfigError(f"'{code}' is no language of Wikipedia.", _HOW)
    return f"https://{code}.wikipedia.org/w/api.php"


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"The address of the wiki cannot be read ({error}).", _HOW) from error
    if parts.scheme not in ("http", "https") or not parts.path.endswith("/api.php") or parts.query or parts.fragment:
        raise ConfigError(f"'{url}' is not the address of a wiki's api.php.", _HOW)
    return url
