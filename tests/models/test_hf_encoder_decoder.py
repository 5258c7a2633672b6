"""Models with an encoder and a decoder in batches: tiny random ones, against what transformers itself writes."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.models.encoder_decoders import POSITIONS, RULES, saved
from tests.models.hf_asking import ask, ask_all, asking, texts
from tests.models.hf_asking import mixed as mixed_requests
from tests.timing import TIMEOUT_S

from hoptree.core.errors import ConfigError, EndpointError
from hoptree.models.model import Message, Reply, Request

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
hf: Any = importlib.import_module("hoptree.models.hf")
hf_text: Any = importlib.import_module("hoptree.models.hf_text")


def mixed(count: int, **options: Any) -> list[Request]:
    return mixed_requests(count, **{"most_words": 25, "most_tokens": 14, **options})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: saved(tmp_path_factory.mktemp(kind), kind) for kind in ("t5", "bart")}


@pytest.fixture(scope="module")
def greedy(folders: dict[str, Path]) -> dict[str, list[str]]:
    """What the requests of `mixed` are answered with."""
    return {kind: by_transformers(folder, mixed(16)) for kind, folder in folders.items()}


@pytest.fixture(scope="module", autouse=True)
def kept_loaded(folders: dict[str, Path]) -> Iterator[None]:
    """Models with the same settings share what one of them has loaded."""
    models = [hf.HFModel(str(folder), device="cpu") for folder in folders.values()]
    yield
    for model in models:
        asyncio.run(model.aclose())


@pytest.fixture
def opened(folders: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    models: list[Any] = []

    def open_one(kind: str | Path, **settings: Any) -> Any:
        models.append(hf.HFModel(str(folders.get(str(kind), kind)), device="cpu", **settings))
        return models[-1]

    yield open_one
    for model in models:
        asyncio.run(model.aclose())


def by_transformers(folder: str | Path, requests: Sequence[Request], **options: Any) -> list[str]:
    """The greedy texts of transformers' own loop and weights, one request after another."""
    folder = str(folder).removeprefix("hf/")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = options.pop("model", None) or transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    found = []
    for request in requests:
        inputs = tokenizer("\n\n".join(message.content for message in request.messages), return_tensors="pt")
        out = model.generate(
            inputs["input_ids"], max_new_tokens=request.max_tokens, do_sample=False, num_beams=1, **options
        )
        found.append(tokenizer.decode(out[0], skip_special_tokens=True).strip())
    return found


@contextmanager
def rows_read(model: Any) -> Iterator[list[int]]:
    """How many prompts each pass through the encoder reads."""
    read: list[int] = []
    handle = (
        model.loaded()
        .model.get_encoder()
        .register_forward_pre_hook(lambda _, __, said: read.append(said["input_ids"].shape[0]), with_kwargs=True)
    )
    yield read
    handle.remove()


@contextmanager
def before_each_pass(model: Any, hook: Callable[[Any], None]) -> Iterator[None]:
    """Call `hook` with the token ids of every pass through the decoder."""
    handle = model.loaded().model.register_forward_pre_hook(
        lambda _, __, said: hook(said["decoder_input_ids"]), with_kwargs=True
    )
    yield
    handle.remove()


@pytest.mark.parametrize("kind", ["t5", "bart"])
@pytest.mark.parametrize("size", [1, 4, 16])
def test_greedy_text_is_that_of_transformers_one_by_one(
    opened: Callable[..., Any], greedy: dict[str, list[str]], kind: str, size: int
) -> None:
    model = opened(kind)
    requests, expected = mixed(16)[:size], greedy[kind][:size]
    assert len(set(greedy[kind])) > 10
    with rows_read(model) as read:
        assert texts(ask_all(model, requests)) == expected
    assert sum(read) == len({request.messages for request in requests}), "every prompt is encoded once"
    assert texts(ask_all(model, requests, gap=0.004)) == expected
    assert texts([ask(model, request) for request in requests[:3]]) == expected[:3]


