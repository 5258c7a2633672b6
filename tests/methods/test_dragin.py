"""DRAGIN: fixed entropy and attention give a fixed trigger and a fixed query."""

from __future__ import annotations

import pytest
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run, sure

from hoptree.core.values import Token
from hoptree.methods.baselines.dragin import with_attention
from hoptree.methods.steps.chain_of_thought import Draft
from hoptree.models.scripted import Rule

SURE = "Charles Bretagne was a duke."
UNSURE = "His father is Louis."
LAST = "So the answer is: Charles Armand."
DRAFT = f"{SURE} {UNSURE}"
BACK = {"Charles": 0.3, "grandfather": 0.4, "paternal": 0.2, "father": 0.1, "duke": 0.05, "His": 0.9}


def rules(*first: Rule, **louis: float) -> list[Rule]:
    entropy = sure(f"{DRAFT} {LAST}", **(louis or {"Louis": 3.0}))
    return [
        *first,
        Rule(step="look_back", attended=BACK),
        Rule([DRAFT, LAST], step="draft", entropy=entropy, attention=0.2),
        Rule(f"His father is Jean. {LAST}", step="rewrite", entropy=0.1, attention=0.2),
    ]


def test_an_unsure_word_is_looked_up_and_its_sentence_written_again() -> None:
    run = Run("dragin", rules(), k=2, words=4)
    assert run.sentences(False) == [SURE, LAST] and run.sentences(True) == [UNSURE]
    assert run.steps == ["draft", "weigh", "look_back", "rewrite", "draft", "weigh"]
    assert [request.prefix for request in run.sent("rewrite")] == [SURE]
    assert [request.prefix for request in run.sent("draft")] == ["", f"{SURE} His father is Jean."]
    assert run.result.answer == "Charles Armand"
    assert run.result.chains == (f"{SURE} His father is Jean. {LAST}",)
    assert run.values("fidelity") == ["exact"] and run.result.fidelity == "exact"


def test_the_query_is_what_the_hits_attend_to_in_its_order_without_them() -> None:
    """ "His" carries no content, and "Louis" is in doubt."""
    run = Run("dragin", rules(), words=4)
    assert run.shelf.asked == [("Charles paternal grandfather Charles", 3)]
    (request,) = run.sent("look_back")
    assert (request.prefix, request.max_tokens) == (f"{SURE} His father is Louis", 0)
    assert [request.prefix[start:end] for start, end in request.attention_of] == ["Louis"]


def test_documents_are_in_view_only_of_what_is_written_again() -> None:
    run = Run("dragin", rules())
    assert [request.messages[-1].content for request in run.sent("draft")] == [f"Question: {GRANDFATHER}"] * 2
    shown = run.sent("rewrite")[0].messages[-1].content
    assert shown.startswith("Context:\n[1] ") and "[3] Thouars is a town" in shown
    assert shown.endswith(f"Answer in the same format as before.\nQuestion: {GRANDFATHER}")


@pytest.mark.parametrize(("paid", "share", "hits"), [(0.1, 0.5, False), (0.3, 1.5, True)])
def test_the_trigger_is_entropy_times_the_share_of_attention(paid: float, share: float, hits: bool) -> None:
    sentence = "His father Louis died."
    draft = Rule(sentence, step="draft", entropy=sure(sentence, Louis=1.5), attention=[0.2, 0.4 - paid, paid])
    run = Run("dragin", [draft, Rule(": Charles.", entropy=0.1)])
    (event, *_) = run.of("decision", kind="sentence")
    # The last token of a reply has no attention, and counts as the mean one does.
    shares = [0.2 / 0.2, (0.4 - paid) / 0.2, share, 1.0]
    assert [word for word, *_ in event["words"]] == ["His", "father", "Louis", "died"]
    assert [round(attention, 4) for _, _, attention, _, _ in event["words"]] == [round(each, 4) for each in shares]
    assert event["words"][2] == ["Louis", 1.5, share, 1.5 * share, True]
    assert (event["value"], event["theta"]) == (hits, 1.0)


def test_attention_is_that_of_the_draft_by_itself() -> None:
    """With worked examples, documents and question in view a draft gets what these leave it."""
    draft = "His father Louis died."
    script = [
        Rule(draft, step="draft", entropy=sure(draft, Louis=1.5), attention=[0.2, 0.2, 0.2]),
        Rule(step="weigh", attention=[0.1, 0.1, 0.4]),
        Rule(": Charles.", step="conclude", entropy=0.1),
    ]
    run = Run("dragin", script, theta=2.9)
    (event, *_) = run.of("decision", kind="sentence")
    assert event["words"][2] == ["Louis", 1.5, 2.0, 3.0, True] and event["value"]
    (request,) = run.sent("weigh")
    assert (request.prefix, request.max_tokens) == (draft, 0) and request.signals == frozenset({"attention"})
    assert [message.content for message in request.messages] == [""]


