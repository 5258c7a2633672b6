"""Many requests on one model of transformers at once."""

from __future__ import annotations

from hoptree.models.batching.kv import ATTENTION, register_attention
from hoptree.models.batching.rows import Logprobs, Row
from hoptree.models.batching.worker import Batcher

__all__ = ["ATTENTION", "Batcher", "Logprobs", "Row", "register_attention"]
