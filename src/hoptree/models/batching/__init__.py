"""Many requests on one model of transformers at once."""

from __future__ import annotations

from hoptree.models.batching.decoder import DecoderOnly
from hoptree.models.batching.encoder_decoder import EncoderDecoder
from hoptree.models.batching.kv_cache import ATTENTION, register_attention
from hoptree.models.batching.passes import Passes
from hoptree.models.batching.rows import OF_TOKENS, Logprobs, Row
from hoptree.models.batching.worker import Batcher

__all__ = [
    "ATTENTION",
    "OF_TOKENS",
    "Batcher",
    "DecoderOnly",
    "EncoderDecoder",
    "Logprobs",
    "Passes",
    "Row",
    "register_attention",
]
