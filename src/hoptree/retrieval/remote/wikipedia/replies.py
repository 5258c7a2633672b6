"""What a MediaWiki's API answers, read with care: it comes from the network.

The form is that of `format=json&formatversion=2`, in which flags are true or absent and pages are a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoptree.errors import ConfigError, EndpointError, HoptreeError, RateLimited, UnusableReply

__all__ = ["Hit", "Page", "Site", "read_failure", "read_hits", "read_page", "read_site"]

_BUSY = ("maxlag", "readonly", "cirrussearch-too-busy-error", "cirrussearch-backend-error", "search-error")
_LONGEST = 4_000_000
"""Characters of a page that are read: several times the longest article."""
_EXTENSION = "TextExtracts"


@dataclass(frozen=True, slots=True)
class Site:
    """A wiki: its name and the code of its language."""

    name: str
    language: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search found, as it is now."""

    title: str
    revision: int


@dataclass(frozen=True, slots=True)
class Page:
    """The text of a page as it was at a revision, with its headings as lines such as `== Life ==`.

    A page that is not there, or only tells the meanings of its name apart, has no text.
    """

    title: str
    text: str = ""
    revision: int = 0
    url: str = ""


def read_failure(data: Any, headers_wait: float | None, shown: str) -> HoptreeError | None:
    """The error that a reply tells of, which comes with the status of success."""
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        return None
    code, info = str(error.get("code", "")), " ".join(str(error.get("info", "")).split())[:300]
    if code == "ratelimited":
        return RateLimited(
            f"{shown} asks for fewer requests.", "Try again later.", retryable=True, retry_after=headers_wait
        )
    if code in _BUSY or code.startswith("internal_api_error"):
        return EndpointError(
            f"{shown} cannot answer now ({code}: {info}).",
            "Try again later.",
            retryable=True,
            retry_after=headers_wait,
        )
    if code == "readapidenied":
        return EndpointError(f"{shown} is read by its members only.", "Use a wiki that is open.", exit_code=2)
    return EndpointError(f"{shown} refused the request ({code}: {info}).", "Look at what it says.", exit_code=2)


def read_site(data: Any, shown: str) -> Site:
    """What the wiki says of itself; an error if it cannot give the plain text of its pages."""
    general = _part(data, "query", "general", shown)
    extensions = data["query"].get("extensions")
    names = [one.get("name") for one in extensions if isinstance(one, dict)] if isinstance(extensions, list) else []
    if _EXTENSION not in names:
        raise ConfigError(
            f"The wiki at {shown} cannot give the plain text of its pages.",
            f"It needs the extension {_EXTENSION}, which Wikipedia has.",
        )
    return Site(str(general.get("sitename", "")), str(general.get("lang", "")))


def read_hits(data: Any, shown: str) -> tuple[Hit, ...]:
    """The articles that a search found, best first; pages that only tell meanings of a name apart are left out."""
    if isinstance(data, dict) and "query" not in data:  # nothing was found
        return ()
    found = [page for page in _pages(data, shown) if _is_article(page)]
    found.sort(key=lambda page: _number(page.get("index")))
    return tuple(Hit(_text(page.get("title")), _number(page.get("lastrevid"))) for page in found)


def read_page(data: Any, asked: str, shown: str) -> Page:
    """The page of a title; one without text where there is none to read."""
    query = data.get("query") if isinstance(data, dict) else None
    if isinstance(query, dict) and "pages" not in query:  # a title of another wiki
        return Page(asked)
    pages = _pages(data, shown)
    page = pages[0] if len(pages) == 1 else {}
    title = _text(page.get("title")) or asked
    if not _is_article(page):
        return Page(title)
    text = page.get("extract")
    if not isinstance(text, str):
        raise UnusableReply(f"{shown} gave no text of '{title}'.", "Try again later.")
    url = _text(page.get("canonicalurl") or page.get("fullurl"))
    link = url if url.startswith(("http://", "https://")) else ""
    return Page(title, text[:_LONGEST], _number(page.get("lastrevid")), link)


def _is_article(page: Mapping[str, Any]) -> bool:
    """Whether a page is there, one of the wiki's subjects, and more than a list of meanings."""
    properties = page.get("pageprops")
    several = isinstance(properties, dict) and "disambiguation" in properties
    gone = any(page.get(flag) for flag in ("missing", "invalid", "special"))
    return bool(page) and not gone and not several and page.get("ns") == 0


def _pages(data: Any, shown: str) -> list[dict[str, Any]]:
    pages = _part(data, "query", "pages", shown)
    if not isinstance(pages, list) or not all(isinstance(page, dict) for page in pages):
        raise _other(shown)
    return pages


def _part(data: Any, outer: str, inner: str, shown: str) -> Any:
    try:
        return data[outer][inner]
    except (KeyError, TypeError, IndexError) as error:
        raise _other(shown) from error


def _other(shown: str) -> UnusableReply:
    return UnusableReply(
        f"{shown} answered with something else than the API of a MediaWiki does.", "Check the address of the wiki."
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if type(value) is int else 0
