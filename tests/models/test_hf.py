"""Models of transformers in batches: tiny random ones for the logic, SmolLM2 for real weights."""

from __future__ import annotations

import asyncio
import importlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.hf_asking import WORDS, ask, ask_all, asking, mixed, texts

from hoptree.errors import ConfigError, EndpointError, HoptreeError, MissingExtra, MissingModel
from hoptree.models import open_model
from hoptree.models.catalogue import Entry, find, is_complete
from hoptree.models.model import Reply, Request

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
hf: Any = importlib.import_module("hoptree.models.hf")
batching: Any = importlib.import_module("hoptree.models.batching")
prefixes: Any = importlib.import_module("hoptree.models.batching.prefixes")

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RULES = "Answer in one word and never explain anything at all to anybody. " * 9


def tokenizer_in(folder: Path) -> Any:
    tokenizers: Any = importlib.import_module("tokenizers")
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


def saved(folder: Path, kind: str) -> Path:
    """A tiny random model: plain attention, or each token looking back over a few others only."""
    tokenizer = tokenizer_in(folder)
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: saved(tmp_path_factory.mktemp(kind), kind) for kind in ("plain", "windowed")}


@pytest.fixture
def opened(folders: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    models: list[Any] = []

    def open_one(kind: str = "plain", **settings: Any) -> Any:
        models.append(hf.HFModel(str(folders[kind]), device="cpu", **settings))
        return models[-1]

    yield open_one
    for model in models:
        asyncio.run(model.aclose())


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
    loaded.model.set_attn_implementation(batching.ATTENTION)
    return found


@contextmanager
def before_each_pass(model: Any, hook: Callable[[Any], None]) -> Iterator[None]:
    """Call `hook` with the token ids of every pass through the weights."""
    handle = model.loaded().model.register_forward_pre_hook(
        lambda module, args, kwargs: hook(kwargs["input_ids"]), with_kwargs=True
    )
    yield
    handle.remove()


@pytest.mark.parametrize("kind", ["plain", "windowed"])
@pytest.mark.parametrize("tokens", [16384, 640])
def test_greedy_text_is_that_of_transformers_one_by_one(opened: Callable[..., Any], kind: str, tokens: int) -> None:
    model = opened(kind, max_batch_tokens=tokens)
    requests = mixed(16)
    expected = by_transformers(model, requests)
    assert len(set(expected)) > 8
    assert texts(ask_all(model, requests, gap=0.002)) == expected
    assert texts(ask_all(model, requests)) == expected
    assert texts([ask(model, request) for request in requests[:4]]) == expected[:4]


def test_rows_that_outgrow_the_batch_are_taken_up_again(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=600)
    requests = mixed(3, most_words=4, max_tokens=190)
    expected = by_transformers(model, requests)
    read: list[int] = []
    with before_each_pass(model, lambda ids: read.append(ids.shape[1])):
        assert texts(ask_all(model, requests)) == expected
    assert max(read) > 100  # a row was read again with what it had written


@pytest.mark.parametrize("kind", ["plain", "windowed"])
def test_a_beginning_that_prompts_share_is_read_once(opened: Callable[..., Any], kind: str) -> None:
    model = opened(kind)
    requests = [asking(f"{RULES}{request.messages[0].content}") for request in mixed(5)]
    requests += [asking(f"{RULES[::-1]}{request.messages[0].content}") for request in mixed(3)]
    expected = by_transformers(model, requests)
    ready = model._engine.ready()
    rows = [ready.text.rows(request)[0] for request in requests]
    read: list[int] = []
    with before_each_pass(model, lambda ids: read.append(ids.numel() if ids.shape[1] > 1 else 0)):
        ready.batcher.submit(rows)
        for row in rows:
            row.future.result(30)
    assert texts([ready.text.reply(requests[number], [row]) for number, row in enumerate(rows)]) == expected
    assert sum(row.cached > 64 for row in rows) == 6
    assert sum(read) < sum(len(row.prompt) for row in rows)
    later = ask(model, requests[0])
    assert later.usage.cached > 64 and later.text == expected[0]


@pytest.mark.parametrize(("worth", "sizes"), [(0, [1, 2, 3]), (1_000, [3, 3]), (1_000_000, [6])])
def test_rows_of_too_small_a_gain_are_read_together(opened: Callable[..., Any], worth: int, sizes: list[int]) -> None:
    """Two rows need not read 122 tokens each, three 545, one must read all: put together or not, they say the same."""
    model = opened()
    requests = [asking(f"{RULES}{end}") for end in ("who wrote", "where is the hill")]
    requests += [asking(f"{RULES[::-1]}{end}") for end in ("red", "blue", "green")] + [asking("the town")]
    expected = by_transformers(model, requests)
    ready = model._engine.ready()
    passes = ready.batcher._passes
    ask_all(model, requests)  # so that both beginnings are known
    assert sorted(len(prefix) for prefix in passes._prefixes) == [122, 545]
    passes._worth_a_pass = worth
    found: list[list[int]] = []
    by_prefix = passes._by_prefix

    def listen(rows: Sequence[Any], prompts: Sequence[Any]) -> Any:
        groups = by_prefix(rows, prompts)
        found.append(sorted(map(len, groups.values())))
        return groups

    passes._by_prefix = listen
    rows = [ready.text.rows(request)[0] for request in requests]
    ready.batcher.submit(rows)
    for row in rows:
        row.future.result(30)
    assert texts([ready.text.reply(requests[number], [row]) for number, row in enumerate(rows)]) == expected
    assert found == [sizes]
    assert sum(row.cached > 64 for row in rows) == {0: 5, 1_000: 3}.get(worth, 0)


def test_a_beginning_is_taken_from_a_row_that_runs(opened: Callable[..., Any]) -> None:
    model = opened()
    request = asking(f"{RULES}where is the hill", max_tokens=8)
    expected = ask(model, request).text
    ready = model._engine.ready()
    older, younger = (ready.text.rows(asking(f"{RULES}{end}", max_tokens=700))[0] for end in ("who wrote", "red"))
    ready.batcher.submit([older])
    while len(older.output) < 3:
        time.sleep(0.001)
    ready.batcher.submit([younger])
    while not younger.output:
        time.sleep(0.001)
    reply = ask(model, request)
    assert not older.future.done() and younger.cached > 64
    assert reply.text == expected and reply.usage.cached > 64
    older.future.cancel()
    younger.future.cancel()


def test_samples_share_their_prompt_and_follow_the_seed(opened: Callable[..., Any]) -> None:
    model = opened()
    request = asking(RULES, n=4, temperature=1.2, seed=7)
    alone = texts([ask(model, request)])
    assert len(set(alone)) > 1
    beside = ask_all(model, [*mixed(5, temperature=0.8), request, *mixed(3)])
    assert list(texts([beside[5]])) == alone
    single = asking(RULES, temperature=1.2, seed=9)
    assert ask(model, single).text == alone[2]
    assert texts([ask(model, asking(RULES, n=4, temperature=1.2, seed=70))]) != alone


def test_sampling_follows_the_probabilities() -> None:
    logits = torch.tensor([0.5, 0.25, 0.25, 0.0]).log().repeat(4000, 1)
    rows = [batching.Row([0], 1, temperature=1.0, seed=seed) for seed in range(4000)]
    next_tokens = importlib.import_module("hoptree.models.batching.rows").next_tokens
    counts = torch.tensor(next_tokens(logits, rows)).bincount(minlength=4).tolist()
    assert counts[3] == 0
    assert all(abs(count / 4000 - share) < 0.04 for count, share in zip(counts, (0.5, 0.25, 0.25, 0), strict=True))


def test_logprobs_add_up(opened: Callable[..., Any]) -> None:
    model = opened()
    request = asking(top_logprobs=5, max_tokens=8)
    choice = ask_all(model, [*mixed(3), request])[3].choices[0]
    assert len(choice.tokens) == 8
    assert "".join(token.text for token in choice.tokens).strip() == choice.text
    for token in choice.tokens:
        assert len(token.top) == 5 and math.isclose(token.top[0][1], token.logprob, abs_tol=1e-6)
        assert 0 < sum(math.exp(logprob) for _, logprob in token.top) <= 1 + 1e-6
    assert ask(model, asking(max_tokens=2)).choices[0].tokens == ()


def test_stop_length_and_end(opened: Callable[..., Any]) -> None:
    model = opened()
    requests = mixed(24)
    replies = ask_all(model, requests)
    for request, reply in zip(requests, replies, strict=True):
        assert reply.finish == ("length" if reply.usage.completion == request.max_tokens else "stop") or (
            reply.usage.completion == request.max_tokens
        )
    longest = max(range(24), key=lambda number: len(replies[number].text))
    whole = replies[longest].text
    cut = whole[len(whole) // 2 : len(whole) // 2 + 3]
    stopped = ask(model, Request(requests[longest].messages, requests[longest].max_tokens, stop=(cut, "zzz")))
    assert stopped.text == whole[: whole.find(cut)].strip()
    assert stopped.finish == "stop" and stopped.usage.completion < replies[longest].usage.completion


def test_an_end_token_ends_the_reply(opened: Callable[..., Any]) -> None:
    model = opened()
    rows = model._engine.ready().text.rows(asking(max_tokens=30))
    free = ask(model, asking(max_tokens=30, top_logprobs=1)).choices[0]
    assert len(free.tokens) == 30
    batcher = model._engine.ready().batcher
    batcher.submit(rows)
    rows[0].future.result(10)
    batcher._end_tokens = frozenset({rows[0].output[10]})
    reply = ask(model, asking(max_tokens=30, top_logprobs=1))
    assert reply.finish == "stop" and reply.usage.completion <= 11


def test_the_reply_continues_a_prefix(opened: Callable[..., Any]) -> None:
    model = opened()
    whole = ask(model, asking(max_tokens=10, top_logprobs=1)).choices[0]
    begin = "".join(token.text for token in whole.tokens[:4])
    # The prompt is cut into tokens again, so only the text that is asked to go on is sure to be its beginning.
    rows = model._engine.ready().text.rows(asking(prefix=begin))
    assert model.loaded().tokenizer.decode(rows[0].prompt).endswith(f"assistant\n{begin}")
    assert not ask(model, asking(prefix="who wrote", max_tokens=4)).text.startswith("who wrote")


def test_thought_is_kept_apart(opened: Callable[..., Any]) -> None:
    model = opened()
    text = model._engine.ready().text
    request = asking(top_logprobs=1)
    row = text.rows(request)[0]
    row.output = model.loaded().tokenizer.encode("<think>red or blue</think>blue hill")
    row.logprobs = [batching.Logprobs(-0.5, ((1, -0.5),))] * len(row.output)
    choice = text.reply(request, [row]).choices[0]
    assert (choice.text, choice.reasoning) == ("blue hill", "red or blue")
    assert "".join(token.text for token in choice.tokens) == "blue hill"


def test_a_cancelled_request_leaves_the_batch(opened: Callable[..., Any]) -> None:
    model = opened()
    rows: list[int] = []

    async def cancelled() -> Reply:
        calls = [asyncio.create_task(model.generate(asking(max_tokens=900), step="s")) for _ in range(5)]
        while max(rows, default=0) < 5:
            await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in done)
        reply: Reply = await model.generate(asking(max_tokens=4), step="s")
        return reply

    with before_each_pass(model, lambda ids: rows.append(ids.shape[0])):
        assert asyncio.run(cancelled()).usage.completion == 4
    assert rows[-1] == 1 and len(rows) < 300


def test_too_little_memory_halves_the_batch(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=4096)
    requests = mixed(16)
    expected = texts(ask_all(model, requests))

    def full(ids: Any) -> None:
        if ids.shape[0] > 3:
            raise torch.OutOfMemoryError("no room")

    with before_each_pass(model, full):
        assert texts(ask_all(model, requests)) == expected
    assert model._engine.ready().batcher.max_batch_tokens < 4096


def test_what_never_fits_is_an_error_with_a_remedy(opened: Callable[..., Any]) -> None:
    small = opened(max_batch_tokens=100)
    with pytest.raises(EndpointError, match="max_batch_tokens") as caught:
        ask(small, asking(max_tokens=100))
    assert not caught.value.retryable
    assert ask(small, asking(max_tokens=2)).usage.completion == 2
    with pytest.raises(EndpointError, match="context 1024"):
        ask(small, asking("river " * 1024))

    def always(ids: Any) -> None:
        raise torch.OutOfMemoryError("no room")

    model = opened()
    with before_each_pass(model, always), pytest.raises(EndpointError, match="there is room for"):
        ask_all(model, mixed(4))


def test_a_crash_fails_all_and_hangs_none(opened: Callable[..., Any]) -> None:
    model = opened()

    def broken(ids: Any) -> None:
        raise ValueError("weights gone")

    async def all_fail() -> list[Any]:
        calls = [model.generate(request, step="s") for request in mixed(6)]
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)

    with before_each_pass(model, broken):
        outcomes = asyncio.run(all_fail())
    assert len(outcomes) == 6
    assert all(isinstance(outcome, EndpointError) and "weights gone" in str(outcome) for outcome in outcomes)
    assert ask(model, asking(max_tokens=3)).usage.completion == 3


