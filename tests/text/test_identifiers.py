"""Identifiers keep their signs: options, files, variables, in replies, passages and sentences."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hoptree.core.values import Answer, Passage
from hoptree.methods.hop.lists import split_list
from hoptree.text.grounding import correct_spelling, find_quote, grounded, supports_answer
from hoptree.text.parse import clean_answer, read_conclusion
from hoptree.text.parse_dialogue import first_line, read_answer, read_self_knowledge
from hoptree.text.parse_method_replies import read_cited, read_final

IDENTIFIERS = (
    *("-x", "-M", "--long", "-u fd", "-M, --trimblanks", ".env", "../lib", "./configure", "/etc/passwd", "~/.bashrc"),
    *("@name", "#define", "$HOME", "%n", "&rest", "C++", "*args", "**kwargs", "__init__", "_private", "\\n"),
)
PARSERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("{}", clean_answer),
    ("The answer is {}.", clean_answer),
    ("Answer: {}", clean_answer),
    ("**Answer:** {}", clean_answer),
    ('["{}"]', clean_answer),
    ("`{}`", clean_answer),
    ("- {}", clean_answer),
    ("**{}**", clean_answer),
    ("So the answer is {}.", lambda text: read_conclusion(text).text),
    ("Final answer: {}", lambda text: read_final(text).text),
    ("{}", lambda text: read_answer(text).text),
    ("{}", first_line),
    ('"{}"', first_line),
    ("Yes. {}", lambda text: read_self_knowledge(text).answer),
    ("Yes - {}", lambda text: read_self_knowledge(text).answer),
    ('{{"answer": "{}", "citation": "It is so."}}', lambda text: read_cited(text).answer),
    ("Oslo; {}; Rome", lambda text: split_list(text)[1]),
)


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_every_parser_keeps_the_signs_of_an_identifier(identifier: str) -> None:
    for form, parse in PARSERS:
        if (";" in form and "," in identifier) or ("**" in form and "*" in identifier):
            continue
        written = identifier.replace("\\", "\\\\") if form.startswith(("{{", "[")) else identifier
        assert parse(form.format(written)) == identifier, form


@pytest.mark.parametrize(
    ("marked", "bare"),
    [("*Vertigo*", "Vertigo"), ("**Vertigo**", "Vertigo"), ("- Oslo", "Oslo"), ("**Oslo", "Oslo"), ("Oslo.", "Oslo")],
)
def test_the_marks_of_a_name_are_still_dropped(marked: str, bare: str) -> None:
    assert clean_answer(marked) == bare


@pytest.mark.parametrize(
    ("answer", "text", "spelled"),
    [
        ("-u", "Read from \u2212u fd instead.", "-u"),
        ("-u fd", "\u2212u fd  Read from the file descriptor.", "-u fd"),
        ("-M (--trimblanks)", "-M, --trimblanks\nSnip trailing blanks.", "-M, --trimblanks"),
        ("-M (--trimblanks)", "\u2212M, \u2212\u2212trimblanks snips.", "-M, --trimblanks"),
        ("--Trimblanks", "Use \u2010\u2010trimblanks.", "--trimblanks"),
        ("~/.Bashrc", "The file ~/.bashrc is read.", "~/.bashrc"),
        ("$home", "The directory $HOME is yours.", "$HOME"),
        ("-M", "-M, --trimblanks Snip trailing whitespace.", "-M"),
        ("-u", 'The option "-u" is set.', "-u"),
        ("$x", "The value of $x grows.", "$x"),
        ("-Paris", "The capital is Paris.", "Paris"),
    ],
)
def test_a_passage_spells_an_identifier_with_its_signs(answer: str, text: str, spelled: str) -> None:
    passages = [Passage("p", "Manual", text)]
    assert grounded(Answer(answer), "", passages).text == spelled
    assert supports_answer(answer, passages)
    quote = find_quote(answer, "Which option is it?", passages)
    assert answer == "-Paris" or quote is not None


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("-u", "A U-turn, u and the u-boat."),
        ("-m", "-M, --trimblanks Snip."),
        ("-u", "pre-u and --u"),
        ("$x", "x is 1"),
    ],
)
def test_a_letter_without_its_sign_is_no_option(answer: str, text: str) -> None:
    assert not supports_answer(answer, [Passage("p", "Manual", text)])


def test_a_corrected_name_keeps_its_sign() -> None:
    passages = [Passage("p", "Team", "It was written by @Braden in May.")]
    assert correct_spelling("@Branden", "", passages) == "@Braden"
