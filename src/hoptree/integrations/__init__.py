"""Hoptree in other frameworks: a retriever and a tool for each."""

from hoptree.integrations.engine_thread import Hoptree

__all__ = ["Hoptree"]
