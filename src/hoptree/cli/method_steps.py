"""What a method is made of, read off its code: the steps it calls, in the order in which it names them.

Nothing here is written down by hand, so nothing can differ from what a method does: names are looked up where the
method looks them up, and a step is told in the words of its own docstring.
"""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from hoptree.engine.context import Context
from hoptree.engine.registry import Method, list_methods

_METHODS = "hoptree.methods"
_STEPS = "hoptree.methods.steps"
_ASKED = {"generate": "model", "facts": "graph", "entities": "graph", "candidates": "graph"}
"""What is asked by which call of a context; by all others that have to be waited for it is the corpus."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Step:
    """Something a method calls: a step (`answer.answer_from`), the world (`ctx.search`), or another method.

    `asks` is what it may put questions to: model, corpus, graph; a step in code alone asks nothing. `only` names the
    switch, off by default, without which the method does not come there.
    """

    name: str
    about: str
    asks: tuple[str, ...] = ()
    only: str = ""


def steps_of(method: Method) -> tuple[Step, ...]:
    """The steps of a method, in the order its code names them; none where its source is not at hand."""
    others = {inspect.unwrap(one.run): one for one in list_methods() if one.name != method.name}
    switches = {option.name for option in method.options if option.default is False}
    walk = _Walk(_home(method.run), others, switches)
    walk.enter(method.run)
    walk.finish()
    return tuple(walk.found.values())


def _home(run: Any) -> str:
    """The package whose functions belong to the method, rather than being called by it."""
    module = str(run.__module__)
    return _METHODS if module.startswith(f"{_METHODS}.") else module.partition(".")[0]


@dataclass(slots=True)
class _Walk:
    """Through the functions and classes of a package as they are carried out, each when it is first named.

    What goes into a call comes before the call itself. What stands behind one of the `switches` of the method comes
    last. With `annotated`, what a parameter is said to be counts as named: what it does is done there too.
    """

    home: str
    others: Mapping[Any, Method] = field(default_factory=dict)
    switches: Collection[str] = ()
    annotated: bool = False
    found: dict[str, Step] = field(default_factory=dict)
    _only: str = ""
    _seen: set[int] = field(default_factory=set)
    _methods: dict[str, list[tuple[ast.AST, dict[str, Any]]]] = field(default_factory=dict)
    _switched: list[tuple[str, list[ast.AST], dict[str, Any]]] = field(default_factory=list)

    def enter(self, thing: Any) -> None:
        """Go through a function; of a class, through the methods that its module does not name itself."""
        definition = _definition(thing)
        if definition is not None and id(definition) not in self._seen:
            names = dict(vars(sys.modules[thing.__module__]))
            if isinstance(definition, ast.ClassDef):
                self._seen.add(id(definition))
                self._meet_class(definition, names, _attributes(thing.__module__))
            else:
                self._go_through(definition, names)

    def finish(self) -> None:
        """Methods that nothing here names, since others call them, and what only a switch leads to."""
        self._go_through_unnamed()
        for switch, body, names in self._switched:
            self._only = switch
            self._all(body, names)
            self._go_through_unnamed()

    def _go_through_unnamed(self) -> None:
        known = (pair for pairs in self._methods.values() for pair in pairs)
        while left := [pair for pair in known if id(pair[0]) not in self._seen]:
            for definition, names in left:
                self._go_through(definition, names)
            known = (pair for pairs in self._methods.values() for pair in pairs)

    def _meet_class(self, definition: ast.ClassDef, names: dict[str, Any], named: frozenset[str]) -> None:
        methods = [part for part in definition.body if isinstance(part, _DEFINITIONS)]
        for part in methods:
            self._methods.setdefault(part.name, []).append((part, names))
        for part in methods:
            if part.name.startswith("__") or part.name not in named:
                self._go_through(part, names)

    def _go_through(self, definition: ast.AST, names: dict[str, Any]) -> None:
        if id(definition) not in self._seen:
            self._seen.add(id(definition))
            hidden = {part.arg for part in ast.walk(definition) if isinstance(part, ast.arg)}
            names = {name: value for name, value in names.items() if name not in hidden}
            self._all(self._code(definition), names)

    def _all(self, nodes: Iterable[ast.AST], names: dict[str, Any]) -> None:
        left = iter(nodes)
        for node in left:
            self._read(node, names)
            if isinstance(node, ast.If) and _negated(node.test) in self.switches and _ends(node.body):
                self._switched.append((_negated(node.test), list(left), names))

    def _read(self, node: ast.AST, names: dict[str, Any]) -> None:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith((f"{self.home}.", f"{_STEPS}.")):
            module = import_module(node.module or "")
            names.update({alias.asname or alias.name: getattr(module, alias.name, None) for alias in node.names})
        elif isinstance(node, _DEFINITIONS):
            names[node.name] = node  # what is defined inside a function counts where it is named
        elif isinstance(node, ast.Name):
            self._meet(names.get(node.id), names)
        elif isinstance(node, ast.Call):
            self._all((*node.args, *node.keywords), names)
            self._call(node, names)
        elif (
            isinstance(node, ast.If | ast.IfExp)
            and (switch := _named(node.test) or _negated(node.test)) in self.switches
        ):
            on, off = _parts(node.body), _parts(node.orelse)
            if _negated(node.test):
                on, off = off, on
            self._switched.append((switch, on, names))
            self._all(off, names)
        elif asked := _asked(node):
            self._ask(asked)
        else:
            self._all(self._code(node), names)
            for definition, scope in self._methods.get(node.attr, ()) if isinstance(node, ast.Attribute) else ():
                self._go_through(definition, scope)

    def _call(self, call: ast.Call, names: dict[str, Any]) -> None:
        said = call.args[0] if call.args else None
        if _asked(call.func) == "generate" and isinstance(said, ast.Constant):
            self._ask("generate", str(said.value))
        else:
            self._read(call.func, names)

    def _ask(self, name: str, step: str = "") -> None:
        asks = (_ASKED.get(name, "corpus"),)
        self._add(Step(f"ctx.{name} {step}".rstrip(), _sentence(getattr(Context, name)), asks))

    def _meet(self, thing: Any, names: dict[str, Any]) -> None:
        if isinstance(thing, ast.ClassDef):
            self._meet_class(thing, names, frozenset())
        elif isinstance(thing, ast.AST):
            self._go_through(thing, names)
        elif inspect.isfunction(thing) and thing in self.others:
            other = self.others[thing]
            self._add(Step(other.name, other.summary, _asked_by(thing, _home(thing))))
        elif (module := _module_of(thing)) != _STEPS and self._is_home(module):
            self.enter(thing)
        elif module.startswith(f"{_STEPS}.") and _acts(thing) and (about := _sentence(thing)):
            name = f"{module.removeprefix(f'{_STEPS}.')}.{thing.__qualname__}"
            self._add(Step(name, about, _asked_by(thing, _STEPS)))

    def _is_home(self, module: str) -> bool:
        inside = module == self.home or module.startswith(f"{self.home}.")
        return inside and (self.home == _STEPS or not module.startswith(f"{_STEPS}."))

    def _add(self, step: Step) -> None:
        self.found.setdefault(step.name, replace(step, only=self._only))

    def _code(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parts of a node that are code: no decorators, and annotations only where they are wanted."""
        left_out = ("decorator_list", "type_params", *(() if self.annotated else ("annotation", "returns")))
        for name, value in ast.iter_fields(node):
            if name not in left_out:
                parts = value if isinstance(value, list) else [value]
                yield from (part for part in parts if isinstance(part, ast.AST))


