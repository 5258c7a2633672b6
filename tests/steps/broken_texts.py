"""Texts that no reader may stumble over, and the readers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.patience import patience
from tests.thorough import THOROUGH

from hoptree.core.values import Passage, Token
from hoptree.engine.prompts import Prompt, plain, read_prompt
from hoptree.methods.steps.fact_extraction import read_triples
from hoptree.models.model import read_choice
from hoptree.text.comparison import agree, same
from hoptree.text.comparison_questions import detect_comparison
from hoptree.text.grounding import explain_type_mismatch, parts_of, supports_answer
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
from hoptree.text.parse_labels import read_numbers, read_relevance
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
    "long_texts",
    "plan_of",
    "prompt_of",
    "question_of",
    "read_all",
    "repeated",
]


def plan_of(text: str) -> None:
    plan = make_plan(read_json(text).value, text[:200], mend_leaks=len(text) % 2 == 0)
    assert len(plan.order()) == len(plan.nodes)
    assert len(plan.paths()) <= len(plan.nodes)


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
    assert filled.messages[-1].content == f"Question: {plain(text)}"
    filled.follow_up(text, text)


READERS: dict[str, Callable[[str], object]] = {
    "read_json and make_plan": plan_of,
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
        same(text[:5_000], "1950 " + text[:5_000]),
        agree("1950 " + text[:5_000], text[:5_000]),
    ),
    "names": lambda text: capitalised_names(text, NameTagger(LexiconTagger())),
    "parts of an answer": lambda text: (parts_of(text), explain_type_mismatch("Where is it?", text)),
    "support": lambda text: supports_answer(text[:2_000], [Passage("p", text, text)]),
    "relations": lambda text: (relation_key(text), relation_is_of(text[:300], "father of", text)),
    "mentions": lambda text: (find_mentions("A", text), find_mentions(text, text)),
    "comparison": lambda text: (detect_comparison(text), detect_comparison("Which is older, " + text[:900])),
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


def long_texts(chars: int) -> dict[str, str]:
    """Texts of about so many characters."""
    return {
        "an open string of escaped quotes": '{"a": "' + repeated('\\"', chars),
        "not": repeated("not ", chars),
        "answer is": repeated("answer is ", chars),
        "open braces": repeated("{", chars),
        "open brackets": repeated("[", chars),
        "I am not": repeated("I am not ", chars),
        "spaces": repeated(" ", chars),
        "spaces inside": "a" + repeated(" ", chars) + "b",
        "query": repeated("query", chars),
        "#query": repeated("#query", chars),
        "# and spaces": "#" + repeated(" ", chars) + "q",
        "words": repeated("word ", chars),
        "one word": repeated("x", chars),
        "newlines": "a" + repeated("\n", chars) + "b",
        "full stops": repeated(" .", chars),
        "initials": repeated("a.", chars) + "!.",
        "quotes": repeated('"', chars),
        "stars": repeated("*", chars),
        "commas": '{"a": [1' + repeated(", ", chars),
        "fences": repeated("```", chars),
        "rag": repeated("rag", chars),
        "rag and spaces": repeated("rag ", chars),
        "capitals": repeated("The Of ", chars),
        "capitals and dots": repeated("A.", chars),
        "I do": repeated("I do ", chars),
        "I and spaces": "I" + repeated(" ", chars),
        "ignore": repeated("ignore ", chars),
        "heading": "# " + repeated("#", chars) + "x",
        "heading and spaces": "# a" + repeated(" ", chars) + "x",
        "control": repeated("<|", chars),
        "think": repeated("<think>", chars),
        "colons": repeated(": ", chars),
        "mended": '{"a": [' + repeated("None, ", chars),
        "question marks": repeated("?", chars),
        "question marks and spaces": repeated("? ", chars),
        "list marks": repeated("1) ", chars),
        "numbers": repeated("[1] ", chars),
        "not relevant": repeated("[1] not relevant ", chars),
        "I know that": repeated("I know that it was, ", chars),
        "sure": repeated("sure. ", chars),
        **{f"hostile {name}": repeated(unit, chars) for name, unit in HOSTILE.items()},
    }


def repeated(unit: str, chars: int) -> str:
    return unit * (chars // len(unit))


_CHARS = 25_000
"""Enough that a reader whose time grows with the square of the length takes more than half a second."""
LONG = long_texts(_CHARS)
_QUICK_S = 2.0 / 4**2 / 4
"""Processor time for a quarter of a text. A reader that grows with the square, and that runs out of patience with the
whole text, takes four times as much for the quarter."""


def read_all(read: Callable[[str], object], texts: Callable[[int], dict[str, str]] = long_texts) -> None:
    """Read each long text in a time that grows with it; a failure tells which.

    The whole text is read if a quarter of it takes long, and always by the thorough profile.
    """
    quarters = texts(_CHARS // 4)
    for name, text in texts(_CHARS).items():
        try:
            with patience():
                begun = time.process_time()
                read(quarters[name])
                if THOROUGH or time.process_time() - begun > _QUICK_S:
                    read(text)
        except BaseException as error:
            error.add_note(f"reading {name!r}")
            raise
