"""Dataclasses whose methods are compiled when they are first used behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest

from hoptree.core.lazy import dataclass, lazy_re


@dataclass(frozen=True, slots=True)
class Point:
    """A frozen one with a default, a factory, a field that nobody gives and one that is not compared."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    total: int = field(default=0, init=False)
    seen: list[int] = field(default_factory=list, init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@dataclass(frozen=True, slots=True)
class Labelled(Point):
    """A subclass with fields of its own."""

    label: str = "no"


@dataclass(slots=True)
class Mutable:
    """One that can be changed, with a field that is only given by name."""

    first: int
    _: KW_ONLY
    second: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ByName:
    """All fields by name, required ones after those with a default."""

    first: int = 1
    second: int


@dataclass(frozen=True)
class Key:
    """A single field, without slots."""

    value: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No fields."""


@dataclass(slots=True, eq=False)
class Identity:
    """Compared by identity."""

    value: int


@dataclass(frozen=True, slots=True)
class Own:
    """Methods of its own."""

    value: int

    def __repr__(self) -> str:
        return "mine"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7


@dataclasses.dataclass(frozen=True, slots=True)
class Foreign(Point):
    """A subclass that another package makes with the standard library."""

    extra: int = 9


def test_defaults_factories_and_post_init() -> None:
    point = Point(1)
    assert (point.x, point.y, point.names, point.note, point.total, point.seen) == (1, 2, [], "", 3, [])
    assert Point(1).names is not point.names and Point(1).seen is not point.seen
    assert Point(1, names=["a"]).names == ["a"]
    assert Labelled(1, 2, ["a"], "note", "yes").label == "yes"
    assert Mutable(1, second=3).second == 3
    assert ByName(second=2) == ByName(first=1, second=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Point(),  # type: ignore[call-arg]
        lambda: Point(1, total=2),  # type: ignore[call-arg]
        lambda: Mutable(1, 2),  # type: ignore[call-arg]
        lambda: ByName(1, 2),  # type: ignore[call-arg]
        lambda: Nothing(1),  # type: ignore[call-arg]
    ],
)
def test_wrong_arguments_are_type_errors(make: Any) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        make()


def test_equality_and_hash_go_by_the_compared_fields_of_one_class() -> None:
    assert Point(1, note="a") == Point(1, note="b") != Point(2)
    assert Point(1) != Labelled(1) and Labelled(1) == Labelled(1)
    assert hash(Key("a")) == hash(Key("a")) == hash(("a",)) and {Key("a"), Key("a")} == {Key("a")}
    assert Nothing() == Nothing() and hash(Nothing()) == hash(())
    assert Mutable(1) == Mutable(1) and Identity(1) != Identity(1) and hash(Identity(1)) is not None
    with pytest.raises(TypeError, match="unhashable"):
        hash(Mutable(1))
    assert repr(Own(1)) == "mine" and Own(1) == Own(2) and hash(Own(1)) == 7


def test_the_text_names_class_and_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2, names=[], total=3, seen=[])"
    looped = Mutable(1)
    looped.first = looped  # type: ignore[assignment]
    assert repr(looped) == "Mutable(first=..., second=5)"


def test_frozen_ones_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Key("a").value
    changed = Mutable(1)
    changed.first = 4
    assert changed.first == 4
    assert not hasattr(Point(1), "__dict__")


def test_the_standard_library_knows_them() -> None:
    point = Point(1, names=["a"])
    assert dataclasses.is_dataclass(Point)
    assert [part.name for part in dataclasses.fields(Labelled)][-1] == "label"
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "names": ["a"], "note": "", "total": 3, "seen": []}
    assert dataclasses.replace(point, y=5).total == 6
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == copy.copy(point) == point  # noqa: S301
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_another_package_may_derive_from_them_with_the_standard_library() -> None:
    assert Foreign(1).total == 3 and Foreign(1) == Foreign(1) != Point(1)

    @dataclass(frozen=True, slots=True)
    class Again(Foreign):
        """And back."""

        more: int = 0

    assert Again(1, extra=2).extra == 2 and hash(Key("x")) == hash(Key("x"))
    with pytest.raises(TypeError, match="non-frozen"):

        @dataclasses.dataclass
        class _Thawed(Point):  # type: ignore[misc]
            pass


def test_a_pattern_is_compiled_at_its_first_use() -> None:
    pattern = lazy_re(r"b+")
    assert pattern.pattern == "b+" and "sub" not in vars(pattern)
    assert pattern.sub("c", "abb") == "ac" and "sub" in vars(pattern)
