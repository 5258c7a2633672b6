"""What a run spends: limits that hold whatever was cut off, and prices that do not depend on what is remembered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.report_runs import cells, right, script

from hoptree.core.files import without_sum
from hoptree.engine.context import Budget, Prices
from hoptree.engine.engine import Engine
from hoptree.engine.result import Result
from hoptree.evaluation.experiment import Experiment, at_once
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.run_folder import RESULTS, RUN, money_spent, read_rows, summarise
from hoptree.evaluation.running import RunOptions, run_experiment


def questions(folder: Path, count: int = 20) -> Path:
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}"]} for n in range(count)]
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def priced(folder: Path, replies: list[dict[str, Any]] | None = None, **more: Any) -> Experiment:
    """An experiment at a price of 1 a token."""
    model = script(folder / "m.json", replies or [{"reply": "x y"}])
    return Experiment(questions(folder), **{"method": "direct", "model": model, "prices": Prices(1e6, 1e6), **more})


def run(wanted: Experiment, out: Path, **ways: Any) -> dict[str, Any]:
    return asyncio.run(run_experiment(wanted, out, RunOptions(**{"cache": None, **ways})))


def test_what_a_kill_cut_off_counts_against_the_limit(tmp_path: Path) -> None:
    """The money is gone, though the replies come back for nothing: a limit that forgot it would not be one."""
    wanted = priced(tmp_path)
    one = run(wanted, tmp_path / "one", only=1)["usage"]["cost"]["total"]
    limit = 6.5 * one
    first = run(wanted, tmp_path / "run", cache="default", max_cost=limit)
    assert first["finished"] == 6
    results = tmp_path / "run" / RESULTS
    results.write_text("".join(results.read_text().splitlines(keepends=True)[:2]))
    again = run(wanted, tmp_path / "run", cache="default", max_cost=limit)
    assert money_spent(tmp_path / "run") == pytest.approx(first["usage"]["cost"]["total"])
    assert again["usage"]["cost"]["total"] + again["unfinished_usage"]["cost"] <= limit


def test_failed_questions_that_are_asked_again_were_paid_for(tmp_path: Path) -> None:
    tree = {"query1": {"question": "Who wrote number?"}}
    replies: list[dict[str, Any]] = [
        {"step": "decompose", "reply": json.dumps(tree)},
        {"fault": "401"},
    ]
    wanted = priced(tmp_path, replies, method="taikc", options={"source": "internal"}, limit=4)
    first = run(wanted, tmp_path / "run")
    spent = first["usage"]["cost"]["total"]
    assert first["failed"] == 4 and spent > 0
    again = run(wanted, tmp_path / "run", retry_failed=True, max_cost=spent)
    assert again["finished"] == 4 and money_spent(tmp_path / "run") == pytest.approx(spent)
    more = run(wanted, tmp_path / "run", retry_failed=True, max_cost=2.1 * spent)
    assert more["finished"] == 4 and money_spent(tmp_path / "run") == pytest.approx(2 * spent)


def test_replies_from_the_cache_do_not_make_a_question_look_cheap(tmp_path: Path) -> None:
    """Ten questions come from the cache: what the eleventh will cost is told by their price, not by their cost."""
    wanted = priced(tmp_path)
    known = run(wanted, tmp_path / "known", cache="default", only=10)
    each = known["usage"]["cost"]["mean"]
    summary = run(wanted, tmp_path / "run", cache="default", max_cost=2.5 * each)
    assert summary["finished"] == 12 and summary["usage"]["cost"]["total"] <= 2.5 * each


def test_questions_that_failed_at_once_do_not_make_the_others_look_cheap(tmp_path: Path) -> None:
    broken = {"regex": "number [0-9]\\?", "fault": "401"}
    wanted = priced(tmp_path, [broken, {"reply": "x y"}])
    run(wanted, tmp_path / "run", only=11)
    each = money_spent(tmp_path / "run")
    summary = run(wanted, tmp_path / "run", max_cost=2.9 * each)
    assert summary["finished"] == 12 and money_spent(tmp_path / "run") == pytest.approx(2 * each)


def test_other_runs_under_the_same_limit_count(tmp_path: Path) -> None:
    wanted = priced(tmp_path)
    one = run(wanted, tmp_path / "one", only=1)["usage"]["cost"]["total"]
    assert run(wanted, tmp_path / "run", max_cost=6.5 * one, spent=4 * one)["finished"] == 2
    assert money_spent(tmp_path / "nothing") == 0.0


def test_the_price_of_a_question_does_not_depend_on_the_cache(tmp_path: Path) -> None:
    wanted = priced(tmp_path, right(range(20)))
    paid = run(wanted, tmp_path / "runs" / "paid", cache="default")["usage"]
    free = run(wanted, tmp_path / "runs" / "free", cache="default")["usage"]
    assert (free["cost"]["total"], free["cached_calls"]["total"]) == (0, 20) and paid["cost"]["total"] > 0
    assert free["price"] == paid["price"] == paid["cost"]
    table = tables_of(read_groups([tmp_path / "runs"]))[0]
    columns = [cells(table, row.name)["Cost of 1,000"].value for row in table.rows]
    assert columns[0] == columns[1] == pytest.approx(1000 * paid["price"]["mean"])


def test_rows_of_an_older_version_are_priced_by_their_tokens(tmp_path: Path) -> None:
    summary = run(priced(tmp_path), tmp_path / "run")
    results = tmp_path / "run" / RESULTS
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    for line in lines:
        del line["usage"]["price"], line["sum"]
        line["usage"]["cost"] = 0.0  # all came from the cache
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert summarise(tmp_path / "run")["usage"]["price"] == summary["usage"]["price"]
    about = json.loads((tmp_path / "run" / RUN).read_text())
    (tmp_path / "run" / RUN).write_text(
        json.dumps(without_sum(about) | {"experiment": about["experiment"] | {"prices": None}})
    )
    assert all(row.usage["price"] == 0 for row in read_rows(tmp_path / "run"))


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (None, 20)])
def test_a_limit_of_seconds_does_not_run_while_a_question_waits_for_others(
    tmp_path: Path, concurrency: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many are asked at once as the model takes calls."""
    asked = Engine.ask
    under_way: list[int] = [0]

    async def counted(self: Engine, *question: Any, **how: Any) -> Result:
        under_way.append(under_way[-1] + 1)
        try:
            return await asked(self, *question, **how)
        finally:
            under_way.append(under_way[-1] - 1)

    monkeypatch.setattr(Engine, "ask", counted)
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps({"latency": 0.01, "replies": [{"reply": "x"}]}))
    wanted = priced(tmp_path, model=f"scripted/{slow}", budget=Budget(seconds=80))
    assert run(wanted, tmp_path / "run", concurrency=concurrency)["stopped"] == 0
    assert max(under_way) == most


def test_how_many_questions_are_under_way() -> None:
    assert [at_once(slots) for slots in (1, 8, 1024)] == [4, 32, 512]
    assert [at_once(slots, timed=True) for slots in (1, 8, 1024)] == [1, 8, 512]
