"""Read which of a few labels a reply gives, and how probable each was."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from hoptree.core.values import Token
from hoptree.text.loose_json import MAX_REPLY_CHARS

_WORD = re.compile(r"[^\W_]+")
_MIN_STEM_CHARS = 4  # "fully" begins with "full", and "Retrieve" as "Retrieval" does; but "now" is no "no"
_SYNONYMS = {"none": "no", "not": "no", "nothing": "no"}
_LEAD = re.compile(
    r"\b(?:strategy|answer|label|class|category|choice|choose|option|level)\b\W{0,3}(?:is|should\s+be|would\s+be|[:=])",
    re.IGNORECASE,
)
_BEFORE_NOUN = re.compile(r"\s+(?!(?:is|because|since|as|for)\b)[a-z]")
_MARKED = re.compile(r"[).:\]*]|\s*\Z|\n")


def label_shares(text: str, tokens: Sequence[Token], labels: Sequence[str]) -> dict[str, float]:
    """Return the labels' shares of the probability, at the first word of a reply, that it is one of them.

    Without log-probabilities the label that is said has all of it; a reply without a label has no shares.
    """
    label = read_label(text, labels)
    if not label:
        return {}
    first = next((token for token in tokens if _WORD.search(token.text)), None)
    if first is None or _label_of(first.text, labels, partial=True) != label:
        return {label: 1.0}
    shares = dict.fromkeys(labels, 0.0)
    for alternative, logprob in {**dict(first.top), first.text: first.logprob}.items():
        if name := _label_of(alternative, labels, partial=True):
            shares[name] += math.exp(logprob)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else {label: 1.0}


def read_label(text: str, labels: Sequence[str]) -> str:
    """Return the label that a reply begins with, or the only one that it names."""
    words = _WORD.findall(text[:MAX_REPLY_CHARS])
    if words and (label := _label_of(words[0], labels)):
        return label
    named = {label for word in words if (label := _label_of(word, labels))}
    return named.pop() if len(named) == 1 else ""


def _label_of(text: str, labels: Sequence[str], *, partial: bool = False) -> str:
    """Return the label that a word begins with; with `partial`, also the only one that begins with the word."""
    match = _WORD.search(text)
    word = match[0].casefold() if match else ""
    for label in labels:
        if label in (word, _SYNONYMS.get(word)) or (word.startswith(label) and len(label) >= _MIN_STEM_CHARS):
            return label
    begun = [label for label in labels if word and label.startswith(word)]
    return begun[0] if len(begun) == 1 and partial else ""


def likeliest_label(tokens: Sequence[Token], labels: Sequence[str]) -> str:
    """Return the label that the first token most likely is, by the alternatives the model tells; "" if none is."""
    first = next((token for token in tokens if token.text.strip()), None)
    if first is None:
        return ""
    alternatives = [(text.strip(), logprob) for text, logprob in ((first.text, first.logprob), *first.top)]
    labelled = (pair for pair in alternatives if pair[0] in labels)
    return max(labelled, key=lambda pair: pair[1], default=("", 0.0))[0]


def read_choice(text: str, names: Sequence[str]) -> str:
    """Return the name a reply begins with, has behind its last "strategy:" or "answer is", or the only one in it.

    Where it begins, or behind such words, a name may have another ending ("Retrieve" for "Retrieval"). A letter stands
    alone, and "A" before a word is an article. "" where none is given, or several without a sign which is meant.
    """
    text = text[:MAX_REPLY_CHARS]
    for place in (0, *(lead.end() for lead in reversed(list(_LEAD.finditer(text))))):
        if name := _name_at(text, place, names):
            return name
    words = list(_WORD.finditer(text))
    long_names = [name for name in names if len(name) != len("no")]  # "no" goes with other words, too
    exact = {name for name in long_names for word in words if word[0] == name and _is_name(text, word, name)}
    named = exact or {name for name in long_names for word in words if _is_name(text, word, name)}
    return named.pop() if len(named) == 1 else ""


def _name_at(text: str, place: int, names: Sequence[str]) -> str:
    """Return the name that is the next word, or the only one of which the next word is another form."""
    word = _WORD.search(text, place)
    if word is None:
        return ""
    if same := [name for name in names if _is_name(text, word, name)]:
        return same[0]
    folded = word[0].casefold()
    stems = {name: name[: max(_MIN_STEM_CHARS, len(name) - 2)].casefold() for name in names}
    alike = [name for name in names if len(name) >= _MIN_STEM_CHARS and folded.startswith(stems[name])]
    return alike[0] if len(alike) == 1 else ""


def _is_name(text: str, word: re.Match[str], name: str) -> bool:
    """Whether a word is a name; a letter in lower case is one only before a mark or the end."""
    if word[0].casefold() != name.casefold():
        return False
    if len(name) > 1:
        return True
    if name == "A" and _BEFORE_NOUN.match(text, word.end()):
        return False
    return word[0] == name or _MARKED.match(text, word.end()) is not None
