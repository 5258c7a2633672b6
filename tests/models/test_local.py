"""The embedded model, with real weights: the smallest of the catalogue."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.models.shallow_model import BLOCKS, write_shallow_model
from tests.models.small_adapters import lora_file
from tests.timing import TIMEOUT_S

from hoptree.core.errors import ConfigError, EndpointError, MissingExtra, MissingModel
from hoptree.models import local, open_model
from hoptree.models import local as hardware
from hoptree.models.catalogue import find_entry, is_complete, locate_weights
from hoptree.models.local import LocalModel
from hoptree.models.model import Message, Progress, Reply, Request, on_progress

ENTRY = find_entry("smollm")
assert not isinstance(ENTRY, Path)

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.skipif(not is_complete(ENTRY), reason="hoptree models pull smollm2-135m-instruct"),
]

QUESTIONS = ("Name three colours.", "What is the capital of France?", "Who wrote Hamlet?", "What is two plus two?")
COLOURS = json.dumps(
    {
        "type": "object",
        "properties": {"colours": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2}},
        "required": ["colours"],
    }
)


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A command that another test calls would end the process at once, as it does for a model that still works."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("hoptree-local"):
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    opened = LocalModel("local/smollm", n_ctx=512, slots=2, threads=1)
    yield opened
    asyncio.run(opened.aclose())


@pytest.fixture(scope="module")
def shallow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = write_shallow_model(tmp_path_factory.mktemp("models") / "shallow.gguf")
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def quick(shallow: Path) -> Iterator[LocalModel]:
    """A model for tests of whose reply it is and how it is drawn, whatever it says."""
    opened = LocalModel(str(shallow), n_ctx=512, slots=2, threads=1)
    yield opened
    asyncio.run(opened.aclose())


def asking(text: str = QUESTIONS[0], **options: object) -> Request:
    return Request((Message("user", text),), **{"max_tokens": 8, **options})  # type: ignore[arg-type]


def ask(model: LocalModel, request: Request, step: str = "test") -> Reply:
    return asyncio.run(model.generate(request, step=step))


def test_loading_is_reported_before_it_blocks_the_interpreter(shallow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[object] = []
    monkeypatch.setattr(local, "_load", lambda *settings: order.append("loaded") or settings)  # type: ignore[func-returns-value]

    async def load_twice() -> None:
        model = LocalModel(str(shallow), n_ctx=256, threads=1)
        loop = asyncio.get_running_loop()

        def note(now: Any) -> None:
            order.append(now)
            loop.call_soon(order.append, "sent")

        on_progress.set(note)
        await model.load()
        await model.load()
        await model.aclose()

    asyncio.run(load_twice())
    assert order == [Progress(0, 0), "sent", "loaded"]


def test_the_speed_of_an_earlier_prompt_is_reported_with_the_next(quick: LocalModel) -> None:
    async def follow(text: str) -> list[Progress]:
        seen: list[Progress] = []
        on_progress.set(seen.append)
        await quick.generate(asking(text, max_tokens=2), step="speed")
        return seen

    asyncio.run(follow("Count the words of this sentence. " * 20))
    assert asyncio.run(follow("Count the letters of another sentence. " * 5))[0].rate > 0


def test_greedy_text_is_the_same_alone_and_four_at_once(quick: LocalModel) -> None:
    async def together() -> list[str]:
        replies = await asyncio.gather(*(quick.generate(asking(text), step="test") for text in QUESTIONS))
        return [reply.text for reply in replies]

    alone = [ask(quick, asking(text)).text for text in QUESTIONS]
    assert all(alone)
    assert asyncio.run(together()) == alone
    assert [ask(quick, asking(text)).text for text in QUESTIONS] == alone


def test_exact_replies_do_not_depend_on_what_else_is_asked(shallow: Path) -> None:
    exact = LocalModel(str(shallow), n_ctx=512, exact=True, threads=1)
    requests = [asking(text, top_logprobs=1, max_tokens=4) for text in QUESTIONS[1:]]

    async def together(asked: list[Request]) -> list[Reply]:
        return await asyncio.gather(*(exact.generate(request, step="test") for request in asked))

    forward = asyncio.run(together(requests))
    backward = asyncio.run(together(requests[::-1]))[::-1]
    asyncio.run(exact.aclose())
    assert [reply.choices for reply in forward] == [reply.choices for reply in backward]
    assert "exact" in exact.identity


def test_a_beginning_that_prompts_share_is_read_once(quick: LocalModel) -> None:
    rules = "Answer in one word and never explain. " * 8
    other = "Translate what follows into French, politely. " * 5
    first = ask(quick, asking(f"{rules} What is the capital of France?", max_tokens=2), "answer")
    ask(quick, asking(f"{other} Good morning.", max_tokens=2), "translate")
    again = ask(quick, asking(f"{rules} Who wrote Hamlet?", max_tokens=2), "answer")
    assert first.usage.cached < 40
    assert again.usage.prompt - again.usage.cached < 20


def test_logprobs_add_up(quick: LocalModel) -> None:
    choice = ask(quick, asking(top_logprobs=5)).choices[0]
    assert len(choice.tokens) == 8
    assert "".join(token.text for token in choice.tokens).strip() == choice.text
    for token in choice.tokens:
        assert token.logprob <= 0 and len(token.top) == 5
        best, logprob = token.top[0]
        assert best == token.text and math.isclose(logprob, token.logprob, rel_tol=1e-5)
        assert 0 < sum(math.exp(logprob) for _, logprob in token.top) <= 1 + 1e-6


def test_json_schema(model: LocalModel) -> None:
    reply = ask(model, asking(json_schema=COLOURS, max_tokens=40))
    assert set(json.loads(reply.text)["colours"]) <= {"red", "green"}
    with pytest.raises(EndpointError):
        ask(model, asking(json_schema="{"))
    with pytest.raises(EndpointError):
        ask(model, asking(json_schema='{"type": "alien"}'))


def test_stop_and_length(model: LocalModel) -> None:
    whole = ask(model, asking())
    assert whole.finish == "length" and whole.usage.completion == 8
    word = whole.text.split()[2]
    stopped = ask(model, asking(stop=(word,)))
    assert stopped.finish == "stop" and word not in stopped.text


def test_the_reply_continues_a_prefix(model: LocalModel) -> None:
    request = asking(QUESTIONS[1], prefix="The capital of France is", max_tokens=3)
    assert ask(model, request).text.startswith("Paris")


def test_samples_follow_the_seed(quick: LocalModel) -> None:
    request = asking(n=3, temperature=1.5, seed=7)
    first = [choice.text for choice in ask(quick, request).choices]
    assert len(set(first)) > 1
    assert [choice.text for choice in ask(quick, request).choices] == first
    assert [choice.text for choice in ask(quick, asking(n=3, temperature=1.5, seed=70)).choices] != first


def test_only_the_likeliest_are_drawn(quick: LocalModel) -> None:
    free = ask(quick, asking(n=2, temperature=2.5, seed=7))
    first = ask(quick, asking(n=2, temperature=2.5, seed=7, top_k=1))
    likely = ask(quick, asking(n=2, temperature=2.5, seed=7, top_p=1e-6))
    greedy = ask(quick, asking()).text
    assert [choice.text for reply in (first, likely) for choice in reply.choices] == [greedy] * 4
    assert greedy not in [choice.text for choice in free.choices]


def test_a_prompt_longer_than_the_context_is_not_worth_a_retry(model: LocalModel) -> None:
    with pytest.raises(EndpointError, match="n_ctx") as caught:
        ask(model, asking("word " * 600))
    assert not caught.value.retryable


def test_a_cancelled_call_gives_its_slot_back(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = local._Engine.loaded
    told: list[object] = []

    class Heard:
        """The real server, of which one hears what it writes."""

        def __init__(self, engine: local._Engine) -> None:
            self._server = loaded(engine)

        def handle_chat_completions(self, body: object, heard: Callable[[object], bool]) -> None:
            def hear(chunk: object) -> bool:
                told.append(chunk)
                return heard(chunk)

            self._server.handle_chat_completions(body, hear)

    async def cancelled() -> None:
        story = asking("Tell a long story.", max_tokens=400)
        calls = [asyncio.create_task(model.generate(story, step="s")) for _ in range(3)]
        while len(told) < 10 and not any(call.done() for call in calls):
            await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await model.generate(asking(max_tokens=1), step="s")

    monkeypatch.setattr(local._Engine, "loaded", lambda engine: Heard(engine))
    asyncio.run(cancelled())
    assert len(told) < 400, "three stories to their end would take three times as many words"


def test_identity_names_weights_and_not_speed(model: LocalModel) -> None:
    assert not isinstance(ENTRY, Path)
    assert ENTRY.sha256 in model.identity
    faster = LocalModel("smollm", n_ctx=512, slots=1, threads=1)
    assert (faster.identity, faster.endpoint, faster.name) == (model.identity, model.endpoint, model.name)
    assert LocalModel("smollm", n_ctx=1024).identity != model.identity
    asyncio.run(faster.aclose())


def test_closing_twice_and_calling_after(model: LocalModel) -> None:
    second = LocalModel("smollm", n_ctx=512, slots=2, threads=1)
    asyncio.run(second.aclose())
    asyncio.run(second.aclose())
    with pytest.raises(EndpointError, match="closed"):
        ask(second, asking())
    assert ask(model, asking(max_tokens=1)).usage.completion == 1


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match="not on this machine"):
        LocalModel(f"local/{tmp_path / 'none.gguf'}")
    for content, cause in ((b"<html>", "not a GGUF file"), (b"GGUF" + b"\0" * 100, "could not load")):
        path = tmp_path / "bad.gguf"
        path.write_bytes(content)
        broken = LocalModel(f"local/{path}")
        with pytest.raises(EndpointError, match=cause):
            ask(broken, asking())
        asyncio.run(broken.aclose())


def test_an_adapter_changes_replies_and_identity(model: LocalModel, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("gguf")
    files = pytest.importorskip("safetensors.numpy")
    from hoptree.training.lora.gguf import convert

    drawn, wide = numpy.random.default_rng(1), 576
    layer = "base_model.model.model.layers.{}.mlp.gate_proj.lora_{}.weight"
    shapes = (("A", (4, wide)), ("B", (1536, 4)))
    tensors = {
        layer.format(number, side): drawn.normal(size=shape, scale=0.3).astype("float32")
        for number in range(30)
        for side, shape in shapes
    }
    folder = tmp_path / "adapter"
    folder.mkdir()
    files.save_file(tensors, str(folder / "adapter_model.safetensors"))
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 4, "use_dora": False}
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    made = tmp_path / "a.gguf"
    convert(folder, locate_weights("smollm"), made)
    adapted = open_model(f"local/smollm?n_ctx=512&adapter={made}")
    assert isinstance(adapted, LocalModel)
    plain, other = ask(model, asking(max_tokens=4)), ask(adapted, asking(max_tokens=4))
    asyncio.run(adapted.aclose())
    assert plain.text != other.text and adapted.identity != model.identity


def test_an_adapter_answers_the_prompts_it_was_trained_on_and_no_others(
    quick: LocalModel, shallow: Path, tmp_path: Path
) -> None:
    made = lora_file(tmp_path / "a.gguf", {"bases": {}, "templates": ["hop/trained_read@1"]}, blocks=BLOCKS)
    adapted = LocalModel(str(shallow), n_ctx=512, adapter=str(made))
    plain = ask(quick, asking(max_tokens=4))
    trained, other, again = (
        ask(adapted, replace(asking(max_tokens=4), template=template))
        for template in ("hop/trained_read@1", "taikc/decompose@1", "hop/trained_read@1+again")
    )
    asyncio.run(adapted.aclose())
    assert other.text == plain.text != trained.text == again.text


def test_adapters_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no adapter"):
        LocalModel("smollm", adapter=str(tmp_path / "none.gguf"))
    page = tmp_path / "page.gguf"
    page.write_bytes(b"<html>")
    for adapter, cause in ((page, "not a GGUF file"), (locate_weights("smollm"), "not a LoRA adapter")):
        with pytest.raises(ConfigError, match=cause) as refused:
            LocalModel("smollm", adapter=str(adapter))
        assert refused.value.exit_code == 2 and "adapter=none" in refused.value.remedy


def test_settings_and_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        LocalModel("smollm", slots=0)
    monkeypatch.setattr(local, "LIBRARY", "no_such_library")
    with pytest.raises(MissingExtra, match=r"hoptree\[local\]"):
        LocalModel("smollm")


def test_the_machine_is_described() -> None:
    assert hardware.physical_cores() >= 1
    assert local.library_version()
    assert local.library_features()
    assert (hardware.available_memory() or 1) > 0


@pytest.mark.parametrize(("devices", "fitted"), [(("CPU",), False), (("GPU", "CPU"), True)])
def test_parameters_are_fitted_only_beside_a_gpu(devices: tuple[str, ...], fitted: bool) -> None:
    kinds = [SimpleNamespace(name=f"GGML_BACKEND_DEVICE_TYPE_{name}") for name in devices]
    library = SimpleNamespace(
        CommonParams=importlib.import_module("xllamacpp").CommonParams,
        get_device_info=lambda: [{"type": kind} for kind in kinds],
    )
    settings = local._Settings(Path("any.gguf"), 512, 1, 1, 1)
    assert local._parameters(library, settings, "key").fit_params is fitted
