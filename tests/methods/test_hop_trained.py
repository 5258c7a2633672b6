"""hop with a model that was trained on its short prompts: which are sent, and which chooser weighs the answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.methods.asked import Asked, Shelf
from tests.methods.hop_asked import CHOOSER, EVERY, FOUND, ROOT, plan, reads, replan
from tests.models.small_adapters import Install, install

from hoptree.core.weights import CHOOSER as CHOOSER_FILE
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import find_method, read_options
from hoptree.methods.hop.chooser import frozen_chooser, open_chooser, read_chooser
from hoptree.models.model import Model
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["install"]
PROMPTS = ("trained_read", "trained_plan", "trained_replan")
TEMPLATES = frozenset(prompt_for("hop", name).template for name in PROMPTS)
SCRIPT = [
    replan({"query1": "Where was Damien Chazelle born?", "query2": "Who is Damien Chazelle?"}),
    plan(),
    *reads(Who_directed="Damien Chazelle", Where="NOT FOUND", In_which="Providence", Who_is="a director"),
    Rule("Providence", step="final"),
]


class TrainedModel(ScriptedModel):
    trained_on: frozenset[str] = TEMPLATES


class Trained(Asked):
    """Asks a model that says which prompts it was trained on."""

    templates = TEMPLATES

    async def _ask(self, *given: Any) -> Any:
        self.model = TrainedModel(rules=self.model.rules)
        self.model.trained_on = self.templates
        return await super()._ask(*given)


def sent(kind: type[Asked], **options: Any) -> set[str]:
    run = kind("hop", SCRIPT, ROOT, Shelf(*FOUND), options={**EVERY, **options})
    return {event["template"].partition("@")[0] for event in run.of("llm")}


def test_a_trained_model_is_asked_by_the_prompts_that_it_knows() -> None:
    short = {f"hop/{name}" for name in PROMPTS}
    guesses = {"shared/read"}
    assert sent(Trained) == sent(Asked, trained="on") == short | guesses
    for plain in (sent(Asked), sent(Trained, trained="off")):
        assert not plain & short and "hop/decompose_seen" in plain


def test_each_prompt_counts_by_itself_and_by_its_text() -> None:
    class Reader(Trained):
        templates = frozenset({prompt_for("hop", "trained_read").template, "hop/trained_plan@00000000"})

    assert {"hop/trained_read", "hop/decompose_seen"} <= sent(Reader)
    assert "hop/trained_plan" not in sent(Reader)


def test_a_switch_of_yaml_is_one_of_its_values() -> None:
    hop = find_method("hop")
    assert [read_options(hop, {"trained": given})["trained"] for given in (True, False, "on", "auto")] == [
        "on",
        "off",
        "on",
        "auto",
    ]


def test_trained_models_have_the_chooser_of_the_package(install: Install) -> None:
    install({}, chooser=json.dumps(CHOOSER))
    ours = read_chooser(json.dumps(CHOOSER), CHOOSER_FILE)
    assert open_chooser("", trained=True).digest == ours.digest != frozen_chooser().digest
    assert open_chooser("").digest == frozen_chooser().digest
    trained = Trained("hop", SCRIPT, ROOT, Shelf(*FOUND), options={})
    stood = trained.of("decision", kind="standings")[0]["value"][0]
    assert stood["probability"] == pytest.approx(ours.with_logprobs.right(stood["features"]), abs=1e-3)


def test_without_one_it_is_the_chooser_of_hop(install: Install, tmp_path: Path) -> None:
    install({})
    assert open_chooser("", trained=True).digest == frozen_chooser().digest


def test_a_run_rests_on_the_chooser_that_its_model_has(install: Install, tmp_path: Path) -> None:
    install({}, chooser=json.dumps(CHOOSER))
    hop = find_method("hop")
    options = {option.name: option.default for option in hop.options}
    models: list[Model] = [TrainedModel(rules=[]), ScriptedModel(rules=[])]
    ours, frozen = (hop.uses(options, model)["chooser"] for model in models)
    assert ours == read_chooser(json.dumps(CHOOSER), "").digest and frozen == frozen_chooser().digest
    assert hop.uses({**options, "trained": "off"}, models[0])["chooser"] == frozen


def test_a_damaged_chooser_is_refused(install: Install) -> None:
    folder = install({}, chooser=json.dumps(CHOOSER))
    (folder / CHOOSER_FILE).write_text("{}", encoding="utf-8")
    with pytest.raises(Exception, match=r"chooser\.json of hoptree-weights is damaged"):
        open_chooser("", trained=True)
    assert replace(open_chooser("")) == frozen_chooser()
