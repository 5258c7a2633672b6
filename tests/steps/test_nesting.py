"""Descriptions inside a question, asked one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.steps.planning.nesting import chain_of

CHAINS = [
    "Where was the director of film Vertigo born? = Who is the director of film Vertigo? | Where was {} born?",
    "Why did Omar Sharif's father die? = Who is Omar Sharif's father? | Why did {} die?",
    "Where did Edward, Duke Of York's father die? = Who is Edward, Duke Of York's father? | Where did {} die?",
    "Which country the performer of song Dip (Song) is from? = Who is the performer of song Dip (Song)? "
    "| Which country {} is from?",
    "What is the birthplace of Dina Sfat's husband? = Who is Dina Sfat's husband? | What is the birthplace of {}?",
    "What is the place of birth of Ada's mother? = Who is Ada's mother? | What is the place of birth of {}?",
    "Who is the paternal grandfather of Bolesław? = Who is the father of Bolesław? | Who is the father of {}?",
    "Who is Ada Lovelace's mother-in-law? = Who is the spouse of Ada Lovelace? | Who is the mother of {}?",
    "Who is the sibling of the actress who played Susan Walker in Miracle on 34th street? = "
    "Who is the actress who played Susan Walker in Miracle on 34th street? | Who is the sibling of {}?",
    "What is the seat of the county where Van Hook Township is located? = "
    "What is the county where Van Hook Township is located? | What is the seat of {}?",
    "What is the name of the castle in the city where the performer of We Sweat Blood formed? = "
    "Who is the performer of We Sweat Blood? | What is the city where {} formed? "
    "| What is the name of the castle in {}?",
    "When was the company that makes Skyflash abolished? = What is the company that makes Skyflash? "
    "| When was {} abolished?",
    "Where was the designer of the Lap Engine born? = Who is the designer of the Lap Engine? | Where was {} born?",
]
NONE = [
    "Who is the director of film Vertigo?",  # one thing, and it is what is asked for
    "What is the name of the director of film Vertigo?",
    "Who is the mother of Olaf Haraldsen?",
    "where did the director of vertigo die",  # no name can be told from other words
    "When was the end of World War II?",  # the end of something is no thing to look up
    "When did the maker of the Acura Legend, the owner of Scion, and Nissan open US assembly plants?",
    "When did the performer of I Love Life, Thank You release Best Day Ever?",  # where the name ends cannot be told
    "Who did the actor who played a bellhop in Dead Heat play in Star Wars?",
    "The brother of Alfred Jodl served as what?",
    "Jacques Coghen is an ancestor to the spouse of which Belgian Queen?",
    "What is the {} of the director of film Vertigo?",
    "Who is " + "the director of " * 700,
    "",
]


@pytest.mark.parametrize("row", CHAINS)
def test_the_innermost_thing_is_asked_for_first(row: str) -> None:
    question, _, chain = row.partition(" = ")
    assert chain_of(question) == tuple(part.strip() for part in chain.split("|"))


@pytest.mark.parametrize("question", NONE)
def test_what_the_words_do_not_tell_is_no_chain(question: str) -> None:
    assert chain_of(question) == ()


@given(st.text(max_size=150))
def test_any_text_is_a_chain_or_none(text: str) -> None:
    for question in (text, f"Where was the director of {text} born?", f"Who is {text}'s father?"):
        chain = chain_of(question)
        assert len(chain) in (0, 2, 3, 4) and all(part.endswith("?") for part in chain)
        assert all("{}" in part for part in chain[1:]) and not any("{}" in part for part in chain[:1])
