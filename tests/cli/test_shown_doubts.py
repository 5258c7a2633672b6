"""What a person sees of a text that was written with doubts: shades, marks, searches, memory."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.spinner import Spinner
from tests.methods.continuation_asked import GRANDFATHER, Run
from tests.methods.mind_asked import CHARLES, FATHER, JEAN, LAST, figure
from tests.methods.written_runs import (
    asked_dragin,
    asked_flare,
    asked_mind,
    asked_seakr,
    by_samples,
    contradicted,
    from_memory,
)
from typer.testing import CliRunner

from hoptree.cli.ask import EventLines
from hoptree.cli.main import app
from hoptree.cli.progress import draw_progress
from hoptree.cli.render import draw_svg, show_result
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

DIRTY = "[bold red]x[/] \x1b[2J \u202e </script><img src=x>"


def drawn(run: Run, **how: Any) -> str:
    """What stands in a file, where there are no colours."""
    file = io.StringIO()
    show_result(Console(file=file, width=300, **how), run.result)
    return file.getvalue()


def figure_1() -> Run:
    return asked_mind(figure(needed=["[1]", "[2]"]), k=2, top_k=1)


def line(text: str, label: str, number: int = 0) -> str:
    """A row by its label: what stands behind it."""
    rows = [
        row.strip().removeprefix(label).strip() for row in text.splitlines() if row.strip().startswith(f"{label}  ")
    ]
    return rows[number]


def test_a_doubt_is_told_from_the_word_to_what_was_written_instead() -> None:
    text = drawn(figure_1())
    assert line(text, "1.") == f"The father of {CHARLES} is [Louis]⁴."
    assert line(text, "in doubt") == "S 3.00 > θ 0.73: Louis (entropy 3.00, attention share 1.00, score 3.00)"
    assert line(text, "names", 1) == (
        f"kept {CHARLES} 0.95; dropped paternal grandfather 0.54 by confidence, Louis 0.25 by cot"
    )
    assert line(text, "asked") == f"“{CHARLES} father”" and line(text, "found") == f"p1 {CHARLES}, p2 {JEAN}"
    assert line(text, "learnt") == f"{CHARLES} | father | {JEAN}  confidence 0.95  p1 {CHARLES}"
    assert line(text, "⇒") == f"The father of {CHARLES} is {JEAN}.  S 0.10"
    assert line(text, "3.") == f"{LAST}  S 0.10 ≤ θ 0.19"
    assert line(text, "end") == "it gives an answer"


def test_a_legend_without_numbers_is_told_sentence_by_sentence() -> None:
    legend = drawn(by_samples()).splitlines()[1].strip()
    assert legend.startswith("What the model wrote. ") and legend.endswith("and θ what it must exceed.")
    assert "  " not in legend and ". . " not in legend


def test_the_legend_tells_what_marks_and_numbers_mean() -> None:
    legend = drawn(figure_1()).splitlines()[1]
    assert "(entropy, nats): sure  ≥0.75²  ≥1.5³  ≥2.5⁴" in legend and "[In doubt]: what made it look" in legend
    assert "S is a word's entropy times its share of attention, and θ what it must exceed." in legend
    assert "U is how far samples of a step are apart" in drawn(asked_seakr()) and "−ln p" in drawn(asked_flare())


def test_memory_tells_what_it_spared_and_what_contradicts() -> None:
    text = drawn(from_memory())
    assert line(text, "memory").startswith(f"has it, no search: {JEAN} | father | ")
    assert "read at 1, spared the search at 2" in text
    assert line(drawn(contradicted()), "conflict") == (
        f"{CHARLES} | father | {JEAN} (p1) ↔ {CHARLES} | father | Louis Stanislas (p4)"
    )


def test_the_other_methods() -> None:
    dragin, flare, seakr = drawn(asked_dragin()), drawn(asked_flare()), drawn(asked_seakr())
    assert line(dragin, "asked") == "“Charles paternal grandfather Charles”" and "\n    names" not in dragin
    assert line(flare, "first") == f"“{GRANDFATHER}”" and line(flare, "1.") == "His father is [Jean]² [Bretagne]."
    assert line(flare, "in doubt").startswith("least p 0.30 < θ 0.80: Jean (probability 0.30); Bretagne (")
    assert "without its least probable words: Jean" in flare
    assert line(seakr, "in doubt") == "U -5.46 > θ -6.00"
    assert re.fullmatch(r"p1 U -5\.46, p2 U -6\.\d\d, p3 U -5\.46", line(seakr, "tried"))
    assert re.search(r"answer  from documents: Charles Armand, U -6\.\d\d  \(taken\)", seakr)


def test_samples_stand_below_what_they_tell() -> None:
    text = drawn(by_samples())
    assert line(text, "in doubt").startswith("disagreement 1.00 > θ 0.50: father; Charles")
    assert [line(text, "sample", number) for number in range(5)] == ["Louis.", "Jean.", "Henri.", "Max.", "Guy."]
    assert line(text, "note") == "the model does not tell entropy, logprobs itself"


def test_in_colour_words_are_shaded_and_have_no_other_marks() -> None:
    text = drawn(figure_1(), force_terminal=True, color_system="truecolor", no_color=False)
    assert re.search(r"\x1b\[1;4;[\d;]*48;2;179;38;30m\[Louis\]\x1b", text) and "⁴" not in text
    plain = drawn(figure_1(), force_terminal=True, color_system="truecolor", no_color=True)
    assert "[Louis]⁴" in plain


@pytest.mark.parametrize("terminal", [True, False])
def test_markup_and_controls_are_text_or_nothing(terminal: bool) -> None:
    script = figure(drafts=(f"{FATHER} {DIRTY}", FATHER, LAST), needed="[1]")
    script[0].reply = f'{{"entities": ["{CHARLES}", "[red]Name[/red]"]}}'
    text = drawn(asked_mind(script, k=2, retrievals=1), force_terminal=terminal, color_system=None)
    assert "[bold" in text and "[/]" in text and "[red]Name[/red]" in text
    assert "\x1b[2J" not in text and "\u202e" not in text


def test_the_picture_has_shades_and_nothing_from_outside() -> None:
    script = figure(drafts=(f"{FATHER} {DIRTY}", FATHER, LAST), needed="[1]")
    picture = draw_svg([asked_mind(script, k=2, retrievals=1).result])
    assert "#b3261e" in picture and "<img" not in picture and "</script" not in picture
    assert not re.search(r"(?:href|src|url)\s*[=(]\s*[\"']?https?:", picture)


def test_a_run_that_was_stopped_is_drawn_as_far_as_it_went() -> None:
    text = drawn(asked_mind(figure(needed=["[1]", "[3]"]), budget=Budget(calls=3)))
    assert "not written again" in text and "[Louis]⁴" in text and "\n      end" not in text


def test_a_log_tells_of_doubts_and_searches_as_they_come() -> None:
    file = io.StringIO()
    write_line = EventLines(file)
    for event in [*figure_1().events, *from_memory().events]:
        write_line(event)
    lines = file.getvalue().splitlines()
    assert f"  in doubt: {FATHER}" in lines and f"  searched: {CHARLES} father" in lines
    assert any(line.startswith(f"  in memory: {JEAN} | father | ") for line in lines)
    assert not any("⇒" in line for line in lines) and len([line for line in lines if "in doubt" in line]) == 4


def test_while_it_grows_the_text_is_drawn_too() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="truecolor")
    events = figure_1().events
    for number in range(len(events)):
        console.print(draw_progress(events[: number + 1], 1.0, Spinner("dots")))
        assert number or "planning" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "writing" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_command_draws_and_prints_json(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(event.as_dict()) + "\n" for event in figure_1().events), encoding="utf-8")
    shown = CliRunner().invoke(app, ["show", str(path), "--svg", str(tmp_path / "t.svg")])
    assert shown.exit_code == 0 and "[Louis]⁴" in shown.output and (tmp_path / "t.svg").exists()
    writing = json.loads(CliRunner().invoke(app, ["show", str(path), "--json"]).output)["writing"]
    assert [part["said"]["triggered"] for part in writing["parts"]] == [True, True, False]
    assert writing["parts"][0]["queries"][0]["query"] == f"{CHARLES} father"


def test_a_word_of_nothing_but_controls_leaves_its_brackets() -> None:
    draft = "\x1b\x07 Louis"
    rules = [
        Rule("{}", step="extract"),
        Rule(draft, step="draft", entropy=3.0, attention=0.2),
        Rule("none", step="facts"),
        Rule(LAST, step="rewrite", entropy=0.1, attention=0.2),
    ]
    text = drawn(asked_mind(rules, filters="none", threshold="fixed", theta=1.0))
    assert "[Louis]⁴" in text and "\x1b" not in text
