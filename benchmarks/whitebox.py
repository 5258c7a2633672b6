"""Signals from the inside of a model of transformers: whether they are true, and what they cost.

Truth: entropy, log-probability, attention and hidden state of every token of greedy replies, asked for in batches of
1, 4 and 16 (no more than there are prompts), against the slow and obvious way: transformers alone, one prompt at a
time, eager attention, all matrices of a pass over the whole text, sums in 64 bits. The largest differences are printed.

Cost: tokens a second with entropy and attention against plain `generate` of transformers (its own attention, no
signals), one request at a time and in turns, so that other work on the machine strikes both alike; and of 32 questions
at once against one at a time, each with a short prompt and a reply of full length, as a method asks that retrieves
while it writes. Memory: the peak of the same requests one at a time, with signals and by plain `generate`, each
counted from its own beginning and with the weights: of the accelerator's allocator, or of the process (on Linux, where
its peak can be reset). That comes first, without signals before with them.

Goals come last; the exit code is 1 where one is missed. In shorter numbers than fp32 batches round differently, texts
part, and differences are printed but not judged; nor is the throughput of the few short replies of --quick.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import hoptree
from hoptree.models.batching.kv_cache import ATTENTION
from hoptree.models.hf import HFModel
from hoptree.models.model import Choice, Message, Request, Signal

SIGNALS: frozenset[Signal] = frozenset(("entropy", "attention", "hidden"))
TIMED: frozenset[Signal] = frozenset(("entropy", "attention"))
SIZES = (1, 4, 16)
# Of the sums of 32 bits of a pass through all layers; 64 bits are only in the reference's last step.
TOLERANCE = {"entropy": 1e-3, "logprob": 1e-3, "attention": 1e-4, "hidden": 1e-2}
SLOWER = 1.15
# Weights, keys, values and one distribution over all tokens are there by either way; a row of attention a token is
# little. With SmolLM2 and prompts of 168 and 313 tokens it was 1.03 times, and 1.33 times in an eager pass, which
# keeps the matrices of all layers: the bound lies between.
LARGER = 1.1
AT_ONCE = 32
QUICK_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Signals:
    """What was told of a reply: a number a token (attention: but for the last), and the last token's state."""

    text: str
    logprob: list[float]
    entropy: list[float]
    attention: list[float]
    hidden: list[float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure with what it has to reach, or to stay under."""

    name: str
    value: float
    goal: float
    most: bool = False

    @property
    def missed(self) -> bool:
        return not (self.value <= self.goal if self.most else self.value >= self.goal)

    def line(self) -> str:
        bound = "at most" if self.most else "at least"
        return f"{self.name:<58} {self.value:12.4g}  {bound} {self.goal:<6g}  {'FAIL' if self.missed else 'pass'}"


@contextmanager
def attention_by(loaded: Any, kind: str) -> Iterator[None]:
    """transformers' own attention of that kind instead of the batch's."""
    loaded.model.set_attn_implementation(kind)
    try:
        yield
    finally:
        loaded.model.set_attn_implementation(ATTENTION)


def prompt_of(loaded: Any, request: Request) -> Any:
    """The tokens of a request as a batch of one."""
    said = [{"role": message.role, "content": message.content} for message in request.messages]
    text = loaded.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    return loaded.tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"].to(loaded.model.device)


def end_tokens(loaded: Any) -> list[int]:
    """What ends a reply: the tokens that the model's makers list, and the tokenizer's own."""
    listed = loaded.model.generation_config.eos_token_id
    return [*(listed if isinstance(listed, list) else [listed]), loaded.tokenizer.eos_token_id]


def written(loaded: Any, request: Request) -> Any:
    """What plain `generate` says to a request, with the prompt before it."""
    ids = prompt_of(loaded, request)
    end = end_tokens(loaded)
    return loaded.model.generate(
        ids,
        attention_mask=ids.new_ones(ids.shape),
        max_new_tokens=request.max_tokens,
        do_sample=False,
        repetition_penalty=1.0,
        eos_token_id=end,
        pad_token_id=end[0],
    )


def plain_signals(loaded: Any, request: Request) -> Signals:
    """The slow and obvious way: write greedily, read all of it again with every matrix kept, and look each up."""
    with attention_by(loaded, "eager"), import_module("torch").inference_mode():
        whole = written(loaded, request)
        if int(whole[0, -1]) in end_tokens(loaded):
            whole = whole[:, :-1]
        read = prompt_of(loaded, request).shape[1]
        return looked_up(loaded, whole, read)


def looked_up(loaded: Any, whole: Any, read: int) -> Signals:
    """The signals of the tokens of a text behind the first so many."""
    done = loaded.model(whole, output_attentions=True, output_hidden_states=True)
    tokens = whole[0, read:].tolist()
    before = done.logits[0, read - 1 : -1].double().log_softmax(-1)
    matrix = done.attentions[-1][0].double().mean(0)[read:, read:]
    count = len(tokens)
    return Signals(
        loaded.tokenizer.decode(tokens, skip_special_tokens=True).strip(),
        [float(before[number, token]) for number, token in enumerate(tokens)],
        [float(-(row.exp() * row).sum()) for row in before],
        [max(float(matrix[later, number]) for later in range(number + 1, count)) for number in range(count - 1)],
        done.hidden_states[loaded.model.config.num_hidden_layers // 2][0, -1].tolist(),
    )


def told(choice: Choice) -> Signals:
    return Signals(
        choice.text,
        [token.logprob for token in choice.tokens],
        [token.entropy for token in choice.tokens if token.entropy is not None],
        [token.attention for token in choice.tokens if token.attention is not None],
        list(choice.hidden),
    )


def differences(one: Signals, other: Signals) -> dict[str, float]:
    """The largest difference of each signal; infinite where there are not as many numbers."""
    found = {}
    for name in TOLERANCE:
        numbers, others = getattr(one, name), getattr(other, name)
        same = len(numbers) == len(others)
        found[name] = max((abs(a - b) for a, b in zip(numbers, others, strict=False)), default=0.0) if same else 1e300
    return found


def sample(file: str, field: str) -> list[str]:
    """Texts of the packaged sample, read as a file: its module would load a search engine."""
    path = Path(hoptree.__file__).parent / "sample" / file
    return [json.loads(line)[field] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def make_requests(count: int, most_tokens: int, passages: int, signals: frozenset[Signal]) -> list[Request]:
    """Questions of the sample behind passages of mixed length; the same for the same numbers."""
    chance = random.Random(7)
    questions, texts = sample("questions.jsonl", "question"), sample("corpus.jsonl", "text")
    made = []
    for _ in range(count):
        read = "\n".join(chance.choices(texts, k=chance.randint(0, passages)))
        prompt = f"{read}\n\nThink step by step, then answer: {chance.choice(questions)}"
        tokens = chance.randint(max(2, most_tokens // 2), most_tokens)
        made.append(Request((Message("user", prompt),), max_tokens=tokens, signals=signals))
    return made


def make_questions(count: int, tokens: int) -> list[Request]:
    """Questions without passages, for replies of one length."""
    questions = sample("questions.jsonl", "question")
    chosen = [questions[number % len(questions)] for number in range(count)]
    return [
        Request((Message("user", f"Think step by step. {question}"),), max_tokens=tokens, signals=TIMED)
        for question in chosen
    ]


async def answered(model: HFModel, requests: Sequence[Request], at_once: int) -> list[Choice]:
    """The replies to requests, of which so many are under way at a time."""
    slots = asyncio.Semaphore(at_once)

    async def one(request: Request) -> Choice:
        async with slots:
            return (await model.generate(request, step="benchmark")).choices[0]

    return await asyncio.gather(*(one(request) for request in requests))


def truth(model: HFModel, requests: Sequence[Request], show: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """The largest differences from the obvious way, for each batch size."""
    expected = []
    for number, request in enumerate(requests, start=1):
        expected.append(plain_signals(model.loaded(), request))
        show(f"reference {number} of {len(requests)}")
    found: dict[str, dict[str, float]] = {}
    for size in (size for size in SIZES if size <= len(requests)):
        show(f"batches of {size}")
        got = [told(choice) for choice in asyncio.run(answered(model, requests, size))]
        pairs = list(zip(got, expected, strict=True))
        alike = [differences(one, other) for one, other in pairs if one.text == other.text]
        found[f"batch {size}"] = {
            "other texts": float(len(pairs) - len(alike)),
            **{name: max((one[name] for one in alike), default=0.0) for name in TOLERANCE},
        }
    return found


def timed(work: Callable[[], int]) -> float:
    """Seconds a token of some work that tells how many it wrote."""
    began = time.perf_counter()
    tokens = work()
    return (time.perf_counter() - began) / tokens


def against_generate(model: HFModel, requests: Sequence[Request], rounds: int) -> tuple[float, float]:
    """Tokens a second, with signals and by plain `generate`, one request at a time: the medians of turns."""
    loaded = model.loaded()

    def with_signals(request: Request) -> int:
        return len(asyncio.run(answered(model, [request], 1))[0].tokens)

    def by_generate(request: Request) -> int:
        return int(written(loaded, request).shape[1] - prompt_of(loaded, request).shape[1])

    ours, theirs = [], []
    for _ in range(rounds):
        for request in requests:
            ours.append(timed(lambda request=request: with_signals(request)))  # type: ignore[misc]
            with attention_by(loaded, "sdpa"):
                theirs.append(timed(lambda request=request: by_generate(request)))  # type: ignore[misc]
    return 1 / statistics.median(ours), 1 / statistics.median(theirs)


def at_once(model: HFModel, requests: Sequence[Request], singles: int) -> tuple[float, float]:
    """Tokens a second of all requests at once, and of the first ones one at a time."""

    def all_of(some: Sequence[Request], size: int) -> int:
        return sum(len(choice.tokens) for choice in asyncio.run(answered(model, some, size)))

    alone = timed(lambda: all_of(requests[:singles], 1))
    together = timed(lambda: all_of(requests, len(requests)))
    return 1 / together, 1 / alone


def peak_memory(device: str) -> dict[str, float]:
    """Megabytes, of the process and of the accelerator's allocator."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20)
    found = {"process": round(used)}
    if device.startswith("cuda"):
        torch = import_module("torch")
        found["accelerator"] = round(torch.cuda.max_memory_allocated() / 2**20)
    return {name: float(value) for name, value in found.items()}


def peak_of(device: str, work: Callable[[], object]) -> float | None:
    """The most megabytes that there were while some work was done; None where a peak cannot be reset."""
    if device.startswith("cuda"):
        torch = import_module("torch")
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        work()
        return float(torch.cuda.max_memory_allocated() / 2**20)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return None
    work()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def peaks(model: HFModel, requests: Sequence[Request]) -> dict[str, float]:
    """The peak of each way to answer requests one at a time; nothing where none can be told."""
    loaded = model.loaded()
    device = str(loaded.model.device)

    def by_generate() -> None:
        with attention_by(loaded, "sdpa"):
            for request in requests:
                written(loaded, request)

    found = {
        "generate": peak_of(device, by_generate),
        "signals": peak_of(device, lambda: asyncio.run(answered(model, requests, 1))),
    }
    return {name: value for name, value in found.items() if value is not None}


def show(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{line:<40}", end="", file=sys.stderr, flush=True)


def measure(model: HFModel, chosen: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    loaded = model.loaded()
    device = str(loaded.model.device)
    print(f"{chosen.model}, {device}, {loaded.model.dtype}, loaded in {time.perf_counter() - began:.1f} s")
    few = make_requests(chosen.singles, chosen.max_tokens, chosen.passages, TIMED)
    # Before all else, and without signals first: what libraries do not give back would count for both.
    peak = peaks(model, few)
    requests = make_requests(chosen.prompts, chosen.max_tokens, chosen.passages, SIGNALS)
    asyncio.run(answered(model, requests[:2], 1))  # the first passes of a process load kernels
    found: dict[str, Any] = {"device": device, "dtype": str(loaded.model.dtype), "truth": truth(model, requests, show)}
    for size, row in found["truth"].items():
        print(f"{size:<10}", *(f"{name} {value:.2g}" for name, value in row.items()), sep="  ")
    found["signals"], found["generate"] = against_generate(model, few, chosen.rounds)
    print(f"one at a time: {found['signals']:.1f} tokens a second with signals, {found['generate']:.1f} by generate")
    if peak:
        found["peaks"] = peak
        print(f"peak of these: {peak['signals']:,.0f} MB with signals, {peak['generate']:,.0f} MB by generate")
    many = make_questions(QUICK_AT_ONCE if chosen.quick else AT_ONCE, chosen.max_tokens)
    found["together"], found["alone"] = at_once(model, many, chosen.singles)
    print(f"{len(many)} at once: {found['together']:.1f} tokens a second, one at a time {found['alone']:.1f}")
    found["memory"] = peak_memory(device)
    print("peak memory:", *(f"{name} {value:,.0f} MB" for name, value in found["memory"].items()))
    return found


def goals(found: dict[str, Any], *, quick: bool) -> list[Goal]:
    made = [Goal("seconds a token with signals / by generate", found["generate"] / found["signals"], SLOWER, most=True)]
    if peak := found.get("peaks"):
        made.append(
            Goal("peak memory with signals / by generate", peak["signals"] / peak["generate"], LARGER, most=True)
        )
    if not quick:
        faster = 2 if found["device"] == "cpu" else 8
        made.append(Goal(f"{AT_ONCE} at once / one at a time", found["together"] / found["alone"], faster))
    if found["dtype"] != "torch.float32":
        return made
    rows = found["truth"].values()
    return [
        Goal("texts unlike the reference's", sum(row["other texts"] for row in rows), 0, most=True),
        *(
            Goal(f"largest difference of {name}", max(row[name] for row in rows), tolerance, most=True)
            for name, tolerance in TOLERANCE.items()
        ),
        *made,
    ]


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm", help="as behind hf/ (default smollm)")
    parser.add_argument("--prompts", type=int, default=50, help="compared with the reference (default 50)")
    parser.add_argument("--singles", type=int, default=6, help="timed one at a time (default 6)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of those (default 3)")
    parser.add_argument("--max-tokens", type=int, default=64, help="of the longest reply (default 64)")
    parser.add_argument("--passages", type=int, default=4, help="before a question, at most (default 4)")
    parser.add_argument("--dtype", default="", help="fp32, bf16 or fp16 (default: the device's)")
    parser.add_argument("--device", default="", help="cuda or cpu (default: cuda if there is one)")
    parser.add_argument("--quick", action="store_true", help="few short replies: a look, not a measurement")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    chosen = parser.parse_args(given)
    if chosen.quick:
        chosen.prompts, chosen.singles, chosen.rounds, chosen.max_tokens, chosen.passages = 4, 2, 2, 8, 0
    if min(chosen.prompts, chosen.singles, chosen.rounds, chosen.max_tokens - 1) < 1 or chosen.passages < 0:
        parser.error("--prompts, --singles and --rounds are 1 or more, --max-tokens 2 or more")
    return chosen


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    model = HFModel(chosen.model, dtype=chosen.dtype, device=chosen.device)
    try:
        found = measure(model, chosen)
    finally:
        asyncio.run(model.aclose())
    made = goals(found, quick=chosen.quick)
    print(*(goal.line() for goal in made), sep="\n")
    if chosen.json:
        chosen.json.write_text(json.dumps({**found, "goals": [asdict(goal) for goal in made]}, indent=1), "utf-8")
    return int(any(goal.missed for goal in made))


if __name__ == "__main__":
    sys.exit(main())
