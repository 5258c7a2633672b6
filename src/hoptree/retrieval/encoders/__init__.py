"""Encoders: texts to vectors whose cosine says how near two texts are in meaning."""

from __future__ import annotations

from hoptree.retrieval.encoders.encoder import Encoder, Prefixes, Role
from hoptree.retrieval.encoders.opening import check_encoder, open_encoder

__all__ = ["Encoder", "Prefixes", "Role", "check_encoder", "open_encoder"]
