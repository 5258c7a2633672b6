"""Methods and their options: the signature is the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

from hoptree import methods
from hoptree.cli.main import app
from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Question
from hoptree.engine import registry
from hoptree.engine.context import Context
from hoptree.engine.registry import Method, Option, find_method, list_methods, method, read_options
from hoptree.methods import baselines


async def sample(
    question: Question,
    ctx: Context,
    *,
    mode: Literal["fast", "slow"] = "fast",
    depth: int = 3,
    tau: float = 0.5,
    thorough: bool = False,
    label: str = "x",
    limit: int | None = None,
) -> Answer:
    """Try things.

    More words.
    """
    return Answer("")


@pytest.fixture
def chosen() -> Iterator[Method]:
    list_methods()
    before = dict(registry._registered)
    method("sample", title="Sample", paper="P", needs=("corpus",), iterative=True)(sample)
    yield registry._registered["sample"]
    registry._registered.clear()
    registry._registered.update(before)


def test_options_come_from_the_signature(chosen: Method) -> None:
    assert chosen.options == (
        Option("mode", Literal["fast", "slow"], "fast"),
        Option("depth", int, 3),
        Option("tau", float, 0.5),
        Option("thorough", bool, False),
        Option("label", str, "x"),
        Option("limit", int | None, None),
    )
    assert [option.describe() for option in chosen.options[:5]] == ["fast|slow", "int", "float", "on|off", "str"]
    assert chosen.summary == "Try things."


def test_a_method_describes_itself(chosen: Method) -> None:
    described = chosen.as_dict()
    assert described["name"] == "sample"
    assert described["needs"] == ["corpus"]
    assert described["options"][0] == {"name": "mode", "type": "fast|slow", "default": "fast"}


def test_a_registered_method_is_found_and_still_callable(chosen: Method) -> None:
    assert find_method("sample") is chosen
    assert chosen.run is sample


@pytest.mark.parametrize(
    ("options", "capabilities", "fidelity"),
    [
        ({}, ["entropy"], "prompted"),
        ({"checkpoint": False}, ["entropy"], "prompted"),
        ({"checkpoint": True}, ["entropy"], "exact"),
        ({}, [], "approx"),
        ({"checkpoint": True}, [], "approx"),
        ({"thorough": True}, ["entropy"], "approx"),
        ({"thorough": True, "checkpoint": True}, ["entropy"], "approx"),
        ({"thorough": False}, ["entropy"], "prompted"),
    ],
)
def test_a_trained_method_is_prompted_unless_its_checkpoint_answers(
    options: dict[str, Any], capabilities: list[str], fidelity: str
) -> None:
    trained = Method("m", "M", sample, (), deviating_options={"thorough": "more"}, signals=("entropy",), trained=True)
    assert trained.fidelity(options, capabilities) == fidelity


def test_a_text_that_a_model_is_asked_to_go_on_with_is_approx_unless_it_is_prompted_anyway() -> None:
    trained, other = (
        Method("m", "M", sample, (), signals=("prefix",), trained=is_trained) for is_trained in (True, False)
    )
    assert [other.fidelity({}, given) for given in ([], ["prefix"])] == ["approx", "exact"]
    assert [trained.fidelity({}, given) for given in ([], ["prefix"])] == ["prompted", "prompted"]
    assert [trained.fidelity({"checkpoint": True}, given) for given in ([], ["prefix"])] == ["approx", "exact"]


@pytest.mark.parametrize(
    ("options", "fidelity"), [({}, "approx"), ({"mode": "fast"}, "approx"), ({"mode": "slow"}, "exact")]
)
def test_a_value_that_goes_beyond_the_paper_counts_also_where_it_is_the_default(
    options: dict[str, Any], fidelity: str
) -> None:
    mode = Option("mode", Literal["fast", "slow"], "fast")
    assert Method("m", "M", sample, (mode,), deviating_options={"mode=fast": "less"}).fidelity(options, []) == fidelity


def test_what_was_trained_is_approximate_where_it_is_asked_in_other_words() -> None:
    reworded = Method("m", "M", sample, (Option("checkpoint", bool, False),), trained=True, other_wording=True)
    assert [reworded.fidelity({"checkpoint": on}, ()) for on in (False, True)] == ["prompted", "approx"]


def test_other_methods_are_never_prompted() -> None:
    assert Method("m", "M", sample, ()).fidelity({}, []) == "exact"
    assert not Method("m", "M", sample, ()).trained


def test_what_was_trained_may_be_something_else_than_the_model() -> None:
    trained = Method("m", "M", sample, (), trained=True, trained_by=("mode", "slow"))
    assert [trained.fidelity({"mode": mode}, []) for mode in ("fast", "slow")] == ["prompted", "exact"]
    assert trained.fidelity({"checkpoint": True}, []) == "prompted"


def test_what_a_paper_trained_can_be_chosen_and_is_not_the_default() -> None:
    for known in list_methods():
        name, value = known.trained_by
        option = {option.name: option for option in known.options}.get(name)
        assert (option is not None) == known.trained, f"{known.name}: trained=True goes with an option {name}"
        if option is not None:
            assert option.default != value and read_options(known, {name: value}) == {name: value}


def test_the_order_does_not_depend_on_what_was_imported_first(chosen: Method) -> None:
    names = [known.name for known in list_methods()]
    registered = dict(registry._registered)
    registry._registered.clear()
    registry._registered.update(reversed(list(registered.items())))
    assert [known.name for known in list_methods()] == names
    assert names[:5] == ["hop", "taikc", "ra_isf", "treeqa", "mind"] and names[-1] == "sample"
    assert names[5:-1] == sorted(names[5:-1])


def test_the_built_in_methods_are_there() -> None:
    names = [known.name for known in list_methods()]
    assert {"taikc", "direct", "oner"} <= set(names)
    assert len(names) == len(set(names))
    assert all(known.title and known.summary for known in list_methods())


@pytest.mark.parametrize(
    ("name", "meant"), [("taik", "taikc"), ("TAIKC", "taikc"), ("ToG", "tog"), ("dirct", "direct"), ("oneer", "oner")]
)
def test_an_unknown_method_is_refused_with_the_nearest_name(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"There is no method '{name}'") as caught:
        find_method(name)
    assert caught.value.remedy == f"Did you mean '{meant}'?"


METHOD = """
from hoptree import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method

