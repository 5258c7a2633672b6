"""Every option of every method is explained in a line."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from tests.server.running import Running

from hoptree.engine.registry import find_method, list_methods
from hoptree.server.about_routes import option_text


def test_every_option_has_a_line_of_its_own() -> None:
    lines = {
        f"{method.name}.{option.name}": option_text(method, option)
        for method in list_methods()
        for option in method.options
        if not method.run.__module__.startswith("tests.")
    }
    assert len(lines) > 100
    assert [name for name, words in lines.items() if "documentation tells" in words] == []
    assert [name for name, words in lines.items() if "`" in words or not 10 < len(words) <= 222] == []


def test_it_is_what_the_method_says_of_it(server: Running) -> None:
    taikc = find_method("taikc")
    options = {option.name: option for option in taikc.options}
    strict = 'With strict, only RAG_REQUIRED is a refusal, as in the paper; else "I don\'t know" is one too.'
    assert option_text(taikc, options["strict"]) == strict
    assert option_text(taikc, options["titles"]) == "Shows passages with their titles."
    assert option_text(taikc, options["k"]) == "How many passages a search gives."
    listed = {row["name"]: row for row in server.client.get("/v1/methods").json()["methods"]}
    assert listed["taikc"]["options"][5]["about"] == option_text(taikc, options["strict"])
