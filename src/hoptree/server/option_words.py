"""A line about each option of a method: its own documentation's, or what the name means everywhere."""

from __future__ import annotations

import inspect
import re

from hoptree.methods.registry import Method, Option

__all__ = ["about_option"]

_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z`])")
_LONGEST = 220
_ALWAYS = {"titles": "Shows passages with their titles."}
"""Said even where a method says more of it: that is about its other options."""
_USUAL = {
    "k": "How many passages a search gives.",
    "shots": "How many worked examples are shown.",
    "draw": "Another number than 0 shows other examples.",
    "max_tokens": "How many tokens the model may write.",
    "temperature": "How freely the model writes; 0 is the likeliest text.",
    "samples": "How many answers are drawn, of which most agree on the one given.",
    "order": "Whether sub-questions that do not wait for each other are asked at once, or one after another.",
    "threshold": "Whether the threshold of doubt follows the text, or is fixed.",
    "disagree": "How much samples of a sentence must differ for it to be looked up.",
    "memory": "Whether facts that were read are kept for what is written next.",
    "words": "How many words are searched with.",
    "look_ahead": "How many tokens of the next sentence are tried out.",
    "rounds": "How often it is searched and answered in turn.",
    "max_steps": "How many thoughts there may be.",
    "max_docs": "How many passages are gathered at most.",
    "depth_rule": "At the greatest depth, faithful splits a question all the same, and prune does not.",
}
_OTHER = "The method's documentation tells what it does."


def about_option(method: Method, option: Option) -> str:
    """The sentence that a method's documentation has about one of its options."""
    told = _ALWAYS.get(option.name) or _own(method, option.name) or _USUAL.get(option.name, _OTHER)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST].rpartition(' ')[0]} …"


def _own(method: Method, name: str) -> str:
    text = " ".join((inspect.getdoc(method.run) or "").split())
    named = re.compile(rf"`{re.escape(name)}\b")
    return next((one.replace("`", "") for one in _SENTENCE.split(text) if named.search(one)), "")
