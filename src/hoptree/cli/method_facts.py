"""What `hoptree methods` shows of a method."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from hoptree.cli.method_costs import Cost, made_from, read_costs
from hoptree.core.errors import MissingExtra, MissingModel
from hoptree.engine.own_prompts import files_of, open_prompts
from hoptree.engine.registry import Method, Option
from hoptree.models import open_model
from hoptree.models.hf import HFModel
from hoptree.models.model import LOCAL_SERVERS, Capability
from hoptree.sample import sample_questions

UNKNOWN = "?"  # the fidelity of a model that is not on this machine
NOT_POSSIBLE = "not possible"
BY_CORPUS = "/"  # separates the fidelity with a corpus that has what a method uses from that with others


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper, with the year of its first version."""

    title: str
    year: int | None = None
    link: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def cited(self) -> str:
        """The reference in one line, without the link."""
        return f"{self.title} ({self.year})" if self.year else self.title


_ROWS = json.loads((files("hoptree.methods") / "papers.json").read_text(encoding="utf-8"))
PAPERS: dict[str, tuple[Paper, ...]] = {name: tuple(Paper(**row) for row in rows) for name, rows in _ROWS.items()}
"""The papers of the methods, by the name that a method gives its paper."""


def capabilities_of(spec: str) -> frozenset[str] | None:
    """Return a model's capabilities; None if it is not here, as no hub is asked."""
    kind, _, name = spec.partition("/")
    if name and (kind == "openai" or kind in LOCAL_SERVERS):
        from hoptree.models.openai import OpenAIModel

        return frozenset(OpenAIModel.capabilities)  # without the key that a call would need
    try:
        model = open_model(spec)
    except (MissingModel, MissingExtra):
        return None
    try:
        return frozenset(model.capabilities_here() if isinstance(model, HFModel) else model.capabilities)
    except MissingModel:
        return None
    finally:
        asyncio.run(model.aclose())


def is_signal(need: str) -> bool:
    """Return whether a need of a method is one of the model."""
    return need in get_args(Capability)


def fidelity_with(method: Method, capabilities: Collection[str] | None) -> str:
    """Return the fidelity with default options; two if the corpus decides."""
    needed = [need for need in method.needs if is_signal(need)]
    if capabilities is None:
        possible = {_fidelity_by_corpus(method, gives) for gives in ((), tuple(filter(is_signal, method.signals)))}
        return possible.pop() if len(possible) == 1 and not needed else UNKNOWN
    if any(need not in capabilities for need in needed):
        return NOT_POSSIBLE
    return _fidelity_by_corpus(method, capabilities)


def _fidelity_by_corpus(method: Method, capabilities: Collection[str]) -> str:
    fidelities = (
        method.fidelity({}, {*capabilities, *corpus_signals}) for corpus_signals in (held_by_corpus(method), ())
    )
    return BY_CORPUS.join(dict.fromkeys(fidelities))


_NEEDS: dict[str, dict[str, str]] = json.loads((files("hoptree.methods") / "needs.json").read_text(encoding="utf-8"))
_MODELS_WITH, _CORPUS_WITH = _NEEDS["model"], _NEEDS["corpus"]
"""What provides each signal that a method reads from a model, or needs in the corpus."""

_IN_WORDS = {"exact": "yes", "approx": "not exactly"}


def as_published(method: Method, fidelity: str) -> str:
    """Describe whether a run is as in the method's paper."""
    if not method.paper and fidelity != NOT_POSSIBLE:
        return "of no paper"
    return BY_CORPUS.join(_IN_WORDS.get(part, part) for part in fidelity.split(BY_CORPUS))


@dataclass(frozen=True, slots=True)
class MethodFacts:
    """A method with its fidelity by model and its measured cost."""

    method: Method
    fidelity: Mapping[str, str]
    cost: Cost | None
    own_prompts: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        cost = {**asdict(self.cost), "changed_since": self.cost_is_old} if self.cost else None
        fidelity = {model: None if value == UNKNOWN else value for model, value in self.fidelity.items()}
        own = {"own_prompts": dict(self.own_prompts)} if self.own_prompts else {}
        return {**self.method.as_dict(), "fidelity": fidelity, "cost": cost, **own}

    def explained(self) -> dict[str, Any]:
        """Return everything about the method, for JSON."""
        method = self.method
        return {
            **self.as_dict(),
            "papers": [paper.as_dict() for paper in PAPERS.get(method.paper, ())],
            "about": inspect.getdoc(method.run) or "",
            "steps": self.steps,
            "prompts": list(files_of(method)),
            "how": {need: how_to_meet(need) for need in (*method.needs, *held_by_corpus(method))},
            "notes": list(notes_of(method)),
            "example": example_of(method),
        }

    @property
    def cost_is_old(self) -> bool:
        """Whether prompts or default options changed since the measurement."""
        return self.cost is not None and self.cost.made_from != made_from(self.method, self.own_prompts)

    @property
    def steps(self) -> dict[str, float]:
        """The steps that ask the model, in order, with their calls."""
        return dict(self.cost.steps) if self.cost else {}