def test_a_draft_that_is_cut_into_other_tokens_when_it_is_read_has_the_sums_of_its_words() -> None:
    def tokens(*pieces: str, attention: tuple[float | None, ...] = ()) -> tuple[Token, ...]:
        paid = attention or (9.0,) * len(pieces)
        return tuple(Token(piece, -0.1, (), 1.0, got) for piece, got in zip(pieces, paid, strict=True))

    draft = Draft("Heyerdahl sailed far.", tokens("Hey", "er", "dahl", " sailed", " far", "."))
    read = tokens("Heyer", "dahl", " sai", "led", " far", ".", attention=(0.2, 0.3, 0.1, 0.1, 0.4, None))
    aligned = with_attention(draft, read)
    assert [token.attention for token in aligned.tokens] == [0.2, None, 0.3, 0.2, 0.4, None]
    assert [token.entropy for token in aligned.tokens] == [1.0] * 6 and aligned.text == draft.text


@pytest.mark.parametrize("tagger", ["rules:de", "spacy:none_such", "verbs"])
def test_words_are_tagged_as_is_asked(tagger: str) -> None:
    """What there is not is refused before anything is asked."""
    run = Run("dragin", [*rules(father=9.0), Rule(": Charles.", step="conclude", entropy=0.1)], tagger=tagger)
    if tagger == "rules:de":
        assert run.sentences(True) == [UNSURE] and run.result.answer
    else:
        assert run.steps == [] and ("tagger" in run.result.error_message or "spaCy" in run.result.error_message)


@pytest.mark.parametrize(("theta", "asked"), [(2.9, 1), (3.0, 0), (50.0, 0)])
def test_a_word_must_exceed_theta(theta: float, asked: int) -> None:
    run = Run("dragin", [*rules(), Rule(": Charles.", step="conclude", entropy=0.1)], theta=theta)
    assert len(run.queries) == asked


def test_where_only_words_without_content_are_unsure_nothing_is_looked_up() -> None:
    """The released code searches then, and divides by the number of hits, which is 0."""
    run = Run("dragin", [*rules(His=9.0), Rule(": Charles.", step="conclude", entropy=0.1)])
    assert run.queries == [] and run.sentences(True) == []


def test_without_a_word_to_search_for_the_sentence_stays() -> None:
    script = [
        Rule("Louis father.", step="draft", entropy=3.0, attention=0.2),
        Rule(step="look_back", attended={}),
        Rule(": Louis.", step="conclude", entropy=0.1),
    ]
    run = Run("dragin", script, question="Who?")
    assert run.queries == [] and run.values("sub_query") == [""]
    assert run.result.chains == ("Louis father. So the answer is : Louis.",)


def test_without_attention_the_query_is_of_question_and_sentence() -> None:
    script = [
        Rule([DRAFT, LAST], step="draft", entropy=sure(f"{DRAFT} {LAST}", Louis=3.0)),
        Rule("His father is Jean.", step="rewrite"),
    ]
    run = Run("dragin", script)
    assert run.queries == ["Charles Bretagne Marie de La Trémoille's paternal grandfather father"]
    assert "look_back" not in run.steps
    assert (
        run.of("decision", kind="fidelity")[0] | {"missing": ["attention"], "value": "approx"}
        == run.of("decision", kind="fidelity")[0]
    )


def test_without_entropy_the_likeliest_tokens_are_asked_for() -> None:
    run = Run("dragin", [Rule(LAST, step="draft")])
    (request,) = run.sent("draft")
    assert (request.top_logprobs, request.signals) == (20, frozenset())
    assert run.of("decision", kind="fidelity")[0]["telling"] == "likeliest"
    assert run.result.fidelity == "approx"


def test_without_probabilities_samples_tell() -> None:
    blind = frozenset({"logprobs", "n_samples"})
    samples = ["His father is Louis. Hm.", "His father is Jean.", "Hers was Marie.", "Perhaps Henri.", "Unknown."]
    script = [
        Rule([UNSURE, LAST], step="draft"),
        Rule([*samples, LAST], step="sample"),
        Rule("His father is Jean.", step="rewrite"),
    ]
    run = Run("dragin", script, without=blind)
    assert run.steps[:7] == ["draft", *["sample"] * 5, "rewrite"]
    first, *_ = run.of("decision", kind="sentence")
    assert first["value"] and first["samples"][0] == "His father is Louis." and first["hits"] == ["father", "Louis"]
    assert "Louis" not in run.queries[0]
    assert run.result.answer == "Charles Armand"
    assert {request.seed for request in run.sent("sample")} == {0, 1, 2, 3, 4}


