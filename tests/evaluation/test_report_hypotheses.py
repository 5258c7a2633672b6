"""Reports on methods that validate hypotheses: updates, costs by stage, gold found, and which runs take part."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evaluation.film_trees import CORRECTED, PAGE, WHERE, WHO, film, hand_made
from tests.evaluation.hypothesis_runs import checked, llm, looked_up, made_by_hand, planned
from tests.evaluation.report_runs import cells, right, run, table

from hoptree.core.errors import InputError
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.hypothesis_tables import errors_of
from hoptree.evaluation.report.hypothesis_trees import trees_of, validates
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.run_folder import TRACES


def test_updates_and_verdicts_are_of_the_questions_that_got_a_tree(tmp_path: Path) -> None:
    tables = tables_of(read_groups([made_by_hand(tmp_path, hand_made())]))
    told = cells(table(tables, "hand: verdicts and updates"), "tree")
    assert told["Trees"].value == 8, "one failed before"
    assert told["Updates a tree"].value == pytest.approx(2 / 8) and told["Most updates"].value == 1
    assert told["Trees updated, %"].value == pytest.approx(25)
    assert told["Nodes"].value == pytest.approx(10 / 8)
    assert told["Validations"].value == pytest.approx((5 + 3 + 1 + 4) / 8), "two where a clue was needed"
    assert told["Clues"].value == pytest.approx((1 + 2) / 8)
    shares = [told[f"{name}, %"].value for name in ("Supported", "Refuted", "Unknown")]
    assert shares == pytest.approx([60, 20, 20]), "the last verdict on each node"


def test_every_token_is_in_one_stage(tmp_path: Path) -> None:
    groups = read_groups([made_by_hand(tmp_path, hand_made())])
    stages = table(tables_of(groups), "hand: costs by stage")
    tokens = {row.name: cells(stages, row.name)["Tokens"].value for row in stages.rows}
    assert tokens == {
        "tree: build": pytest.approx(120 / 9),
        "tree: linking": pytest.approx(15 / 9),
        "tree: retrieval": 0,
        "tree: validation": pytest.approx(90 / 9),
        "tree: clue": pytest.approx(7 / 9),
        "tree: rebuild": pytest.approx(30 / 9),
        "tree: final": pytest.approx(8 / 9),
        "tree: other": pytest.approx(6 / 9),
        "tree: all": pytest.approx(276 / 9),
    }
    whole = cells(table(tables_of(groups), "hand: 9 questions"), "tree")
    assert tokens["tree: all"] == pytest.approx(whole["Tokens"].value), "what failed was paid for too"
    assert cells(stages, "tree: validation")["Share of tokens, %"].value == pytest.approx(100 * 90 / 276)
    assert cells(stages, "tree: linking")["Calls"].value == pytest.approx(2 / 9)
    assert cells(stages, "tree: all")["Calls"].value == pytest.approx(whole["Calls"].value)
    assert cells(stages, "tree: retrieval")["Look-ups"].value == pytest.approx(8 / 9)
    assert cells(stages, "tree: retrieval")["Seconds"].value == pytest.approx(8 * 0.5 / 9)
    assert cells(stages, "tree: all")["Seconds"].value == pytest.approx((8 * 0.5 + 10) / 9)


def test_gold_counts_in_text_and_in_facts(tmp_path: Path) -> None:
    gold = cells(
        table(tables_of(read_groups([made_by_hand(tmp_path, hand_made())])), "hand: gold found and answers"), "tree"
    )
    # two pages each; of "lost" and "unasked" one is missing, of "failed" the only one
    assert gold["Gold recall"].value == pytest.approx(100 * (6 + 0.5 + 0.5 + 0) / 9)
    assert gold["in text"].value == pytest.approx(100 * (6 * 0.5) / 9), "Ann Dee's page"
    assert gold["in facts"].value == pytest.approx(100 * (6 * 1.0 + 2 * 0.5) / 9), "both are named by the fact"
    assert gold["EM"].value == pytest.approx(100 / 9) and gold["Hits@1"].value == pytest.approx(200 / 9)
    assert gold["Hits@1, all gold found"].value == pytest.approx(200 / 6) and gold["Hits@1, not all"].value == 0


# Which runs take part


def test_a_method_without_hypotheses_and_a_run_without_traces_have_no_such_tables(tmp_path: Path) -> None:
    plain = run(tmp_path, "direct", right(range(8)))
    words = ("updates", "stage", "gold found", "went wrong", "covers", "Hits@1 by")
    assert not any(word in one.title for one in tables_of(read_groups([plain])) for word in words)
    out = made_by_hand(tmp_path / "hand", hand_made())
    (out / TRACES).unlink()
    (group,) = read_groups([out])
    assert trees_of(group.runs[0]) == {} and not any(word in one.title for one in tables_of([group]) for word in words)


def test_without_self_correction_only_the_costs_are_told(tmp_path: Path) -> None:
    root = {"event": "node", "id": 0, "state": "answered", "hypothesis": "Rome", "answer": "Rome", "question": WHERE}
    out = made_by_hand(tmp_path, [film("a", "Rome", llm("build", 50), root), film("b", "Oslo", llm("build", 70), root)])
    (group,) = read_groups([out])
    assert not validates(trees_of(group.runs[0])) and errors_of(group.runs[0]) == {}
    titles = [one.title for one in tables_of([group])]
    assert "hand: costs by stage" in titles and "hand: verdicts and updates" not in titles


def test_updates_count_for_a_question_that_its_budget_ended(tmp_path: Path) -> None:
    """The question's own record, which tells the number of updates, is missing then."""
    whole = {"event": "node", "id": 0, "state": "answered", "question": WHERE, "answer": "Rome", "fixes": 3}
    out = made_by_hand(tmp_path, [film("ended", "Rome", CORRECTED), film("whole", "Rome", CORRECTED, whole)])
    trees = trees_of(read_groups([out])[0].runs[0])
    assert (trees["ended"].updates, trees["whole"].updates) == (1, 3)