@pytest.mark.parametrize("kind", ["mt5", "umt5", "mbart", "pegasus", "blenderbot"])
def test_relatives_of_both(opened: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    model = opened(saved(tmp_path, kind))
    requests = mixed(4, most_tokens=8)
    expected = by_transformers(model.name, requests)
    assert len(set(expected)) > 2
    assert texts(ask_all(model, requests, gap=0.004)) == expected


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_rows_join_and_leave_while_others_write(
    opened: Callable[..., Any], greedy: dict[str, list[str]], kind: str
) -> None:
    model = opened(kind)
    requests = [asking("where is the hill", max_tokens=45), *mixed(16)[:5]]
    expected = by_transformers(model.name, requests[:1]) + greedy[kind][:5]
    ready = model._engine.ready()
    rows = [ready.text.rows(request)[0] for request in requests]
    shapes: list[tuple[int, ...]] = []
    with before_each_pass(model, lambda ids: shapes.append(tuple(ids.shape))):
        ready.batcher.submit(rows[:1])
        for row in rows[1:]:
            running = len(rows[0].output)
            while len(rows[0].output) < min(running + 3, 25):
                time.sleep(0.0005)
            ready.batcher.submit([row])
        for row in rows:
            row.future.result(TIMEOUT_S)
    replies = [ready.text.reply(request, [row]) for request, row in zip(requests, rows, strict=True)]
    assert texts(replies) == expected
    assert max(shapes)[0] > 1, "they ran beside one another"
    assert len(shapes) < sum(len(row.output) for row in rows)
    assert shapes[-1][0] == 1, "and those that were done had left"


def test_rows_that_outgrow_the_batch_are_taken_up_again(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.models.batching.rows._COLUMNS_AHEAD", 1)
    monkeypatch.setattr("hoptree.models.batching.kv_cache._COLUMN_BLOCK", 8)
    model = opened("t5", max_batch_tokens=60)
    requests = mixed(3, most_words=4, max_tokens=24)
    expected = by_transformers(model.name, requests)
    lengths: list[int] = []
    with before_each_pass(model, lambda ids: lengths.append(ids.shape[1])):
        assert texts(ask_all(model, requests)) == expected
    assert max(lengths) > 8, "a row went on after what it had written"


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_too_little_memory_halves_the_batch(
    opened: Callable[..., Any], greedy: dict[str, list[str]], kind: str
) -> None:
    model = opened(kind, max_batch_tokens=4096)
    requests = mixed(16)

    def full(ids: Any) -> None:
        if ids.shape[0] > 3:
            raise torch.OutOfMemoryError("no room")

    with before_each_pass(model, full):
        assert texts(ask_all(model, requests)) == greedy[kind]
    assert model._engine.ready().batcher.max_batch_tokens < 4096


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_samples_follow_the_seed_and_share_their_prompt(opened: Callable[..., Any], kind: str) -> None:
    model = opened(kind)
    request = asking(RULES, n=4, temperature=1.5, seed=7)
    with rows_read(model) as read:
        alone = ask(model, request)
    assert sum(read) == 1 and len(set(texts([alone]))) > 1
    beside = ask_all(model, [*mixed(5, temperature=0.8), request, *mixed(3)])
    assert texts([beside[5]]) == texts([alone])
    assert ask(model, asking(RULES, temperature=1.5, seed=9)).text == texts([alone])[2]
    assert texts([ask(model, asking(RULES, n=4, temperature=1.5, seed=70))]) != texts([alone])


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_logprobs_are_those_of_transformers(opened: Callable[..., Any], kind: str, folders: dict[str, Path]) -> None:
    model = opened(kind)
    request = asking(RULES, top_logprobs=3, max_tokens=8)
    choice = ask_all(model, [*mixed(4), request])[4].choices[0]
    reference = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders[kind])
    tokens = model.loaded().tokenizer(RULES, return_tensors="pt")["input_ids"]
    out = reference.generate(
        tokens, max_new_tokens=8, do_sample=False, output_logits=True, return_dict_in_generate=True
    )
    expected = [float(logits[0].log_softmax(-1).max()) for logits in out.logits]
    assert len(choice.tokens) == len(expected) == 8
    for token, logprob in zip(choice.tokens, expected, strict=True):
        assert math.isclose(token.logprob, logprob, abs_tol=1e-4)
        assert len(token.top) == 3 and math.isclose(token.top[0][1], token.logprob, abs_tol=1e-6)
    assert "".join(token.text for token in choice.tokens).strip() == choice.text


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_stop_length_end_and_counts(opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    model = opened(kind)
    whole = ask(model, asking(RULES, max_tokens=20))
    assert (whole.finish, whole.usage.completion) == ("length", 20)
    read = len(model.loaded().tokenizer(RULES)["input_ids"])
    assert whole.usage.prompt == read + 1, "the prompt, and the token with which the decoder starts"
    middle = len(whole.text) // 2
    cut = whole.text[middle : middle + 3]
    stopped = ask(model, asking(RULES, max_tokens=20, stop=(cut, "zzz")))
    assert stopped.text == whole.text[: whole.text.find(cut)].strip()
    assert stopped.finish == "stop" and stopped.usage.completion < 20
    ready = model._engine.ready()
    (row,) = ready.text.rows(asking(RULES, max_tokens=20))
    ready.batcher.submit([row])
    row.future.result(10)
    monkeypatch.setattr(ready.batcher, "_end_tokens", frozenset({row.output[7]}))
    ended = ask(model, asking(RULES, max_tokens=20))
    assert ended.finish == "stop" and ended.usage.completion <= 8


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_the_reply_continues_a_prefix(opened: Callable[..., Any], kind: str, folders: dict[str, Path]) -> None:
    model = opened(kind)
    requests = [asking(RULES, prefix=prefix, max_tokens=6) for prefix in ("", "the river", "red", "who wrote the town")]
    tokenizer = model.loaded().tokenizer
    reference = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders[kind])
    expected = []
    for request in requests:
        start = reference.generation_config.decoder_start_token_id
        begin = torch.tensor([[start, *tokenizer.encode(request.prefix, add_special_tokens=False)]])
        tokens = tokenizer(RULES, return_tensors="pt")["input_ids"]
        out = reference.generate(tokens, decoder_input_ids=begin, max_new_tokens=6, do_sample=False)
        expected.append(tokenizer.decode(out[0, begin.shape[1] :], skip_special_tokens=True).strip())
    assert len(set(expected)) > 2
    assert texts(ask_all(model, requests)) == expected


def test_what_the_makers_let_every_reply_begin_with(opened: Callable[..., Any], tmp_path: Path) -> None:
    folder = saved(tmp_path, "bart")
    settings = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    (folder / "generation_config.json").write_text(json.dumps(settings | {"forced_bos_token_id": 3}), encoding="utf-8")
    model = opened(folder)
    requests = mixed(4, max_tokens=9)
    longer = [Request(request.messages, max_tokens=10) for request in requests]  # transformers counts that token
    assert texts(ask_all(model, requests)) == by_transformers(folder, longer)


def test_a_chat_is_plain_text_without_a_template(opened: Callable[..., Any], tmp_path: Path) -> None:
    said = (Message("system", "Answer in one word."), Message("user", "where is the hill"))
    folder = saved(tmp_path, "t5")
    request = Request(said, max_tokens=8)
    plain = opened(folder)
    assert texts([ask(plain, request)]) == by_transformers(folder, [request])
    (row,) = plain._engine.ready().text.rows(request)
    assert row.prompt[-1] == 1, "the tokenizer's own end"
    asyncio.run(plain.aclose())
    (folder / "chat_template.jinja").write_text("{{ messages[1].content }}", encoding="utf-8")
    (row,) = opened(folder)._engine.ready().text.rows(request)
    assert plain.loaded is not None and len(row.prompt) > 1 and row.prompt[-1] != 1, "a template writes everything"


def test_how_much_can_be_read_and_written(opened: Callable[..., Any]) -> None:
    """T5 tells positions by distance and reads any length; BART's table has an end."""
    long = asking("red " * 300, max_tokens=3)
    t5, bart = opened("t5"), opened("bart")
    assert ask(t5, long).usage.prompt > 300
    with pytest.raises(EndpointError, match=f"context {POSITIONS}") as caught:
        ask(bart, long)
    assert not caught.value.retryable
    assert ask(bart, asking("red", max_tokens=500)).usage.completion == POSITIONS - 1
    with pytest.raises(EndpointError, match="max_batch_tokens"):
        ask(opened("t5", max_batch_tokens=100), long)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_an_adapter_changes_what_is_said(opened: Callable[..., Any], tmp_path: Path, dtype: str) -> None:
    peft = pytest.importorskip("peft")
    plain = opened("t5", dtype=dtype)
    requests = mixed(6)
    before = texts(ask_all(plain, requests))
    torch.manual_seed(1)
    base = transformers.AutoModelForSeq2SeqLM.from_pretrained(plain.name.removeprefix("hf/"))
    config = peft.LoraConfig(r=4, target_modules=["q", "v"], init_lora_weights=False, task_type="SEQ_2_SEQ_LM")
    trained = peft.get_peft_model(base, config)
    trained.save_pretrained(tmp_path)
    adapted = opened("t5", dtype=dtype, adapter=str(tmp_path))
    after = texts(ask_all(adapted, requests))
    assert after != before
    assert dtype == "bf16" or after == by_transformers(plain.name, requests, model=trained.merge_and_unload())
    assert adapted.identity != plain.identity and "adapter=" in adapted.identity


def test_memory_is_counted_as_it_is_used(opened: Callable[..., Any]) -> None:
    for kind in ("t5", "bart"):
        model = opened(kind)
        done: Reply = ask(model, asking(RULES, max_tokens=4))
        block = model._engine.ready().batcher._passes._block
        tokens = block.prompt + block.target
        assert len(block.rows) == 1 and tokens == done.usage.prompt + 3
        layers = [*block.cache.self_attention_cache.layers, *block.cache.cross_attention_cache.layers]
        used = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
        assert hf._bytes_per_token(model.loaded().model) * tokens == used


def test_what_cannot_be_loaded(opened: Callable[..., Any], tmp_path: Path) -> None:
    other = saved(tmp_path / "other", "t5")
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps(config | {"model_type": "longt5"}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"kind longt5.*t5, mt5.*bart"):
        opened(other).loaded()
    startless = saved(tmp_path / "startless", "bart")
    for file in ("config.json", "generation_config.json"):
        said = json.loads((startless / file).read_text(encoding="utf-8"))
        (startless / file).write_text(json.dumps(said | {"decoder_start_token_id": None}), encoding="utf-8")
    with pytest.raises(ConfigError, match="decoder_start_token_id"):
        opened(startless).loaded()
