"""What is loaded or compiled when it is first used: optional libraries, regular expressions, dataclass methods.

`dataclasses.dataclass` compiles six methods for each class, which takes 0.7 ms; a question loads 140 classes and
makes objects of half of them. The decorator of the same name here shares methods between classes and compiles
`__init__` at its first call. It knows fewer options and otherwise means the same: fields are those of the standard
library, so that `fields`, `replace`, `asdict`, patterns, pickle and subclasses of either kind work as usual.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, astuple, field, fields, replace
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, cast

__all__ = ["KW_ONLY", "asdict", "astuple", "dataclass", "field", "fields", "import_optional", "lazy_re", "replace"]


def import_optional(name: str, feature: str, extra: str) -> Any:
    """Import a library when it is first used, or say how to install it; untyped, as some of them are."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        from hoptree.core.errors import MissingExtra  # which itself has lazy patterns

        raise MissingExtra(feature, extra) from error


_USED = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")


def lazy_re(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used.

    Compiling one takes up to some milliseconds, and a command loads hundreds of which a question needs a few.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


class _LazyPattern:
    """Stands for a compiled pattern, whose methods it takes over at the first use."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for method in _USED:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen=False, slots=False, kw_only=False, eq=True):
        """Return a decorator that makes a class a dataclass."""

        def decorate(cls):
            own = {"__init__", "__repr__", "__eq__", "__hash__"} & cls.__dict__.keys()
            cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard library works out a signature
            with _bases_not_frozen(cls):
                cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            cls.__dataclass_params__.frozen = frozen
            for name, method in _methods(cls, frozen, eq).items():
                if name not in own:
                    setattr(cls, name, method)
            return cls

        return decorate


@contextmanager
def _bases_not_frozen(cls: type) -> Iterator[None]:
    """Hide that bases are frozen: the standard library would compile for `cls` what `_methods` shares."""
    parameters = [base.__dict__.get("__dataclass_params__") for base in cls.__mro__[1:]]
    frozen = [shown for shown in parameters if shown is not None and shown.frozen]
    for shown in frozen:
        shown.frozen = False
    try:
        yield
    finally:
        for shown in frozen:
            shown.frozen = True


def _methods(cls: type, frozen: bool, eq: bool) -> dict[str, Any]:
    """Return the methods of a dataclass by their names."""

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        init = _compile_init(cls, frozen)
        type.__setattr__(cls, "__init__", init)
        init(self, *args, **kwargs)

    shown = [part.name for part in fields(cls) if part.repr]

    @recursive_repr("...")
    def represent(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in shown])})"

    methods: dict[str, Any] = {"__init__": initialise, "__repr__": represent}
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    if eq:
        values = _getter([part.name for part in fields(cls) if part.compare])

        def equals(self: Any, other: Any) -> bool:
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        methods |= {"__eq__": equals, "__hash__": (lambda self: hash(values(self))) if frozen else None}
    return methods


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that takes the values of some attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _compile_init(cls: type, frozen: bool) -> Callable[..., None]:
    """Compile the initialiser of a dataclass."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_unset": object()}
    positional, by_name, body = ["self"], ["*"], []
    for part in fields(cls):
        name = value = part.name
        parameter = name
        if part.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = part.default
            parameter = f"{name}=_default_{name}"
            value = name if part.init else f"_default_{name}"
        elif part.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = part.default_factory
            parameter = f"{name}=_unset"
            value = f"_make_{name}() if {name} is _unset else {name}" if part.init else f"_make_{name}()"
        elif not part.init:
            continue
        if part.init:
            (by_name if part.kw_only else positional).append(parameter)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(positional + (by_name if len(by_name) > 1 else []))
    exec("\n ".join((f"def __init__({parameters}):", *(body or ["pass"]))), names)  # noqa: S102 - our own names
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _refuse(self: Any, name: str, value: Any = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, part.name) for part in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for part, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, part.name, value)
