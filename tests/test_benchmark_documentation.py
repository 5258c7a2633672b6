"""The benchmark of manuals: its questions, and manuals that are missing or lack an answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmarks.documentation import PACKAGES, Question, main, read_questions, usable

from hoptree.core.values import Passage

QUESTION = Question("git-01", "How long?", "900", (("a.html", "kept in memory"), ("b.html", "(default: 900)")))
FIRST = Passage("a.html#1", "A", "Passwords are kept\n in memory.", document="a.html")
SECOND = Passage("b.html#1", "B", "Seconds to keep them (Default: 900).", document="b.html")


def test_there_are_sixty_two_hop_questions_half_of_them_held_out() -> None:
    questions = read_questions()
    assert len({each.id for each in questions}) == len({each.text for each in questions}) == 60
    assert Counter(each.manual for each in questions) == dict.fromkeys(PACKAGES, 20)
    assert Counter(each.half for each in questions) == {"development": 30, "last": 30}
    for each in questions:
        assert len({file for file, _ in each.gold}) == 2 and each.answer
        assert len(each.gold[1][1]) < 80, "a few words, not the text of others"


def test_gold_passages_are_identified_by_file_and_words() -> None:
    assert QUESTION.found([FIRST, SECOND]) == [True, True]
    assert QUESTION.found([SECOND, Passage("c", "C", FIRST.text, document="c.html")]) == [False, True]


def test_questions_without_an_answer_in_the_manual_are_left_out() -> None:
    other = Question("git-02", "How long?", "600", QUESTION.gold)
    assert usable([QUESTION, other], [FIRST, SECOND]) == ([QUESTION], ["git-02"])
    assert usable([QUESTION], [SECOND]) == ([], ["git-01"])


def test_the_error_says_how_to_install_missing_manuals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [f"--{manual}={tmp_path}" for manual in PACKAGES]
    monkeypatch.setattr("sys.argv", ["documentation.py", *folders])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "apt-get install git-doc sqlite3-doc postgresql-doc-15" in capsys.readouterr().err


def test_a_manual_of_another_version_is_asked_only_what_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for manual, (_, _, page) in PACKAGES.items():
        (tmp_path / manual).mkdir()
        (tmp_path / manual / page).write_text("<title>A page</title><p>Nothing much.", encoding="utf-8")
    pages = {
        "gitcredentials.html": "It is kept in memory for a short period of time.",
        "git-credential-cache.html": "Seconds to cache credentials (default: 900).",
    }
    for name, text in pages.items():
        (tmp_path / "git" / name).write_text(f"<title>{name}</title><p>{text}", encoding="utf-8")
    folders = [f"--{manual}={tmp_path / manual}" for manual in PACKAGES]
    monkeypatch.setattr("benchmarks.documentation.installed_ranker", lambda: None)
    monkeypatch.setattr("sys.argv", ["documentation.py", "--quick", "--half", "last", "--show", *folders])
    assert main() == 0
    printed = capsys.readouterr()
    assert "left out: git-01, git-05" in printed.err and "git-03         bm25 ++  linked ++" in printed.err
    assert printed.out.splitlines()[-1].split()[:4] == ["together", "1", "1.000", "1.000"]
