"""What a tuning tries: lists, ranges, all combinations, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import HoptreeError, InputError
from hoptree.engine.registry import find_method, read_options
from hoptree.evaluation.tuned import Trial, read_trials


def tried(*varied: str, method: str = "mind", fixed: dict[str, Any] | None = None, **more: Any) -> list[str]:
    return [trial.name for trial in read_trials(find_method(method), varied, fixed or {}, **more)]


def test_all_combinations_are_tried_and_the_defaults_first() -> None:
    assert tried("alpha=1,1.5", "k=2:3") == [
        "alpha=1.5, k=3",
        "alpha=1.0, k=2",
        "alpha=1.0, k=3",
        "alpha=1.5, k=2",
    ]


def test_a_range_has_its_end_and_no_rounding() -> None:
    assert tried("beta=0:0.4:0.1") == ["beta=0.2", "beta=0.0", "beta=0.1", "beta=0.3", "beta=0.4"]
    assert tried("k=1:6:2") == ["k=3", "k=1", "k=5"], "and what the steps pass over is not in it"
    assert tried("k=1,7:9,7") == ["k=3", "k=1", "k=7", "k=8", "k=9"], (
        "lists may hold ranges, and each value counts once"
    )


def test_switches_choices_and_nothing_can_be_varied() -> None:
    assert tried("titles=on,off", method="oner") == ["titles=off", "titles=on"]
    assert tried("filters=none,cot") == ["filters=cot+confidence", "filters=none", "filters=cot"]
    assert tried("cut=none,0.1:0.2:0.1") == ["cut=none", "cut=0.1", "cut=0.2"]
    assert tried("max-tokens=64") == ["max_tokens=256", "max_tokens=64"]


def test_what_a_trial_says_is_what_an_option_takes() -> None:
    chosen = find_method("mind")
    for trial in read_trials(chosen, ["cut=none,1e-7,0.25", "memory=on,off", "k=1:3"], {}):
        assert read_options(chosen, dict(one.split("=") for one in trial.settings)) == trial.values


def test_so_many_are_drawn_and_the_defaults_are_on_top() -> None:
    every = tried("k=1:50", "rendered=1:9")
    few = tried("k=1:50", "rendered=1:9", max_trials=7, seed=1)
    assert len(few) == 8 and few[0] == every[0] and set(few) < set(every)
    assert few == tried("k=1:50", "rendered=1:9", max_trials=7, seed=1)
    assert few != tried("k=1:50", "rendered=1:9", max_trials=7, seed=2)
    assert tried("k=1:5", max_trials=7) == tried("k=1:5")


@pytest.mark.parametrize(
    ("varied", "said"),
    [
        ((), "Nothing is varied"),
        (("alpha",), "is not possible. Write --vary"),
        (("=1",), "is not possible. Write --vary"),
        (("alpha=",), "lacks a value"),
        (("alpha=1,,2",), "lacks a value"),
        (("alfa=1",), "no option 'alfa': did you mean 'alpha'"),
        (("alpha=many",), "alpha takes float"),
        (("alpha=nan",), "alpha takes float"),
        (("k=1.5",), "k takes int"),
        (("k=1:2:0.5",), "k takes int"),
        (("filters=some",), "filters takes none|"),
        (("titles=0:1:1",), "titles takes on|off"),
        (("alpha=0:1",), "is not a range. Write START:END:STEP"),
        (("alpha=a:b:c",), "is not a range"),
        (("alpha=0:1:0",), "is not a range"),
        (("alpha=0:inf:1",), "is not a range"),
        (("alpha=1:2:3:4",), "is not a range"),
        (("k=5:1",), "is empty. Write the smallest value first"),
        (("alpha=2:1:-0.5",), "is empty"),
        (("alpha=0:1:1e-999999",), "more than 1,000 values"),
        (("k=1:900", "top_k=1:900"), "810,000 combinations"),
        (("alpha=1", "alpha=2"), "alpha is varied twice"),
        (("alpha=1.5",), "Nothing but the defaults"),
    ],
)
def test_what_cannot_be_tried_is_refused(varied: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError) as refused:
        tried(*varied)
    assert said in str(refused.value)


def test_an_option_is_varied_or_set() -> None:
    with pytest.raises(InputError, match="max_tokens is varied, and set to 9"):
        tried("max_tokens=1,2", fixed={"max-tokens": "9"})
    with pytest.raises(InputError, match="no option 'alfa'"):
        tried("k=1,2", fixed={"alfa": "9"})


@given(st.text(alphabet="0123456789.:,-+einfa% \u0663\u00b2", max_size=24))
def test_whatever_is_written_is_tried_or_refused(text: str) -> None:
    for option in ("alpha", "k", "cut", "titles", "filters"):
        try:
            trials = read_trials(find_method("mind"), [f"{option}={text}"], {})
        except HoptreeError:
            continue
        assert 2 <= len(trials) <= 10_001 and len({trial.name for trial in trials}) == len(trials)


@given(st.integers(0, 50), st.integers(0, 30), st.integers(1, 9), st.sampled_from([1, 10, 100]))
def test_a_range_is_what_counting_gives(start: int, steps: int, step: int, scale: int) -> None:
    values = [str(Decimal(start + number * step) / scale) for number in range(steps + 1)]
    end = Decimal(start + steps * step) / scale
    said = f"alpha={Decimal(start) / scale}:{end}:{Decimal(step) / scale}"
    if values == ["1.5"]:
        return  # nothing but the default
    trials = read_trials(find_method("mind"), [said], {})
    wanted = {float(value) for value in values} | {1.5}
    assert {trial.values["alpha"] for trial in trials} == wanted


def test_trials_are_equal_by_what_they_try() -> None:
    assert Trial({"k": 1}) == Trial({"k": 1}) != Trial({"k": 2})
