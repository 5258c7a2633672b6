"""A chooser: probabilities, reasons, and files that are none."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import ConfigError
from hoptree.methods.hop.chooser import FEATURES, Chooser, Outlook, frozen_chooser, in_words, read_chooser

SMALL = Chooser(
    {"held": 2.0, "against": -1.0}, -1.0, {"split": Outlook(0.5, 2000), "split/compare": Outlook(0.8, 1000)}
)


def test_probability_by_hand() -> None:
    assert SMALL.probability({}) == pytest.approx(1 / (1 + math.e))
    assert SMALL.probability({"held": 1.0, "against": 1.0}) == pytest.approx(0.5)


@given(st.dictionaries(st.sampled_from(sorted(FEATURES)), st.floats(-1e6, 1e6)))
def test_a_probability_is_one_whatever_is_counted(features: dict[str, float]) -> None:
    assert 0 <= frozen_chooser().probability(features) <= 1


def test_reasons_are_what_weighs_most() -> None:
    reasons = SMALL.reasons({"held": 1.0, "against": 0.0}, {"held": 0.0, "against": 1.0})
    assert reasons == [("held", 2.0), ("against", 1.0)]
    assert SMALL.reasons({"held": 0.0}, {"held": 1.0}) == []
    assert in_words("own", False) == "something that was read says it"


def test_what_a_move_is_worth() -> None:
    plain, compared = SMALL.outlook("split", "lookup"), SMALL.outlook("split", "compare")
    assert plain and compared and SMALL.outlook("own", "lookup") is None
    assert plain.gain(0.5) == pytest.approx(1000 * 0.5 * 0.5 / 2000)
    assert compared.gain(0.5) > plain.gain(0.5) > plain.gain(0.9) > plain.gain(1.0) == 0


def test_the_digest_is_of_the_numbers() -> None:
    told = replace(SMALL, made_from={"by": "somebody"})
    assert told.digest == SMALL.digest != replace(SMALL, bias=-2.0).digest
    assert replace(SMALL, outlooks={}).digest != SMALL.digest


def test_a_file_comes_back_as_it_was() -> None:
    assert read_chooser(json.dumps(SMALL.as_dict()), "it") == SMALL
    assert set(frozen_chooser().weights) == set(FEATURES) and frozen_chooser().made_from


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 1}',
        '{"format": 1, "weights": []}',
        '{"format": 1, "weights": {"held": NaN}, "bias": 0}',
        '{"format": 1, "weights": {"held": true}, "bias": 0}',
        '{"format": 1, "weights": {"held": 1}, "bias": 0, "outlooks": {"split": [1]}}',
        '{"format": 1, "weights": {"held": 1}, "bias": 0, "outlooks": [1]}',
        '{"format": 1, "weights": {"held": 1}}',
        "[" * 5_000,
    ],
)
def test_what_is_no_chooser_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="it is no chooser"):
        read_chooser(text, "it")


def test_another_version_is_named() -> None:
    with pytest.raises(ConfigError, match="it weighs smell"):
        read_chooser('{"format": 1, "weights": {"smell": 1}, "bias": 0}', "it")
    with pytest.raises(ConfigError, match="format is another"):
        read_chooser('{"format": 9, "weights": {}, "bias": 0}', "it")