def test_closing_ends_the_thread_and_what_waits(opened: Callable[..., Any]) -> None:
    model = opened()
    thread = model._engine.ready().batcher._thread

    async def closed_in_the_middle() -> Any:
        call = asyncio.create_task(model.generate(asking(max_tokens=900), step="s"))
        await asyncio.sleep(0.1)
        await model.aclose()
        await model.aclose()
        return (await asyncio.gather(call, return_exceptions=True))[0]

    outcome = asyncio.run(closed_in_the_middle())
    assert isinstance(outcome, EndpointError) and "closed" in str(outcome)
    assert not thread.is_alive()
    with pytest.raises(EndpointError, match="closed"):
        ask(model, asking())


def test_models_with_the_same_settings_share_one_batch(opened: Callable[..., Any]) -> None:
    first, second = opened(), opened()
    assert first.loaded() is second.loaded()
    asyncio.run(first.aclose())
    assert ask(second, asking(max_tokens=1)).usage.completion == 1
    assert [thread for thread in threading.enumerate() if thread.name == "hoptree-batch"]


def test_the_event_loop_goes_on_while_the_model_works(opened: Callable[..., Any]) -> None:
    model = opened()
    model.loaded()
    inside, turned = threading.Event(), threading.Event()
    seen: list[bool] = []

    def hold(ids: Any) -> None:
        inside.set()
        seen.append(turned.wait(30))  # in vain if the loop could not take a turn meanwhile

    async def beside() -> None:
        call = asyncio.create_task(model.generate(asking(max_tokens=1), step="s"))
        while not inside.is_set():
            await asyncio.sleep(0)
        turned.set()
        await call

    with before_each_pass(model, hold):
        asyncio.run(beside())
    assert seen and all(seen)


