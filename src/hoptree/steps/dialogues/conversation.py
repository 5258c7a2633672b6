"""A conversation that goes on: what was asked and said before stays in view."""

from __future__ import annotations

from hoptree.models.model import Message
from hoptree.runtime.prompts import Filled, plain

__all__ = ["went_on"]


def went_on(asked: Filled, reply: str, then: Filled) -> Filled:
    """What was asked, the reply to it, and what is asked then; the template is that of the last turn."""
    # Chat templates want something said in every turn.
    said = Message("assistant", plain(reply) or "…")
    return Filled((*asked.messages, said, *then.messages), then.template)
