"""Encoders: texts to vectors whose cosine says how near two texts are in meaning."""

from __future__ import annotations

from hoptree.retrieval.encoders.encoder import Encoder, Prefixes, Role
from hoptree.retrieval.encoders.opening import open_encoder

__all__ = ["Encoder", "Prefixes", "Role", "open_encoder"]
