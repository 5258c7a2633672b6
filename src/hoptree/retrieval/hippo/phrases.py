"""Phrases and facts as they are compared: the same words, whatever their capitals and punctuation, are the same."""

from __future__ import annotations

from hoptree.retrieval.index.analysis import composed
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.index.mentions import folded

__all__ = ["fact_key", "fact_text", "phrase_key", "phrase_of"]


def phrase_of(name: str) -> str:
    """The node that a subject or object stands for: "The Hague" and "the Hague." are one."""
    plain = composed(name)
    return folded(plain) or plain.strip()  # signs alone are a name, too


def phrase_key(phrase: str) -> int:
    """The number of a phrase's vector."""
    return key_of(phrase)


def fact_text(subject: str, relation: str, object_: str) -> str:
    """A fact as an encoder and a model read it."""
    return " ".join(" ".join((subject, relation, object_)).split())


def fact_key(subject: str, relation: str, object_: str) -> int:
    """The number of a fact's vector: passages that state the same share it."""
    return key_of("\0".join((phrase_of(subject), phrase_of(relation), phrase_of(object_))))
