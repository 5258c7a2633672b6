"""Values are named by what they are: a passage, a reply, a candidate; not `one`, `found` or `said`."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "hoptree"
VAGUE = {"one", "some", "said", "told", "found", "whole", "made"}

# Fields of stored events and results, and an option of a method: renaming them would change a format.
STORED = {
    ("engine/generation_view.py", "said"),
    ("engine/trace.py", "found"),
    ("engine/trace.py", "whole"),
    ("methods/baselines/hipporag_ircot.py", "found"),
}


NAMED_BY = {ast.Name: "id", ast.arg: "arg", ast.ExceptHandler: "name", ast.MatchAs: "name", ast.MatchStar: "name"}
"""The attribute with the name, of each kind of node that gives a value a name."""


@cache
def look_at(path: Path) -> tuple[list[tuple[int, str]], list[str]]:
    """Return the vague names of a file with their lines, and the first lines of its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented)]
    return list(vague_names(nodes)), [docstring.partition("\n")[0] for docstring in docstrings]


def vague_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each variable, argument and field with a vague name."""
    for node in nodes:
        attribute = NAMED_BY.get(type(node))
        if (
            attribute
            and getattr(node, attribute) in VAGUE
            and not isinstance(getattr(node, "ctx", None), ast.Load | ast.Del)
        ):
            yield node.lineno, getattr(node, attribute)  # type: ignore[attr-defined]


# What follows a name that is given to a value. Few tests have such a place, and parsing takes longer than this search.
_MAYBE_VAGUE = re.compile(rf"(?<![.\w\"'])({'|'.join(sorted(VAGUE))})\s*([,:=)\]}}+\-*/|&^%<>@#\\\n]|in\b|if\b)")

# Folders of tests whose values are all named by what they are; the others follow.
NAMED_TESTS = (
    *("choosing", "cli", "corpus", "e2e", "engine", "extraction", "fuzz", "graph", "indexing", "integrations"),
    *("mcp", "methods", "server", "steps", "telemetry", "uncertainty"),
)


def test_no_value_has_a_vague_name() -> None:
    places = []
    tests = [*TESTS.glob("*.py"), *(path for folder in NAMED_TESTS for path in (TESTS / folder).rglob("*.py"))]
    maybe_vague = (path for path in tests if _MAYBE_VAGUE.search(path.read_text(encoding="utf-8")))
    for path in sorted((*SOURCE.rglob("*.py"), *maybe_vague)):
        file = path.relative_to(SOURCE if path.is_relative_to(SOURCE) else TESTS.parent).as_posix()
        names, _ = look_at(path)
        places += [f"{file}:{line} {name}" for line, name in names if (file, name) not in STORED]
    assert not places, f"Say what each value is: {', '.join(places)}"


def test_variables_arguments_and_fields_are_checked() -> None:
    source = "class A:\n    made: int\ndef f(told):\n    [one for one in told]\n    return found(said=1).whole\n"
    assert sorted(vague_names(ast.walk(ast.parse(source)))) == [(2, "made"), (3, "told"), (4, "one")]
    for binding in ("one = 1", "one, two = 1, 2", "one += 1", "for one in x:", "with x as one:", "def f(*one): ..."):
        assert _MAYBE_VAGUE.search(binding), binding


# Packages whose docstrings all begin with a short line; the others follow.
SHORT_DOCSTRINGS = (
    *("cli/", "core/", "corpus/", "engine/", "evaluation/", "extraction/", "graph/", "integrations/", "mcp/responses"),
    *("mcp/transport", "methods/steps/", "models/", "retrieval/", "server/", "text/", "training/"),
)
MAX_SUMMARY_CHARS = 80


def test_docstrings_begin_with_a_short_line() -> None:
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if not file.startswith(SHORT_DOCSTRINGS):
            continue
        _, summaries = look_at(path)
        places += [f"{file}: {summary}" for summary in summaries if len(summary) > MAX_SUMMARY_CHARS]
    assert not places, f"Say less in the first line: {places}"
