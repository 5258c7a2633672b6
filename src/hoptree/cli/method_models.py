"""How close to its paper a method is with a model, without loading the model."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import get_args

from hoptree.errors import MissingExtra, MissingModel
from hoptree.methods.registry import Method
from hoptree.models import open_model
from hoptree.models.hf import HFModel
from hoptree.models.model import Capability

__all__ = ["NOT_POSSIBLE", "OF_CORPUS", "UNKNOWN", "capabilities_of", "fidelity_with", "is_signal"]

UNKNOWN = "?"
"""Where a model is not here to say what it tells of itself."""
NOT_POSSIBLE = "not possible"
OF_CORPUS = "/"
"""Between the fidelity with a corpus that has what a method takes, and that with another one."""


def capabilities_of(spec: str) -> frozenset[str] | None:
    """What a model tells beside its text; None where it is not on this machine, and an error where there is none.

    A hub is not asked: it may not be there, and to list methods is no reason to take a model from it.
    """
    if spec.startswith("openai/") and len(spec) > len("openai/"):
        from hoptree.models.openai import OpenAIModel

        return frozenset(OpenAIModel.capabilities)  # without the key that a call would need
    try:
        model = open_model(spec)
    except (MissingModel, MissingExtra):
        return None
    try:
        return frozenset(model.capabilities_here() if isinstance(model, HFModel) else model.capabilities)
    except MissingModel:
        return None
    finally:
        asyncio.run(model.aclose())


def is_signal(need: str) -> bool:
    """Whether a need of a method is for the model to meet."""
    return need in get_args(Capability)


def fidelity_with(method: Method, capabilities: Collection[str] | None) -> str:
    """The fidelity of a method's default options, as far as it can be told; two where the corpus makes a difference."""
    wanted = [need for need in method.needs if is_signal(need)]
    if capabilities is None:
        told = {_by_corpus(method, gives) for gives in ((), tuple(filter(is_signal, method.signals)))}
        return told.pop() if len(told) == 1 and not wanted else UNKNOWN
    if any(need not in capabilities for need in wanted):
        return NOT_POSSIBLE
    return _by_corpus(method, capabilities)


def _by_corpus(method: Method, capabilities: Collection[str]) -> str:
    """The fidelity with a corpus that has what it takes and, if that is another one, with any."""
    in_corpus = [signal for signal in method.signals if not is_signal(signal)]
    found = (method.fidelity({}, {*capabilities, *held}) for held in (in_corpus, ()))
    return OF_CORPUS.join(dict.fromkeys(found))
