"""Encode examples, and train a LoRA adapter on them."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.core.errors import ConfigError, EndpointError, HoptreeError
from hoptree.core.lazy import import_optional
from hoptree.models.batching.kv_cache import is_out_of_memory
from hoptree.models.hf_text import DecoderPrompts, EncoderDecoderPrompts
from hoptree.models.hf_weights import Loaded, end_tokens, start_tokens
from hoptree.models.model import Request
from hoptree.training.lora.dataset import ALL_LINEAR, Recipe, RefusedRows, TrainingRow

_ANY_LENGTH = 1 << 40
_PROBE = "zebra"
_NOT_LEARNT = -100
_ATTENTION = "hoptree_packed"


@dataclass(frozen=True, slots=True)
class Example:
    """A row as tokens; the first `prompt` tokens are excluded from the loss."""

    id: str
    tokens: tuple[int, ...]
    prompt: int

    @property
    def reply(self) -> int:
        """The number of tokens in the loss; the last one ends the turn."""
        return len(self.tokens) - self.prompt


@dataclass(frozen=True, slots=True)
class PackedSequence:
    """Packed examples of `lengths`; `targets` are the tokens to learn at `kept`."""

    tokens: list[int]
    positions: list[int]
    kept: list[int]
    targets: list[int]
    lengths: list[int]


def encode(rows: Sequence[TrainingRow], loaded: Loaded, max_length: int) -> list[Example]:
    """Encode rows as tokens; rows that do not fit are an error."""
    longest = min(max_length, loaded.context)
    shorter = "take out what is longer, as the model takes no more"
    if longest < loaded.context:
        shorter = "give --max-length more, or take out what is longer"
    refused = RefusedRows()
    end, ends = end_of_turn(loaded), end_tokens(loaded)
    prompts: DecoderPrompts | EncoderDecoderPrompts = DecoderPrompts(loaded.tokenizer, _ANY_LENGTH)
    if loaded.model.config.is_encoder_decoder:
        prompts = EncoderDecoderPrompts(loaded.tokenizer, _ANY_LENGTH, ())
    vocabulary = int(loaded.model.get_input_embeddings().weight.shape[0])
    examples = []
    for row in rows:
        try:
            prompt = prompts.opening(Request(row.messages)).prompt
        except EndpointError as error:
            refused.add(row.where, error.cause)
            continue
        reply: list[int] = loaded.tokenizer.encode(row.reply, add_special_tokens=False)
        tokens = (*prompt, *reply, end)
        if not prompt:
            refused.add(row.where, "the model's chat template makes an empty prompt of it")
        elif inside := ends.intersection(reply):
            text = loaded.tokenizer.decode([min(inside)])
            refused.add(
                row.where,
                f"its reply holds '{text}', with which the model would end it there",
                f"write replies without '{text}': each gets its end by itself",
            )
        elif len(tokens) > longest:
            refused.add(row.where, f"it has {len(tokens):,} tokens, and {longest:,} are taken", shorter)
        elif max(tokens) >= vocabulary:
            text = loaded.tokenizer.decode([max(tokens)])
            refused.add(row.where, f"the tokenizer writes '{text}' as a token that the model does not know")
        else:
            examples.append(Example(row.id, tokens, len(prompt)))
    refused.check()
    return examples


def end_of_turn(loaded: Loaded) -> int:
    """Return the token that ends a reply in the chat template."""
    tokenizer = loaded.tokenizer
    ends = end_tokens(loaded)
    turns = [{"role": "user", "content": "A?"}, {"role": "assistant", "content": _PROBE}]
    try:
        text = str(tokenizer.apply_chat_template(turns, tokenize=False))
    except Exception:  # templates are programs of the model's makers
        text = ""
    for token in tokenizer.encode(text.rpartition(_PROBE)[2], add_special_tokens=False):
        if token in ends:
            return int(token)
    if tokenizer.eos_token_id is None:
        cause = "The tokenizer has no token that ends a reply."
        raise ConfigError(cause, "Write eos_token into its tokenizer_config.json.")
    return int(tokenizer.eos_token_id)


def pack(examples: Iterable[Example], max_length: int) -> list[PackedSequence]:
    """Pack the examples into few sequences of at most `max_length` tokens."""
    return [_join(group) for group in _group(examples, max_length)]


def _group(examples: Iterable[Example], max_length: int) -> list[list[Example]]:
    """Pack examples into groups of `max_length` tokens (first fit)."""
    bins: list[list[Example]] = []
    for example in sorted(examples, key=lambda example: (-len(example.tokens), example.id)):
        room = max_length - len(example.tokens)
        fitting = next((place for place in bins if sum(len(other.tokens) for other in place) <= room), None)
        if fitting is None:
            bins.append(fitting := [])
        fitting.append(example)
    return bins


def _join(examples: Sequence[Example]) -> PackedSequence:
    joined = PackedSequence([], [], [], [], [])
    for example in examples:
        begin = len(joined.tokens)
        joined.tokens.extend(example.tokens)
        joined.positions.extend(range(len(example.tokens)))
        joined.kept.extend(range(begin + example.prompt - 1, begin + len(example.tokens) - 1))
        joined.targets.extend(example.tokens[example.prompt :])
        joined.lengths.append(len(example.tokens))
    return joined


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among all processes; only the first writes files."""

    device: str
    rank: int = 0
    world: int = 1

    def share(self, examples: Sequence[Any]) -> Sequence[Any]:
        return examples[self.rank :: self.world]

    def add_up(self, tensors: Sequence[Any]) -> None:
        """Replace tensors by their sums over all processes, in one transfer."""
        if self.world == 1:
            return
        torch: Any = importlib.import_module("torch")
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        torch.distributed.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def wait(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            importlib.import_module("torch").distributed.barrier()

    def leave(self) -> None:
        """Leave the process group."""
        if self.world > 1:
            importlib.import_module("torch").distributed.destroy_process_group()


def start_processes(device: str) -> Processes:
    """Join the processes started together, on `device` or an accelerator."""
    torch: Any = importlib.import_module("torch")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        accelerate = import_optional("accelerate", "Training by several processes", "train")
        state = accelerate.PartialState(cpu=device == "cpu")
        return Processes(str(state.device), state.process_index, state.num_processes)
    if not device:
        return Processes("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = device.partition(":")
    devices = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if kind not in devices or (number and not number.isdigit()):
        raise ConfigError(f"There is no device {device}.", "Choose cpu, cuda, cuda:0 or mps.")
    if int(number or 0) >= devices[kind]:
        raise ConfigError(f"This machine has no device {device} that torch can use.", "Leave --device out.")
    return Processes(device)


# The defaults of the paper's framework; the paper names no others.
_MAX_GRADIENT_NORM = 1.0
_WEIGHT_DECAY = 0.0


class Learner:
    """The base model with an adapter that is trained in 32 bits."""

    def __init__(
        self, model: Any, recipe: Recipe, processes: Processes, *, checkpointing: bool = False, packing: bool = True
    ) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._recipe = recipe
        self._processes = processes
        self._max_length = recipe.max_length if packing else 1
        self._start = start_tokens(model) if model.config.is_encoder_decoder else []
        self._packed_attention = not self._start and not _has_windows(model.config.get_text_config())
        if not self._start:  # batched inference sets its own
            model.set_attn_implementation(_register_attention() if self._packed_attention else "sdpa")
        # cuDNN prepares each new length again, and with a mask its gradients are not finite for lengths of 64 tokens
        # more than a multiple of 128 (pytorch issue 196678; Qwen2.5 meets it within 50 steps).
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
            self.weights.values(), lr=recipe.learning_rate, weight_decay=_WEIGHT_DECAY
        )

    def step(self, examples: Sequence[Example], number: int, steps: int) -> float:
        """Learn from the examples of a step; return their mean loss."""
        self._torch.manual_seed(self._recipe.seed + number)
        with _explain_out_of_memory(self._recipe):
            loss = self.gradients(examples)
        gradient = self._torch.nn.utils.clip_grad_norm_(self.weights.values(), _MAX_GRADIENT_NORM)
        for what, value in (("loss", loss), ("gradient", gradient)):
            if not self._torch.isfinite(value):  # before it reaches the weights
                cause = f"The {what} of step {number + 1} is not finite."
                raise HoptreeError(cause, "Give --learning-rate less, or --dtype fp32, and another --out.")
        for group in self.optimiser.param_groups:
            group["lr"] = self._recipe.rate(number, steps)
        self.optimiser.step()
        return float(loss)

    def gradients(self, examples: Sequence[Example]) -> Any:
        """Compute the loss and its gradients, summed over all processes."""
        reply_tokens = sum(example.reply for example in examples)
        for weight in self.weights.values():
            weight.grad = self._torch.zeros_like(weight)
        loss = self._torch.zeros((), device=self._processes.device)
        for group in _group(self._processes.share(examples), self._max_length):
            part = (self._padded_loss(group) if self._start else self._loss(_join(group))) / reply_tokens
            part.backward()
            loss += part.detach()
        self._processes.add_up([loss, *(weight.grad for weight in self.weights.values())])
        return loss

    def _loss(self, sequence: PackedSequence) -> Any:
        device = self._processes.device
        torch = self._torch
        tokens, positions, kept, targets = (
            torch.tensor(numbers, device=device)
            for numbers in (sequence.tokens, sequence.positions, sequence.kept, sequence.targets)
        )
        more = {"hoptree_lengths": sequence.lengths} if self._packed_attention else {}
        with self._autocast():
            # With "sdpa" and without a mask and cache, transformers separates examples where positions restart.
            # Logits are computed only for positions in the loss.
            out = self._model(
                input_ids=tokens[None], position_ids=positions[None], logits_to_keep=kept, use_cache=False, **more
            )
        return torch.nn.functional.cross_entropy(out.logits[0].float(), targets, reduction="sum")

    def _padded_loss(self, examples: Sequence[Example]) -> Any:
        """Return the loss of an encoder-decoder, without padding."""
        torch = self._torch

        def padded(rows: Iterable[Sequence[int]], value: int) -> Any:
            tensors = [torch.tensor(row, device=self._processes.device) for row in rows]
            return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)

        prompts = [example.tokens[: example.prompt] for example in examples]
        replies = [example.tokens[example.prompt :] for example in examples]
        with self._autocast():
            out = self._model(
                input_ids=padded(prompts, 0),
                attention_mask=padded([[1] * len(prompt) for prompt in prompts], 0),
                decoder_input_ids=padded([(*self._start, *reply[:-1]) for reply in replies], 0),
                use_cache=False,
            )
        logits, targets = out.logits[:, len(self._start) - 1 :].float(), padded(replies, _NOT_LEARNT)
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=_NOT_LEARNT, reduction="sum"
        )

    def _autocast(self) -> Any:
        device, half = self._processes.device.partition(":")[0], self._model.dtype != self._torch.float32
        return self._torch.autocast(device, dtype=self._torch.bfloat16, enabled=half)


