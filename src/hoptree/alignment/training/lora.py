"""A model with a LoRA adapter that learns, one step after another."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from hoptree.alignment.training.encoding import Example, Packed, packed
from hoptree.alignment.training.processes import Processes
from hoptree.alignment.training.recipe import ALL_LINEAR, Recipe
from hoptree.errors import ConfigError, EndpointError, HoptreeError
from hoptree.models.batching.memory import is_memory

__all__ = ["Learner"]

# What the paper's framework does unless it is told otherwise, and the paper tells nothing else.
LONGEST_GRADIENT = 1.0
WEIGHT_DECAY = 0.0


class Learner:
    """The base with an adapter on it: only the adapter learns, and it has 32 bits whatever the base has.

    Without `packing` every example is a sequence of its own.
    """

    def __init__(
        self, model: Any, recipe: Recipe, processes: Processes, *, checkpointing: bool = False, packing: bool = True
    ) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._recipe = recipe
        self._processes = processes
        self._longest = recipe.max_length if packing else 1
        model.set_attn_implementation("sdpa")  # the batch of inference has one of its own
        # cuDNN plans each new length anew, and its gradients are no numbers for sequences of 64 tokens more than a
        # multiple of 128 under a mask (pytorch issue 196678; Qwen2.5 meets it within 50 steps).
        self._torch.backends.cuda.enable_cudnn_sdp(False)
        self._torch.manual_seed(recipe.seed)
        self.adapted = _adapted(model, recipe)
        self._model = self.adapted.get_base_model()
        self._model.train()
        if checkpointing:
            self._model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.weights: dict[str, Any] = {
            name: weight for name, weight in sorted(self.adapted.named_parameters()) if weight.requires_grad
        }
        self.optimiser: Any = self._torch.optim.AdamW(
            self.weights.values(), lr=recipe.learning_rate, weight_decay=WEIGHT_DECAY
        )

    def step(self, examples: Sequence[Example], number: int, steps: int) -> float:
        """Learn from the examples of one step, counted from 0; the loss is the mean over all tokens of their replies.

        Chance (of dropout) begins anew at each step, so that a training which goes on needs none of what was before.
        """
        self._torch.manual_seed(self._recipe.seed + number)
        with _memory(self._recipe):
            loss = self.gradients(examples)
        self._check("loss", loss, number)
        self._check("gradient", self._torch.nn.utils.clip_grad_norm_(self.weights.values(), LONGEST_GRADIENT), number)
        for group in self.optimiser.param_groups:
            group["lr"] = self._recipe.rate(number, steps)
        self.optimiser.step()
        return float(loss)

    def _check(self, what: str, value: Any, number: int) -> None:
        """Stop before the weights are spoilt, so that what was saved stays good."""
        if not self._torch.isfinite(value):
            raise HoptreeError(
                f"The {what} of step {number + 1} is no number any more.",
                "Give --learning-rate less, or --dtype fp32, and another --out.",
            )

    def gradients(self, examples: Sequence[Example]) -> Any:
        """The loss of the examples, with its gradients in the weights: sums over what the processes have of them.

        How examples are packed, and who has which, changes nothing but rounding.
        """
        told = sum(example.reply for example in examples)
        for weight in self.weights.values():
            weight.grad = self._torch.zeros_like(weight)
        loss = self._torch.zeros((), device=self._processes.device)
        for one in packed(self._processes.share(examples), self._longest):
            part = self._loss(one) / told
            part.backward()
            loss += part.detach()
        self._processes.add_up([loss, *(weight.grad for weight in self.weights.values())])
        return loss

    def _loss(self, one: Packed) -> Any:
        device = self._processes.device
        torch = self._torch
        tokens, positions, told, learnt = (
            torch.tensor(numbers, device=device) for numbers in (one.tokens, one.positions, one.told, one.learnt)
        )
        half = self._model.dtype != torch.float32
        with torch.autocast(device.partition(":")[0], dtype=torch.bfloat16, enabled=half):
            # Without a mask and a cache transformers keeps examples apart whose positions begin anew, in the way of
            # each layer. Only the places that are learnt from are turned into tokens.
            out = self._model(
                input_ids=tokens[None], position_ids=positions[None], logits_to_keep=told, use_cache=False
            )
        return torch.nn.functional.cross_entropy(out.logits[0].float(), learnt, reduction="sum")


def _adapted(model: Any, recipe: Recipe) -> Any:
    torch: Any = importlib.import_module("torch")
    peft: Any = importlib.import_module("peft")
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    names = recipe.names
    if names != [ALL_LINEAR]:
        ends = {name.rpartition(".")[2] for name in linear}
        for name in names:
            if name not in ends:
                raise ConfigError(
                    f"The model has no linear layer {name}.",
                    f"Give --targets {ALL_LINEAR}, or some of {', '.join(sorted(ends))}.",
                )
    config = peft.LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=ALL_LINEAR if names == [ALL_LINEAR] else names,
        task_type="CAUSAL_LM",
    )
    return peft.get_peft_model(model, config)


@contextlib.contextmanager
def _memory(recipe: Recipe) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each kind of device has an error of its own for this
        if not is_memory(error):
            raise
        raise EndpointError(
            f"There is no memory for sequences of {recipe.max_length:,} tokens.",
            "Give --checkpointing, or --max-length less (the longest example must fit).",
            exit_code=2,
        ) from error
