"""Public releases turned into our layout: formats, archives, bad rows, and downloads."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.evaluation.dataset_rows import ADVERSARIAL, HOTPOT, IIRC, MUSIQUE, NQ_ANNOTATED, STRATEGY, TWO_WIKI
from tests.evaluation.release_files import RELEASES, array, jsonl, made, tarred, write, zipped

from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.datasets import fetch
from hoptree.evaluation.datasets.convert import convert
from hoptree.evaluation.datasets.formats import FORMS
from hoptree.evaluation.datasets.reading import read_examples
from hoptree.evaluation.datasets.releases import find_set, needed_by, paper_sample, public_sets
from hoptree.evaluation.linking import read_linking_questions

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def rows(path: Path) -> list[dict[str, Any]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


def test_every_release_is_declared_for_a_known_form() -> None:
    for public in public_sets().values():
        for release in public.releases.values():
            assert release.form in ("", "retrieved", *FORMS) and public.licence and public.home.startswith("https://")
            assert all(remote.url.startswith("http") for remote in release.remotes)
            assert all(len(remote.sha256) in (0, 64) for remote in release.remotes)
            assert any(release.corpus in (known.corpus, "") for known in public.releases.values())
    assert {name for name, _ in RELEASES} == set(public_sets())


@pytest.mark.parametrize(("name", "split"), RELEASES, ids=lambda part: part)
def test_every_release_is_turned_into_our_layout(tmp_path: Path, name: str, split: str) -> None:
    got = made(tmp_path / "data", name, split, sources=[write(tmp_path / "download", RELEASES[name, split])])
    release = find_set(name).release(split)
    assert [Path(file).name for file in got.files] == list(release.files if release.form else release.files[:1])
    if not release.form:
        assert Path(got.files[0]).read_bytes() == (tmp_path / "download" / Path(got.files[0]).name).read_bytes()
        return
    data = read_examples(tmp_path / "data" / name / f"{split}.jsonl")
    assert data.form == "own" and len(data.examples) == got.questions > 0
    assert all(example.answers and example.dataset == name for example in data.examples)
    questions = rows(tmp_path / "data" / name / f"{split}.jsonl")
    assert all(row["source_split"] == release.source_split for row in questions)
    if release.corpus:
        passages = {row["id"]: row for row in rows(tmp_path / "data" / name / release.corpus)}
        assert len(passages) == got.passages > 0
        assert all(set(row) == {"id", "title", "text"} and row["text"] for row in passages.values())
        for example, row in zip(data.examples, questions, strict=True):
            assert set(example.supporting_ids) | set(row.get("context_ids", ())) <= set(passages)
        assert any(example.supporting_ids for example in data.examples)


@pytest.mark.parametrize(
    ("name", "file", "aliases"),
    [
        ("hotpotqa", "hotpot_dev_distractor_v1.json", None),
        ("2wikimultihopqa", "dev.json", "id_aliases.json"),
        ("musique", "musique_ans_v1.0_dev.jsonl", None),
        ("strategyqa", "strategyqa_train.json", None),
        ("advhotpotqa", "hotpotadv_dev.json", "alt_answers.jsonlines"),
        ("popqa", "popQA.tsv", None),
    ],
)
def test_our_reader_sees_in_it_what_it_sees_in_the_release(
    tmp_path: Path, name: str, file: str, aliases: str | None
) -> None:
    folder = write(tmp_path / "download", RELEASES[name, "dev"])
    for archive in folder.glob("*.zip"):
        shutil.unpack_archive(archive, folder)
    original = next(path for path in folder.rglob(file))
    names = next(folder.rglob(aliases)) if aliases else None
    before = read_examples(original, aliases=names, form=find_set(name).release("dev").form).examples
    made(tmp_path / "data", name, sources=[folder])
    assert read_examples(tmp_path / "data" / name / "dev.jsonl").examples == before


def test_a_row_keeps_what_we_have_names_for(tmp_path: Path) -> None:
    for name in ("hotpotqa", "2wikimultihopqa", "strategyqa", "popqa"):
        made(tmp_path, name, sources=[write(tmp_path / "download" / name, RELEASES[name, "dev"])])
    hotpot = rows(tmp_path / "hotpotqa" / "dev.jsonl")[0]
    assert (hotpot["level"], hotpot["supporting_sentences"][0]) == ("hard", "She was born in Skagen.")
    assert len(hotpot["context_ids"]) == 3
    assert rows(tmp_path / "2wikimultihopqa" / "dev.jsonl")[0]["answers"] == ["Skagen", "Skaw", "Skagbo"]
    assert rows(tmp_path / "strategyqa" / "dev.jsonl")[0]["term"] == "Kite"
    assert rows(tmp_path / "popqa" / "dev.jsonl")[0]["popularity"] == 236


def test_iirc_gets_the_paragraphs_of_linked_pages(tmp_path: Path) -> None:
    folder = write(tmp_path / "download", RELEASES["iirc", "dev"])
    got = made(tmp_path, "iirc", sources=sorted(folder.iterdir()))
    assert (got.questions, got.unanswered) == (3, 1)
    passages = rows(tmp_path / "iirc" / "corpus.jsonl")
    assert [row["title"] for row in passages] == ["Skagen", "Skagen", "Ada Moor"]
    assert passages[0]["text"].endswith("it is 600 years old & small.")
    first = rows(tmp_path / "iirc" / "dev.jsonl")[0]
    assert first["supporting_titles"] == ["Ada Moor", "Skagen"]
    assert first["supporting_ids"] == [passages[2]["id"], passages[0]["id"]]


def test_gold_passages_of_a_retriever_s_files(tmp_path: Path) -> None:
    for name in ("nq", "triviaqa"):
        made(tmp_path, name, sources=[write(tmp_path / "download" / name, RELEASES[name, "dev"])])
    (nq,) = read_examples(tmp_path / "nq" / "dev.jsonl").examples
    assert nq.id == "nq-0" and nq.supporting_titles == ("Ada Moor",)
    (trivia,) = read_examples(tmp_path / "triviaqa" / "dev.jsonl").examples
    assert trivia.supporting_ids == ("12",)  # the id that it has in wikipedia2018


def test_answers_that_are_ids_get_names(tmp_path: Path) -> None:
    folder = write(tmp_path / "download", RELEASES["simplequestions", "dev_wikidata_open"])
    names = tmp_path / "names.jsonl"
    names.write_bytes(jsonl({"id": "Q1637790", "aliases": ["Holyoke"]}))
    made(tmp_path, "simplequestions", sources=[folder], aliases=names)
    path = tmp_path / "simplequestions" / "dev_wikidata_open.jsonl"
    assert read_examples(path).examples[0].answers == ("Holyoke",)
    (question,) = read_linking_questions(path).questions
    assert (question.entity, question.relation) == ("Q7358590", "P20")


def test_copies_in_our_form_and_in_flashrag_s_are_read_too(tmp_path: Path) -> None:
    own = tmp_path / "qald_10-en.json"
    named = {"answer": {"Q1": "Skagen", "Q2": "Skaw"}, "question": "Where?", "qid_topic_entity": {"Q3": "Denmark"}}
    own.write_bytes(array(named, {**named, "answer": {}}))  # as TreeQA and ToG have it
    assert made(tmp_path, "qald10_en", sources=[own]).unanswered == 1
    (example,) = read_examples(tmp_path / "qald10_en" / "dev_open.jsonl").examples
    assert (example.id, example.answers) == ("qald10_en-0", ("Skagen", "Skaw"))
    flash = tmp_path / "test.jsonl"
    flash.write_bytes(jsonl({"id": "test_0", "question": "Who?", "golden_answers": ["Ada"], "metadata": {}}))
    made(tmp_path, "bamboogle", sources=[flash])
    assert read_examples(tmp_path / "bamboogle" / "dev.jsonl").examples[0].id == "test_0"


def test_what_is_kept_as_it_is_must_have_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "hotpot.json"
    path.write_bytes(array(HOTPOT))
    with pytest.raises(InputError, match=r"hotpot.json is not psgs_w100.tsv.gz or psgs_w100.tsv\. Give the release's"):
        made(tmp_path, "wikipedia2018", sources=[path])
    assert not list((tmp_path / "wikipedia2018").glob("hotpot*"))
    with pytest.raises(ConfigError, match=r"http://x/h.json is not an address of psgs_w100.tsv.gz or psgs_w100.tsv\."):
        made(tmp_path, "wikipedia2018", url="http://x/h.json")


def test_another_data_set_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "musique.jsonl"
    path.write_bytes(jsonl(MUSIQUE))
    with pytest.raises(
        InputError, match=r"musique.jsonl is in the form of musique, not of hotpotqa\. Give the file hot"
    ):
        made(tmp_path, "hotpotqa", sources=[path])


NO_QUESTION = {key: value for key, value in MUSIQUE.items() if key != "question"}


@pytest.mark.parametrize(
    ("content", "sentence", "left"),
    [
        (jsonl(MUSIQUE, {**NO_QUESTION, "id": "b"}), r"Row 2 \(line 2\) of m.jsonl holds no question", 1),
        (jsonl(MUSIQUE) + b"{]\n" + jsonl({**MUSIQUE, "id": "b"}), r"Line 2 of m.jsonl is not JSON", 2),
        (jsonl(MUSIQUE, MUSIQUE), r"Row 2 \(line 2\) of m.jsonl has the id '2hop__11_22' of an earlier question", 1),
        (jsonl(MUSIQUE, {**MUSIQUE, "id": "b", "answer": ""}), r"Row 2 \(line 2\) of m.jsonl has no answer", 1),
        (jsonl(MUSIQUE, ["no", "row"]), r"Row 2 \(line 2\) of m.jsonl holds no question", 1),
    ],
)
def test_a_bad_row_is_refused_or_counted(tmp_path: Path, content: bytes, sentence: str, left: int) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{sentence}.* pass over such rows with --skip-bad") as refused:
        made(tmp_path, "musique", sources=[path])
    assert refused.value.exit_code == 2
    assert not list((tmp_path / "musique").glob("*.jsonl*"))
    got = made(tmp_path, "musique", sources=[path], skip_bad=True)
    assert (got.skipped, got.questions) == (1, left)


ODD: tuple[Any, ...] = (
    None,
    True,
    7,
    -1,
    1.5,
    "",
    "x",
    "[",
    [],
    [7],
    [[]],
    [["a", "b"]],
    {},
    {"a": 1},
    [{}],
    [{"text": 7}],
)
FUZZED = {
    "hotpotqa": HOTPOT,
    "2wikimultihopqa": TWO_WIKI,
    "musique": MUSIQUE,
    "advhotpotqa": ADVERSARIAL,
    "strategyqa": STRATEGY,
    "iirc": IIRC,
    "nq": json.loads(gzip.decompress(RELEASES["nq", "dev"]["nq-open-20_total_documents_gold_at_0.jsonl.gz"])),
    "nq/dev_pages": NQ_ANNOTATED,
    "triviaqa": json.loads(gzip.decompress(RELEASES["triviaqa", "dev"]["biencoder-trivia-dev.json.gz"]))[0],
}


@pytest.mark.parametrize("name", FUZZED)
def test_no_value_of_a_row_breaks_it(tmp_path: Path, name: str) -> None:
    public = find_set(name.partition("/")[0])
    release = public.release(name.partition("/")[2])
    path = tmp_path / "rows.jsonl"
    for key in FUZZED[name]:
        bad = [{**FUZZED[name], "_id": f"{n}", key: odd} for n, odd in enumerate(ODD)]
        path.write_bytes(jsonl(FUZZED[name], *bad))
        found = {"rows": path, **({"passages": archive(tmp_path, "p.json", b"{}")} if release.passages else {})}
        made_of = convert(public.name, release, found, tmp_path, skip_bad=True)
        assert made_of.questions >= 1 and read_examples(tmp_path / f"{release.split}.jsonl").form == "own"


def test_many_broken_lines_are_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"{\n" * 60 + jsonl(MUSIQUE) + b"{\n" * 40)
    got = made(tmp_path, "musique", sources=[path], skip_bad=True)
    assert got.skipped == 100 and len(got.reasons) == 5
    assert any("2,417 questions, this file 101" in note for note in got.notes)


def test_a_file_that_is_cut_short_is_refused_whatever_is_asked(tmp_path: Path) -> None:
    for name, content in {"h.json": array(HOTPOT)[:-9], "h.json.gz": gzip.compress(array(HOTPOT))[:-20]}.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"download or unpack it again"):
            made(tmp_path, "hotpotqa", sources=[path], skip_bad=True)


def test_nothing_is_left_when_no_question_can_be_scored(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(array({**STRATEGY, "answer": None}))
    with pytest.raises(InputError, match="holds no question that can be scored"):
        made(tmp_path, "strategyqa", sources=[path], skip_bad=True)
    assert not list((tmp_path / "strategyqa").glob("dev*"))


def test_paragraphs_that_are_not_there_are_told(tmp_path: Path) -> None:
    path = tmp_path / "strategyqa_train.json"
    path.write_bytes(array(STRATEGY))
    got = made(tmp_path, "strategyqa", sources=[path])
    assert [Path(file).name for file in got.files] == ["dev.jsonl"]
    assert "strategyqa_train_paragraphs.json was not there: no passages were written." in got.notes


@pytest.mark.parametrize(
    "content", [b"[]", b'{"a": {"content": "x"}', b'{"a" 1}', b'{"a": {"content": "x"}, 7: 1}', b""]
)
def test_a_broken_file_of_paragraphs_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = write(
        tmp_path / "s", {"strategyqa_train.json": array(STRATEGY), "strategyqa_train_paragraphs.json": content}
    )
    with pytest.raises(InputError, match=r"strategyqa_train_paragraphs.json is not JSON.* Download or unpack it again"):
        made(tmp_path, "strategyqa", sources=[folder])


def test_files_that_are_there_are_kept_unless_replaced(tmp_path: Path) -> None:
    folder = write(tmp_path / "download", RELEASES["hotpotqa", "dev"])
    first = made(tmp_path, "hotpotqa", sources=[folder])
    before = [Path(file).read_bytes() for file in first.files]
    with pytest.raises(InputError, match=r"dev.jsonl exists already. Give --replace"):
        made(tmp_path, "hotpotqa", sources=[folder])
    (folder / "hotpot_dev_distractor_v1.json").write_bytes(array(HOTPOT)[:-3])
    with pytest.raises(InputError):
        made(tmp_path, "hotpotqa", sources=[folder], replace=True)
    assert [Path(file).read_bytes() for file in first.files] == before
    write(folder, RELEASES["hotpotqa", "dev"])
    made(tmp_path, "hotpotqa", sources=[folder], replace=True)
    assert [Path(file).read_bytes() for file in first.files] == before  # packed without a time


def test_what_a_killed_command_left_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "hotpotqa"
    (folder / ".unpacked-old" / "rows").mkdir(parents=True)
    (folder / "dev.jsonl.new").write_text("half")
    made(tmp_path, "hotpotqa", sources=[write(tmp_path / "download", RELEASES["hotpotqa", "dev"])])
    left = {path.name for path in folder.iterdir()}
    assert left == {"dev.jsonl", "corpus.jsonl.gz", "release.json", "write.lock"}
    record = json.loads((folder / "release.json").read_text())["dev"]
    assert (record["questions"], record["passages"]) == (2, 3)
    assert list(record["from"]) == ["hotpot_dev_distractor_v1.json"]


def archive(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


TWO_WIKI_ZIP = RELEASES["2wikimultihopqa", "dev"]["data_ids_april7.zip"]
TRIVIA_TAR = RELEASES["triviaqa", "dev_open"]["triviaqa-unfiltered.tar.gz"]


@pytest.mark.parametrize(
    ("name", "split", "file", "content"),
    [
        ("2wikimultihopqa", "dev", "data_ids_april7.zip", TWO_WIKI_ZIP[:-40]),
        ("2wikimultihopqa", "dev", "data_ids_april7.zip", TWO_WIKI_ZIP[:60] + b"\0\1\2\3" + TWO_WIKI_ZIP[64:]),
        ("triviaqa", "dev_open", "triviaqa-unfiltered.tar.gz", TRIVIA_TAR[:-12]),
        ("triviaqa", "dev_open", "triviaqa-unfiltered.tar.gz", TRIVIA_TAR[:100]),
        ("triviaqa", "dev_open", "x.tar", gzip.decompress(TRIVIA_TAR)[:700]),
        ("triviaqa", "dev_open", "x.tgz", b""),
        ("triviaqa", "dev_open", "x.zip", b"no archive"),
    ],
)
def test_a_truncated_archive_is_refused(tmp_path: Path, name: str, split: str, file: str, content: bytes) -> None:
    with pytest.raises(InputError, match=rf"{file} is cut short or damaged: .* Download it again"):
        made(tmp_path, name, split, sources=[archive(tmp_path, file, content)])
    assert {path.name for path in (tmp_path / name).iterdir()} <= {"write.lock"}


def test_an_archive_without_the_file_says_what_it_holds(tmp_path: Path) -> None:
    path = archive(tmp_path, "a.zip", zipped({"x/readme.md": b"hello", "x/test.json": b"[]"}))
    with pytest.raises(InputError, match=r"dev.json is not in a.zip, which holds readme.md, test.json"):
        made(tmp_path, "2wikimultihopqa", sources=[path])


def test_members_cannot_leave_the_folder(tmp_path: Path) -> None:
    inside = {"../../../dev.json": array(HOTPOT | {"evidences": []}), "/tmp/id_aliases.json": jsonl()}
    for name, content in {"a.zip": zipped(inside), "a.tar": tarred(inside, "w")}.items():
        place = tmp_path / name.replace(".", "-") / "a" / "b" / "c"
        place.mkdir(parents=True)
        with pytest.raises(InputError, match="holds no aliases"):
            made(place, "2wikimultihopqa", sources=[archive(place, name, content)])
        assert not list(tmp_path.rglob("dev.json"))


def test_an_archive_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_ALWAYS_ALLOWED_BYTES", 2**16)
    monkeypatch.setattr(fetch, "_MAX_RATIO", 2)
    bomb = {"dev.json": b" " * 2**22, "unfiltered-web-dev.json": b" " * 2**22}
    for name, content in {"a.zip": zipped(bomb), "a.tgz": tarred({"padding": b" " * 2**22, **bomb})}.items():
        with pytest.raises(InputError, match="unpacks to more than"):
            made(tmp_path, "2wikimultihopqa", sources=[archive(tmp_path, name, content)])


def test_a_disk_without_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int = 10

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage())
    with pytest.raises(InputError, match=r"The disk of .* has no room for it. Free some, or give another --data"):
        made(tmp_path, "2wikimultihopqa", sources=[archive(tmp_path, "data_ids_april7.zip", TWO_WIKI_ZIP)])
    with pytest.raises(InputError, match="has no room"):
        made(tmp_path, "hotpotqa")


def test_digests_are_compared(tmp_path: Path) -> None:
    folder = write(tmp_path / "download", RELEASES["hotpotqa", "dev"])
    path = folder / "hotpot_dev_distractor_v1.json"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(InputError, match=rf"The SHA-256 of {path.name} is {digest}, not {'0' * 64}. Download it again"):
        made(tmp_path, "hotpotqa", sources=[path], sha256="0" * 64)
    got = made(tmp_path, "hotpotqa", sources=[path], sha256=digest.upper())
    assert got.sha256 == {path.name: digest}
    assert any("is not the known release" in note for note in got.notes)
    orders: list[dict[str, Any]] = [{"sha256": "abc", "sources": [path]}, {"sha256": digest, "sources": [folder]}]
    for order in orders:
        with pytest.raises(ConfigError):
            made(tmp_path, "hotpotqa", **order)
    orders = [{"url": "ftp://x/y"}, {"url": "http://x/y", "sources": [path]}]
    for order in orders:
        with pytest.raises(ConfigError, match="cannot be fetched"):
            made(tmp_path, "hotpotqa", **order)
    with pytest.raises(InputError, match="There is no nowhere"):
        made(tmp_path, "hotpotqa", sources=[Path("nowhere")])


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    for wrong, meant in {"hotpot": "hotpotqa", "2WikiMultihopQA": "2wikimultihopqa", "musik": "musique"}.items():
        with pytest.raises(ConfigError, match=f"Did you mean {meant}?"):
            find_set(wrong)
    with pytest.raises(ConfigError, match="There are hotpotqa, 2wiki"):
        find_set("xyzzy")
    with pytest.raises(ConfigError, match="Did you mean train"):
        find_set("hotpotqa").release("trian")
    with pytest.raises(ConfigError, match="Did you mean taikc"):
        paper_sample("taik", "hotpotqa")
    with pytest.raises(ConfigError, match="draws no sample of iirc"):
        paper_sample("taikc", "iirc")


def test_every_file_of_the_experiments_is_made_or_known_to_be_of_no_release() -> None:
    needs = needed_by(EXPERIMENTS)
    made_files = {
        name: {file for r in public.releases.values() for file in r.files} for name, public in public_sets().items()
    }
    missing = {f"{name}/{file}" for name, files in needs.items() for file in files if file not in made_files[name]}
    assert missing == {
        "bamboogle/corpus.jsonl",  # these have no passages of their own
        "popqa/corpus.jsonl.gz",
        "musique/dev_pooled.jsonl",
    }
    assert "taikc/table2" in needs["hotpotqa"]["dev.jsonl"]