def _has_windows(config: Any) -> bool:
    """Return whether a layer attends only to the nearest tokens."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return kinds != {"full_attention"} or getattr(config, "sliding_window", None) is not None


def _register_attention() -> str:
    """Register an attention within each packed example; return its name."""
    transformers: Any = importlib.import_module("transformers")
    torch: Any = importlib.import_module("torch")
    attention = transformers.AttentionInterface()["sdpa"]

    def attend(
        module: Any, query: Any, key: Any, value: Any, mask: Any, *, hoptree_lengths: list[int], **more: Any
    ) -> tuple[Any, None]:
        # A mask over the whole sequence would be quadratic, and rule out the fast kernels.
        parts = zip(*(tensor.split(hoptree_lengths, dim=2) for tensor in (query, key, value)), strict=True)
        return torch.cat([attention(module, *part, None, **more)[0] for part in parts], dim=1), None

    transformers.AttentionInterface.register(_ATTENTION, attend)
    return _ATTENTION


def _adapted(model: Any, recipe: Recipe) -> Any:
    torch: Any = importlib.import_module("torch")
    peft: Any = importlib.import_module("peft")
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    names = recipe.names
    if names != [ALL_LINEAR]:
        ends = {name.rpartition(".")[2] for name in linear}
        for name in names:
            if name not in ends:
                cause = f"The model has no linear layer {name}."
                raise ConfigError(cause, f"Give --targets {ALL_LINEAR}, or some of {', '.join(sorted(ends))}.")
    config = peft.LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=ALL_LINEAR if names == [ALL_LINEAR] else names,
        task_type="SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM",
    )
    return peft.get_peft_model(model, config)


@contextlib.contextmanager
def _explain_out_of_memory(recipe: Recipe) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each kind of device raises another error
        if not is_out_of_memory(error):
            raise
        raise EndpointError(
            f"Out of memory for sequences of {recipe.max_length:,} tokens.",
            "Give --checkpointing, or --max-length less (the longest example must fit).",
            exit_code=2,
        ) from error
