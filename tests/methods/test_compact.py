"""CompAct: segments of five, a summary that grows, and a verdict that ends it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import Run

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.registry import find_method, read_options
from hoptree.models.scripted import Rule
from hoptree.text.parse_method_replies import Compression, read_compression

ASKED = "Where was the painter of the Red Barn born?"
MISSING = "Summary: Ada Moor painted the Red Barn.\nEvaluation: [INCOMPLETE] Where Ada Moor was born is lacking."
ENOUGH = "Summary: Ada Moor, born in Lund, painted the Red Barn.\nEvaluation: [COMPLETE] Lund is named."


def run(script: list[Rule], *, count: int = 40, budget: Budget | None = None, **options: Any) -> Run:
    shelf = Shelf(*(Passage(f"p{n}", f"Page {n}", f"Text number {n}.") for n in range(1, count + 1)))
    return Run("compact", script, question=ASKED, shelf=shelf, budget=budget, **options)


def compressed(done: Run) -> list[str]:
    return [request.messages[-1].content for request in done.sent("compress")]


def test_segments_of_five_until_the_summary_is_complete() -> None:
    done = run([Rule([MISSING, ENOUGH], step="compress"), Rule("Lund", step="final")])
    assert done.shelf.asked == [(ASKED, 30)]
    assert done.steps == ["compress", "compress", "final"] and done.result.answer == "Lund"
    first, second = compressed(done)
    assert [f"number {n}." in first for n in (1, 5, 6)] == [True, True, False]
    assert [f"number {n}." in second for n in (5, 6, 10, 11)] == [False, True, True, False]
    assert done.values("ended") == ["complete"] and done.values("compacted") == [False, True]


def test_the_evaluation_is_shown_without_its_tag_and_the_first_turn_sees_neither() -> None:
    for checkpoint in (False, True):
        script = [Rule([MISSING, ENOUGH], step="compress"), Rule("Lund")]
        first, second = compressed(run(script, checkpoint=checkpoint))
        assert "Ada Moor painted the Red Barn." in second and "Ada Moor" not in first
        asked = second.partition(ASKED)[2]
        assert "Where Ada Moor was born is lacking." in asked and "INCOMPLETE" not in asked


def test_the_reader_sees_the_last_summary_alone() -> None:
    done = run([Rule([MISSING, ENOUGH], step="compress"), Rule("Lund", step="final")])
    (request,) = done.sent("final")
    shown = request.messages[-1].content
    assert "Ada Moor, born in Lund, painted the Red Barn." in shown
    assert "number" not in shown and "Lund is named" not in shown


@pytest.mark.parametrize(("reply", "status"), [("Lund", "answered"), ("The documents do not say.", "unknown")])
def test_evidence_is_what_was_read_with_an_answer_or_without(reply: str, status: str) -> None:
    done = run([Rule(ENOUGH, step="compress"), Rule(reply, step="final")])
    assert done.result.abstained is (status == "unknown")
    assert [passage.id for passage in done.result.consulted] == ["p1", "p2", "p3", "p4", "p5"]


def test_six_segments_at_most() -> None:
    done = run([Rule(MISSING, step="compress"), Rule("Lund", step="final")])
    assert done.steps == ["compress"] * 6 + ["final"] and done.values("ended") == ["documents"]
    assert len(run([Rule(MISSING, step="compress"), Rule("L")], count=7).sent("compress")) == 2
    assert len(run([Rule(MISSING, step="compress"), Rule("L")], segment=2, segments=3).sent("compress")) == 3


def test_a_reply_without_an_evaluation_is_incomplete() -> None:
    done = run([Rule(["Ada Moor painted it.", ENOUGH], step="compress"), Rule("Lund")])
    assert len(done.sent("compress")) == 2
    assert [event["ok"] for event in done.of("parse", step="compress")] == [False, True]
    assert "Ada Moor painted it." in compressed(done)[1]


def test_an_empty_summary_leaves_the_last_one() -> None:
    done = run([Rule([MISSING, "", "Evaluation: [COMPLETE] yes.", ENOUGH], step="compress"), Rule("Lund")])
    assert len(done.sent("compress")) == 4
    assert all("Ada Moor painted the Red Barn." in text for text in compressed(done)[1:])


def test_without_any_summary_the_first_segment_is_read() -> None:
    done = run([Rule("", step="compress"), Rule("Lund", step="read")], count=7)
    assert done.steps == ["compress", "compress", "read"] and done.result.answer == "Lund"
    assert "number 5." in done.sent("read")[0].messages[-1].content


def test_nothing_found_is_no_answer() -> None:
    done = run([Rule("Lund")], count=0)
    assert (done.result.answer, done.steps, done.result.error) == ("", [], "")


def test_the_checkpoint_is_asked_in_one_turn_with_its_sections() -> None:
    done = run([Rule([MISSING.removeprefix("Summary: "), ENOUGH], step="compress"), Rule("Lund")], checkpoint=True)
    first, second = done.sent("compress")
    assert [len(request.messages) for request in (first, second)] == [1, 1]
    assert first.max_tokens == 900
    assert "Source documents: Page 1 Text number 1.\nPage 2" in first.messages[0].content
    assert first.messages[0].content.endswith("\n\nSummary:")
    assert "Previous summary: Ada Moor painted the Red Barn.\n\nEvaluation of previous summary: Where Ada" in (
        second.messages[0].content
    )
    assert done.result.answer == "Lund"


def test_the_examples_show_a_reason_before_each_verdict_and_both_verdicts() -> None:
    first = run([Rule(ENOUGH, step="compress"), Rule("Lund")]).sent("compress")[0].messages
    shown = [read_compression(turn.content) for turn in first if turn.role == "assistant"]
    assert [(read.complete, lacking) for read, lacking in shown] == [(False, ()), (True, ())]
    (before, _), _ = shown
    assert f"Summary so far:\n{before.summary}\n\nWhat it lacked:\n{before.evaluation}\n" in first[3].content


def test_the_released_example_ends_when_both_facts_are_there() -> None:
    """Yoon et al. 2024 (data/example.json): who commissions whom, then who is known for the Virtual Choir."""
    works = Passage("works", "Conspirare", "Conspirare, of Austin, commissioned works from Eric Whitacre and others.")
    choir = Passage("choir", "Eric Whitacre", "Eric Edward Whitacre is known for his Virtual Choir projects.")
    others = [Passage(f"o{n}", "Choirs", f"Choir {n} sings.") for n in range(20)]
    shelf = Shelf(works, *others[:4], *others[4:19], *others[19:], choir)
    more = "Summary: Conspirare commissioned works from several composers.\nEvaluation: [INCOMPLETE] Who conducts?"
    enough = (
        "Summary: Eric Edward Whitacre made the Virtual Choir, and works for Conspirare.\nEvaluation: [COMPLETE] Yes."
    )
    script = [
        Rule(enough, step="compress", contains="Virtual Choir projects"),
        Rule(more, step="compress"),
        Rule("Eric Edward Whitacre", step="final"),
    ]
    asked = "Which conductor, noted for a Virtual Choir, has written for the ensemble Conspirare of Austin?"
    done = Run("compact", script, question=asked, shelf=shelf, checkpoint=True)
    assert done.result.answer == "Eric Edward Whitacre" and done.steps == ["compress"] * 5 + ["final"]
    assert done.values("compacted") == [False] * 4 + [True]


def test_a_verdict_without_a_reason_is_told() -> None:
    done = run([Rule("Summary: Lund.\nEvaluation: [COMPLETE]", step="compress"), Rule("Lund")])
    assert [(event["ok"], event["repairs"]) for event in done.of("parse", step="compress")] == [(True, ["reason"])]


def test_what_was_summarised_is_shown() -> None:
    done = run([Rule([MISSING, ENOUGH], step="compress"), Rule("Lund")])
    assert done.result.writing is None, "nothing was written with doubts"
    assert done.result.chains == (
        "Summary: Ada Moor painted the Red Barn. Evaluation: Where Ada Moor was born is lacking. [INCOMPLETE]",
        "Summary: Ada Moor, born in Lund, painted the Red Barn. Evaluation: Lund is named. [COMPLETE]",
    )


@pytest.mark.parametrize("name", ["segment", "segments"])
def test_nothing_to_read_is_refused_by_the_name_of_the_option(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=0 is not possible.* 1 or more .--set {name}="):
        read_options(find_method("compact"), {name: "0"})


def test_a_summary_may_stand_behind_its_evaluation() -> None:
    read, lacking = read_compression("Evaluation: [COMPLETE]\nSummary: A")
    assert (read, lacking) == (Compression("A", "", True), ("reason",))
    assert read_compression("## Evaluation\n[INCOMPLETE] B.\n## Summary\nA.\n## Question\nX?")[0] == Compression(
        "A.", "B."
    )


def test_fidelity_says_which_form_ran() -> None:
    for checkpoint, fidelity in ((False, "prompted"), (True, "approx")):
        done = run([Rule(ENOUGH, step="compress"), Rule("Lund")], checkpoint=checkpoint)
        assert done.of("start")[0]["fidelity"] == fidelity


def test_a_budget_of_one_call_ends_it() -> None:
    done = run([Rule(MISSING)], budget=Budget(calls=1))
    assert (done.result.answer, done.result.stopped_by) == ("", "calls")


@pytest.mark.parametrize(
    ("reply", "complete"),
    [
        ("Summary: A.\nEvaluation: [COMPLETE] B.", True),
        ("summary: A.\nevaluation: [complete]", True),
        ("Summary: A.\nEvaluation: The town is asked for, and told; nothing is lacking. [COMPLETE]", True),
        ("Summary: A.\nEvaluation: A complete list is asked for; some are lacking. [INCOMPLETE]", False),
        ("**Summary:** A.\n\n**Evaluation:** [COMPLETE]", True),
        ("1. Summary: A.\n2. Evaluation: [COMPLETE]", True),
        ("A. Evaluation: COMPLETE. All is there.", True),
        ("A.\n[COMPLETE] All is there.", True),
        ("### Summary\nA.\n\n### Evaluation\nCOMPLETE", True),
        ('{"Summary": "A.", "Evaluation": "[COMPLETE] All is there."}', True),
        ("A.\nEvaluation: (COMPLETE) All is there.", True),
        ("A.\nEvaluation: The summary is COMPLETE.", True),
        ("A.\nEvaluation: The summary is complete, it names the town.", True),
        ("A.\nEvaluation: The summary is INCOMPLETE; to be COMPLETE it lacks a date.", False),
        ("A.\nEvaluation: The summary is not complete.", False),
        ("A.\nEvaluation: The summary is not COMPLETE.", False),
        ("A.\nEvaluation: The summary is incomplete.", False),
        ("A.\nEvaluation: [COMPLETE] or [INCOMPLETE]", False),
        ("A.\nEvaluation: [COMPLETE]/[INCOMPLETE]", False),
        ("A.\nEvaluation: [INCOMPLETE] To be [COMPLETE], a date is lacking.", False),
        ("A.\nEvaluation: INCOMPLETE", False),
        ("A.\nEvaluation: [NOT COMPLETE]", False),
        ("A.\nEvaluation: It does not give complete details.", False),
        ("A.\nEvaluation: complete details are lacking.", False),
        ("A.\nEvaluation: [INCOMPLETE]\nSummary: B.\nEvaluation: [COMPLETE]", False),
        ("A complete list of works.", False),
        ("Evaluation: [COMPLETE]", False),
        ("", False),
    ],
)
def test_verdicts(reply: str, complete: bool) -> None:
    assert read_compression(reply)[0].complete is complete


@pytest.mark.parametrize(
    "reply",
    [
        "Sure! Here is what you asked for.\n\nSummary: A b.\nEvaluation: [COMPLETE] C.",
        "## Summary\n\nA b.\n\n## Evaluation\n\n[COMPLETE] C.",
        "**Summary**: A b.\n\n**Evaluation** [COMPLETE]: C.",
        "Part 1 - Summary:\nA b.\n\nPart 2 - Evaluation:\n[COMPLETE] C.",
        '{"Summary": "A b.", "Evaluation": "[COMPLETE] C."}',
        '```json\n{\n  "summary": "A b.",\n  "evaluation": "[COMPLETE] C."\n}\n```',
    ],
)
def test_the_two_parts_however_they_are_headed(reply: str) -> None:
    assert read_compression(reply) == (Compression("A b.", "C.", True), ())


def test_what_is_read_of_a_whole_dialogue() -> None:
    dialogue = f"{MISSING}\n\nQuestion: {ASKED}\nDocuments: more\n{ENOUGH}"
    assert read_compression(dialogue)[0] == Compression(
        "Ada Moor painted the Red Barn.", "Where Ada Moor was born is lacking.", False
    )
    assert read_compression("A.\n[INCOMPLETE] B is lacking.")[0] == Compression("A.", "B is lacking.", False)


def test_long_runs_are_read_in_no_time() -> None:
    for run_of in ("\n", "#", "\n#", "1. ", "Summary", "Evaluation: ", "[ "):
        with cpu_limit():
            read_compression("A." + run_of * 50_000)


@settings(deadline=None)
@given(
    st.text() | st.lists(st.sampled_from(["Summary:", "Evaluation:", "[COMPLETE]", "[IN", "\n", "A b."])).map("".join)
)
def test_any_text_can_be_read(text: str) -> None:
    compacted, lacking = read_compression(text)
    assert not (compacted.complete and ("summary" in lacking or "tag" in lacking))
    assert "[COMPLETE]" not in compacted.evaluation
