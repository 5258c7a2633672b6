"""The files of a LoRA adapter's folder, as peft lays it out; known without any library."""

from __future__ import annotations

__all__ = ["ADAPTER_CARD", "ADAPTER_FILES"]

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
ADAPTER_CARD = "hoptree.json"
"""Beside an adapter that was trained here; it names the weights that the adapter belongs to."""