def gather(
    methods: Iterable[Method],
    models: Mapping[str, frozenset[str] | None],
    costs: Path | None = None,
    prompts: Path | None = None,
) -> list[MethodFacts]:
    """Return the facts of methods, with costs that hold for these prompts."""
    measured, own_prompts = read_costs(costs), open_prompts(prompts)
    facts = []
    for method in methods:
        fidelity = {name: fidelity_with(method, gives) for name, gives in models.items()}
        own, cost = own_prompts.of(method), measured.get(method.name)
        if cost and own and cost.made_from != made_from(method, own):
            cost = None
        facts.append(MethodFacts(method, fidelity, cost, own))
    return facts


def paragraphs(method: Method) -> list[str]:
    """Return the paragraphs of the docstring, each in one line."""
    return [" ".join(part.split()) for part in (inspect.getdoc(method.run) or "").split("\n\n") if part.strip()]


def default_of(option: Option) -> str:
    """Return the default of an option in command line form."""
    if isinstance(option.default, bool):
        return "on" if option.default else "off"
    return "none" if option.default is None else str(option.default)


def how_to_meet(need: str) -> str:
    if known := _NEEDS["resources"].get(need) or _CORPUS_WITH.get(need):
        return known
    return f"a model that gives it: {_MODELS_WITH[need]}" if is_signal(need) else "see its description"


def held_by_corpus(method: Method) -> tuple[str, ...]:
    """Return what the corpus must hold in addition to passages."""
    return tuple(signal for signal in method.signals if not is_signal(signal))


def notes_of(method: Method) -> tuple[str, ...]:
    """Return what the fidelity of a method depends on, a note each."""
    notes = [f"approx: {method.always_deviates}"] if method.always_deviates and method.paper else []
    name, value = method.trained_by
    trained = f"{name}={'on' if value is True else value}"
    heard = [signal for signal in method.signals if is_signal(signal)]
    always = [signal for signal in heard if _changes(method, signal, {})]
    if always:
        notes.append(f"approx unless the model that answers gives {_with_means(always, _MODELS_WITH)}")
    if further := [signal for signal in heard if signal not in always and _changes(method, signal, {name: value})]:
        notes.append(f"approx with {trained} unless the model that answers gives {_with_means(further, _MODELS_WITH)}")
    if corpus_needs := held_by_corpus(method):
        notes.append(f"approx unless the corpus has {_with_means(corpus_needs, _CORPUS_WITH)}")
    switches = {option.name for option in method.options if option.type is bool}
    for option, reason in method.deviating_options.items():
        notes.append(f"approx with {f'{option}=on' if option in switches else option}: {reason}")
    if method.trained:
        asked = ", but asked in other words than its training's: approx" if method.other_wording else ""
        notes.append(f"prompted with any model; what the paper trained is used with {trained}{asked}")
    return tuple(notes)


def _changes(method: Method, signal: str, options: Mapping[str, Any]) -> bool:
    """Return whether a run without a signal is less close to the paper."""
    given = set(method.signals)
    return method.fidelity(options, given) != method.fidelity(options, given - {signal})


def _with_means(signals: Sequence[str], how: Mapping[str, str]) -> str:
    """Join signals, each with how to get it."""
    return "; ".join(f"{signal} ({how.get(signal, 'see its description')})" for signal in signals)


def example_of(method: Method) -> str:
    """Return a command that asks the sample's first question."""
    parts = [f'hoptree ask "{sample_questions()[0]["question"]}"', f"--method {method.name}"]
    if "facts" in method.signals:
        parts.append("--corpus DIR --retriever hippo")
    elif "corpus" in method.needs:
        parts.append("--corpus sample")
    if "graph" in method.needs:
        parts.append("--graph wikidata")
    if any(signal in ("entropy", "attention", "hidden_states") for signal in (*method.signals, *method.needs)):
        parts.append("--model hf/smollm")
    return " ".join(parts)


OLD_COST = "measured before the method's code or prompts changed"


def overview_cells(method: Method) -> dict[str, str]:
    """Return the columns of TAIKC's Table 11, and needs."""
    return {
        "title": method.title,
        "paper": method.paper,
        "needs": ", ".join(method.needs),
        "iterative": "yes" if method.iterative else "no",
        "dynamic": "yes" if method.dynamic else "no",
        "strategy": method.strategy,
        "query": method.query,
    }


def cost_cells(cost: Cost) -> tuple[str, str, str]:
    """Return the calls, tokens and searches of a question."""
    tokens = f"{cost.prompt_tokens:,.0f} + {cost.completion_tokens:,.0f}"
    return f"{cost.calls:.1f}", tokens, f"{cost.retrievals:.1f}"