@method("{name}", title="Another")
async def another(question: Question, ctx: Context) -> Answer:
    return Answer("")
"""


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Announces a module by an entry point of a package of its own."""
    list_methods()
    before = dict(registry._registered)
    monkeypatch.syspath_prepend(str(tmp_path))

    def announce(entry: str, module: str, code: str, *, package: str = "") -> None:
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        info = tmp_path / f"{package or module}-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package or module}\nVersion: 0.1\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[hoptree.methods]\n{entry} = {module}\n", "utf-8")
        registry._load_plugins.cache_clear()

    yield announce
    registry._load_plugins.cache_clear()
    registry._registered.clear()
    registry._registered.update(before)


def test_an_entry_point_that_cannot_be_imported_leaves_the_others(others: Callable[..., None]) -> None:
    others("broken", "broken_module", "import surely_not_installed", package="broken-package")
    others("working", "working_module", METHOD.format(name="working"))
    cause = (
        "The package broken-package announces the method 'broken' as broken_module, which cannot be imported "
        "(ModuleNotFoundError: No module named 'surely_not_installed')."
    )
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            find_method("broken")
        assert caught.value.cause == cause and "pip uninstall broken-package" in caught.value.remedy
    assert find_method("working").title == "Another"
    assert {"hop", "working"} <= {known.name for known in list_methods()}
    listed = CliRunner().invoke(app, ["methods", "--json"])
    assert listed.exit_code == 0 and "working" in listed.stdout
    assert [line for line in listed.stderr.splitlines() if "broken" in line] == [f"hoptree: {caught.value}"]
    with pytest.raises(ConfigError, match="broken-package could not be imported") as unknown:
        find_method("of_the_broken_one")
    assert "hop" in unknown.value.remedy


