"""`hoptree index` and `hoptree search` as a person meets them: what is said, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.corpus.test_corpus_office import docx, p
from tests.small_indexes import hoptree, rows, search_ids, write_rows

from hoptree.__main__ import main
from hoptree.core.values import Passage
from hoptree.corpus.files import SourceFile
from hoptree.corpus.read import read_file
from hoptree.retrieval.index.folder import Settings
from hoptree.retrieval.indexing import build_index
from hoptree.retrieval.indexing.sources import Outcome
from hoptree.retrieval.retriever import BM25


def furnished(folder: Path) -> Path:
    write_rows(folder / "docs" / "a.jsonl", rows(6), ns=10**18)
    build_index(folder / "docs", folder / "idx")
    (folder / "self.txt").symlink_to("self.txt")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return furnished(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder for commands that leave it as it is."""
    return furnished(tmp_path_factory.mktemp("unchanged"))


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def json_of(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    data: dict[str, object] = json.loads(done.stdout)
    return data


def counts(data: dict[str, object]) -> tuple[object, ...]:
    return tuple(data[name] for name in ("added", "unchanged", "replaced", "removed", "passages"))


@pytest.mark.parametrize("command", ["info", "check"])
def test_an_index_is_named_with_or_without_out(home: Path, command: str) -> None:
    named = json_of(hoptree(home, "index", command, "idx", "--json"))
    assert named == json_of(hoptree(home, "index", command, "--out", "idx", "--json"))
    refused(hoptree(home, "index", command), "No index was named.")
    refused(hoptree(home, "index", command, "idx", "--out", "other"), "Two indexes were named: idx and other.")


def test_an_index_through_its_life(home: Path) -> None:
    first = json_of(hoptree(home, "index", "info", "--out", "idx", "--json"))
    write_rows(home / "more.jsonl", rows(2, 50))
    added = json_of(hoptree(home, "index", "add", "more.jsonl", "--out", "idx", "--json"))
    assert counts(added) == (2, 0, 0, 0, 8)
    assert {*Outcome.__dataclass_fields__} - {"manifest", "report"} <= added.keys()
    removed = json_of(hoptree(home, "index", "remove", "more.jsonl", "--out", "idx", "--json"))
    assert counts(removed) == (0, 0, 0, 2, 6)
    assert removed["digest"] == first["digest"]
    (home / "ids.txt").write_text("p1\n\np2\n", encoding="utf-8")
    assert counts(json_of(hoptree(home, "index", "remove", "p0", "--ids", "ids.txt", "--out", "idx", "--json")))[3] == 3
    write_rows(home / "docs" / "b.jsonl", rows(1, 70))
    updated = hoptree(home, "index", "update", "--out", "idx")
    assert updated.returncode == 0 and "4 passages" in updated.stdout and "1 added" in updated.stdout
    assert "nothing changed" in hoptree(home, "index", "update", "--out", "idx").stdout
    assert counts(json_of(hoptree(home, "index", "compact", "--out", "idx", "--json"))) == (0, 4, 0, 0, 4)
    shown = hoptree(home, "index", "info", "--out", "idx").stdout
    assert "4 passages" in shown and "language english" in shown and str(home / "docs") in shown


def test_a_build_says_what_it_will_take_and_what_it_did(home: Path) -> None:
    done = hoptree(home, "index", "docs", "--out", "new")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 passages in new") and "6 added" in done.stdout
    assert "on disk" in done.stderr and "of memory" in done.stderr


def test_add_and_update_say_what_they_will_take(home: Path) -> None:
    more = write_rows(home / "more.jsonl", rows(40, 50))
    done = hoptree(home, "index", "add", "more.jsonl", "docs", "--out", "idx")
    assert done.returncode == 0, done.stderr
    size = f"{more.stat().st_size / 1000:.1f} kB of documents are new or changed"
    assert size in done.stderr and "more on disk" in done.stderr and "of memory" in done.stderr
    done = hoptree(home, "index", "update", "--out", "idx")
    assert "No document of the sources is new or changed." in done.stderr and "on disk" not in done.stderr
    assert hoptree(home, "index", "update", "--out", "idx", "--json").stderr == ""
    (home / "more.jsonl").unlink()
    refused(hoptree(home, "index", "update", "--out", "idx"), "is gone", "hoptree index remove")


def test_one_passage_is_no_passages_and_no_line_is_empty(home: Path) -> None:
    write_rows(home / "one.jsonl", rows(1))
    done = hoptree(home, "index", "one.jsonl", "--out", "new")
    assert done.stdout.startswith("1 passage in new") and "\n\n" not in done.stderr
    assert hoptree(home, "index", "info", "--out", "new").stdout.startswith("1 passage, ")


def test_folders_of_one_name_are_told_apart(home: Path) -> None:
    for letter in "abc":
        (home / letter / "docs").mkdir(parents=True)
        (home / letter / "docs" / "readme.txt").write_text(f"Animal {letter * 3}.", encoding="utf-8")
    done = hoptree(home, "index", "a/docs", "b/docs", "c/docs", "--out", "new")
    assert done.returncode == 0 and "3 added" in done.stdout, done.stderr
    shown = hoptree(home, "index", "info", "--out", "new").stdout
    assert f"from {home / 'a' / 'docs'}\n" in shown
    assert f"from {home / 'c' / 'docs'} (its files are called c/docs/…)" in shown
    assert counts(json_of(hoptree(home, "index", "remove", "c/docs", "--out", "new", "--json")))[3] == 1


def test_build_may_be_said_or_left_out(home: Path) -> None:
    for arguments in (("build", "docs", "--out", "x"), ("--out", "x", "docs"), ("docs", "docs", "--out", "x")):
        assert hoptree(home, "index", *arguments).returncode == 0
    assert "Make documents searchable" in hoptree(home, "index", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("index", "docs", "--out", "docs"), ("is not an index", "Choose a new folder")),
        (("index", "docs", "--out", "docs/a.jsonl"), ("is not an index",)),
        (("index", "docs", "--out", "docs/a.jsonl/idx"), ()),
        (("index", "idx", "--out", "idx2"), ()),
        (("index", "docs", "--out", "x", "--language", "klingon"), ("klingon", "english")),
        (("index", "docs", "--out", "x", "--chunk", "pages"), ("pages", "words:200:20")),
        (("index", "docs", "--out", "x", "--chunk", "tokens:100"), ("tokenizer",)),
        (("index", "docs", "--out", "x", "--without-questions", "none.jsonl"), ("none.jsonl", "--without-questions")),
        (("index", "docs", "--out", "x", "--encoder", "minilmm"), ("minilmm",)),
        (("index", "", "--out", "x"), ("empty name",)),
        (("index", "add", "docs", " ", "--out", "idx"), ("empty name",)),
        (("index", "add", "nowhere", "--out", "idx"), ("nowhere",)),
        (("index", "add", "docs", "--out", "none"), ("no index", "hoptree index")),
        (("index", "update", "--out", "docs"), ("not an index",)),
        (("index", "remove", "--out", "idx"), ("Nothing to remove",)),
        (("index", "remove", "p9", "--out", "idx"), ("p9",)),
        (("index", "remove", "", "--out", "idx"), ("empty name",)),
        (("index", "remove", "self.txt", "--out", "idx"), ("self.txt",)),
        (("index", "remove", "--ids", "none.txt", "--out", "idx"), ("none.txt",)),
        (("index", "remove", "docs", "--out", "idx"), ("empty",)),
        (("index", "info", "--out", "docs"), ("not an index",)),
        (("search", "x", "--corpus", "idx", "--retriever", "linkd"), ("linkd", "linked")),
        (("search", "x", "--corpus", "idx", "--retriever", "dense"), ("no vectors", "hoptree index encode")),
        (("search", "x", "--corpus", "idx", "--where", "lang"), ("NAME=VALUE",)),
        (
            ("search", "x", "--corpus", "idx", "--where", "a=b", "--where", "a=c"),
            ("--where a was given twice: b and c",),
        ),
        (("search", "x", "--corpus", "elasticsearh://h/i"), ("elasticsearh://", "elasticsearch://")),
        (("search", " ", "--corpus", "idx"), ("empty",)),
        (("search", "x", "--corpus", "idx", "--rerank", "cross/NOTHERE"), ("no folder NOTHERE",)),
        (("index", "self.txt", "--out", "x"), ("self.txt is a link that leads in a circle.",)),
        (("index", "add", "self.txt", "--out", "idx"), ("self.txt is a link that leads in a circle.",)),
    ],
)
def test_bad_input_is_one_sentence(unchanged: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = hoptree(unchanged, *arguments)
    refused(done, *words)
    assert "on disk" not in done.stderr, "what is wrong is said before the size"
    assert len(search_ids(unchanged / "idx", "number3")) == 2
    assert not (unchanged / "x").exists()


def test_two_passages_with_one_id_leave_the_old_index(home: Path) -> None:
    before = json_of(hoptree(home, "index", "info", "--out", "idx", "--json"))
    write_rows(home / "docs" / "b.jsonl", [{"id": "p3", "title": "", "text": "Other."}])
    refused(hoptree(home, "index", "update", "--out", "idx"), "Two passages have the id 'p3'", "a.jsonl")
    refused(hoptree(home, "index", "docs", "--out", "idx"), "Two passages have the id 'p3'")
    assert json_of(hoptree(home, "index", "info", "--out", "idx", "--json")) == before


def test_broken_lines_are_named_and_counted(home: Path) -> None:
    with (home / "docs" / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write("{broken\n" * 7)
    done = hoptree(home, "index", "docs", "--out", "idx")
    assert done.returncode == 0 and "6 passages" in done.stdout
    assert "Line 7 of a.jsonl is not JSON" in done.stderr and "broken lines: 7" in done.stderr
    refused(hoptree(home, "index", "docs", "--out", "idx", "--skip-broken", "6"), "More than 6", "--skip-broken 60")
    refused(hoptree(home, "index", "docs", "--out", "idx", "--skip-broken", "0"), "Line 7 of a.jsonl")


def test_search_explains_and_filters(home: Path) -> None:
    tagged = {"id": "t", "title": "Tag", "text": "A tagged walrus.", "lang": "de", "tag": ["x", "y"]}
    write_rows(home / "tagged.jsonl", [tagged])  # type: ignore[list-item]
    assert hoptree(home, "index", "add", "tagged.jsonl", "--out", "idx").returncode == 0
    search = ("search", "walrus number3", "--corpus", "idx", "--json", "--explain", "--retriever", "linked")
    (row,) = json.loads(hoptree(home, *search, "--where", "lang=de", "--where", "tag=x").stdout)
    assert (row["id"], row["metadata"]) == ("t", {"lang": "de", "tag": ["x", "y"]}) and "bm25" in row["stages"]
    assert json.loads(hoptree(home, *search, "--where", "lang=fr").stdout) == []
    shown = hoptree(home, "search", "walrus", "--corpus", "idx", "--explain").stdout
    assert "bm25" in shown and "walrus" in shown
    assert "Nothing was found" in hoptree(home, "search", "the of and", "--corpus", "idx").stdout
    filtered = ("search", "walrus", "--corpus", "idx", "--where")
    assert "Without --where the best have lang=de." in hoptree(home, *filtered, "lang=fr").stdout
    assert "the best have document=t." in hoptree(home, *filtered, "document=u").stdout
    assert "the best have no year, but document, title, lang" in hoptree(home, *filtered, "year=2020").stdout


def test_search_shows_the_part_of_a_passage_that_matches(home: Path) -> None:
    (home / "log.txt").write_text("normal\n" * 100 + "walrus above limit\n" + "normal\n" * 60, encoding="utf-8")
    assert hoptree(home, "index", "log.txt", "--out", "new").returncode == 0
    shown = hoptree(home, "search", "limit of the walrus", "new").stdout.splitlines()[1].strip()
    assert "normal walrus above limit normal" in shown and shown[0] == shown[-1] == "…"


@pytest.mark.parametrize("links", [True, False])
def test_hybrid_says_where_it_has_no_links(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], links: bool
) -> None:
    build_index(home / "docs", home / "new", settings=Settings(links=links))
    monkeypatch.setattr("hoptree.retrieval.retriever._dense", lambda index: BM25(index))
    for kind in ("hybrid", "bm25"):
        monkeypatch.setattr(sys, "argv", ["hoptree", "search", "town1", "--corpus", str(home / "new"), "--json"])
        sys.argv += ["--retriever", kind]
        with pytest.raises(SystemExit) as leaving:
            main()
        out, err = capsys.readouterr()
        assert leaving.value.code == 0 and json.loads(out)
        assert ("has no links" in err) == (kind == "hybrid" and not links)


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("command", ["ask", "run"])
def test_questions_say_where_hybrid_has_no_links(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: str, links: bool
) -> None:
    build_index(home / "docs", home / "new", settings=Settings(links=links))
    monkeypatch.setattr("hoptree.retrieval.retriever._dense", lambda index: BM25(index))
    (home / "m.json").write_text(json.dumps({"replies": [{"reply": "town1"}]}), encoding="utf-8")
    (home / "data.jsonl").write_text(json.dumps({"id": "q", "question": "Where?", "answers": ["x"]}), encoding="utf-8")
    asked = ("ask", "Where?", "--no-cache") if command == "ask" else ("run", "--data", "data.jsonl", "--out", "out")
    for kind in ("hybrid", "bm25"):
        usual = ("--corpus", "new", "--method", "oner", "-m", "scripted/m.json", "--json", "--anyway")
        done = hoptree(home, *asked, *usual[: -1 if command == "ask" else None], "--retriever", kind)
        assert done.returncode == 0 and json.loads(done.stdout), done.stderr
        assert ("has no links" in done.stderr) == (kind == "hybrid" and not links)


@pytest.mark.parametrize("command", [("search", "town1"), ("ask", "Where?", "--method", "oner", "--no-cache")])
def test_hybrid_says_how_to_make_vectors(home: Path, command: tuple[str, ...]) -> None:
    (home / "m.json").write_text(json.dumps({"replies": [{"reply": "town1"}]}), encoding="utf-8")
    more = ("-m", "scripted/m.json") if command[0] == "ask" else ()
    done = hoptree(home, *command, *more, "--corpus", "idx", "--retriever", "hybrid")
    refused(done, "has no vectors", "hoptree index encode --out idx")


def test_hidden_files_are_counted_and_named(home: Path) -> None:
    write_rows(home / "docs" / ".drafts" / "a.jsonl", rows(3, 50))
    write_rows(home / "docs" / ".hidden.jsonl", rows(3, 60))
    done = hoptree(home, "index", "docs", "--out", "new", "--json")
    summary = json.loads(done.stdout)
    assert "hidden files and folders: 2" in summary["passed_over"] and "hidden files and folders: 2" in done.stderr
    assert any(".hidden.jsonl" in sentence for sentence in summary["examples"])
    assert any(".drafts" in sentence for sentence in summary["examples"])
    assert ".hidden.jsonl is hidden and not read." in done.stderr


def test_a_further_name_is_found_along_links(home: Path) -> None:
    row = {"id": "town", "title": "Savonlinna", "text": "A town.", "aliases": ["Nyslott"]}
    write_rows(home / "more.jsonl", [row])  # type: ignore[list-item]
    assert hoptree(home, "index", "add", "more.jsonl", "--out", "idx").returncode == 0
    search = ("search", "Nyslott", "--corpus", "idx", "--json", "--retriever")
    assert [row["id"] for row in json.loads(hoptree(home, *search, "linked").stdout)] == ["town"]
    assert json.loads(hoptree(home, *search, "bm25").stdout) == []


def test_formats_are_counted_and_what_is_unknown_is_told_once(home: Path) -> None:
    for name in ("a.txt", "b.md", "c.MD.gz", "kite.png", "broken.docx"):
        (home / "docs" / name).write_text(f"Words of {name}.", encoding="utf-8")
    done = hoptree(home, "index", "docs", "--out", "new")
    assert done.returncode == 0 and "kite.png is not a document of a known kind." in done.stderr
    assert "broken.docx is damaged, or of another kind than its name says." in done.stderr
    (home / "docs" / "b.md").write_text("Other words.", encoding="utf-8")
    (home / "docs" / "new.png").write_text("x", encoding="utf-8")
    again = hoptree(home, "index", "update", "--out", "new")
    assert "kite.png" not in again.stderr and "new.png is not a document of a known kind." in again.stderr
    info = hoptree(home, "index", "info", "--out", "new").stdout
    assert "  4 document files: 2 Markdown, " in info and "Word" not in info
    assert "  2 files passed over: kite.png, new.png\n" in info
    assert "  1 further file gave no passage\n" in info
    counted = json.loads(hoptree(home, "index", "info", "--out", "new", "--json").stdout)
    assert counted["formats"][".md"] == 2 and counted["files_without_passages"] == 1
    assert counted["kinds"]["Markdown"] == 2 and counted["passed_over"] == ["kite.png", "new.png"]
    assert counted["unreadable"] == ["broken.docx"] and counted["outdated"] == []
    assert "  1 file not readable to the end: broken.docx\n" in info


def test_passages_of_the_earlier_state_of_a_damaged_file_are_known_as_such(home: Path) -> None:
    plan = home / "docs" / "plan.docx"
    plan.write_bytes(docx(p("The plan begins in May.")))
    assert hoptree(home, "index", "docs", "--out", "new").returncode == 0
    plan.write_bytes(b"This is no archive.")
    for _ in range(2):
        assert hoptree(home, "index", "update", "--out", "new").returncode == 0
        info = hoptree(home, "index", "info", "--out", "new")
        assert "  1 file no longer readable, with passages of their earlier state: plan.docx\n" in info.stdout
    counted = json.loads(hoptree(home, "index", "info", "--out", "new", "--json").stdout)
    assert counted["unreadable"] == counted["outdated"] == ["plan.docx"]
    assert "The plan begins in May." in hoptree(home, "search", "plan begins", "--corpus", "new").stdout


def test_a_broken_file_that_has_not_changed_is_told_once(home: Path) -> None:
    broken = home / "docs" / "broken.docx"
    broken.write_text("This is no document.", encoding="utf-8")
    assert "broken.docx is damaged" in hoptree(home, "index", "update", "--out", "idx").stderr
    again = hoptree(home, "index", "update", "--out", "idx")
    assert again.stderr == "No document of the sources is new or changed.\n" and "nothing changed" in again.stdout
    (home / "docs" / "new.txt").write_text("Zebras are striped.", encoding="utf-8")
    assert "broken" not in hoptree(home, "index", "update", "--out", "idx").stderr
    assert "broken.docx is damaged" in hoptree(home, "index", "update", "--reread", "--out", "idx").stderr
    broken.write_text("This is another one.", encoding="utf-8")
    os.utime(broken, ns=(0, 0))
    assert "broken.docx is damaged" in hoptree(home, "index", "update", "--out", "idx").stderr


def test_the_questions_of_a_beir_folder_are_passed_over_and_named(home: Path) -> None:
    write_rows(home / "beir" / "corpus.jsonl", rows(2))
    write_rows(home / "beir" / "queries.jsonl", [{"_id": "q", "text": "Who lives in town1?"}])
    (home / "beir" / "qrels").mkdir()
    (home / "beir" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tp1\t1\n", encoding="utf-8")
    done = hoptree(home, "index", "beir", "--out", "new")
    assert done.stdout.startswith("2 passages") and "files of questions: 2" in done.stderr
    assert "queries.jsonl holds the questions" in done.stderr


def test_an_index_of_another_version_says_so_and_can_be_built_again(home: Path) -> None:
    (home / "idx" / "hoptree-index.json").write_text('{"format": 1, "passages": 3}', encoding="utf-8")
    refused(hoptree(home, "search", "x", "--corpus", "idx"), "format 1", "build it again")
    refused(hoptree(home, "index", "update", "--out", "idx"), "format 1")
    assert hoptree(home, "index", "docs", "--out", "idx").returncode == 0
    assert "p3" in hoptree(home, "search", "number3", "--corpus", "idx").stdout


def test_a_command_that_is_misspelt_is_no_folder(home: Path) -> None:
    refused(hoptree(home, "index", "ad", "docs", "--out", "idx"), "'ad'", "hoptree index add")
    refused(hoptree(home, "index", "--encoder", "static/none", "docs", "--out", "x"), "of a static encoder")


def test_an_edit_that_keeps_size_and_time_is_found_when_files_are_read_again(home: Path) -> None:
    lines = rows(6)
    lines[2]["text"] = lines[2]["text"].replace("friend", "fiends")
    write_rows(home / "docs" / "a.jsonl", lines, ns=10**18)
    assert "nothing changed" in hoptree(home, "index", "update", "--out", "idx").stdout
    assert counts(json_of(hoptree(home, "index", "update", "--reread", "--out", "idx", "--json"))) == (0, 5, 1, 0, 6)


def test_how_much_may_be_broken_can_be_said_later_too(home: Path) -> None:
    (home / "docs" / "b.jsonl").write_text('{"id": "q", "text": "good"}\n' + "{\n" * 101, encoding="utf-8")
    refused(hoptree(home, "index", "update", "--out", "idx"), "--skip-broken")
    assert counts(json_of(hoptree(home, "index", "update", "--skip-broken", "101", "--out", "idx", "--json")))[0] == 1
    reading = json_of(hoptree(home, "index", "info", "--out", "idx", "--json"))["reading"]
    assert isinstance(reading, dict) and reading["skip_broken"] == "100", "that was for once"


def test_what_a_new_index_leaves_out_of_the_old_is_said(home: Path) -> None:
    write_rows(home / "more.jsonl", rows(2, 50))
    assert hoptree(home, "index", "add", "more.jsonl", "--out", "idx").returncode == 0
    done = hoptree(home, "index", "docs", "--out", "idx")
    assert done.returncode == 0 and "more.jsonl, which the new one leaves out" in done.stderr


def test_an_index_shows_which_questions_it_was_made_without(home: Path) -> None:
    write_rows(home / "dev.jsonl", [{"id": "q", "question": "Which river flows through Velmora?"}])
    assert hoptree(home, "index", "docs", "--out", "idx", "--without-questions", "dev.jsonl").returncode == 0
    assert f"hold a question of {home / 'dev.jsonl'}" in hoptree(home, "index", "info", "--out", "idx").stdout
    (home / "dev.jsonl").unlink()
    write_rows(home / "docs" / "b.jsonl", rows(1, 70))
    done = hoptree(home, "index", "update", "--out", "idx")
    refused(done, "dev.jsonl", "must not occur in any passage", "Put it there, or build the index with another one")
    assert "name another" not in done.stderr, "there is no option for that"


def test_ctrl_c_early_in_a_slow_build_keeps_what_is_older_than_a_minute(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 10**6, 40))
    write_rows(home / "docs" / "b.jsonl", rows(2, 50))
    write_rows(home / "docs" / "c.jsonl", rows(2, 70))

    def stop_at_the_last(file: SourceFile, **kwargs: Any) -> Iterator[Passage]:
        if file.name == "c.jsonl":
            raise KeyboardInterrupt
        yield from read_file(file, **kwargs)

    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "argv", ["hoptree", "index", "docs", "--out", "new"])
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.indexing.run.monotonic", lambda: next(clock))
        patch.setattr("hoptree.retrieval.indexing.run.read_file", stop_at_the_last)
        with pytest.raises(SystemExit):
            main()
    assert "The same command goes on from what was saved." in " ".join(capsys.readouterr().err.split())
    refused(hoptree(home, "search", "x", "--corpus", "new"), "cut off", "repeat the command")
    with pytest.raises(SystemExit):
        main()
    output = capsys.readouterr().out
    assert output.startswith("10 passages in new") and "went on where a run was cut off" in output


@pytest.mark.parametrize(
    ("arguments", "after", "again"),
    [
        (("docs", "--out", "new"), "reading", "begins again"),
        (("docs", "--out", "new"), "linking", "goes on"),
        (("docs", "--out", "idx"), "linking", "The index is as it was. The same command goes on"),
        (("remove", "p1", "--out", "idx"), "linking", "The index is as it was. The same command begins again"),
        (("update", "--reread", "--out", "idx"), "linking", "The same command begins again"),
    ],
)
def test_ctrl_c_says_what_stays(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    after: str,
    again: str,
) -> None:
    def stop(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "argv", ["hoptree", "index", *arguments])
    with monkeypatch.context() as patch:
        patch.setattr(f"hoptree.retrieval.indexing.run.{'link_passages' if after == 'linking' else 'read_file'}", stop)
        with pytest.raises(SystemExit) as leaving:
            main()
    assert leaving.value.code == 1
    assert again in " ".join(capsys.readouterr().err.split())
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 0
    assert ("went on" in capsys.readouterr().out) == ("goes on" in again)
