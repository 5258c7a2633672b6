"""Models of transformers in trouble: no memory, no template, another model's tokenizer, no room, no numbers."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf_asking import ask, ask_all, asking, mixed, texts
from tests.models.hf_models import TEMPLATE, saved
from tests.timing import TIMEOUT_S
from typer.testing import CliRunner

from hoptree.__main__ import main
from hoptree.cli.main import app
from hoptree.core.errors import ConfigError, EndpointError, RequestTooLong
from hoptree.models.model import Signal

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
hf: Any = importlib.import_module("hoptree.models.hf")
weights: Any = importlib.import_module("hoptree.models.hf_weights")
worker: Any = importlib.import_module("hoptree.models.batching")

ALL: frozenset[Signal] = frozenset(("entropy", "attention", "hidden"))
POISON = "zzzz"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of a tiny model that a test may change."""
    return saved(tmp_path / "model", "plain")


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], None]], None]:
    """Do something to a model when it has been loaded, whoever loads it."""
    load = weights.load

    def prepare(change: Callable[[Any], None]) -> None:
        def loading(*given: Any, **options: Any) -> Any:
            loaded = load(*given, **options)
            change(loaded)
            return loaded

        monkeypatch.setattr(weights, "load", loading)

    return prepare


def before_each_pass(loaded: Any, hook: Callable[[Any], None]) -> Any:
    return loaded.model.register_forward_pre_hook(
        lambda module, args, kwargs: hook(kwargs["input_ids"]), with_kwargs=True
    )


def poisoned(loaded: Any) -> Any:
    """Whoever reads the last token of the poison gets no numbers from the first layer on."""
    poison = loaded.tokenizer.encode(POISON)[-1]

    def damage(module: Any, args: Any, output: Any) -> Any:
        return output.masked_fill((args[0] == poison)[..., None], float("nan"))

    return loaded.model.get_input_embeddings().register_forward_hook(damage)


