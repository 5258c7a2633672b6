"""Requests on one model of transformers: as a running batch, by its own continuous batching, by hand, one by one.

The requests are like those of a method that asks many questions at once: a few instructions, each shared by many
prompts, then passages of mixed length, and replies of mixed length. By hand means what a script would do: groups of
requests in the order they come, padded on the left, one `generate` of transformers for each group, which runs until
the longest reply of the group is done. Only tokens that a request asked for count.

Greedy texts are compared: in fp32 they must be the same batched and one by one, with shorter numbers the share that
agrees is printed. Ratios come last; the exit code is 1 where fp32 texts differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hoptree
from hoptree.models.batching.kv_cache import ATTENTION
from hoptree.models.hf import HFModel
from hoptree.models.model import Message, Request

STEPS = (
    "Answer the question in a few words and say nothing else.",
    "Cut the question into simpler questions, one a line, and number them.",
    "Read the passages, then answer the question from what they say, in one sentence.",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What answering requests took, and what was said."""

    seconds: float
    tokens: int
    texts: list[str]

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def sample(file: str, field: str) -> list[str]:
    """Texts of the packaged sample, read as a file: its module would load a search engine."""
    path = Path(hoptree.__file__).parent / "sample" / file
    return [json.loads(line)[field] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def make_requests(count: int, most_tokens: int, longest: int) -> list[Request]:
    """Prompts of the sample's questions and passages; the same for the same numbers."""
    chance = random.Random(11)
    questions, texts = sample("questions.jsonl", "question"), sample("corpus.jsonl", "text")
    demonstrations = {step: " ".join(chance.choices(texts, k=10))[:longest] for step in STEPS}
    made = []
    for number in range(count):
        step = STEPS[number % len(STEPS)]
        read = " ".join(chance.choices(texts, k=chance.randint(0, 18)))[:longest]
        prompt = f"{step}\n\n{demonstrations[step]}\n\n{read}\n\nQuestion: {chance.choice(questions)}"
        made.append(Request((Message("user", prompt),), max_tokens=chance.randint(most_tokens // 20 + 1, most_tokens)))
    return made


async def batched(model: HFModel, requests: Sequence[Request]) -> Outcome:
    began = time.perf_counter()
    replies = await asyncio.gather(*(model.generate(request, step="benchmark") for request in requests))
    seconds = time.perf_counter() - began
    return Outcome(seconds, sum(reply.usage.completion for reply in replies), [reply.text for reply in replies])


async def one_by_one(model: HFModel, requests: Sequence[Request]) -> Outcome:
    began = time.perf_counter()
    replies = [await model.generate(request, step="benchmark") for request in requests]
    seconds = time.perf_counter() - began
    return Outcome(seconds, sum(reply.usage.completion for reply in replies), [reply.text for reply in replies])


def by_hand(model: HFModel, requests: Sequence[Request], group: int) -> Outcome:
    loaded = model.loaded()
    loaded.model.set_attn_implementation("sdpa")
    loaded.tokenizer.padding_side = "left"
    if loaded.tokenizer.pad_token is None:
        loaded.tokenizer.pad_token = loaded.tokenizer.eos_token
    tokens, texts = 0, []
    began = time.perf_counter()
    for start in range(0, len(requests), group):
        for new in generated(loaded, requests[start : start + group]):
            tokens += len(new)
            texts.append(loaded.tokenizer.decode(new, skip_special_tokens=True).strip())
    seconds = time.perf_counter() - began
    loaded.model.set_attn_implementation(ATTENTION)
    return Outcome(seconds, tokens, texts)


def continuous(model: HFModel, requests: Sequence[Request]) -> Outcome:
    """Answer by transformers' own continuous batching, each request with its own limit."""
    loaded = model.loaded()
    end = loaded.tokenizer.eos_token_id
    config = type(loaded.model.generation_config)(do_sample=False, eos_token_id=end, pad_token_id=end)
    ids = [loaded.tokenizer(text, add_special_tokens=False)["input_ids"] for text in prompt_texts(loaded, requests)]
    replies: dict[str, list[int]] = {}
    loaded.model.set_attn_implementation("sdpa")
    with loaded.model.continuous_batching_context_manager(generation_config=config, block=True) as manager:
        began = time.perf_counter()
        names = [
            manager.add_request(prompt, max_new_tokens=request.max_tokens)
            for prompt, request in zip(ids, requests, strict=True)
        ]
        while len(replies) < len(names):
            result = manager.get_result(timeout=1)
            if result is not None and result.is_finished():
                replies[result.request_id] = list(result.generated_tokens)
            elif result is None and not manager.is_running():
                raise SystemExit("transformers' continuous batching ended before all requests were answered")
        seconds = time.perf_counter() - began
    loaded.model.set_attn_implementation(ATTENTION)
    texts = [loaded.tokenizer.decode(replies[name], skip_special_tokens=True).strip() for name in names]
    return Outcome(seconds, sum(map(len, replies.values())), texts)


def prompt_texts(loaded: Any, requests: Sequence[Request]) -> list[str]:
    """Return the requests as the chat template writes them."""
    return [
        loaded.tokenizer.apply_chat_template(
            [{"role": message.role, "content": message.content} for message in request.messages],
            tokenize=False,
            add_generation_prompt=True,
        )
        for request in requests
    ]


def generated(loaded: Any, requests: Sequence[Request]) -> list[list[int]]:
    """The new tokens of each request, without those behind its end."""
    prompts = prompt_texts(loaded, requests)
    inputs = loaded.tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    inputs.pop("token_type_ids", None)
    out = loaded.model.generate(
        **inputs.to(loaded.model.device),
        max_new_tokens=max(request.max_tokens for request in requests),
        do_sample=False,
        pad_token_id=loaded.tokenizer.pad_token_id,
        repetition_penalty=1.0,
        eos_token_id=loaded.tokenizer.eos_token_id,
    )
    found = []
    for request, row in zip(requests, out[:, inputs["input_ids"].shape[1] :].tolist(), strict=True):
        new = row[: request.max_tokens]
        end = loaded.tokenizer.eos_token_id
        found.append(new[: new.index(end) + 1] if end in new else new)
    return found


def agreement(one: Sequence[str], other: Sequence[str]) -> float:
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def measure(model: HFModel, requests: Sequence[Request], singles: int, group: int) -> int:
    began = time.perf_counter()
    loaded = model.loaded()
    print(f"loaded in {time.perf_counter() - began:.1f} s, {loaded.model.device}, {loaded.model.dtype}")
    asyncio.run(batched(model, requests[:2]))  # the first passes of a process load kernels
    by_hand(model, requests[:2], 2)
    together = asyncio.run(batched(model, requests))
    print(f"{'batched':<24} {together.rate:>10.1f} tokens a second  {len(requests)} requests, {together.seconds:.1f} s")
    hand = by_hand(model, requests, group)
    print(f"{f'by hand, {group} at once':<24} {hand.rate:>10.1f} tokens a second  {hand.seconds:.1f} s")
    theirs = continuous(model, requests) if model.loaded().model.device.type == "cuda" else None
    if theirs:
        print(f"{'transformers, continuous':<24} {theirs.rate:>10.1f} tokens a second  {theirs.seconds:.1f} s")
    alone = asyncio.run(one_by_one(model, requests[:singles]))
    print(f"{'one by one':<24} {alone.rate:>10.1f} tokens a second  {singles} requests, {alone.seconds:.1f} s")
    same = agreement(together.texts[:singles], alone.texts)
    print(f"batched and one by one agree on {same:.1%} of {singles} texts")
    print(f"batched and by hand agree on {agreement(together.texts, hand.texts):.1%} of {len(requests)} texts")
    print(f"{'batched / one by one':<24} {together.rate / alone.rate:>10.2f}x")
    if theirs:
        print(f"batched and transformers' agree on {agreement(together.texts, theirs.texts):.1%} of the texts")
        print(f"{'batched / transformers':<24} {together.rate / theirs.rate:>10.2f}x")
    print(f"{'batched / by hand':<24} {together.rate / hand.rate:>10.2f}x")
    return 1 if "dtype=fp32" in model.identity and same < 1 else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm", help="as behind hf/ (default smollm)")
    parser.add_argument("--requests", type=int, default=256, help="how many at once (default 256)")
    parser.add_argument("--singles", type=int, default=24, help="how many of them one by one (default 24)")
    parser.add_argument("--group", type=int, default=64, help="requests of a group made by hand (default 64)")
    parser.add_argument("--max-tokens", type=int, default=200, help="of the longest reply (default 200)")
    parser.add_argument("--longest", type=int, default=4000, help="characters of passages in a prompt (default 4000)")
    parser.add_argument("--dtype", default="", help="fp32, bf16 or fp16 (default: the device's)")
    parser.add_argument("--device", default="", help="cuda or cpu (default: cuda if there is one)")
    parser.add_argument("--max-batch-tokens", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="8 short requests, for a machine without accelerator")
    chosen = parser.parse_args()
    if min(chosen.requests, chosen.singles, chosen.group, chosen.max_tokens) < 1:
        parser.error("--requests, --singles, --group and --max-tokens are 1 or more")
    if chosen.quick:
        chosen.requests, chosen.singles, chosen.group, chosen.max_tokens, chosen.longest = 8, 3, 4, 16, 150
    model = HFModel(chosen.model, dtype=chosen.dtype, device=chosen.device, max_batch_tokens=chosen.max_batch_tokens)
    requests = make_requests(chosen.requests, chosen.max_tokens, chosen.longest)
    try:
        return measure(model, requests, min(chosen.singles, chosen.requests), chosen.group)
    finally:
        asyncio.run(model.aclose())


if __name__ == "__main__":
    sys.exit(main())
