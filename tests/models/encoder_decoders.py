"""Tiny random encoder-decoder models of transformers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tests.models.hf_asking import WORDS

__all__ = ["POSITIONS", "RULES", "saved"]

RULES = "Answer in one word: is the river blue, or is it a green hill?"
POSITIONS = 128
SPREAD = 4.0
BY_DISTANCE = ("t5", "mt5", "umt5")


def tokenizer_in(folder: Path, *, before: str) -> Any:
    """Words with marks before them instead of spaces, as T5's tokenizer has; `before` comes before every text."""
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", "<s>"]
    made.train_from_iterator(
        [" ".join(WORDS), RULES],
        tokenizers.trainers.BpeTrainer(vocab_size=120, special_tokens=special, show_progress=False),
    )
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{before} $A </s>".strip(), special_tokens=[(text, made.token_to_id(text)) for text in special]
    )
    whole = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", bos_token="<s>"
    )
    whole.save_pretrained(folder)
    return whole


def saved(folder: Path, kind: str) -> Path:
    """A tiny random model whose tokens depend much on the prompt and on their positions.

    The scores of T5s, which versions of transformers scale otherwise, are spread as BART's: greedy decoding decides,
    and samples differ.
    """
    tokenizer = tokenizer_in(folder, before="" if kind in BY_DISTANCE else "<s>")
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "d_model": 32,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 3,
        "forced_eos_token_id": None,
        "decoder_start_token_id": 0 if kind in BY_DISTANCE else 1,
    }
    if kind in BY_DISTANCE:
        shape |= {"d_kv": 8, "d_ff": 64, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
        shape |= {"initializer_factor": 2.0, "feed_forward_proj": "gated-gelu", "n_positions": 16, "dropout_rate": 0.0}
    else:
        for side, layers in (("encoder", 2), ("decoder", 3)):
            shape |= {f"{side}_layers": layers, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 64}
        shape |= {"max_position_embeddings": POSITIONS, "init_std": 0.8, "dropout": 0.0}
    transformers: Any = importlib.import_module("transformers")
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(3)
    model = transformers.AutoModelForSeq2SeqLM.from_config(transformers.AutoConfig.for_model(kind, **shape)).eval()
    if kind in BY_DISTANCE:
        with torch.no_grad():
            prompt = tokenizer(RULES, return_tensors="pt")["input_ids"]
            scores = model(input_ids=prompt, decoder_input_ids=torch.tensor([[0]])).logits
            model.decoder.final_layer_norm.weight *= SPREAD / scores.std()
    model.save_pretrained(folder)
    return folder
