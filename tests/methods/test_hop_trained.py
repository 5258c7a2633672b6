"""hop with a model that was trained on its short prompts: which are sent."""

from __future__ import annotations

from typing import Any

from tests.methods.asked import Asked, Shelf
from tests.methods.hop_asked import EVERY, FOUND, ROOT, plan, reads
from tests.models.small_adapters import install

from hoptree.engine.prompts import OwnPrompts, packaged_text, prompt_for
from hoptree.engine.registry import find_method, read_options
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["install"]
PROMPTS = ("trained_read", "trained_plan")
TEMPLATES = frozenset(prompt_for("hop", name).template for name in PROMPTS)
SCRIPT = [
    plan(),
    *reads(Who_directed="Damien Chazelle", Where="NOT FOUND", In_which="Providence"),
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
    guesses = {"hop/trained_guess"}
    assert sent(Trained) == sent(Asked, trained="on") == short | guesses
    for plain in (sent(Asked), sent(Trained, trained="off")):
        assert not plain & short and "hop/decompose_seen" in plain


def test_an_adapter_is_off_for_a_prompt_that_was_replaced() -> None:
    class Reworded(Trained):
        own_prompts = OwnPrompts({"hop/trained_read.txt": f"{packaged_text('hop/trained_read.txt')}\nBe brief."})

    assert sent(Reworded) == {"hop/trained_plan", "shared/read"}
    assert "hop/trained_read" in sent(Reworded, trained="on")


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