def test_numbers_with_fewer_digits(opened: Callable[..., Any]) -> None:
    model = opened(dtype="bf16")
    replies = ask_all(model, mixed(8))
    assert all(reply.usage.completion for reply in replies)
    assert model.loaded().model.dtype == torch.bfloat16
    assert model.identity != opened().identity


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_an_adapter_changes_what_is_said(opened: Callable[..., Any], tmp_path: Path, dtype: str) -> None:
    peft = pytest.importorskip("peft")
    plain = opened(dtype=dtype)
    requests = mixed(6)
    before = texts(ask_all(plain, requests))
    torch.manual_seed(1)
    base = transformers.AutoModelForCausalLM.from_pretrained(plain.name.removeprefix("hf/"))
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    peft.get_peft_model(base, config).save_pretrained(tmp_path)
    adapted = opened(dtype=dtype, adapter=str(tmp_path))
    after = texts(ask_all(adapted, requests))
    assert after != before
    assert after == by_transformers(adapted, requests) or dtype == "bf16"
    assert texts(ask_all(plain, requests)) == before or dtype == "bf16"
    assert adapted.identity != plain.identity and "adapter=" in adapted.identity


def test_identity_names_what_determines_a_reply(opened: Callable[..., Any], tmp_path: Path) -> None:
    model = opened()
    assert opened(max_batch_tokens=99).identity == model.identity
    assert opened("windowed").identity != model.identity
    copied = saved(tmp_path, "plain")
    same = hf.HFModel(str(copied), device="cpu")
    assert same.identity == model.identity
    template = copied / "chat_template.jinja"
    template.write_text(template.read_text(encoding="utf-8") + " ", encoding="utf-8")
    other = hf.HFModel(str(copied), device="cpu")
    assert other.identity != model.identity
    for one in (same, other):
        asyncio.run(one.aclose())


