"""Tiny random models of transformers."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.models.hf_asking import WORDS

from hoptree.models.model import Request

__all__ = ["RULES", "by_transformers", "saved"]

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RULES = "Answer in one word and never explain anything at all to anybody. " * 9


def tokenizer_in(folder: Path) -> Any:
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>"]
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator([" ".join(WORDS), RULES], trainer)
    whole = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>")
    whole.chat_template = TEMPLATE
    whole.save_pretrained(folder)
    return whole


def saved(folder: Path, kind: str, *, context: int = 1024) -> Path:
    """A tiny random model: plain attention, or each token looking back over a few others only."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    tokenizer = tokenizer_in(folder)
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": context,
        "initializer_range": 0.6,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }
    torch.manual_seed(3)
    if kind == "windowed":
        config = transformers.MistralConfig(**shape, sliding_window=24)
    else:
        config = transformers.LlamaConfig(**shape)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def by_transformers(model: Any, requests: Sequence[Request]) -> list[str]:
    """The greedy texts of transformers' own loop and attention, one request after another."""
    loaded = model.loaded()
    loaded.model.set_attn_implementation("sdpa")
    found = []
    for request in requests:
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        text = loaded.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = loaded.tokenizer(text, return_tensors="pt", add_special_tokens=False)
        inputs.pop("token_type_ids", None)
        end = loaded.tokenizer.eos_token_id
        out = loaded.model.generate(
            **inputs, max_new_tokens=request.max_tokens, do_sample=False, eos_token_id=end, pad_token_id=end
        )
        new = out[0, inputs["input_ids"].shape[1] :]
        found.append(loaded.tokenizer.decode(new, skip_special_tokens=True).strip())
    loaded.model.set_attn_implementation(importlib.import_module("hoptree.models.batching.kv_cache").ATTENTION)
    return found
