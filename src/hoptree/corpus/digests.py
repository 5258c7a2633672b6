"""Names for passages that have none: from what they say, so that they are the same in whatever file they stand."""

from __future__ import annotations

from hashlib import blake2b

from hoptree.corpus.document import Document

__all__ = ["digest_of", "name_for"]

_BESIDE_A_TITLE = 8


def digest_of(document: Document) -> str:
    """Sixteen digits that stand for all a document says."""
    said = f"{document.title}\0{document.text}"
    if document.aliases or document.metadata:
        said += f"\0{document.aliases!r}\0{document.metadata!r}"
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def name_for(title: str, digest: str) -> str:
    """The title with a digest of the passage behind it.

    Eight digits are enough there: they only tell apart the passages of one title. Without a title it is the digest.
    """
    return f"{title} ({digest[:_BESIDE_A_TITLE]})" if title else digest