def test_samples_that_agree_keep_the_sentence() -> None:
    script = [Rule([f"{UNSURE} {LAST}", LAST], step="draft"), Rule("His father is Louis.", step="sample")]
    run = Run("dragin", script, without=frozenset({"logprobs"}))
    assert run.queries == [] and run.sent("sample")[0].n == 5
    assert run.result.chains == (f"{UNSURE} {LAST}",)


def test_the_length_is_that_of_the_whole_text() -> None:
    endless = Rule([f"Fact number {n} is true." for n in range(99)], step="draft", entropy=0.1, finish="length")
    run = Run("dragin", [endless, Rule(": none.", step="conclude", entropy=0.1)], max_tokens=12)
    assert run.values("stop") == ["length"] and run.steps.count("draft") == 3
    assert not any("cut off" in warning for warning in run.result.warnings if "draft" in warning)


def test_what_was_not_written_to_its_end_is_written_again() -> None:
    script = [Rule([f"{SURE} His fath", f"His father is Jean. {LAST}"], step="draft", entropy=0.1, finish="length")]
    run = Run("dragin", script)
    assert [request.prefix for request in run.sent("draft")] == ["", SURE]
    assert run.result.chains == (f"{SURE} His father is Jean. {LAST}",)


def test_a_half_written_answer_is_written_to_its_end() -> None:
    cut = Rule("So the answer is: Charles Arm", step="draft", entropy=0.1, finish="length", contains="Question")
    run = Run("dragin", [cut, Rule("Armand.", entropy=0.1)], max_tokens=100, question="Who?")
    assert run.sent("draft")[1].prefix == "So the answer is: Charles"


@pytest.mark.parametrize("reply", ["", "   ", "\n\n"])
def test_a_model_that_says_nothing_ends_it(reply: str) -> None:
    run = Run("dragin", [Rule(reply, entropy=1.0)])
    assert (run.result.answer, run.result.abstained, run.values("stop")) == ("", True, ["no growth"])


def test_numbers_that_are_none_trigger_nothing() -> None:
    run = Run("dragin", [Rule(LAST, step="draft", entropy=float("nan"), attention=float("nan"))])
    assert run.result.answer == "Charles Armand" and run.queries == []


def test_a_search_that_finds_nothing_is_written_again_without() -> None:
    run = Run("dragin", rules(), shelf=Shelf())
    assert run.sent("rewrite")[0].messages[-1].content == f"Question: {GRANDFATHER}"


def test_the_passages_with_the_answer_are_its_evidence() -> None:
    run = Run("dragin", rules())
    assert [passage.id for passage in run.result.evidence] == ["p2"]
    assert DUKES[1].id == "p2"


def test_a_model_that_repeats_itself_ends_it() -> None:
    script = [Rule(SURE, step="draft", entropy=0.1, finish="length"), Rule(": nobody.", step="conclude", entropy=0.1)]
    run = Run("dragin", script)
    assert run.values("stop") == ["no growth"] and run.result.chains == (f"{SURE} So the answer is : nobody.",)


def test_a_doubt_of_the_words_that_announce_the_answer_is_none() -> None:
    """How unsure the word "answer" is tells whether to come to the end now, which no document says."""
    run = Run("dragin", [Rule(LAST, step="draft", entropy=sure(LAST, answer=5.0), attention=0.2)])
    assert run.queries == [] and run.sentences(True) == [] and run.steps == ["draft", "weigh"]
    assert run.result.answer == "Charles Armand"
    (event,) = run.of("decision", kind="sentence")
    assert event["highest"] <= event["theta"], "it is shown as sure"


def test_behind_the_words_that_announce_it_the_answer_may_be_in_doubt() -> None:
    entropy = sure(LAST, answer=5.0, Armand=5.0)
    again = Rule(LAST, step="rewrite", entropy=0.1, attention=0.2)
    run = Run("dragin", [Rule(LAST, step="draft", entropy=entropy, attention=0.2), again, *rules()])
    assert run.sentences(True) == [LAST]
    assert [[request.prefix[a:b] for a, b in request.attention_of] for request in run.sent("look_back")] == [["Armand"]]
