"""The set for hop: readings with the sentence that answers, plans and last readings, without a model."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.training.film_world import lines

from hoptree.core.errors import InputError
from hoptree.core.values import Passage
from hoptree.retrieval.indexing import build_index
from hoptree.text.question_tree import make_plan
from hoptree.training import hop_gold
from hoptree.training.build import build
from hoptree.training.formats import SetSpec
from hoptree.training.hop_passages import cut_answer, find_evidence, spelled, untold_question, with_gold

QUESTION: dict[str, Any] = {
    "id": "q0",
    "dataset": "films",
    "source_split": "train",
    "question": "What is the date of birth of the director of film Alpha?",
    "answers": ["3 May 1913"],
    "hops": 2,
    "supporting_ids": ["alpha", "land"],
    "supporting_titles": ["Alpha", "Kurt Land"],
    "supporting_sentences": ["Alpha is a film of 1950 by Kurt Land, made in Peru."],
    "evidence_triples": [["Alpha", "director", "Kurt Land"], ["Kurt Land", "date of birth", "3 May 1913"]],
}
CLOSED = {
    "id": "q1",
    "dataset": "films",
    "source_split": "train",
    "question": "Are Gamma and Delta of the same country?",
    "answers": ["yes"],
    "type": "comparison",
    "hops": 2,
    "supporting_ids": ["gamma", "delta"],
    "supporting_titles": ["Gamma", "Delta"],
}
ONE_HOP = {
    "id": "q2",
    "dataset": "facts",
    "source_split": "train",
    "question": "who wrote the song echo",
    "answers": ["Ida Chase"],
    "hops": 1,
    "supporting_ids": ["echo"],
    "supporting_titles": ["Echo"],
}
PASSAGES = [
    {"id": "alpha", "title": "Alpha", "text": "It was long lost. Alpha is a film of 1950 by Kurt Land, made in Peru."},
    {"id": "land", "title": "Kurt Land", "text": "Kurt Land (May 3, 1913 – 1997) was a director. He liked dogs a lot."},
    {"id": "gamma", "title": "Gamma", "text": "Gamma is a film of the same country as many others, Peru."},
    {"id": "delta", "title": "Delta", "text": "Delta is a film of Peru."},
    {"id": "echo", "title": "Echo", "text": "Echo is a song that ida chase wrote. It is a song of three lines."},
    {"id": "fox", "title": "Fox", "text": "Fox is the director of a film, born when nobody looked at a song."},
    {"id": "owl", "title": "Owl", "text": "Owl wrote a song and a film of the same country, and was born there."},
    {"id": "elk", "title": "Elk", "text": "Elk is a director who was born to make a film of a song."},
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    lines(tmp_path / "train.jsonl", [QUESTION, CLOSED, ONE_HOP])
    build_index(lines(tmp_path / "corpus.jsonl", PASSAGES), tmp_path / "idx")
    return tmp_path


def built(here: Path, **more: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what is reported of a set, and its rows by their ids."""
    settings: dict[str, Any] = {"corpora": {"": str(here / "idx")}, "k": 3} | more
    report = asyncio.run(build(SetSpec("hop", (here / "train.jsonl",), here / "out.jsonl", **settings)))
    rows = [json.loads(line) for line in (here / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    return report, {row["id"].replace("/hop/", "/"): row for row in rows}


def reply(row: dict[str, Any]) -> str:
    return str(row["messages"][-1]["content"])


def test_a_part_is_read_from_what_hop_shows_with_the_sentence_that_answers(here: Path) -> None:
    _, rows = built(here)
    first, second = rows["films/q0/read/1"], rows["films/q0/read/2"]
    assert reply(first) == "Kurt Land\nSentence: Alpha is a film of 1950 by Kurt Land, made in Peru."
    assert reply(second) == "May 3, 1913\nSentence: Kurt Land (May 3, 1913 – 1997) was a director."
    prompt = second["messages"][1]["content"]
    assert prompt.startswith("Documents:\npassage: Kurt Land: Kurt Land (May 3"), "the page of the answer referred to"
    assert prompt.endswith("\n\nQuestion: When was Kurt Land born?")
    assert [turn["role"] for turn in second["messages"]] == ["system", "user", "assistant"]


def test_whole_questions_have_all_gold_passages_in_sight(here: Path) -> None:
    _, rows = built(here, k=2)
    prompt = rows["films/q0/read"]["messages"][1]["content"]
    assert "passage: Alpha: " in prompt and "passage: Kurt Land: " in prompt
    closed = reply(rows["films/q1/read"])
    assert closed == "yes\nSentence: Gamma is a film of the same country as many others, Peru."
    assert reply(rows["facts/q2/read"]) == "ida chase\nSentence: Echo is a song that ida chase wrote."


def test_questions_whose_parts_are_not_known_are_read_beside_what_is_found_next_too(here: Path) -> None:
    _, rows = built(here)
    first, beside = rows["films/q1/read"], rows["films/q1/read/beside/1"]
    assert reply(first) == reply(beside)
    prompts = [row["messages"][1]["content"] for row in (first, beside)]
    assert prompts[0] != prompts[1], "other passages stand beside the gold ones"
    assert all("passage: Gamma: " in prompt and "passage: Delta: " in prompt for prompt in prompts)
    assert not {"films/q0/read/beside/1", "facts/q2/read/beside/1"} & {*rows}, "known parts, and one hop"


def test_a_guess_answers_in_the_usual_words_by_the_prompt_that_leaves_no_choice(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hop_gold, "_GUESS_PERCENT", 100)
    monkeypatch.setattr("hoptree.training.chat_rows.mix", lambda rows, total, seed: list(rows))
    names = ["Nobody", "King John", "John of England", "King John of England"]
    unstated = {"id": "q3", "dataset": "facts", "question": "Who signed the Great Charter?", "answers": names}
    lines(here / "train.jsonl", [QUESTION, CLOSED, ONE_HOP, unstated])
    _, rows = built(here)
    guesses = {name: reply(row) for name, row in rows.items() if name.endswith("/guess")}
    assert guesses["facts/q2/guess"] == "ida chase", "as the passages spell it"
    assert guesses["facts/q3/guess"] == "King John of England", "what shares most words with the other names"
    assert "films/q1/guess" not in guesses, "yes and no teach nothing here"
    assert rows["facts/q3/guess"]["messages"][1]["content"].endswith("Reply with the answer and no other words:")


def test_what_is_not_found_is_in_none_of_the_passages(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_gold, "_NOT_FOUND_PERCENT", 100)
    monkeypatch.setattr("hoptree.training.chat_rows.mix", lambda rows, total, seed: list(rows))
    monkeypatch.setattr(hop_gold, "_CUT_PERCENT", 0)
    _, rows = built(here)
    lacking = {name: row["messages"][1]["content"] for name, row in rows.items() if reply(row) == "NOT FOUND"}
    assert set(lacking) >= {"films/q0/none", "films/q0/none/1", "films/q0/none/2", "films/q1/none", "facts/q2/none"}
    assert "Kurt Land" not in lacking["films/q0/none/1"].split("\n\n")[0]
    assert "1913" not in lacking["films/q0/none/2"] and "1913" not in lacking["films/q0/none"]
    assert ("passage: Gamma" in lacking["films/q1/none"]) != ("passage: Delta" in lacking["films/q1/none"])
    monkeypatch.setattr(hop_gold, "_CUT_PERCENT", 100)
    monkeypatch.setattr("hoptree.training.hop_passages._MIN_LEFT_WORDS", 2)
    _, rows = built(here)
    cut = rows["films/q0/none/2"]["messages"][1]["content"]
    assert "passage: Kurt Land: He liked dogs a lot." in cut and "1913" not in cut


def test_a_page_may_be_in_sight_and_not_tell(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_gold, "_UNTOLD_PERCENT", 100)
    monkeypatch.setattr("hoptree.training.chat_rows.mix", lambda rows, total, seed: list(rows))
    _, rows = built(here)
    row = rows["films/q0/untold/2"]
    assert reply(row) == "NOT FOUND" and "passage: Kurt Land: " in row["messages"][1]["content"]
    page = Passage("a", "Ann", "Ann married Bob, had sons, went to school, won a prize and was buried in Rome.")
    assert untold_question("Ann", page, "key") is None
    asked = untold_question("Ann", Passage("a", "Ann", "Ann went to school, married, had a son and won."), "key")
    assert asked and asked[0] == "Where was Ann buried?"


def test_plans_are_read_back_as_they_are_meant(here: Path) -> None:
    _, rows = built(here)
    plan = json.loads(reply(rows["films/q0/plan"]))
    assert plan == {
        "query1": {
            "question": "Who is the director of the film Alpha?",
            "children": {"query2": "When was #query1 born?"},
        }
    }
    read = make_plan(plan, QUESTION["question"])
    assert not read.issues and read.nodes[1].refs == (1,) and read.nodes[1].parent == 1
    assert rows["films/q0/plan"]["messages"][1]["content"] == f"Question: {QUESTION['question']}"
    assert reply(rows["facts/q2/plan"]) == "{}"


def test_the_last_reading_begins_with_the_chains(here: Path) -> None:
    _, rows = built(here)
    prompt = rows["films/q0/last"]["messages"][1]["content"]
    chain = "Who is the director of the film Alpha? Kurt Land. When was Kurt Land born? 3 May 1913."
    assert prompt.startswith(f"Documents:\n{chain}\npassage: Alpha: ")
    assert prompt.endswith(f"Question: {QUESTION['question']}")
    assert reply(rows["films/q0/last"]).startswith("May 3, 1913\nSentence: ")


def test_facts_in_another_order_than_the_steps_answer_nothing(here: Path) -> None:
    facts = [["Gamma", "director", "Ida Chase"], ["Alpha", "director", "Kurt Land"]]
    steps = ["Who is the director of Alpha?", "Who is the director of Gamma?"]
    row = QUESTION | {"question": "Do Alpha and Gamma have the same director?", "evidence_triples": facts}
    lines(here / "train.jsonl", [row | {"decomposition": steps, "answers": ["no"]}])
    report, rows = built(here)
    assert report["left_out"]["films: steps without answers, as their facts are in another order"] == 1
    assert "films/q0/last" not in rows


def test_shares_and_order_depend_on_the_seed_alone(here: Path) -> None:
    many = [QUESTION | {"id": f"a{n}", "question": f"{QUESTION['question'][:-1]} in year {n}?"} for n in range(12)]
    lines(here / "train.jsonl", many + [ONE_HOP | {"id": f"b{n}", "question": f"who wrote echo {n}"} for n in range(9)])
    report, rows = built(here, rows=20, seed=1)
    assert report["rows"] == len(rows) <= 20 and any("beyond their share" in why for why in report["left_out"])
    labels = Counter(row["meta"]["label"] for row in rows.values())
    assert labels["not found"] <= labels["read"] / 2 + 1 and labels["no plan"] <= labels["plan"] / 4 + 1
    assert list(built(here, rows=20, seed=1)[1]) == list(rows)
    assert list(built(here, rows=20, seed=2)[1]) != list(rows)


def test_an_interrupted_build_goes_on(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows = built(here)
    make, asked = hop_gold._RowMaker.rows, list[str]()

    async def counted(self: Any, by_hand: Any) -> Any:
        asked.append(self._question.key)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return await make(self, by_hand)

    monkeypatch.setattr(hop_gold._RowMaker, "rows", counted)
    with pytest.raises(KeyboardInterrupt):
        built(here)
    with (here / "out.jsonl.part").open("a", encoding="utf-8") as file:
        file.write('{"key": "half')
    assert built(here)[1] == rows and asked[3:] == ["facts/q2"], "what was done is not made again"
    assert not (here / "out.jsonl.part").exists()
    (here / "out.jsonl.part").write_text('{"digest": "of another set"}\n', encoding="utf-8")
    assert built(here)[1] == rows


def test_data_sets_have_corpora_of_their_own(here: Path) -> None:
    _, rows = built(here, corpora={"facts": str(here / "idx")})
    assert "facts/q2/read" in rows and not [name for name in rows if name.startswith("films") and "/read" in name]
    with pytest.raises(InputError, match="gold passages by their ids"):
        built(here, corpora={"": "https://example.org/wiki"})


@pytest.mark.parametrize(
    ("sentence", "answer", "spelling"),
    [
        ("He was born on May 3, 1913, in Lima.", "3 May 1913", "May 3, 1913"),
        ("It is by The Beatles.", "the beatles", "The Beatles"),
        ("She sang in St. Louis, Missouri.", "St. Louis", "St. Louis"),
        ("He wrote 1913 lines.", "913", ""),
        ("Nothing of it.", "", ""),
    ],
)
def test_answers_are_spelled_as_in_the_sentence(sentence: str, answer: str, spelling: str) -> None:
    assert spelled(sentence, answer) == spelling


def test_a_place_of_birth_is_one_only_where_the_sentence_says_so() -> None:
    page = Passage("a", "Hans Wolff", "Hans Wolff (1911, Berlin – 1979, Rome) was a German editor.")
    assert find_evidence("Where did Hans Wolff die?", ["Berlin"], [page]) is None
    died, born = (
        find_evidence(f"Where {asked}?", [place], [page])
        for asked, place in (("did Hans Wolff die", "Rome"), ("was Hans Wolff born", "Berlin"))
    )
    assert died and died.answer == "Rome" and born and born.answer == "Berlin"
    player = Passage("b", "Bo Gurney", "Bo Gurney was a forward of his only senior club, Sunderland.")
    assert find_evidence("Where was Bo Gurney born?", ["Sunderland"], [player]) is None


def test_gold_takes_the_place_of_what_is_not() -> None:
    shown = [Passage(name, name, "") for name in "abc"]
    gold = [shown[0], Passage("z", "z", "")]
    names = [passage.id for passage in with_gold(shown, gold, "key")]
    assert len(names) == 3 and {"a", "z", "b"} == set(names)
    assert cut_answer(Passage("a", "Rome", "It is in Rome, and so is much else that was ever built."), ["Rome"]) is None


def test_a_question_of_one_fact_is_read_on_the_page_of_its_subject(here: Path) -> None:
    fact = {"id": "q3", "dataset": "facts", "source_split": "train", "question": "who directed Alpha", "hops": 1}
    fact |= {"answers": ["Kurt Land"], "evidence_triples": [["Alpha", "director", "Kurt Land"]]}
    lines(here / "train.jsonl", [fact])
    _, rows = built(here)
    assert reply(rows["facts/q3/read"]) == "Kurt Land\nSentence: Alpha is a film of 1950 by Kurt Land, made in Peru."
    assert reply(rows["facts/q3/read/beside/1"]) == reply(rows["facts/q3/read"]), "beside other passages too"


def test_short_codes_are_no_words_of_a_sentence() -> None:
    passages = [Passage("p", "", "It is the first of its kind in the whole country of India for us.")]
    evidence = find_evidence("In what country is it?", ["US", "in", "India"], passages)
    assert evidence is not None and evidence.answer == "India"
