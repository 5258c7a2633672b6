"""Lines of scripts without spaces between words are joined without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.corpus.read import read_passages

WRAPPED = "这里说的是一座很老的灯塔它在北方的海角上由两兄弟建造灯塔的看守"
"""A line of 62 columns."""


@pytest.mark.parametrize(
    ("name", "text", "joined"),
    [
        ("a.txt", f"{WRAPPED}\n人住在这里。\n短行\n另一行", f"{WRAPPED}人住在这里。\n短行\n另一行"),
        ("a.md", "灯塔的看\n守人 and\nhis 妻子", "灯塔的看守人 and\nhis 妻子"),
        ("a.rst", "灯塔的看\n守人。", "灯塔的看守人。"),
        ("a.html", "<p>灯塔的看\n  守人，\n妻子 and\nso</p>", "灯塔的看守人，妻子 and so"),
        ("a.1", ".TH A 1\n.SH 名称\n灯塔的看\n守人\nand his\n妻子", "灯塔的看守人 and his 妻子"),
    ],
)
def test_lines_of_chinese_are_joined_without_a_space(tmp_path: Path, name: str, text: str, joined: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (passage,) = read_passages(tmp_path / name)
    assert passage.text == joined
