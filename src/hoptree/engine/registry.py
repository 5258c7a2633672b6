"""The register of methods: a method's signature is its configuration."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, Union

from hoptree.core.errors import ConfigError, closest
from hoptree.core.values import Answer
from hoptree.engine.answer_sentence import shorten
from hoptree.engine.events import Decision, NodeSettled
from hoptree.models.model import SignalNotGiven

DEFAULT_METHOD = "hop"
Run = Callable[..., Awaitable[Answer]]
_PAPERS = ("hop", "taikc", "ra_isf", "treeqa", "mind")
_BASELINES = (
    "adaptive_rag", "cok", "compact", "cot", "cot_sc", "direct", "dragin", "dyplan", "flare", "genground", "hipporag",
    "hipporag_ircot", "ircot", "iter_retgen", "least_to_most", "oner", "replug", "seakr", "search_r1", "self_ask",
    "self_rag", "skr", "tog", "tog2",
)  # fmt: skip
_MODULES = {
    **{name: f"hoptree.methods.{name}" for name in _PAPERS},
    **{name: f"hoptree.methods.baselines.{name}" for name in _BASELINES},
}
"""The module of each method of the package, imported when the method is first looked up."""
_registered: dict[str, Method] = {}
_REGISTERS = '@method("{}", …)'
_MAX_LISTED_METHODS = 6
_UNBOUNDED = 1e9
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")  # spellings of a switch
_CONTINUES = "prefix"
_FRACTION = (0.0, 1.0)
_POSITIVE = (1.0, _UNBOUNDED)
_BOUNDS = {
    **dict.fromkeys(("k", "words", "stretch", "look_ahead", "max_tokens"), _POSITIVE),
    **dict.fromkeys(("admit", "agreement", "disagree", "doubt", "threshold"), _FRACTION),
}
"""The bounds of options with these names in all methods: counts from 1, and fractions."""
_TYPO_SIMILARITY = 0.75  # of a name to a method's; less is another name, such as that of a method not installed
_NOT_INSTALLED = "A method of your own is found once its package is installed: pip install -e ."


class Explanation:
    """Puts a result's decisions into words; methods may subclass it."""

    def explain_answer(self, decisions: Sequence[Decision]) -> str:
        """Return what decided between final answers; `decisions` belong to no node."""
        reasons = {type(decision): decision for decision in decisions if decision.reason()}
        settled = [decision for decision in reasons.values() if decision.decides_alone()]
        return "; ".join(decision.reason() for decision in settled[-1:] or reasons.values())

    def measure_answer(self, decisions: Sequence[Decision]) -> tuple[float, str] | None:
        """Return the probability that the answer is right and its calibration, or None."""
        return None

    def dropped_parts(self, node: NodeSettled) -> Iterable[str]:
        """Return warnings of parts of the tree that were dropped at a node."""
        return ()


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword parameter of a method: its annotated type, default and choices."""

    name: str
    type: Any
    default: Any

    @property
    def choices(self) -> tuple[Any, ...]:
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    def describe(self) -> str:
        if self.choices:
            return "|".join(map(str, self.choices))
        return "on|off" if self.type is bool else getattr(self.type, "__name__", str(self.type))


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method."""

    name: str
    title: str
    run: Run
    options: tuple[Option, ...]
    paper: str = ""
    needs: tuple[str, ...] = ()
    iterative: bool = False  # this and the next three are the columns of TAIKC's Table 11
    dynamic: bool = False
    strategy: str = ""
    query: str = ""
    # Options (or OPTION=VALUE) that leave the paper, and why.
    deviating_options: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[str, ...] = ("answer",)  # parts that may each have a model of their own
    shared_prompts: tuple[str, ...] = ()  # files under `prompts/shared` that it uses; prompts without `.txt`
    signals: tuple[str, ...] = ()  # signals of model or corpus that the paper uses
    trained: bool = False  # whether the paper trained a model for the method …
    trained_by: tuple[str, Any] = ("checkpoint", True)  # … and which value of which option uses it
    other_wording: bool = False  # whether the trained model gets other wording than in its training
    always_deviates: str = ""  # what always differs from the paper, so that every run is `approx`
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # least and most value; by default from 0
    check: Callable[..., None] = lambda **options: None  # refuses options that exclude each other
    # Digests of what a run with certain options depends on beside model, corpus and graph.
    uses: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda options: {}
    figures: Callable[[], Sequence[str]] = tuple  # lines with measured costs and gains of its options
    explain: Explanation = field(default_factory=Explanation)

    def fidelity(self, options: Mapping[str, Any], given: Collection[str]) -> str:
        """Return how close to its paper a run with these signals is.

        - `approx`: it always differs, an option leaves the paper, or a signal is missing
        - `prompted`: the paper trained a model, and another one is used
        - `approx`: the trained model gets other wording, or a model cannot continue a text and is asked to
        - `exact`
        """
        chosen = {**{option.name: option.default for option in self.options}, **options}
        missing = [signal for signal in self.signals if signal not in given]
        if self.always_deviates or self.deviations(chosen) or any(signal != _CONTINUES for signal in missing):
            return "approx"
        name, value = self.trained_by
        if self.trained and chosen.get(name) != value:
            return "prompted"
        return "approx" if self.other_wording or missing else "exact"

    def deviations(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return which of the options leave the paper, each with its reason."""
        chosen = {**{option.name: option.default for option in self.options}, **options}
        return {name: reason for name, reason in self.deviating_options.items() if _leaves(name, chosen)}

    @property
    def goes_by_facts(self) -> bool:
        """Whether it starts from facts of the corpus, as its default retriever must."""
        return "facts" in self.signals

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.run) or "").split("\n", 1)[0]

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "paper": self.paper,
            "needs": list(self.needs),
            "signals": list(self.signals),
            "iterative": self.iterative,
            "dynamic": self.dynamic,
            "strategy": self.strategy,
            "query": self.query,
            "trained": self.trained,
            "roles": list(self.roles),
            "options": [{"name": o.name, "type": o.describe(), "default": o.default} for o in self.options],
        }


def _leaves(deviating: str, chosen: Mapping[str, Any]) -> bool:
    """Return whether options leave the paper by a switch, a count or OPTION=VALUE."""
    name, named, value = deviating.partition("=")
    given = chosen.get(name)
    if not named:
        return bool(given)
    return value == (given if not isinstance(given, bool) else "on" if given else "off")


def method(name: str, *, title: str, **facts: Any) -> Callable[[Run], Run]:
    """Register an `async def NAME(question, ctx, *, options…) -> Answer`."""

    def register(run: Run) -> Run:
        hints = typing.get_type_hints(run)
        parameters = inspect.signature(run).parameters.values()
        options = tuple(
            Option(p.name, hints[p.name], p.default) for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY
        )
        begun = _begun_again(run) if facts.get("signals") else run
        taken = _registered[name].run.__module__ if name in _registered else _MODULES.get(name, run.__module__)
        if run.__module__ != taken and not run.__module__.startswith(f"{taken}."):
            cause = f"'{name}' is the method of {taken}, and {run.__module__} registers another one of that name."
            raise ConfigError(cause, f"Name it otherwise there: {_REGISTERS.format('…')}.")
        _registered[name] = Method(name, title, begun, options, **facts)
        return run

    return register


def _begun_again(run: Run) -> Run:
    """Return a method that starts again, once, if its model lacks an announced signal."""

    @functools.wraps(run)
    async def begun(*asked: Any, **options: Any) -> Answer:
        try:
            return await run(*asked, **options)
        except SignalNotGiven:
            return await run(*asked, **options)

    return begun


def list_methods() -> tuple[Method, ...]:
    """Return every method: hop, the papers, the baselines, then other packages'."""
    for name in _MODULES:
        _load(name)
    _load_plugins()
    order = {name: place for place, name in enumerate(_MODULES)}
    return tuple(sorted(_registered.values(), key=lambda known: (order.get(known.name, len(order)), known.name)))


@cache
def _load(name: str) -> None:
    module = _MODULES[name]
    try:
        import_module(module)
    except ConfigError as error:
        raise _not_registered(module, name, f": {error.cause}") from error
    if name not in _registered:
        raise _not_registered(module, name, ".")


def _not_registered(module: str, name: str, why: str) -> ConfigError:
    return ConfigError(
        f"The module {module} registers no method '{name}'{why}", f"Write {_REGISTERS.format(name)} there."
    )


class _Announced(NamedTuple):
    """An entry point of another package, and the problem if it cannot be imported."""

    name: str
    package: str
    module: str
    problem: str = ""

    def as_error(self) -> ConfigError:
        cause = (
            f"The package {self.package} announces the method '{self.name}' as {self.module}, which cannot be imported"
        )
        remedy = f"Fix or update the package, or remove it: pip uninstall {self.package}."
        return ConfigError(f"{cause} ({self.problem}).", remedy)


@cache
def _load_plugins() -> tuple[_Announced, ...]:
    """Import the methods of other packages' entry points in `hoptree.methods`."""
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    plugins = []
    for point in entry_points(group="hoptree.methods"):
        announced = _Announced(point.name, point.dist.name if point.dist else point.module, point.value)
        try:
            point.load()
        except Exception as error:  # code of another package may fail in any way
            announced = announced._replace(problem=shorten(f"{type(error).__name__}: {error}"))
        plugins.append(announced)
    return tuple(plugins)


def unusable_methods() -> list[ConfigError]:
    """Return an error for each entry point of another package that cannot be imported."""
    return [announced.as_error() for announced in _load_plugins() if announced.problem]


def check_role(chosen: Method, role: str) -> None:
    """Refuse a role that a method does not have."""
    if role not in chosen.roles:
        close = closest(role, chosen.roles)
        hint = f"Did you mean '{close}'?" if close else f"It has {', '.join(chosen.roles)}."
        raise ConfigError(f"{chosen.name} has no role '{role}'.", hint)


def find_method(name: str) -> Method:
    """Return a method by name, importing only its own module."""
    if name in _MODULES:
        _load(name)
    plugins = _load_plugins() if name not in _registered else ()
    if name not in _registered:
        for announced in plugins:
            if announced.name == name:
                raise announced.as_error() if announced.problem else _not_registered(announced.module, name, ".")
        names = [*_MODULES, *(known for known in _registered if known not in _MODULES)]
        close = closest(name.casefold(), names, similarity=_TYPO_SIMILARITY)
        hint = f"Did you mean '{close}'?" if close else f"There are: {', '.join(names)}. {_NOT_INSTALLED}"
        if missing := [announced.package for announced in plugins if announced.problem]:
            hint += f" {', '.join(missing)} could not be imported: hoptree methods says why."
        raise ConfigError(f"There is no method '{name}'.", hint)
    return _registered[name]


def load_method(name: str) -> Method | None:
    """Return a method; None if it is not installed, as a trace may name any."""
    try:
        return find_method(name)
    except ConfigError:
        return None


def read_options(chosen: Method, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check options against the signature, turning texts (`titles=on`) into values."""
    known = {option.name: option for option in chosen.options}
    values: dict[str, Any] = {}
    for name, value in given.items():
        key = name.replace("-", "_")
        if key not in known:
            close = closest(key, known)
            hint = f"did you mean '{close}'?" if close else f"it has: {', '.join(known) or 'none'}."
            others = [other.name for other in list_methods() if key in (option.name for option in other.options)]
            if 0 < len(others) <= _MAX_LISTED_METHODS:
                hint += f" Methods with this option: {', '.join(others)}."
            raise ConfigError(f"{chosen.name} has no option '{name}':", hint)
        option = known[key]
        negative = isinstance(option.default, int | float) and option.default < 0
        default_bounds = _BOUNDS.get(key, (-_UNBOUNDED if negative else 0.0, _UNBOUNDED))
        bounds = chosen.bounds.get(key, default_bounds)
        try:
            values[key] = _read_value(option, value, *bounds)
        except (TypeError, ValueError, OverflowError):
            raise ConfigError(f"{chosen.name}: {key}={value} is not possible;", _takes(option, *bounds)) from None
    return values


def _takes(option: Option, least: float, most: float) -> str:
    """Return the values that an option takes, in words: type, bounds and default."""
    if option.choices or not {int, float} & {*(typing.get_args(option.type) or (option.type,))}:
        return f"{option.name} takes {option.describe()}."
    bounds = f", from {least:g} to {most:g}" if most < _UNBOUNDED else f", {least:g} or more" if least >= 0 else ""
    default = "none" if option.default is None else option.default
    kind = option.describe() if isinstance(option.type, type) else str(option.type)
    return f"{option.name} takes {kind}{bounds} (--set {option.name}={default})."


def _read_value(option: Option, value: Any, least: float, most: float) -> Any:
    """Convert a value to the option's type.

    Raise TypeError, ValueError or OverflowError if that fails.
    """
    if option.choices:
        if isinstance(value, bool) and "on" in option.choices:  # YAML reads on and off as booleans
            value = "on" if value else "off"
        if value not in option.choices:
            raise ValueError
        return value
    wanted = option.type
    if typing.get_origin(wanted) in (Union, types.UnionType):
        if value is None or value == "none":
            return None
        wanted = next(kind for kind in typing.get_args(wanted) if kind is not type(None))
    if wanted is bool:
        if isinstance(value, bool):
            return value
        word = str(value).casefold()
        if word not in (*ON, *OFF):
            raise ValueError
        return word in ON
    converted = wanted(value)
    if isinstance(converted, int | float):
        if isinstance(value, bool):
            raise ValueError
        inside = least <= converted <= most and converted < _UNBOUNDED
        if not inside or (isinstance(value, float) and converted != value):
            raise ValueError
    return converted
