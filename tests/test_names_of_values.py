"""Values are named by what they are: a passage, a reply, a candidate; not `one`, `found` or `said`."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "hoptree"
VAGUE = {"one", "some", "said", "told", "found", "whole", "made"}

# Fields of stored events and results, and an option of a method: renaming them would change a format.
STORED = {
    ("engine/generation_view.py", "said"),
    ("engine/trace.py", "found"),
    ("engine/trace.py", "whole"),
    ("methods/baselines/hipporag_ircot.py", "found"),
}


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Parse a file, once for all tests."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def vague_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each variable, argument and field with a vague name."""
    for node in nodes:
        match node:
            case ast.Name(id=str(name), ctx=ast.Store()) | ast.arg(arg=str(name)):
                pass
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                pass
            case _:
                continue
        if name in VAGUE:
            yield node.lineno, name


def test_values_are_named_by_what_they_are() -> None:
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        names = vague_names(nodes_of(path))
        places += [f"{file}:{line} {name}" for line, name in names if (file, name) not in STORED]
    assert not places, f"Say what each value is: {', '.join(places)}"


def test_variables_arguments_and_fields_are_looked_at() -> None:
    source = "class A:\n    made: int\ndef f(told):\n    [one for one in told]\n    return found(said=1).whole\n"
    assert sorted(vague_names(ast.walk(ast.parse(source)))) == [(2, "made"), (3, "told"), (4, "one")]


# Packages whose docstrings all begin with a short line; others are on their way.
SHORT_DOCSTRINGS = ("corpus/", "evaluation/", "extraction/", "graph/", "methods/steps/", "text/", "training/")
MAX_SUMMARY_CHARS = 80


def test_docstrings_begin_with_a_short_line() -> None:
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if not file.startswith(SHORT_DOCSTRINGS) or file.startswith("evaluation/report/"):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                summary = (ast.get_docstring(node) or "").partition("\n")[0]
                if len(summary) > MAX_SUMMARY_CHARS:
                    places.append(f"{file}: {summary}")
    assert not places, f"Say less in the first line: {places}"
