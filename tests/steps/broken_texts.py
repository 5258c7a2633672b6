"""Texts that no reader may stumble over, and the readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.cpu_limit import cpu_limit

from hoptree.core.values import Passage, Token
from hoptree.engine.prompts import Prompt, break_control_tokens, read_prompt
from hoptree.methods.steps.evidence_box import read_clue, read_references, read_verdict
from hoptree.methods.steps.fact_extraction import read_triples
from hoptree.methods.steps.logic_tree import MAX_NODES, Claim, read_subtree, read_tree
from hoptree.methods.steps.mentions import read_mentions
from hoptree.models.model import read_choice
from hoptree.text.answer_fit import explain_type_mismatch
from hoptree.text.comparison import agree, same
from hoptree.text.comparison_questions import asks_twice, detect_comparison
from hoptree.text.grounding import parts_of, supports_answer
from hoptree.text.loose_json import read_json
from hoptree.text.names import LexiconTagger, NameTagger, capitalised_names
from hoptree.text.parse import (
    before_answer,
    clean_answer,
    extract_conclusion,
    find_refusal,
    read_conclusion,
    read_questions,
    retrieval_trigger,
)
from hoptree.text.parse_dialogue import read_self_knowledge
from hoptree.text.parse_labels import (
    read_critique,
    read_numbers,
    read_reflected,
    read_relevance,
    retrieval_probability,
)
from hoptree.text.parse_method_replies import (
    read_action,
    read_cited,
    read_compression,
    read_deduced,
    read_final,
    read_graph_query,
)
from hoptree.text.quantities import read_date, read_quantity
from hoptree.text.question_tree import make_plan, references, resolve
from hoptree.text.relation_words import relation_is_of, relation_key
from hoptree.text.retrieval_triggers import find_mentions
from hoptree.text.tokens import find_words

__all__ = [
    "HOSTILE",
    "LONG",
    "QUESTION",
    "READERS",
    "choice_of",
    "fill",
    "plan_of",
    "prompt_of",
    "question_of",
    "read_all",
]


def plan_of(text: str) -> None:
    plan = make_plan(read_json(text).value, text[:200], mend_leaks=len(text) % 2 == 0)
    assert len(plan.order()) == len(plan.nodes)
    assert len(plan.paths()) <= len(plan.nodes)


def tree_of(text: str) -> None:
    reading = read_json(text)
    tree = read_tree(reading.value, text[:200])
    assert sum(claim.size for claim in tree.children) <= MAX_NODES
    old = Claim("Who directed it?", "Chazelle")
    for levels in (1, 3):
        claim, _ = read_subtree(reading.value, old, levels=levels)
        assert claim is None or (claim.levels <= levels and claim.size <= MAX_NODES)
    read_verdict(reading, text[:200])
    read_references(reading.value)
    read_clue(text)


def reflection_of(text: str) -> None:
    tokens = tokens_of(text[:2_000])
    read_critique(text, tokens)
    read_reflected(text, tokens)
    retrieval_probability(text, tokens)


def turn_of(text: str) -> None:
    read_action(text)
    read_cited(text)
    read_cited(text, bare=True)
    read_compression(text)
    read_deduced(text, [text[:100]])
    read_final(text)
    read_graph_query(text)
    read_mentions(text)


def question_of(text: str) -> str:
    references(text)
    return resolve(text, {1: text, 2: "#query1"})


def choice_of(text: str) -> None:
    tokens = tokens_of(text[:500])
    choice = read_choice(text, reasoning=text[:20], finish="length", tokens=tokens)
    assert len(choice.tokens) <= len(tokens)


def tokens_of(text: str) -> list[Token]:
    return [Token(text[start : start + 5], -0.1) for start in range(0, len(text), 5)]


def prompt_of(text: str) -> Prompt:
    """A prompt file that is itself broken, filled with broken text."""
    prompt = read_prompt("broken", text)
    values: dict[str, Any] = dict.fromkeys(prompt.variables, text[:1000])
    filled = prompt.fill(**values)
    assert len(filled.messages) == len(prompt.sections)
    return prompt


QUESTION = read_prompt("question", "--- system\nAnswer.\n--- user\nQuestion: {question}\n")


def fill(text: str) -> None:
    filled = QUESTION.fill(question=text)
    assert filled.messages[-1].content == f"Question: {break_control_tokens(text)}"
    filled.follow_up(text, text)


READERS: dict[str, Callable[[str], object]] = {
    "read_json and make_plan": plan_of,
    "trees and verdicts": tree_of,
    "reflections": reflection_of,
    "turns": turn_of,
    "references and resolve": question_of,
    "concluded": extract_conclusion,
    "clean_answer": clean_answer,
    "why_unanswered": find_refusal,
    "retrieval_trigger": retrieval_trigger,
    "read_knowing": lambda text: (read_self_knowledge(text), read_self_knowledge(f"Yes, {text}", "Is it?")),
    "read_relevance": read_relevance,
    "read_numbers": lambda text: read_numbers(text, 5),
    "read_questions": read_questions,
    "read_choice": choice_of,
    "Prompt.fill": fill,
    "read_prompt": prompt_of,
    "dates and numbers": lambda text: (read_date(text), read_quantity(text)),
    "same and agree": lambda text: (
        same(text[:2_500], "1950 " + text[:2_500]),
        agree("1950 " + text[:2_500], text[:2_500]),
    ),
    "names": lambda text: capitalised_names(text, NameTagger(LexiconTagger())),
    "parts of an answer": lambda text: (parts_of(text), explain_type_mismatch("Where is it?", text)),
    "support": lambda text: supports_answer(text[:2_000], [Passage("p", text, text)]),
    "relations": lambda text: (relation_key(text), relation_is_of(text[:300], "father of", text)),
    "mentions": lambda text: (find_mentions("A", text), find_mentions(text, text)),
    "comparison": lambda text: (detect_comparison(text), detect_comparison("Which is older, " + text[:900])),
    "two questions": asks_twice,
    "triples": read_triples,
    "conclusions": lambda text: (read_conclusion(text), before_answer(text), find_words(text, text.split())),
    "tokens of a thought": lambda text: read_choice(f"<think>{text}</think>{text}", tokens=tokens_of(text)),
}

HOSTILE = {
    "commas": "A, ",
    "capitals": "Aa Bb ",
    "initials": "A. ",
    "dates": "1 May 1950, ",
    "years": "1990-1991 ",
    "numbers": "12 ",
    "thousands": "1,000,",
    "brackets": "[1] (a) ",
    "and": "and ",
    "or": "A or B ",
    "of the": "of the ",
    "of the and capitals": "A of the ",
    "hyphens": "a-",
    "dots": ". ",
    "line breaks": "\n",
    "lines": "A\n",
    "quotation marks": '"A" ',
    "possessives": "A's ",
    "triples": "A | b | C\n",
    "lists": "1. A\n",
    "questions": "Who is A? ",
    "mixed": "A of B, C and D or E (F) - ",
    "no spaces": "的。",
    "tags": "<think></think>",
}
"""What a reader may stumble over when it is repeated."""

LONG = {
    "an open string of escaped quotes": '{"a": "' + '\\"' * 6_250,
    "not": "not " * 3_750,
    "answer is": "answer is " * 2_500,
    "open braces": "{" * 12_500,
    "open brackets": "[" * 12_500,
    "I am not": "I am not " * 2_500,
    "spaces": " " * 12_500,
    "spaces inside": "a" + " " * 12_500 + "b",
    "query": "query" * 2_500,
    "#query": "#query" * 2_125,
    "# and spaces": "#" + " " * 12_500 + "q",
    "words": "word " * 2_500,
    "one word": "x" * 12_500,
    "newlines": "a" + "\n" * 12_500 + "b",
    "full stops": " ." * 6_250,
    "initials": "a." * 6_250 + "!.",
    "quotes": '"' * 12_500,
    "stars": "*" * 12_500,
    "commas": '{"a": [1' + ", " * 6_250,
    "fences": "```" * 4_125,
    "rag": "rag" * 4_125,
    "rag and spaces": "rag " * 3_125,
    "capitals": "The Of " * 1_875,
    "capitals and dots": "A." * 6_250,
    "I do": "I do " * 2_500,
    "I and spaces": "I" + " " * 12_500,
    "ignore": "ignore " * 1_875,
    "heading": "# " + "#" * 12_500 + "x",
    "heading and spaces": "# a" + " " * 12_500 + "x",
    "control": "<|" * 6_250,
    "think": "<think>" * 1_750,
    "colons": ": " * 6_250,
    "mended": '{"a": [' + "None, " * 2_000,
    "question marks": "?" * 12_500,
    "question marks and spaces": "? " * 6_250,
    "list marks": "1) " * 4_125,
    "numbers": "[1] " * 3_125,
    "not relevant": "[1] not relevant " * 750,
    "I know that": "I know that it was, " * 625,
    "sure": "sure. " * 2_000,
    "question words and commas": "谁" * 6_250 + "，" * 6_250,
    **{f"hostile {name}": unit * (12_500 // len(unit)) for name, unit in HOSTILE.items()},
}
"""Long enough that a reader whose time grows with the square of the length takes more than `_SECONDS`."""
_SECONDS = 1
"""Of processor time for each; the slowest reader takes a tenth of it."""


def read_all(read: Callable[[str], object], texts: Mapping[str, str] = LONG) -> None:
    """Each in a time that grows with it; a failure tells which."""
    for name, text in texts.items():
        try:
            with cpu_limit(_SECONDS):
                read(text)
        except BaseException as error:
            error.add_note(f"reading {name!r}")
            raise
