"""What is asked for when a model is unsure, from fixed probabilities and attention."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Attended, Token
from hoptree.text.names import LexiconTagger
from hoptree.text.retrieval_triggers import attended_query, content_query, masked_query, sure_query

TAGGER = LexiconTagger()


def tokens(*pairs: tuple[str, float]) -> list[Token]:
    return [Token(text, math.log(p)) for text, p in pairs]


DRAFT = "Chautard died in Westwood in 1934."
SURE = tokens(
    ("Ch", 0.9), ("autard", 0.95), (" died", 0.5), (" in", 0.99), (" West", 0.3), ("wood", 0.9), (" in", 0.4),
    (" 1934", 0.39), (".", 0.9), ("</s>", 0.01),
)  # fmt: skip


def test_flare_leaves_out_what_is_improbable() -> None:
    assert masked_query(DRAFT, SURE, "When?") == "Chautard died in wood in ."
    assert masked_query(DRAFT, SURE, "When?", beta=0.96) == "in"
    assert masked_query(DRAFT, SURE, "When?", beta=1.0) == "When?"
    assert masked_query(DRAFT, SURE, "When?", span=(17, 34)) == "wood in ."
    assert masked_query("", [], "When?") == "When?"
    assert masked_query("Rome", [Token("Rome", math.nan)], "When?") == "When?"


#       0         1         2         3         4
#       0123456789012345678901234567890123456789012345
READ = "Q: Who directed Wanda? A: Wanda was made by Eve"
SPANS = (
    (0, 2),
    (2, 6),
    (6, 15),
    (15, 18),
    (18, 21),
    (21, 22),
    (22, 25),
    (25, 31),
    (31, 35),
    (35, 40),
    (40, 43),
    (43, 47),
)
REGIONS = ((3, 22), (26, 47))


def test_dragin_asks_for_what_the_hits_looked_at() -> None:
    weights = (0.5, 0.0, 0.1, 0.1, 0.1, 0.0, 0.0, 0.05, 0.0, 0.0, 0.1)
    two = (0.5, 0.0, 0.0, 0.1, 0.1, 0.0, 0.0, 0.15, 0.0, 0.1)
    read = Attended(READ, SPANS, (weights, two))
    # The means: directed 0.05, Wanda (two tokens) 0.2, the second Wanda 0.1, made 0.05.
    assert attended_query(read, REGIONS, [(44, 47)], TAGGER) == "directed Wanda Wanda made"
    assert attended_query(read, REGIONS, [(44, 47)], TAGGER, limit=2) == "Wanda Wanda"
    assert attended_query(read, REGIONS, [(44, 47), (26, 31)], TAGGER, limit=1) == "Wanda"
    assert attended_query(read, [(3, 6), (32, 35)], [], TAGGER) == ""
    assert attended_query(Attended("", (), ()), [(0, 0)], [], TAGGER) == ""
    odd = Attended(READ, SPANS, ((math.nan,) * 11,))
    assert attended_query(odd, REGIONS, [(44, 47)], TAGGER, limit=1) == "directed"


def test_dragin_without_attention_asks_for_all_content() -> None:
    texts = ["Who directed Wanda?", "It was made by Eve"]
    assert content_query(texts, ["eve"], TAGGER) == "directed Wanda made"
    assert content_query(texts, [], TAGGER, limit=2) == "directed Wanda"
    assert content_query(["Is it?"], [], TAGGER) == ""


def test_the_words_before_an_answer_are_not_asked_for() -> None:
    lead = "So the answer is: Westwood."
    read = tokens(*((word, 0.99) for word in ("So", " the", " answer", " is", ":", " Westwood", ".")))
    assert masked_query(lead, read, "Where?") == "Where? Westwood."
    assert masked_query(lead, read, "Where?", span=(18, len(lead))) == "Where? Westwood."
    assert masked_query(f"He died. {lead}", [], "Where?", span=(0, 8)) == "He died."
    assert content_query(("Where?", lead), [], TAGGER) == "Westwood"
    assert sure_query(lead, read, "", TAGGER) == "Westwood"


def test_seakr_asks_for_what_is_sure_or_given() -> None:
    assert sure_query(DRAFT, SURE, "Where did he stay?", TAGGER) == "Chautard"
    assert sure_query(DRAFT, SURE, "Who died in 1934?", TAGGER) == "Chautard died 1934"
    assert sure_query("", [], "", TAGGER) == ""
    assert sure_query("Rome", [Token("Rome", math.nan)], "", TAGGER) == ""


@given(st.lists(st.builds(Token, st.text(max_size=5), st.floats()), max_size=12), st.lists(st.floats(), max_size=12))
def test_no_numbers_break_it(read: list[Token], weights: list[float]) -> None:
    text = "".join(token.text for token in read)
    assert masked_query(text, read, "Who?")
    assert set(sure_query(text, read, "", TAGGER)) <= {*text, " "}
    spans = tuple((at, at + 1) for at in range(len(text)))
    attended_query(Attended(text, spans, (tuple(weights), ())), [(0, len(text))], [], TAGGER)
