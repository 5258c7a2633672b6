"""Descriptions inside a question, asked one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.methods.hop.word_plans import chain_of

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
    # The verb of a clause is the clause's.
    "In which county is the place where Ada Moor died? = What is the place where Ada Moor died? "
    "| In which county is {}?",
    "What entity does the town where Ada Moor lived belong to? = What is the town where Ada Moor lived? "
    "| What entity does {} belong to?",
    "When was the town where Low Hall is located founded? = What is the town where Low Hall is located? "
    "| When was {} founded?",
    "What is the capital of the state where the president who succeeded Ada Moor was born? = "
    "Who is the president who succeeded Ada Moor? | What is the state where {} was born? "
    "| What is the capital of {}?",
    "When did the firm that built Low Hall stop making cars? = What is the firm that built Low Hall? "
    "| When did {} stop making cars?",
    "Where was the place of death of Ada Moor's father? = Who is Ada Moor's father? "
    "| Where was the place of death of {}?",
    "When is the opening day of the league that Ben Hale plays for? = What is the league that Ben Hale plays for? "
    "| When is the opening day of {}?",
    "Who directed the film that was shot in Lund in 1986? = What is the film that was shot in Lund in 1986? "
    "| Who directed {}?",
    "When did they start the prize that Not Fade Away won? = What is the prize that Not Fade Away won? "
    "| When did they start {}?",
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
    # What is asked has no verb left, or only part of it.
    "When did the person who was late to the party with CD technology die?",
    "When did the winner of the Lund Medal award open?",
    "When did the majority party in the body which approves members of the Cabinet gain control of the House?",
    "What year did the series on CBS, starring the actor who played Jim Low, air?",
    "What school was the actress who played Jane Low with Ada Moor attending when she was found?",
    "What part of the country that includes Low Tide was the film made?",
    "Where in the country where Ada Moor was born was Low Tide filmed?",
    "When was the version of the browser that Low Cat is based on made accessible?",
    "What shares a border with the city where the man who went to the state where Ada Moor works?",
    "Which member of the club that won the Lund Cup died first?",
    "Which of the films which Ada Moor made was directed by Ben Hale?",
    "When did the founding of Lund become the capital of the state Ada Moor is from?",
    "What year did the mayor of the city where Ada Moor's author died end?",
    "What does the name of the agency that built Low Hall stand for?",
    "Who did members of the group who first played Low Tide work with?",
    "In what year was the school where Ada Moor was a teacher founded?",
    "In what month was the first officer of the flight that crashed in Lund Born?",
    "Which county has a border with the county where the largest city in the state where Low Hall is located?",
    "What league did was the team that played at Low Hall belong to?",
    # Two verbs in a description of one thing.
    "In what region of the country where Low Hall is located is Ada Moor's birthplace?",
    "Where does the band that recorded the album Low Tide formed?",
    "When did the country where the film that starred Ben Hale is set gain independence?",
    "What is the symbol of the place where Ada Moor was born called?",
    "When is the next episode of the series that Low Tide is a part of being released?",
    # A year or a place that goes with what is asked.
    "What was the population of the birthplace of Ada Moor in 1800?",
    "Who was played by the director of Low Tide in Night Train?",
    "Who plays the wife of the director of Low Tide in Night Train?",
    "How many operas are among the man who wrote Low Tide in B-flat major best known works?",
    "What was the population of the republic that fought at Lund before this war?",
    "In which city were the games held in which Ada Moor competed?",
    # "of" that names.
    "Who lives in the state of New York?",
    "In what county is the city of Bath located?",
    # Several things, and things that are told by others.
    "When were the directors of Low Tide and Night Train born?",
    "What separates the islands where Ada Moor was born?",
    "What office was held by two occupants of the same castle located in Lund?",
    "When was the earliest film of Low Tide and Night Train shot?",
    # Negations.
    "Who was not the father of Ada Moor's mother?",
    "When was the director of the film that did not win the Oscar born?",
    "When did the director of Low Tide, which wasn't a success, die?",
    "Which film did the director of Low Tide never finish?",
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