def test_a_module_that_registers_another_name_says_so(
    others: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others("twice", "thrice_module", METHOD.format(name="thrice"))
    with pytest.raises(ConfigError, match="The module thrice_module registers no method 'twice'") as caught:
        find_method("twice")
    assert '@method("twice", …)' in caught.value.remedy and find_method("thrice")
    (tmp_path / "copied_module.py").write_text(METHOD.format(name="copyd"), encoding="utf-8")
    monkeypatch.setitem(registry._MODULES, "copied", "copied_module")
    with pytest.raises(ConfigError, match="The module copied_module registers no method 'copied'") as caught:
        find_method("copied")
    assert '@method("copied", …)' in caught.value.remedy


def test_a_name_is_registered_by_one_module(
    others: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a file that keeps its name took the place of the original."""
    original = find_method("iter_retgen")
    (tmp_path / "copy_module.py").write_text(METHOD.format(name="iter_retgen"), encoding="utf-8")
    monkeypatch.setitem(registry._MODULES, "copied", "copy_module")
    with pytest.raises(ConfigError) as caught:
        find_method("copied")
    assert "The module copy_module registers no method 'copied'" in str(caught.value)
    assert f"'iter_retgen' is the method of {original.run.__module__}" in str(caught.value)
    assert find_method("iter_retgen") is original
    monkeypatch.delitem(registry._MODULES, "copied")
    registry._registered.pop("oner")  # as before it is looked for
    others("oner", "other_oner", METHOD.format(name="oner"))
    list_methods()
    assert "oner" not in registry._registered, "nobody takes a name of ours, loaded or not"


@pytest.mark.parametrize("name", ["zzz", "twice"])
def test_a_name_like_no_method_gets_the_list_and_how_to_install_one(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_method(name)
    assert "taikc" in caught.value.remedy and "direct" in caught.value.remedy
    assert "Did you mean" not in caught.value.remedy and caught.value.remedy.endswith("pip install -e .")


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({}, {}),
        ({"depth": "4"}, {"depth": 4}),
        ({"depth": 4}, {"depth": 4}),
        ({"tau": "0.25"}, {"tau": 0.25}),
        ({"tau": 1}, {"tau": 1.0}),
        ({"mode": "slow"}, {"mode": "slow"}),
        ({"label": "any text"}, {"label": "any text"}),
        ({"limit": "7"}, {"limit": 7}),
        ({"limit": "none"}, {"limit": None}),
        ({"limit": None}, {"limit": None}),
        ({"thorough": "on", "depth": "0"}, {"thorough": True, "depth": 0}),
    ],
)
def test_texts_are_turned_into_values(chosen: Method, given: dict[str, Any], values: dict[str, Any]) -> None:
    read = read_options(chosen, given)
    assert read == values
    assert [type(value) for value in read.values()] == [type(value) for value in values.values()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("true", True),
        ("Yes", True),
        ("1", True),
        ("off", False),
        ("FALSE", False),
        (True, True),
        (0, False),
    ],
)
def test_switches_have_several_spellings(chosen: Method, text: object, value: bool) -> None:
    assert read_options(chosen, {"thorough": text}) == {"thorough": value}


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "medium"},
        {"mode": None},
        {"mode": ["fast"]},
        {"depth": "many"},
        {"depth": "2.5"},
        {"depth": 2.5},
        {"depth": "-1"},
        {"depth": "9999999999"},
        {"depth": None},
        {"depth": [3]},
        {"depth": float("inf")},
        {"depth": float("nan")},
        {"tau": "nan"},
        {"tau": "inf"},
        {"tau": 10**400},
        {"tau": "half"},
        {"thorough": "maybe"},
        {"thorough": None},
        {"limit": "few"},
        {"limit": float("inf")},
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_what_is_possible(chosen: Method, given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(ConfigError, match=f"sample: {name}=") as caught:
        read_options(chosen, given)
    assert f"{name} takes" in caught.value.remedy


@pytest.mark.parametrize(
    ("method", "name", "values", "bounds"),
    [
        ("mind", "alpha", ("-1", "nan", "inf", "many"), "alpha takes float, 0 or more (--set alpha=1.5)."),
        ("mind", "top_k", ("-3", "0"), "top_k takes int, 1 or more (--set top_k=2)."),
        ("mind", "shots", ("-1", 10**10), "shots takes int, 0 or more (--set shots=6)."),
        ("mind", "cut", ("-0.1",), "cut takes float | None, 0 or more (--set cut=none)."),
        ("mind", "k", ("0", 0, True), "k takes int, 1 or more (--set k=3)."),
        ("mind", "words", ("0",), "words takes int, 1 or more (--set words=25)."),
        ("mind", "stretch", ("0",), "stretch takes int, 1 or more (--set stretch=64)."),
        ("dragin", "max_tokens", ("0",), "max_tokens takes int, 1 or more (--set max_tokens=128)."),
        ("dragin", "disagree", ("5", "-0.1", True), "disagree takes float, from 0 to 1 (--set disagree=0.5)."),
        ("mind", "admit", ("2",), "admit takes float, from 0 to 1 (--set admit=0.5)."),
        ("flare", "theta", ("1.5", "-1"), "theta takes float, from 0 to 1 (--set theta=0.8)."),
        ("flare", "beta", ("2",), "beta takes float, from 0 to 1 (--set beta=0.4)."),
        ("flare", "look_ahead", ("0",), "look_ahead takes int, 1 or more (--set look_ahead=64)."),
        ("seakr", "samples", ("0", "1"), "samples takes int, 2 or more (--set samples=20)."),
        ("seakr", "max_docs", ("0",), "max_docs takes int, 1 or more (--set max_docs=5)."),
        ("seakr", "doubt", ("1.1",), "doubt takes float, from 0 to 1 (--set doubt=0.1)."),
        ("seakr", "theta", ("low",), "theta takes float (--set theta=-6.0)."),
    ],
)
def test_a_number_out_of_range_is_refused_with_its_bounds(
    method: str, name: str, values: tuple[Any, ...], bounds: str
) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=f"{method}: {name}={value} is not possible") as caught:
            read_options(find_method(method), {name: value})
        assert caught.value.remedy == bounds


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("mind", {"alpha": 0, "top_k": 1, "shots": 0, "cut": 0.0, "admit": 1, "disagree": 0, "k": 1, "theta": 9.0}),
        ("flare", {"theta": 1, "beta": 0, "look_ahead": 1}),
        ("seakr", {"theta": -20, "samples": 2}),
        ("dragin", {"theta": 1.5}),
    ],
)
def test_the_bounds_themselves_are_possible(method: str, given: dict[str, Any]) -> None:
    assert read_options(find_method(method), given) == given


def test_every_default_is_within_its_bounds() -> None:
    for known in list_methods():
        defaults = {option.name: option.default for option in known.options}
        assert read_options(known, defaults) == defaults, known.name


def test_a_method_is_registered_with_bounds_of_options_that_it_has() -> None:
    for known in list_methods():
        assert known.bounds.keys() <= {option.name for option in known.options}, known.name


def test_dashes_are_as_good_as_underscores() -> None:
    method = Method("m", "M", sample, (Option("top_k", int, 1),))
    assert read_options(method, {"top-k": "2"}) == {"top_k": 2}


def test_an_unknown_option_is_refused_with_the_nearest_name(chosen: Method) -> None:
    with pytest.raises(ConfigError, match="sample has no option 'dpeth'") as caught:
        read_options(chosen, {"dpeth": 3})
    assert "did you mean 'depth'?" in caught.value.remedy


def test_an_option_like_no_other_gets_the_list(chosen: Method) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(chosen, {"zzz": 3})
    assert "mode, depth, tau" in caught.value.remedy


def test_a_method_without_options_says_so() -> None:
    with pytest.raises(ConfigError, match=r"direct has no option 'k'.*none"):
        read_options(find_method("direct"), {"k": 3})


def test_an_option_of_other_methods_names_them() -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(find_method("hop"), {"max_sub_questions": "4"})
    assert "k, effort, abstain, chooser, boundary, trained" in caught.value.remedy
    assert caught.value.remedy.endswith("Methods with this option: ra_isf, least_to_most.")
    with pytest.raises(ConfigError) as caught:
        read_options(find_method("hop"), {"zzz": "on"})
    assert "Methods with" not in caught.value.remedy


TWO_FORMS = {"self_rag": 215, "cok": 190}
"""Baselines that are longer: Self-RAG is one method by prompts, and a beam search by a checkpoint's own tokens; CoK has
a choice of domains and a writer of graph queries beside its chain."""


def test_a_baseline_fits_on_a_page() -> None:
    folder = Path(baselines.__file__).parent
    lines = {path.stem: len(path.read_text("utf-8").splitlines()) for path in folder.glob("[!_]*.py")}
    assert not {name: count for name, count in lines.items() if count > TWO_FORMS.get(name, 150)}


@pytest.mark.parametrize("name", ["taikc", "ra_isf", "treeqa", "mind"])
def test_the_published_form_of_a_paper_is_short(name: str) -> None:
    folder = Path(methods.__file__).parent
    files = [*folder.glob(f"{name}*.py"), *(folder / name).glob("[!_]*.py")]
    lines = [len(path.read_text("utf-8").splitlines()) for path in files if path.stem != "speculative"]
    assert len(lines) <= 4 and sum(lines) <= 700, lines


def test_what_always_differs_from_the_paper_is_approx_whatever_is_given() -> None:
    plain, different = (
        Method("m", "M", sample, (), signals=("facts",), always_deviates=difference)
        for difference in ("", "another graph")
    )
    assert [method.fidelity({}, {"facts"}) for method in (plain, different)] == ["exact", "approx"]
