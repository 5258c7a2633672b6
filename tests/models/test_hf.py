"""Models of transformers: sampling, ends, prefixes, names and settings; SmolLM2 for real weights."""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf_asking import ask, ask_all, asking, mixed, texts
from tests.models.hf_models import by_transformers, saved

from hoptree.core.errors import ConfigError, EndpointError, HoptreeError, MissingExtra, MissingModel
from hoptree.models import open_model
from hoptree.models.catalogue import Entry, find_entry, is_complete
from hoptree.models.model import Request

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
hf: Any = importlib.import_module("hoptree.models.hf")
batching: Any = importlib.import_module("hoptree.models.batching.rows")
prefixes: Any = importlib.import_module("hoptree.models.batching.kv_cache")


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


def test_the_end_of_a_reply_is_a_token_where_it_is_asked_for(opened: Callable[..., Any]) -> None:
    model = opened()
    text, tokenizer = model._engine.ready().text, model.loaded().tokenizer
    for signals, end in ((frozenset(), []), (frozenset({"end"}), [("", -0.5)])):
        request = asking(top_logprobs=1, signals=signals)
        row = text.rows(request)[0]
        row.output, row.finish = [*tokenizer.encode("blue hill"), tokenizer.eos_token_id], "stop"
        row.logprobs = [batching.Logprobs(-0.5, ((row.output[-1], -0.5),))] * len(row.output)
        choice = text.reply(request, [row]).choices[0]
        tokens = [(token.text, token.logprob) for token in choice.tokens]
        assert choice.text == "blue hill" and tokens[-1:] == (end or [(" hill", -0.5)])


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
    assert adapted.name.startswith(f"{plain.name}+{tmp_path.name}@"), "who reads the name sees that it is another model"


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
        with pytest.raises(ConfigError, match="not a setting of an hf model"):
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


SMOLLM = find_entry("smollm")
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
