"""Films that lead to their directors, and a question that needs it."""

from __future__ import annotations

from hoptree.core.values import Passage

__all__ = ["QUESTION", "films"]

QUESTION = "Where was the director of the film Red Kite born?"


def films(count: int = 12) -> list[Passage]:
    """Films, each with a director whose page shares no word with a question about the film."""
    passages = []
    for n in range(count):
        meta = (("lang", "en" if n % 2 else "de"), ("part", str(n)))
        passages.append(
            Passage(f"f{n}", f"Grey Gull{n}", f"Grey Gull{n} is a film directed by Eva Lund{n}.", metadata=meta)
        )
        passages.append(Passage(f"d{n}", f"Eva Lund{n}", f"Her childhood passed at Hamlet{n}.", metadata=meta))
    passages.append(Passage("kite", "Red Kite", "Red Kite is a film directed by Ada Moor.", metadata=(("lang", "en"),)))
    passages.append(Passage("ada", "Ada Moor", "Her childhood passed at Skagen.", metadata=(("lang", "de"),)))
    passages += [Passage(f"x{n}", f"Barn {n}", f"A calf was born to the director of stable {n}.") for n in range(4)]
    return passages
