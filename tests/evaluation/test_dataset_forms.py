"""Every form of questions from a small file of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.dataset_rows import (
    ADVERSARIAL,
    ALIASES,
    CONTEXT,
    HOTPOT,
    IIRC,
    MUSIQUE,
    OWN,
    POPQA,
    POPQA_NAMES,
    QALD,
    QALD_YES,
    STRATEGY,
    TRIVIA,
    TWO_WIKI,
    WEBQSP,
    WEBQSP_EMPTY,
    lines,
    only,
    whole,
)

from hoptree.core.errors import InputError
from hoptree.core.values import Question
from hoptree.corpus.read import read_passages
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.reading import read_examples
from hoptree.evaluation.retrieval import missing_gold, read_questions
from hoptree.retrieval.indexing import build_index


def test_the_own_form_says_all_it_knows(tmp_path: Path) -> None:
    data = read_examples(lines(tmp_path / "dev.jsonl.gz", [OWN]))
    assert (data.form, data.name, data.left_out) == ("own", "made", ())
    example = only(data)
    assert example == Example(
        id="a1",
        question="Where was the director of Red Kite born?",
        answers=("Skagen", "Skaw"),
        type="compositional",
        hops=2,
        dataset="made",
        supporting_ids=("p2", "p1"),
        supporting_titles=("Ada Moor", "Red Kite (film)"),
        decomposition=("Who directed Red Kite?", "Where was #1 born?"),
        decomposition_answers=("Ada Moor", "Skagen"),
        hop_ids=(("p1",), ("p2",)),
        hop_titles=(("Red Kite (film)",), ("Ada Moor",)),
    )
    assert example.as_question() == Question(example.question, id="a1", type="compositional", hops=2)


@pytest.mark.parametrize(
    "triples",
    [
        [["Red Kite", "director", "Ada Moor"]],  # a gold title is left over
        [["Red Kite", "director", "Ada Moor"], ["Someone", "place of birth", "Skagen"]],
        [],
    ],
)
def test_steps_that_cannot_be_told_apart_are_not_guessed(tmp_path: Path, triples: list[list[str]]) -> None:
    example = only(read_examples(lines(tmp_path / "dev.jsonl", [{**OWN, "evidence_triples": triples}])))
    assert (example.hop_ids, example.hop_titles) == ((), ())
    assert example.supporting_ids == ("p2", "p1")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"answers": "Skagen"}, ("Skagen",)),
        ({"answers": None, "answer": " Skagen "}, ("Skagen",)),
        ({"answers": [1970, " ", "1970", True]}, ("1970", "yes")),
        ({"answers": None, "answer": {"Q1": "Skagen", "Q2": "Bergen"}}, ("Skagen", "Bergen")),
        ({"answers": None, "answer": False}, ("no",)),
    ],
)
def test_answers_may_be_written_in_several_ways(
    tmp_path: Path, answer: dict[str, Any], expected: tuple[str, ...]
) -> None:
    row = {"id": "a", "question": "Where?", **answer}
    assert only(read_examples(lines(tmp_path / "my.questions.jsonl", [row]))).answers == expected


@pytest.mark.parametrize("kept", ["pairs", "objects", "texts"])
def test_hotpotqa(tmp_path: Path, kept: str) -> None:
    row = dict(HOTPOT)
    if kept == "objects":
        row["id"] = row.pop("_id")
        row["supporting_facts"] = {"title": ["Ada Moor", "Red Kite", "Ada Moor"], "sent_id": [1, 1, 0]}
        row["context"] = {"title": [c[0] for c in CONTEXT], "sentences": [c[1] for c in CONTEXT]}
    if kept == "texts":
        row = {name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()}
    path = whole(tmp_path / "hotpot_dev.json", [row])
    data = read_examples(path)
    example = only(data)
    assert (data.form, data.name) == ("hotpotqa", "hotpotqa")
    assert (example.id, example.answers, example.type, example.hops) == ("5a8b57f2", ("Skagen",), "bridge", 2)
    assert example.supporting_titles == ("Ada Moor", "Red Kite")
    assert example.supporting_facts == (("Ada Moor", 1), ("Red Kite", 1), ("Ada Moor", 0))
    ids = {passage.title: passage.id for passage in read_passages(path)}
    assert example.supporting_ids == (ids["Ada Moor"], ids["Red Kite"])


@pytest.mark.parametrize("row", [HOTPOT, TWO_WIKI, MUSIQUE])
def test_retrieval_is_measured_on_files_that_carry_their_passages(tmp_path: Path, row: dict[str, Any]) -> None:
    path = lines(tmp_path / "dev.jsonl", [row])
    build_index(path, tmp_path / "dev.idx")
    asked = read_questions(path)
    assert len(asked.questions[0].supporting_ids) == 2 and missing_gold(tmp_path / "dev.idx", asked) == []


def test_gold_that_the_context_lacks_has_no_ids(tmp_path: Path) -> None:
    example = only(read_examples(whole(tmp_path / "full.json", [{**HOTPOT, "context": CONTEXT[:2]}])))
    assert (example.supporting_ids, example.supporting_titles) == ((), ("Ada Moor", "Red Kite"))


def test_two_wiki_with_its_aliases(tmp_path: Path) -> None:
    path = whole(tmp_path / "dev.json", [TWO_WIKI])
    plain = only(read_examples(path))
    assert (plain.dataset, plain.answers, plain.hops) == ("2wikimultihopqa", ("Skagen",), 2)
    assert plain.hop_titles == (("Red Kite",), ("Ada Moor",))
    assert plain.hop_ids == ((plain.supporting_ids[1],), (plain.supporting_ids[0],))
    data = read_examples(path, aliases=lines(tmp_path / "id_aliases.json", ALIASES))
    assert only(data).answers == ("Skagen", "Skaw", "Skagbo")
    assert data.digest != read_examples(path).digest


def test_several_facts_of_a_page_are_one_step(tmp_path: Path) -> None:
    """As in "who lived longer": two facts about each of two people, in two passages."""
    facts = [["Red Kite", "director", "Ada Moor"], ["Ada Moor", "born", "1901"], ["Ada Moor", "died", "1980"]]
    example = only(read_examples(whole(tmp_path / "dev.json", [{**TWO_WIKI, "evidences": facts}])))
    assert example.hop_titles == (("Red Kite",), ("Ada Moor",))
    own = only(read_examples(lines(tmp_path / "dev.jsonl", [{**OWN, "evidence_triples": facts}])))
    assert own.hop_ids == (("p1",), ("p2",))


def test_musique(tmp_path: Path) -> None:
    path = lines(tmp_path / "musique_ans_v1.0_dev.jsonl", [MUSIQUE])
    example = only(read_examples(path))
    assert (example.dataset, example.type, example.hops) == ("musique", "2hop", 2)
    assert example.answers == ("Skagen", "Skaw")
    assert example.decomposition == ("Red Kite >> maker", "Where was #1 born?")
    assert example.decomposition_answers == ("Ada Moor", "Skagen")
    assert example.supporting_titles == ("Ada Moor", "Red Kite")
    assert example.hop_titles == (("Red Kite",), ("Ada Moor",))
    ids = {passage.text: passage.id for passage in read_passages(path)}
    assert example.supporting_ids == (ids["Born in Skagen."], ids["Made by Ada Moor."])
    assert example.hop_ids == ((ids["Made by Ada Moor."],), (ids["Born in Skagen."],))


def test_unanswerable_questions_of_musique_are_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "full.jsonl", [MUSIQUE, {**MUSIQUE, "answerable": False}])
    with pytest.raises(InputError, match=r"Line 2 of full\.jsonl .*answerable"):
        read_examples(path)


def test_advhotpotqa_with_other_answers(tmp_path: Path) -> None:
    path = whole(tmp_path / "adv.json", [ADVERSARIAL])
    aliases = lines(tmp_path / "alt_answers.jsonlines", [{"qas_id": "5ab", "answer": a} for a in ("Skaw", "the Skaw")])
    example = only(read_examples(path, aliases=aliases))
    assert (example.id, example.question, example.dataset) == ("5ab", "Where was she born?", "advhotpotqa")
    assert (example.answers, example.supporting_titles) == (("Skagen", "Skaw", "the Skaw"), ("Ada Moor",))


def test_strategyqa(tmp_path: Path) -> None:
    example = only(read_examples(whole(tmp_path / "strategyqa_train.json", [STRATEGY])))
    assert (example.id, example.dataset, example.answers, example.hops) == ("aadc", "strategyqa", ("no",), 3)
    assert example.supporting_ids == ("Red kite-1", "Red kite-3", "Human body size-2")
    assert example.supporting_titles == ("Red kite", "Human body size")
    assert example.hop_titles == (("Red kite",), ("Human body size",), ())
    assert example.hop_ids == (("Red kite-1", "Red kite-3"), ("Human body size-2",), ())


def test_iirc(tmp_path: Path) -> None:
    data = read_examples(whole(tmp_path / "iirc.json", [IIRC]))
    assert (data.form, data.left_out) == ("iirc", ("q_4",))
    assert [e.answers for e in data.examples] == [("600 years",), ("Ada, Jan",), ("no",)]
    assert [e.type for e in data.examples] == ["value", "span", "binary"]
    assert data.examples[0].supporting_titles == ("Ada Moor", "skagen")
    with pytest.raises(InputError, match="has no answer in iirc"):
        read_examples(tmp_path / "iirc.json", ids=["q_4"])


@pytest.mark.parametrize("kept", ["lines", "tab", "comma"])
def test_open_natural_questions(tmp_path: Path, kept: str) -> None:
    answers = ["14 December 1972 UTC", 'the "Skaw"', "Ada's"]
    path = tmp_path / f"nq-test.{'jsonl' if kept == 'lines' else 'csv'}"
    said = str(answers).replace('"', '""')
    if kept == "lines":
        lines(path, [{"question": "when was it, and where", "answer": answers}] * 2)
    elif kept == "tab":
        path.write_text(f'when was it, and where\t"{said}"\n' * 2, encoding="utf-8")
    else:
        path.write_text('question,answer\n"when was it, and where","' + said + '"\n', encoding="utf-8")
    example = read_examples(path).examples[0]
    assert example == Example("nq-0", "when was it, and where", tuple(answers), hops=1, dataset="nq")


@pytest.mark.parametrize("wrapped", [True, False])
def test_triviaqa(tmp_path: Path, wrapped: bool) -> None:
    rows = [TRIVIA, {**TRIVIA, "QuestionId": "tc_2"}]
    value = {"Data": rows, "Domain": "unfiltered", "VerifiedEval": False, "Version": 1.0} if wrapped else rows
    data = read_examples(whole(tmp_path / "unfiltered-web-dev.json", value))
    assert (data.form, [e.id for e in data.examples]) == ("triviaqa", ["tc_1", "tc_2"])
    assert data.examples[0].answers == ("Skagen", "The Skaw", "skaw", "skagen")


def test_popqa(tmp_path: Path) -> None:
    quoted = ['"' + field.replace('"', '""') + '"' if '"' in field else field for field in POPQA]
    (tmp_path / "popQA.tsv").write_text("\t".join(POPQA_NAMES) + "\n" + "\t".join(quoted) + "\n", encoding="utf-8")
    example = only(read_examples(tmp_path / "popQA.tsv"))
    assert (example.id, example.type, example.dataset, example.hops) == ("42", "occupation", "popqa", 1)
    assert (example.answers, example.supporting_titles) == (("director", "film maker"), ("Ada Moor",))


def test_webquestions(tmp_path: Path) -> None:
    target = '(list (description "Jamaican \\"Creole\\" (English)") (description Lund) (description "a b"))'
    rows = [{"url": "http://x", "targetValue": target, "utterance": "what do they speak?"}]
    example = only(read_examples(whole(tmp_path / "webquestions.examples.test.json", rows)))
    assert (example.id, example.answers) == ("webquestions-0", ('Jamaican "Creole" (English)', "Lund", "a b"))


def test_webqsp(tmp_path: Path) -> None:
    value = {"Version": "1.0", "FreebaseVersion": "2015-08-09", "Questions": [WEBQSP, WEBQSP_EMPTY]}
    data = read_examples(whole(tmp_path / "WebQSP.test.json", value))
    assert (data.form, data.left_out) == ("webqsp", ("WebQTest-2",))
    assert (only(data).answers, only(data).hops) == (("Skagen", "1970"), 1)


def test_qald_with_names_for_its_entities(tmp_path: Path) -> None:
    path = whole(tmp_path / "qald_10.json", {"dataset": {"id": "qald-10"}, "questions": [QALD, QALD_YES]})
    data = read_examples(path)
    assert (data.form, [e.id for e in data.examples]) == ("qald10", ["7", "8"])
    assert [e.answers for e in data.examples] == [("Q1", "57.7"), ("yes",)]
    assert data.examples[0].question == "Where was she born?"
    named = read_examples(path, aliases=lines(tmp_path / "names.jsonl", [{"id": "Q1", "label": "Skagen"}]))
    assert named.examples[0].answers == ("Skagen", "57.7")


def test_simplequestions_on_freebase_and_wikidata(tmp_path: Path) -> None:
    freebase = 'www.freebase.com/m/04w\twww.freebase.com/book/subject\twww.freebase.com/m/01c\t"e" is what\n'
    (tmp_path / "annotated_fb_data_test.txt").write_text(freebase, encoding="utf-8")
    example = only(read_examples(tmp_path / "annotated_fb_data_test.txt"))
    assert (example.question, example.answers, example.type) == ('"e" is what', ("m.01c",), "book.subject")
    (tmp_path / "wd.txt").write_text("Q9\tR19\tQ1\twho was born there\n" * 2, encoding="utf-8")
    data = read_examples(tmp_path / "wd.txt", aliases=lines(tmp_path / "id_aliases.json", ALIASES))
    assert [e.id for e in data.examples] == ["simplequestions-0", "simplequestions-1"]
    assert (data.examples[0].answers, data.examples[0].type) == (("Skagen", "Skaw", "Skagbo"), "R19")


@pytest.mark.parametrize("names", ["Question,Answer", '"Question","Answer"'])
def test_bamboogle(tmp_path: Path, names: str) -> None:
    content = f'{names}\n"Who, then?",Ada Moor\n'
    (tmp_path / "bamboogle.csv").write_text(content, encoding="utf-8-sig")
    example = only(read_examples(tmp_path / "bamboogle.csv"))
    assert example == Example("bamboogle-0", "Who, then?", ("Ada Moor",), hops=2, dataset="bamboogle")


def test_flashrag(tmp_path: Path) -> None:
    (tmp_path / "musique").mkdir()
    kept = {"type": "bridge", "supporting_facts": {"title": ["Ada Moor"], "sent_id": [1]}}
    rows = [{"id": "dev_0", "question": "Where?", "golden_answers": ["Skagen", "Skaw"], "metadata": kept}]
    example = only(read_examples(lines(tmp_path / "musique" / "dev.jsonl", rows)))
    assert (example.answers, example.type, example.dataset) == (("Skagen", "Skaw"), "bridge", "musique")
    assert (example.supporting_titles, example.supporting_facts) == (("Ada Moor",), (("Ada Moor", 1),))


def beir_folder(folder: Path, judged: str) -> Path:
    (folder / "qrels").mkdir(parents=True)
    lines(folder / "queries.jsonl", [{"_id": f"q{n}", "text": f"Question {n}?", "metadata": {}} for n in range(3)])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged, encoding="utf-8")
    return folder


def test_beir(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path / "scifact", "q1\td7\t1\nq1\td8\t0\nq1\td9\t2\nq2\td1\t1\n")
    data = read_examples(folder)
    assert (data.form, data.name) == ("beir", "scifact")
    assert [(e.id, e.supporting_ids) for e in data.examples] == [("q1", ("d7", "d9")), ("q2", ("d1",))]
    assert read_examples(folder / "queries.jsonl") == read_examples(folder / "qrels" / "test.tsv") == data


@pytest.mark.parametrize(
    ("judged", "words"),
    [("q9\td1\t1\n", "not in queries.jsonl"), ("q1\td1\t--1\n", "Line 2 of test.tsv"), ("q1\td1\n", "2 fields, not 3")],
)
def test_beir_files_that_do_not_fit(tmp_path: Path, judged: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_examples(beir_folder(tmp_path / "bad", judged))


def test_a_folder_without_queries_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"queries\.jsonl"):
        read_examples(tmp_path)


TAKEN_APART = {"id": "t1", "question": "Who founded it?", "answers": ["[", "'", "A", "p", "l", "e", "C", ","]}


def test_answers_that_are_the_characters_of_a_printed_list_are_left_out_and_told(tmp_path: Path) -> None:
    """Whoever said "Apple" was wrong, and whoever said "A" was right."""
    letters = [
        {"id": "t2", "question": "Which key?", "answers": ["A", "B", "C", "D", "["]},
        {"id": "t3", "question": "Which bracket?", "answers": ["["]},
        {"id": "t4", "question": "Which opens?", "answers": ["[", "(", "{", "an opening bracket"]},
    ]
    data = read_examples(lines(tmp_path / "trivia.jsonl", [TAKEN_APART, *letters]))
    assert [example.id for example in data.examples] == ["t2", "t3", "t4"], "letters and brackets may be answers"
    assert data.left_out == data.taken_apart == ("t1",)
    (note,) = data.notes
    assert note.startswith("1 question of trivia was left out: ") and "a printed list split into characters" in note
    assert "(the first: t1)" in note
    with pytest.raises(InputError, match=r"'t1' of trivia is left out: .* split into characters"):
        data.select(["t1"])
    for broken in (TAKEN_APART, {"question": "Who?", "answer": TAKEN_APART["answers"]}):
        with pytest.raises(InputError, match=r"all questions of .* are a printed list") as refused:
            read_examples(lines(tmp_path / "all.jsonl", [broken]))
        assert '["Apple"' in refused.value.remedy


def test_what_has_no_answer_is_told_beside_what_has_a_broken_one(tmp_path: Path) -> None:
    data = read_examples(whole(tmp_path / "iirc.json", [IIRC]))
    (note,) = data.notes
    assert note == "1 question of iirc was left out: without an accepted answer (the first: q_4)."
    assert read_examples(lines(tmp_path / "made.jsonl", [OWN])).notes == ()