def test_names_and_settings(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = f"hf/{folders['plain']}"
    model = open_model(f"{spec}?dtype=fp32&device=cpu&max_batch_tokens=500")
    assert model.name == spec and model.slots > 100
    asyncio.run(model.aclose())
    for settings in ("n_ctx=4", "dtype", "max_batch_tokens=many", "adapter="):
        with pytest.raises(ConfigError, match="no setting of an hf model"):
            open_model(f"{spec}?{settings}")
    for settings, cause in (
        ("dtype=int3", "no dtype"),
        ("device=tpu", "no device"),
        ("device=cuda:99", "no device"),
        ("max_batch_tokens=0", "at least 1"),
        (f"adapter={tmp_path}", "adapter_config"),
    ):
        with pytest.raises(ConfigError, match=cause):
            open_model(f"{spec}?{settings}")
    with pytest.raises(ConfigError, match=r"config\.json"):
        open_model(f"hf/{tmp_path}")
    for missing in (tmp_path / "none", tmp_path / "none.gguf"):
        with pytest.raises(MissingModel):
            open_model(f"hf/{missing}")
    monkeypatch.setattr(hf, "LIBRARIES", ("no_such_library",))
    with pytest.raises(MissingExtra, match=r"hoptree\[whitebox\]"):
        open_model(spec)


def test_what_cannot_be_loaded_or_asked(opened: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="JSON schema"):
        ask(opened(), asking(json_schema="{}"))
    broken = saved(tmp_path, "plain")
    (broken / "model.safetensors").write_bytes(b"<html>")
    model = hf.HFModel(str(broken), device="cpu")
    with pytest.raises(HoptreeError, match="could not load"):
        ask(model, asking())
    asyncio.run(model.aclose())
    (broken / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"\.safetensors"):
        assert hf.HFModel(str(broken), device="cpu").identity


TOKENS = st.lists(st.integers(0, 2), max_size=12).map(tuple)


@given(TOKENS, TOKENS)
def test_common_length(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    naive = 0
    while naive < min(len(one), len(other)) and one[naive] == other[naive]:
        naive += 1
    assert prefixes.common_length(one, other) == naive


@given(st.lists(TOKENS, max_size=8))
def test_groups_hold_every_prompt_once_and_share_what_they_say(prompts: list[tuple[int, ...]]) -> None:
    found = prefixes.groups(prompts)
    assert sorted(member for group in found for member in group.members) == list(range(len(prompts)))
    for group in found:
        assert len({prompts[member][: group.length] for member in group.members}) == 1


def test_a_short_beginning_does_not_join_what_shares_a_long_one() -> None:
    start, long, other = (1,) * 10, (2,) * 200, (3,) * 90
    prompts = [(*start, 9), start + long + (4,), start + other + (4,), start + long + (5,), start + other + (5,)]
    lengths = {group.members: group.length for group in prefixes.groups(prompts)}
    assert lengths == {(0,): 0, (1, 3): 210, (2, 4): 100}


SMOLLM = find("smollm")
QUESTIONS = (
    "Name three colours.",
    "What is the capital of France?",
    "Who wrote Hamlet? " * 9,
    "What is two plus two?",
    "Tell me about the river Rhine, where it begins and where it ends. " * 2,
    "Say hello.",
    "Which is larger, the Moon or the Earth? Explain in one sentence.",
    "List the days of the week. " * 3,
)


@pytest.mark.timeout(600)  # a GGUF file is loaded slowly, and more so where others use the machine
@pytest.mark.skipif(
    not isinstance(SMOLLM, Entry) or not is_complete(SMOLLM), reason="hoptree models pull smollm2-135m-instruct"
)
def test_real_weights_say_the_same_batched_and_alone(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gguf")
    model = hf.HFModel("smollm", device="cpu", dtype="fp32")
    model.loaded()
    assert capfd.readouterr() == ("", "")
    requests = [asking(text, max_tokens=4 + number) for number, text in enumerate(QUESTIONS)]
    expected = by_transformers(model, requests)
    assert texts(ask_all(model, requests, gap=0.05)) == expected
    assert isinstance(SMOLLM, Entry) and SMOLLM.sha256 in model.identity
    asyncio.run(model.aclose())