def outcomes(model: Any, requests: list[Any]) -> list[Any]:
    async def together() -> list[Any]:
        calls = (model.generate(request, step="s") for request in requests)
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), TIMEOUT_S)

    return asyncio.run(together())


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def exit_of(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["hoptree", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def questions(folder: Path, asked: list[str]) -> Path:
    rows = [{"id": f"q{number}", "question": text, "answers": ["red"]} for number, text in enumerate(asked)]
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(data: Path, model: Path, out: Path, *more: object) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code of a run without a cache, and its rows."""
    spec = f"hf/{model}?device=cpu"
    how = ("--data", data, "--method", "direct", "--model", spec, "--no-cache", "--out", out, "--json")
    code = command("run", *how, *more).exit_code
    path = out / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return code, {row["id"]: row for row in map(json.loads, lines)}


# Memory


def test_memory_that_is_short_once_costs_no_row_and_not_the_batch_for_ever(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "CALM_STEPS", 4)
    model = opened(max_batch_tokens=4096)
    requests = mixed(12, max_tokens=24)
    expected = texts(ask_all(model, requests))
    passes = 0

    def full(ids: Any) -> None:
        nonlocal passes
        passes += 1
        if passes == 5:
            raise torch.OutOfMemoryError("no room")

    handle = before_each_pass(model.loaded(), full)
    limits: list[int] = []
    batcher = model._engine.ready().batcher
    handles = [handle, before_each_pass(model.loaded(), lambda ids: limits.append(batcher.max_batch_tokens))]
    assert texts(ask_all(model, requests)) == expected
    for one in handles:
        one.remove()
    assert min(limits) <= 2048 and limits[-1] > min(limits)
    ask(model, asking(max_tokens=40))
    assert batcher.max_batch_tokens == 4096


def test_without_memory_a_request_fails_for_that_reason_and_later_ones_do_not(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=4096)
    requests = mixed(6)
    expected = texts(ask_all(model, requests))

    def always(ids: Any) -> None:
        raise torch.OutOfMemoryError("no room")

    handle = before_each_pass(model.loaded(), always)
    found = outcomes(model, requests)
    handle.remove()
    for error in found:
        assert isinstance(error, EndpointError) and error.retryable and error.exit_code == 1
        assert "memory" in error.cause and "dtype" in error.remedy and "max_batch_tokens" not in str(error)
    assert texts(ask_all(model, requests)) == expected


def test_a_row_longer_than_what_is_left_of_the_batch_runs_alone(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=8192)
    requests = [*mixed(6, max_tokens=4), asking("river hill " * 90, max_tokens=300)]
    expected = texts([ask(model, request) for request in requests])

    def full(ids: Any) -> None:
        if ids.shape[0] > 1:
            raise torch.OutOfMemoryError("no room")

    handle = before_each_pass(model.loaded(), full)
    assert texts(ask_all(model, requests)) == expected
    handle.remove()


def test_a_device_that_is_gone_hangs_nobody(opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """After some errors CUDA refuses everything, also to give memory back."""
    model = opened()
    batcher = model._engine.ready().batcher

    def gone(*given: Any) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(batcher._passes, "clear", gone)
    handle = before_each_pass(model.loaded(), gone)
    for _ in range(2):
        found = outcomes(model, mixed(3))
        assert all(isinstance(error, EndpointError) and "device-side assert" in str(error) for error in found)
    handle.remove()


def test_weights_for_which_there_is_no_memory(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def full(*given: Any, **options: Any) -> None:
        nonlocal tries
        tries += 1
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", full)
    model = hf.HFModel(str(own), device="cpu")
    for error in outcomes(model, mixed(3)):
        assert isinstance(error, EndpointError) and error.exit_code == 2
        assert "memory" in error.cause and str(own) in error.cause and "dtype=" in error.remedy
    assert tries == 1, "what cannot be loaded is not loaded again for every request"
    asyncio.run(model.aclose())


def test_a_run_outlives_a_moment_without_memory(
    own: Path, tmp_path: Path, prepared: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.05)  # waits are short
    data = questions(tmp_path, ["Who wrote it?", "Where is the town?", "Which hill?"])
    passes = 0

    def full(ids: Any) -> None:
        nonlocal passes
        passes += 1
        if 2 <= passes <= 9:
            raise torch.OutOfMemoryError("no room")

    prepared(lambda loaded: before_each_pass(loaded, full))
    code, rows = run(data, own, tmp_path / "out")
    assert code == 0 and len(rows) == 3 and not any(row["error"] for row in rows.values())
    assert passes > 9


# Templates


def test_a_model_without_a_chat_template(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "chat_template.jinja").unlink()
    model = hf.HFModel(str(own), device="cpu")
    with pytest.raises(ConfigError, match="no chat template") as caught:
        ask(model, asking())
    assert "instructions" in caught.value.remedy
    asyncio.run(model.aclose())
    assert exit_of(monkeypatch, "ask", "Who?", "--method", "direct", "--model", f"hf/{own}", "--no-cache") == 2
    data = questions(tmp_path, ["Who?", "Where?"])
    _, rows = run(data, own, tmp_path / "out")
    assert rows == {}, "no question could do without: none is recorded as failed"
    asked = ("--data", data, "--method", "direct", "--model", f"hf/{own}", "--out", tmp_path / "again")
    assert exit_of(monkeypatch, "run", *asked) == 2


def test_a_template_that_takes_no_system_message(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system message') }}{% endif %}" + TEMPLATE
    (own / "chat_template.jinja").write_text(refusing, encoding="utf-8")
    assert exit_of(monkeypatch, "ask", "Who?", "--method", "direct", "--model", f"hf/{own}", "--no-cache") == 2


# Tokenizers


@pytest.fixture
def larger(own: Path) -> Path:
    """A model whose tokenizer has a word more than it has embeddings, and the word is no ordinary one."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(own)
    tokenizer.add_tokens(["<|extra|>"], special_tokens=True)
    tokenizer.save_pretrained(own)
    return own


def test_the_tokenizer_of_a_larger_model_is_refused_before_the_weights_are_read(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = transformers.AutoConfig.from_pretrained(own)
    config.vocab_size = 200
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(own)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", None)
    model = hf.HFModel(str(own), device="cpu")
    with pytest.raises(ConfigError, match=r"tokenizer .* 200") as caught:
        ask(model, asking())
    assert "tokenizer" in caught.value.remedy
    asyncio.run(model.aclose())
    assert exit_of(monkeypatch, "ask", "Who?", "--method", "direct", "--model", f"hf/{own}", "--no-cache") == 2


def test_a_word_that_the_model_does_not_know_fails_its_request_alone(larger: Path) -> None:
    """On an accelerator such a word would end the process' use of it for good."""
    model = hf.HFModel(str(larger), device="cpu")
    requests = mixed(4)
    expected = texts(ask_all(model, requests))
    for bad in (asking("red <|extra|> hill"), asking(prefix="<|extra|>", max_tokens=0, signals=ALL)):
        *found, error = outcomes(model, [*requests, bad])
        assert texts(found) == expected
        assert isinstance(error, EndpointError) and "<|extra|>" in error.cause and "tokenizer" in error.remedy
        assert not error.retryable and error.exit_code == 2
    asyncio.run(model.aclose())


# Length


def test_a_prompt_as_long_as_the_context_and_a_reply_that_would_go_beyond(opened: Callable[..., Any]) -> None:
    model = opened()
    empty = ask(model, asking("", max_tokens=1)).usage.prompt
    word = ask(model, asking(" river", max_tokens=1)).usage.prompt - empty
    assert word == 1
    with pytest.raises(RequestTooLong, match="1024 tokens and the model's context 1024") as caught:
        ask(model, asking(" river" * (1024 - empty)))
    assert caught.value.exit_code == 2 and "k=" in caught.value.remedy
    cut = ask(model, asking(" river" * (1020 - empty), max_tokens=12))
    assert (cut.usage.prompt, cut.usage.completion, cut.finish) == (1020, 4, "length")


def test_prompts_that_are_too_long_fail_alone_however_many_come_first(own: Path, tmp_path: Path) -> None:
    """They are known to be too long long before anything else comes out."""
    long = [f"Which river is it? {number} " + "river " * 1100 for number in range(12)]
    data = questions(tmp_path, [*long, "Who wrote it?", "Where is the town?"])
    code, rows = run(data, own, tmp_path / "out")
    failed = {name for name, row in rows.items() if row["error"]}
    assert code == 0 and len(rows) == 14 and failed == {f"q{number}" for number in range(12)}
    assert {rows[name]["error"] for name in failed} == {"RequestTooLong"}
    assert rows["q12"]["usage"]["completion_tokens"] > 0


def test_asking_something_too_long_is_an_error_of_the_command(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("ask", "river " * 1100, "--method", "direct", "--model", f"hf/{own}?device=cpu", "--no-cache")
    assert exit_of(monkeypatch, *asked) == 2


# Numbers


def test_no_numbers_in_one_row_fail_one_question_of_a_run(
    own: Path, tmp_path: Path, prepared: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["Who wrote it?", f"Where is {POISON}?", "Which hill?", "Is it the river or the town?"]
    data = questions(tmp_path, asked)
    _, expected = run(data, own, tmp_path / "sound")
    prepared(poisoned)
    code, rows = run(data, own, tmp_path / "out")
    assert code == 0 and [rows[name]["error"] for name in sorted(rows)] == ["", "EndpointError", "", ""]
    assert "not finite" in rows["q1"]["error_message"] and "dtype" in rows["q1"]["error_message"]
    assert all(rows[name]["answer"] == expected[name]["answer"] for name in ("q0", "q2", "q3"))
    monkeypatch.undo()
    code, rows = run(data, own, tmp_path / "out", "--retry-failed", "--anyway")
    assert code == 0 and not rows["q1"]["error"] and rows["q1"]["answer"] == expected["q1"]["answer"]


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A request about a prefix whose last token alone, in a portion of its own, gets no numbers."""

    def made(model: Any, **options: Any) -> Any:
        request = asking(prefix=f"the red {POISON[0]}", max_tokens=0, **options)
        forced = model._engine.ready().text.rows(request)[0].forced
        monkeypatch.setattr("hoptree.models.batching.decoder._FORCED_TOKENS_PER_PASS", len(forced))
        return request

    return made


def test_signals_that_are_no_numbers_are_an_error_and_not_told(
    opened: Callable[..., Any], ending: Callable[..., Any]
) -> None:
    """The scores of forced tokens are those before each of them: the last one shows in the other signals only."""
    model = opened()
    handle = poisoned(model.loaded())
    for asked in (
        {"signals": frozenset({"hidden"})},
        {"signals": frozenset({"attention"})},
        {"attention_of": ((8, 9),)},
    ):
        with pytest.raises(EndpointError, match="not finite"):
            ask(model, ending(model, **asked))
    told = ask(model, ending(model, signals=frozenset({"entropy"}))).choices[0]
    assert all(token.entropy is not None and math.isfinite(token.entropy) for token in told.tokens)
    handle.remove()


def test_whoever_gets_the_place_of_a_row_with_no_numbers_has_nothing_of_it(
    opened: Callable[..., Any], ending: Callable[..., Any]
) -> None:
    model = opened()
    requests = [asking(word, max_tokens=3) for word in ("red", "green", "blue")]
    expected = texts([ask(model, request) for request in requests])

    async def one_after_another() -> list[Any]:
        # Something runs all the time, so that the memory of the batch is the same from the first to the last.
        running = asyncio.create_task(model.generate(asking("the river", max_tokens=900), step="s"))
        await model.generate(asking("red", max_tokens=1), step="s")
        await model.generate(ending(model, signals=frozenset({"entropy"})), step="s")
        found = [await model.generate(request, step="s") for request in requests]
        assert not running.done()
        running.cancel()
        return found

    handle = poisoned(model.loaded())
    assert texts(asyncio.run(one_after_another())) == expected
    handle.remove()
