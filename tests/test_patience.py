"""Patience has an end, and is over where its work is."""

from __future__ import annotations

import re
import time

import pytest
from tests.patience import patience


def test_a_pattern_that_tries_everything_is_given_up() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"after 0\.05 seconds"), patience(0.05):
        re.match(r"(a+)+$", "a" * 60 + "b")


def test_what_comes_to_its_end_is_left_alone_from_then_on() -> None:
    with patience(0.05):
        pass
    ends = time.process_time() + 0.1
    while time.process_time() < ends:
        pass
