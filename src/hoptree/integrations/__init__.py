"""Hoptree inside other people's frameworks: a retriever and a tool for each, in one file."""

from hoptree.integrations.engine_thread import Hoptree

__all__ = ["Hoptree"]