def test_what_was_planned_anew_or_rebuilt_leaves_no_verdicts_behind(tmp_path: Path) -> None:
    """A list that nothing fulfilled, then a tree, a sub-tree of which is rebuilt after its child had its verdict."""
    listed = planned((0, WHERE, ""), (1, "Which film was directed?", ""), (101, "Is it true of N?", "Yes"))
    given_up = checked(101, "Is it true of N?", "Yes", "refuted")
    plan = planned((0, WHERE, "Rome"), (1, WHO, "Bob Gee"), (2, "Where was Bob Gee born?", "Oslo"))
    plan["nodes"][2]["parent"] = 1
    child = checked(2, "Where was Bob Gee born?", "Oslo", "supported", path=[0, 1, 2], shown=["a1"])
    again = planned((102, "Where was Ann Dee born?", "Rome"), under=1)
    again["nodes"][0]["parent"] = 1
    told = [listed, given_up, plan, child, again, CORRECTED, looked_up(PAGE)]
    (tree,) = trees_of(read_groups([made_by_hand(tmp_path, [film("q", "Rome", events=told)])])[0].runs[0]).values()
    assert [node.id for node in tree.nodes] == [1]
    assert tree.updates == 1 and set(tree.passages) == {"a1"}, "what the child was shown was shown"
    assert "Is it true of N?" in tree.planned and "Where was Ann Dee born?" in tree.planned


def test_what_was_found_for_the_question_itself_or_for_a_node_without_attempts_was_shown(tmp_path: Path) -> None:
    plain = {"event": "node", "id": 2, "state": "answered", "question": "Which film?", "answer": "N"}
    other = ("b1", "Film N", "A film.")
    looked = [looked_up(PAGE, node=None), looked_up(other, node=2), looked_up(("c1", "Zed", "A band."))]
    facts = {"event": "facts", "entity": "e", "facts": ["A | b | C"], "node": 2, "seconds": 0.1}
    node = checked(1, WHO, "Ann Dee", "supported")
    plan = planned((0, WHERE, ""), (1, WHO, "Ann Dee"), (2, "Which film?", ""))
    told = [plan, *looked, facts, plain, node]
    (tree,) = trees_of(read_groups([made_by_hand(tmp_path, [film("q", "Rome", events=told)])])[0].runs[0]).values()
    assert set(tree.passages) == {"a1", "b1"} and tree.facts == ("A | b | C",)


def test_broken_records_are_passed_over_and_an_unreadable_trace_is_said(tmp_path: Path) -> None:
    out = made_by_hand(tmp_path, hand_made())
    before = trees_of(read_groups([out])[0].runs[0])
    strange = [
        b'{"plan" ',
        b'["plan"]',
        b'{"event": "node", "run": [], "id": 0}',
        b'"llm"',
        b'{"event": 3, "run": "final"}',
    ]
    strange += [b'{"event": "plan", "run": "x", "nodes": 3}', b'{"event": "llm", "run": "y", "step": "build"}']
    (out / TRACES).write_bytes((out / TRACES).read_bytes() + b"\n".join(strange))
    assert trees_of(read_groups([out])[0].runs[0]) == before
    (out / TRACES).unlink()
    (out / TRACES).mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        trees_of(read_groups([out])[0].runs[0])


def test_updates_and_hits_by_data_set_for_what_was_run_on_all(tmp_path: Path) -> None:
    made_by_hand(tmp_path / "one", hand_made(), questions="one")
    made_by_hand(tmp_path / "two", [film("a", "Rome", CORRECTED)], questions="two")
    tables = tables_of(read_groups([tmp_path]))
    updates = table(tables, "Updates a tree by data set")
    assert [cell.value for cell in updates.rows[0].cells if cell and not isinstance(cell, str)] == [0.25, 1, 0.625]
    hits = table(tables, "Hits@1 by data set")
    assert [round(cell.value, 1) for cell in hits.rows[0].cells if cell and not isinstance(cell, str)] == [22.2, 100.0]
