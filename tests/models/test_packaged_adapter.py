"""The adapter of hoptree-weights: when the embedded model takes it, and what is refused."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path

import pytest
from tests.models.small_adapters import Install, forget, install, lora_file
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import ConfigError
from hoptree.core.files import ADAPTER, WEIGHTS_MANIFEST, find_weights
from hoptree.engine.context import Budget
from hoptree.engine.engine import Engine
from hoptree.engine.prompts import prompt_for
from hoptree.engine.result import read_result
from hoptree.engine.trace import ModelCalled
from hoptree.models import open_model
from hoptree.models.adapters import read_adapter
from hoptree.models.catalogue import CATALOGUE, is_complete, models_folder
from hoptree.models.local import LocalModel
from hoptree.models.machine import check_adapter
from hoptree.models.model import Choice, Message, Reply, Request, trained_on

__all__ = ["install"]
ENTRY = next(entry for entry in CATALOGUE if entry.alias == "smollm")
BASE = {ENTRY.sha256: ENTRY.file}
OTHER = {"0" * 64: "another.gguf"}
TEMPLATES = ["hop/trained_read@12345678"]
embedded = [
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.skipif(not is_complete(ENTRY), reason="hoptree models pull smollm2-135m-instruct"),
]


def opened(settings: str = "") -> LocalModel:
    model = open_model(f"local/smollm?n_ctx=256&threads=1{settings}")
    assert isinstance(model, LocalModel)
    return model


def reply(model: LocalModel) -> str:
    async def ask() -> str:
        try:
            request = Request((Message("user", "Name a colour."),), max_tokens=4, template=TEMPLATES[0])
            return (await model.generate(request, step="test")).text
        finally:
            await model.aclose()

    return asyncio.run(ask())


class TestEmbedded:
    pytestmark = embedded

    def test_it_is_the_default_of_its_base_and_can_be_turned_off(self, install: Install) -> None:
        before = opened()
        folder = install(BASE, TEMPLATES)
        adapted, named, plain = opened(), opened("&adapter=hoptree"), opened("&adapter=none")
        digest = read_adapter(folder / ADAPTER).digest
        assert adapted.name == named.name == f"local/smollm+hoptree@{digest[:8]}"
        assert digest in adapted.identity and adapted.identity == named.identity
        assert trained_on(adapted) == frozenset(TEMPLATES) and not trained_on(plain)
        assert plain.identity == before.identity != adapted.identity and plain.name == "local/smollm"
        assert adapted.endpoint != plain.endpoint
        texts = [reply(model) for model in (before, adapted, plain)]
        assert texts[0] == texts[2] != texts[1]
        asyncio.run(named.aclose())

    def test_another_file_takes_its_place(self, install: Install, tmp_path: Path) -> None:
        install(BASE, TEMPLATES)
        default, other = opened(), opened(f"&adapter={lora_file(tmp_path / 'mine.gguf', seed=2)}")
        assert other.name.startswith("local/smollm+mine@") and not trained_on(other)
        assert other.identity != default.identity
        for model in (default, other):
            asyncio.run(model.aclose())

    def test_a_model_that_it_is_not_for_goes_without_it(self, install: Install) -> None:
        install(OTHER)
        plain = opened()
        assert plain.name == "local/smollm"
        asyncio.run(plain.aclose())
        with pytest.raises(
            ConfigError, match=r"belongs to another\.gguf \(000000000000…\), and local/smollm"
        ) as refused:
            opened("&adapter=hoptree")
        assert refused.value.remedy.endswith("local/smollm?adapter=none") and refused.value.exit_code == 2

    def test_weights_that_are_not_the_base_are_refused_by_their_digest(self, install: Install, tmp_path: Path) -> None:
        install(BASE)
        (tmp_path / ENTRY.file).write_bytes((models_folder() / ENTRY.file).read_bytes()[:-1] + b"!")
        with pytest.raises(ConfigError, match="has other weights"):
            LocalModel("smollm", folder=tmp_path)

    def test_what_is_damaged_is_refused_and_the_plain_model_answers(self, install: Install) -> None:
        folder = install(BASE, TEMPLATES)
        whole = (folder / ADAPTER).read_bytes()
        for damage in (whole[:-32] + b"\1" * 32, whole[: len(whole) // 2], b"", None):
            (folder / ADAPTER).unlink(missing_ok=True)
            if damage is not None:
                (folder / ADAPTER).write_bytes(damage)
            with pytest.raises(ConfigError, match=r"adapter\.gguf of hoptree-weights is damaged") as refused:
                opened()
            assert "pip install --force-reinstall hoptree-weights" in refused.value.remedy
            assert "'local/NAME?adapter=none'" in refused.value.remedy and refused.value.exit_code == 2
        assert reply(opened("&adapter=none"))

    def test_hop_asks_it_by_its_prompts_and_results_name_it(
        self, install: Install, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def generate(self: LocalModel, request: Request, *, step: str) -> Reply:
            return Reply((Choice("Answer: Wojciech Jerzy Has"),))

        async def load(self: LocalModel) -> None:
            """Leave the weights where they are."""

        monkeypatch.setattr(LocalModel, "generate", generate)
        monkeypatch.setattr(LocalModel, "load", load)
        template = prompt_for("hop", "trained_read").template
        install(BASE, [template])

        async def first_call(settings: str) -> tuple[str, str]:
            model = f"local/smollm?n_ctx=2048{settings}"
            async with Engine(model=model, corpus="sample", budget=Budget(calls=1), cache=None) as engine:
                events, _ = await engine.trace("Who directed the film The Hourglass Sanatorium?")
            return read_result(events, None).model, next(e.template for e in events if isinstance(e, ModelCalled))

        name, asked = asyncio.run(first_call(""))
        assert name.startswith("local/smollm+hoptree@") and asked == template
        assert asyncio.run(first_call("&adapter=none")) == ("local/smollm", prompt_for("hop", "read").template)

    def test_a_truncated_file_without_a_manifest_is_one_error(self, tmp_path: Path) -> None:
        path = lora_file(tmp_path / "mine.gguf")
        path.write_bytes(path.read_bytes()[:-4096])
        broken = opened(f"&adapter={path}")
        with pytest.raises(Exception, match=r"could not load .* with mine\.gguf") as refused:
            reply(broken)
        assert "adapter=none" in str(refused.value)


def test_without_the_package_there_is_nothing_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.core.files.WEIGHTS_PACKAGE", "no_such_package")
    forget()
    assert find_weights() is None and check_adapter().ok is None
    assert "pip install hoptree-weights" in check_adapter().remedy
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 1, "files": [], "bases": {}}', '{"format": 99}'])
def test_a_manifest_that_cannot_be_used(install: Install, text: str) -> None:
    (install(BASE) / WEIGHTS_MANIFEST).write_text(text, encoding="utf-8")
    forget()
    with pytest.raises(ConfigError, match=r"hoptree-weights is (damaged|of another version)") as refused:
        find_weights()
    assert "adapter=none" in refused.value.remedy
    assert check_adapter().ok is False


def test_files_that_are_no_adapters(tmp_path: Path) -> None:
    damaged = lora_file(tmp_path / "damaged.gguf", {"bases": [1], "templates": 1})
    for path, cause in (
        (tmp_path / "none.gguf", "There is no adapter"),
        (lora_file(tmp_path / "model.gguf", kind="model"), "not a LoRA adapter"),
        (damaged, "damaged"),
    ):
        with pytest.raises(ConfigError, match=cause):
            read_adapter(path)


def test_it_is_listed_and_examined(install: Install) -> None:
    digest = read_adapter(install(BASE) / ADAPTER).digest
    rows = json.loads(CliRunner().invoke(app, ["models", "list", "--json"]).output)
    assert {row["alias"]: row["adapter"] for row in rows} == {"local/qwen": None, "local/smollm": digest}
    shown = CliRunner().invoke(app, ["models", "list"]).output
    assert f"the adapter of hoptree-weights ({digest[:8]}); without: local/smollm?adapter=none" in shown
    check = check_adapter()
    assert check.ok and digest[:8] in check.finding and ENTRY.file in check.finding
