"""What is measured has the form that was trained: the experiment files beside what `align build gold` makes."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.training.film_world import built, make_world, sent_by

FILES = Path(__file__).resolve().parents[2] / "experiments" / "alignment"


def test_an_experiment_sends_the_prompts_of_its_sets(tmp_path: Path) -> None:
    here = make_world(tmp_path)
    _, rows = built(here, "taikc-gold")
    learnt = [row["messages"][:-1] for row in rows]
    runs = yaml.safe_load((FILES / "small-model.yaml").read_text(encoding="utf-8"))["runs"]
    asked = [run.get("options", {}) for run in runs.values() if run["method"] == "taikc"]
    assert asked
    for options in asked:
        told = {name: {True: "on", False: "off"}.get(value, value) for name, value in options.items()}
        sent = sent_by(here, "When was the director of film Alpha born?", **told)
        assert sent["decompose"][0] in learnt
        assert any(prompt in learnt for prompt in sent["read"])
    (reading,) = (run for run in runs.values() if run["method"] == "oner")
    assert reading.get("options", {}).get("titles", False) is False, "one reading shows passages as TAIKC does"