@cache
def _asked_by(thing: Any, home: str) -> tuple[str, ...]:
    """What a step or another method may put questions to, itself or by those it calls."""
    walk = _Walk(home, annotated=True)
    walk.enter(thing)
    walk.finish()
    asked = {one for step in walk.found.values() for one in step.asks}
    return tuple(one for one in ("model", "corpus", "graph") if one in asked)


def _module_of(thing: Any) -> str:
    return str(thing.__module__) if inspect.isfunction(thing) or inspect.isclass(thing) else ""


def _named(test: ast.AST) -> str:
    return test.id if isinstance(test, ast.Name) else ""


def _negated(test: ast.AST) -> str:
    return _named(test.operand) if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else ""


def _ends(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise)


def _parts(branch: ast.expr | list[ast.stmt]) -> list[ast.AST]:
    return [*branch] if isinstance(branch, list) else [branch]


def _acts(thing: Any) -> bool:
    """Whether something is a step: it asks, or comes to something.

    Neither a class that only holds values is one, nor a function that only turns texts into others, tells yes from no,
    or takes notes.
    """
    if inspect.isfunction(thing):
        gives = typing.get_type_hints(thing).get("return")
        return inspect.iscoroutinefunction(thing) or gives not in (str, bool, type(None))
    return any(inspect.iscoroutinefunction(part) for part in vars(thing).values())


def _sentence(thing: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n", 1)[0].split())


def _asked(node: ast.AST) -> str:
    """What `ctx.search` or `self._ctx.search` asks of a context: "search"; "" of all that asks nothing."""
    if not isinstance(node, ast.Attribute) or not inspect.iscoroutinefunction(getattr(Context, node.attr, None)):
        return ""
    of = node.value
    name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
    return node.attr if name.lstrip("_") == "ctx" else ""


def _definition(thing: Any) -> ast.AST | None:
    """The part of its module's source that defines a function or class."""
    tree = _source(thing.__module__)
    if tree is None:
        return None
    wanted = thing.__qualname__.split(".")[0]
    return next((node for node in tree.body if isinstance(node, _DEFINITIONS) and node.name == wanted), None)


@cache
def _source(module: str) -> ast.Module | None:
    try:
        return ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError, SyntaxError):
        return None


@cache
def _attributes(module: str) -> frozenset[str]:
    """All names behind a dot in a module."""
    tree = _source(module)
    return frozenset(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)) if tree else frozenset()
