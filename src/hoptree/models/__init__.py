"""Language models: one Protocol, and one module for each backend."""

from __future__ import annotations

from hoptree.models.model import DEFAULT_MODEL, open_model

__all__ = ["DEFAULT_MODEL", "open_model"]
