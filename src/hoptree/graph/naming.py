"""Names: how they are compared, and which of several in different languages is shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["LANGUAGES", "LONGEST", "best_name", "fold", "language_rank", "wanted_language"]

LANGUAGES = ("en", "mul", "")
"""Languages of names that are kept and shown, in this order: "mul" is Wikidata's tag for all, "" is no tag."""
LONGEST = 300
"""Characters of a name that can be looked up."""


def fold(name: str) -> str:
    """A name as it is looked up: without capitals, accents and needless spaces, with plain quotes and dashes."""
    if name.isascii():  # most are, and this takes a tenth of the time
        return " ".join(name[:LONGEST].casefold().split())
    split = name[:LONGEST]
    for _ in range(2):  # a capital may only show once its ornaments are off
        split = unicodedata.normalize("NFKD", split.casefold())
    plain = "".join(letter for letter in split if not unicodedata.combining(letter)).translate(_PLAIN)
    # Scripts that write vowels as marks would lose them; a name of nothing but marks stays as it is.
    return " ".join((plain if plain.strip() else split).encode("utf-8", "replace").decode().split())


_PLAIN = {ord(odd): plain for odd, plain in zip("‘’ʼ‛“”„‐‑‒–—−", "''''\"\"\"------", strict=True)}
# Letters that are none with an accent to Unicode, as people write them who do not have them.
_PLAIN |= {ord(odd): plain for odd, plain in zip("łøđðħŧıŋ", "loddhtin", strict=True)}
_PLAIN |= {ord("þ"): "th", ord("æ"): "ae", ord("œ"): "oe"}


def language_rank(tag: str, order: Sequence[str]) -> int:
    """The place of a language among those wanted: en-gb is taken for en, after it; what is not wanted comes last."""
    tag = tag.lower()
    if tag in order:
        return 2 * order.index(tag)
    general = tag.partition("-")[0]
    return 2 * order.index(general) + 1 if general in order else 2 * len(order)


def wanted_language(tag: str, order: Sequence[str]) -> bool:
    return not order or language_rank(tag, order) < 2 * len(order)


def best_name(names: Iterable[tuple[str, str]], order: Sequence[str]) -> str:
    """The name to show of (name, language) pairs: by language, then the shortest, then by the alphabet; "" of none."""
    return min(names, key=lambda pair: (language_rank(pair[1], order), len(pair[0]), pair[0]), default=("", ""))[0]
