"""What is learnt from a step does not depend on how its examples are packed, divided or recomputed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.models.encoder_decoders import saved as saved_encoder_decoder
from tests.models.hf_models import saved
from tests.training.lora.small_sets import many, write

from hoptree.core.errors import ConfigError, EndpointError, HoptreeError
from hoptree.training.lora.dataset import Recipe, read_sets

torch: Any = pytest.importorskip("torch")
pytest.importorskip("peft")

from hoptree.training.lora.learner import Processes  # noqa: E402 - it needs torch

lora: Any = importlib.import_module("hoptree.training.lora.learner")
encoding: Any = importlib.import_module("hoptree.training.lora.learner")
weights: Any = importlib.import_module("hoptree.models.hf_weights")

HERE = Processes("cpu")


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("windowed"), "windowed")


def opened(folder: Path) -> Any:
    return weights.load(weights.resolve_source(str(folder)), dtype="float32", device="cpu")


def examples(folder: Path, tmp_path: Path, count: int = 10) -> list[Any]:
    (one,) = read_sets([write(tmp_path / "set.jsonl", many(count, 40))], "")
    found: list[Any] = encoding.encode(one.rows, opened(folder), 512)
    return found


def learner(folder: Path, recipe: Recipe, processes: Processes = HERE, **options: Any) -> Any:
    """A learner whose adapter does something already: a new one adds nothing, and its gradients are mostly 0."""
    made = lora.Learner(opened(folder).model, recipe, processes, **options)
    torch.manual_seed(7)
    for weight in made.weights.values():
        weight.data.normal_(std=0.05)
    return made


def gradients(made: Any, found: list[Any]) -> tuple[float, dict[str, Any]]:
    loss = float(made.gradients(found))
    return loss, {name: weight.grad.clone() for name, weight in made.weights.items()}


def alike(one: dict[str, Any], other: dict[str, Any], tolerance: float = 1e-5) -> bool:
    return all(
        torch.allclose(one[name], other[name], atol=tolerance * float(one[name].abs().max()), rtol=0) for name in one
    )


@pytest.mark.parametrize("kind", ["plain", "windowed"])
def test_packed_and_alone_are_the_same(kind: str, base: Path, windowed: Path, tmp_path: Path) -> None:
    folder = base if kind == "plain" else windowed
    found = examples(folder, tmp_path)
    together, alone = learner(folder, Recipe(max_length=512)), learner(folder, Recipe(max_length=1))
    assert len(encoding.pack(found, 512)) < len(encoding.pack(found, 1)) == len(found)
    loss, packed = gradients(together, found)
    lonely, unpacked = gradients(alone, found)
    assert loss == pytest.approx(lonely, rel=1e-6)
    assert alike(packed, unpacked)
    assert min(float(gradient.abs().max()) for gradient in packed.values()) > 1e-4, "there is something to compare"


def test_packed_examples_have_the_gradients_of_plain_attention(base: Path, tmp_path: Path) -> None:
    found = examples(base, tmp_path)
    loss, packed = gradients(learner(base, Recipe(max_length=512)), found)
    plain = learner(base, Recipe())
    model, replies = plain.adapted.get_base_model(), sum(example.reply for example in found)
    model.set_attn_implementation("sdpa")
    for example in found:
        logits = model(input_ids=torch.tensor([example.tokens]), use_cache=False).logits[0, example.prompt - 1 : -1]
        targets = torch.tensor(example.tokens[example.prompt :])
        part = torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / replies
        part.backward()
        loss -= float(part.detach())
    assert loss == pytest.approx(0, abs=1e-5)
    assert alike(packed, {name: weight.grad for name, weight in plain.weights.items()})


def test_layers_with_windows_read_the_packed_sequence_as_transformers_does(base: Path, windowed: Path) -> None:
    def attention(folder: Path) -> str:
        return str(learner(folder, Recipe()).adapted.get_base_model().config._attn_implementation)

    assert attention(windowed) == "sdpa" != attention(base)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_an_encoder_decoder_learns_the_replies_to_the_prompts_it_reads(kind: str, tmp_path: Path) -> None:
    folder = saved_encoder_decoder(tmp_path / kind, kind)
    found = examples(folder, tmp_path)
    together, alone = learner(folder, Recipe(max_length=120)), learner(folder, Recipe(max_length=1))
    loss, padded = gradients(together, found)
    lonely, unpadded = gradients(alone, found)
    assert loss == pytest.approx(lonely, rel=1e-5)
    assert alike(padded, unpadded, 1e-3)
    assert min(float(gradient.abs().max()) for gradient in padded.values()) > 1e-6, "both halves learn"
    total, count = 0.0, 0
    for example in found:
        reply = torch.tensor([example.tokens[example.prompt :]])
        with torch.no_grad():  # transformers itself begins the decoder's text
            out = alone.adapted(input_ids=torch.tensor([example.tokens[: example.prompt]]), labels=reply)
        total, count = total + float(out.loss) * example.reply, count + example.reply
    assert loss == pytest.approx(total / count, rel=1e-5)


def test_the_loss_is_that_of_the_replies_alone(base: Path, tmp_path: Path) -> None:
    found = examples(base, tmp_path, 3)
    made = learner(base, Recipe())
    loss = float(made.gradients(found))
    made.adapted.get_base_model().set_attn_implementation("sdpa")
    total, count = 0.0, 0
    for example in found:
        tokens = torch.tensor([example.tokens])
        with torch.no_grad():
            chances = made.adapted(input_ids=tokens).logits[0].log_softmax(-1)
        for place in range(example.prompt, len(example.tokens)):
            total, count = total - float(chances[place - 1, example.tokens[place]]), count + 1
    assert loss == pytest.approx(total / count, rel=1e-5)


def test_recomputing_changes_nothing(base: Path, tmp_path: Path) -> None:
    found = examples(base, tmp_path)
    loss, plain = gradients(learner(base, Recipe()), found)
    again, recomputed = gradients(learner(base, Recipe(), checkpointing=True), found)
    assert loss == again and alike(plain, recomputed, 1e-7)


def test_several_processes_learn_what_one_learns(base: Path, tmp_path: Path) -> None:
    found = examples(base, tmp_path)
    loss, whole = gradients(learner(base, Recipe()), found)

    class Apart(Processes):
        """Two processes that do not hear from each other, so that what each adds is seen."""

        def add_up(self, tensors: Any) -> None:
            pass

    parts = [gradients(learner(base, Recipe(), Apart("cpu", rank, 2)), found) for rank in (0, 1)]
    assert sum(part for part, _ in parts) == pytest.approx(loss, rel=1e-6)
    assert alike(whole, {name: parts[0][1][name] + parts[1][1][name] for name in whole})


def test_a_step_of_fewer_examples_than_processes(base: Path, tmp_path: Path) -> None:
    found = examples(base, tmp_path, 1)
    loss, nothing = gradients(learner(base, Recipe(), Processes("cpu", 1, 1)), found)
    assert loss == 0 and all(not gradient.any() for gradient in nothing.values())


def test_only_the_adapter_learns_and_in_32_bits(base: Path, tmp_path: Path) -> None:
    found = examples(base, tmp_path, 3)
    model = opened(base).model.to(torch.bfloat16)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    made = lora.Learner(model, Recipe(learning_rate=0.01, dtype="bf16"), HERE)
    assert {weight.dtype for weight in made.weights.values()} == {torch.float32}
    losses = [made.step(found, step, 5) for step in range(5)]
    assert losses[-1] < losses[0]
    frozen = {name: weight for name, weight in made.adapted.named_parameters() if name not in made.weights}
    assert len(frozen) == len(before)
    for name, weight in frozen.items():
        plain = name.removeprefix("base_model.model.").replace(".base_layer", "")
        assert torch.equal(weight, before[plain])


def test_layers_are_chosen_by_name(base: Path) -> None:
    made = lora.Learner(opened(base).model, Recipe(targets="q_proj, v_proj"), HERE)
    assert {name.split(".")[-4] for name in made.weights} == {"q_proj", "v_proj"}
    every = lora.Learner(opened(base).model, Recipe(), HERE)
    assert {name.split(".")[-4] for name in every.weights} >= {"q_proj", "o_proj", "down_proj"}
    assert not any("lm_head" in name for name in every.weights)
    with pytest.raises(ConfigError, match="no linear layer q_prj") as refused:
        lora.Learner(opened(base).model, Recipe(targets="q_prj"), HERE)
    assert "q_proj" in refused.value.remedy


def test_dropout_of_a_step_does_not_rest_on_those_before(base: Path, tmp_path: Path) -> None:
    found = examples(base, tmp_path)
    recipe = Recipe(dropout=0.5, learning_rate=1e-12)

    def loss_of_step_3(begin: int) -> list[float]:
        made = learner(base, recipe)
        return [made.step(found, step, 9) for step in range(begin, 4)]

    all_steps, last = loss_of_step_3(0), loss_of_step_3(3)
    assert all_steps[-1] == pytest.approx(last[-1], rel=1e-6)
    assert all_steps[0] != pytest.approx(all_steps[1], rel=1e-6), "each step has another chance"


def test_losses_that_are_none_and_memory_that_is_full(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examples(base, tmp_path, 2)
    made = learner(base, Recipe())
    next(iter(made.weights.values())).data.fill_(float("nan"))
    with pytest.raises(HoptreeError, match="loss of step 5 is not finite"):
        made.step(found, 4, 9)

    def full(_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(made, "gradients", full)
    with pytest.raises(EndpointError, match="Out of memory for sequences of 2,048 tokens") as refused:
        made.step(found, 4, 9)
    assert refused.value.exit_code == 2 and "--checkpointing" in refused.value.remedy


def test_gradients_that_are_none_leave_the_weights_as_they_were(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examples(base, tmp_path, 2)
    made = learner(base, Recipe(learning_rate=0.1))
    before = {name: weight.detach().clone() for name, weight in made.weights.items()}
    gradients_of = made.gradients

    def spoilt(given: Any) -> Any:
        loss = gradients_of(given)
        next(iter(made.weights.values())).grad.fill_(float("nan"))
        return loss

    monkeypatch.setattr(made, "gradients", spoilt)
    with pytest.raises(HoptreeError, match="gradient of step 5 is not finite"):
        made.step(found, 4, 9)
    assert all(torch.equal(weight, before[name]) for name, weight in made.weights.items())


def test_attention_is_never_cudnns(base: Path) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    learner(base, Recipe())
    assert not torch.backends.cuda.cudnn_sdp_enabled()
