"""Steps of writing that can be recorded, and recordings that say the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hoptree.models.batching.decoder import DecoderOnly  # noqa: E402
from hoptree.models.batching.kv_cache import (  # noqa: E402
    _MIN_REPEATS,
    ATTENTION,
    Replays,
    Shape,
    StepOutput,
    register_attention,
    round_up_columns,
    round_up_rows,
)
from hoptree.models.batching.rows import Row  # noqa: E402

# What makes the processor wait for a number, after which a step cannot be recorded.
READS_BACK = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__")


def small(device: str) -> Any:
    config = transformers.Qwen2Config(
        vocab_size=500,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(5)
    model = transformers.Qwen2ForCausalLM(config).eval().to(device)
    register_attention()
    model.set_attn_implementation(ATTENTION)
    return model


def written(passes: DecoderOnly, count: int, steps: int) -> Iterator[list[float]]:
    rows = [
        Row(list(range(7 + number, 30 + 3 * number)), steps, signals=frozenset(("attention",)))
        for number in range(count)
    ]
    with torch.inference_mode():
        passes.join(rows, [], 10_000)
        for _ in range(steps):
            scores = passes.write(rows)
            for row, token in zip(rows, scores.argmax(-1).tolist(), strict=True):
                row.output.append(token)
            yield scores.flatten().tolist()
    yield [share for row in rows for share in row.attention]


def test_a_step_reads_no_number_back(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = DecoderOnly(small("cpu"), "cpu", 8)
    list(written(passes, 2, 1))
    tokens, lengths = torch.tensor([3, 4]), torch.tensor([23, 26])

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a number was read back")

    for name in READS_BACK:
        monkeypatch.setattr(torch.Tensor, name, refuse)
    with torch.inference_mode():
        passes._write(Shape(2, 64, watched=True, hidden=True), tokens, lengths)


@pytest.mark.parametrize(("rows", "rounded"), [(1, 1), (2, 2), (3, 4), (33, 64), (64, 64), (65, 128), (300, 320)])
def test_rows_are_rounded_up(rows: int, rounded: int) -> None:
    assert round_up_rows(rows) == rounded


@pytest.mark.parametrize(("columns", "rounded"), [(1, 256), (256, 256), (257, 512), (1600, 1792)])
def test_columns_are_rounded_up(columns: int, rounded: int) -> None:
    assert round_up_columns(columns) == rounded


class Device:
    """Of torch.cuda what recordings use; a recorded step is run again by its replay."""

    class CUDAGraph:
        pools: ClassVar[list[Any]] = []

        def __init__(self) -> None:
            self.replays = 0

        def capture_begin(self, *, pool: Any, **_: Any) -> None:
            self.pools.append(pool)

        def capture_end(self) -> None: ...

        def replay(self) -> None:
            self.replays += 1

    class Stream:
        def __init__(self, *_: Any) -> None: ...

        def wait_stream(self, _: Any) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: Any) -> None: ...


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Device.CUDAGraph)
    monkeypatch.setattr(torch.cuda, "Stream", Device.Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Device.Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    Device.CUDAGraph.pools.clear()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def test_a_shape_that_comes_again_is_recorded_once(device: None) -> None:
    asked: list[Shape] = []

    def write(shape: Shape, tokens: Any, lengths: Any) -> StepOutput:
        asked.append(shape)
        return StepOutput(torch.zeros(shape.rows, 5), None, None)

    replays, shape = Replays("cpu", 4, write), Shape(2, 64, watched=False, hidden=False)
    for _ in range(10):
        replays.step(shape, [1, 2], [3, 4])
    assert len(asked) == _MIN_REPEATS + 1
    replays.forget()
    replays.step(shape, [1, 2], [3, 4])
    assert len(asked) == _MIN_REPEATS + 2


def test_a_pool_whose_recordings_are_gone_takes_no_more(device: None) -> None:
    """torch refuses them, and without a new pool every later step would be taken one program at a time."""
    replays = Replays("cpu", 4, lambda shape, *_: StepOutput(torch.zeros(shape.rows, 5), None, None))
    shapes = [Shape(rows, 64, watched=False, hidden=False) for rows in (1, 2)]
    for _ in range(2):
        for shape in shapes:
            for _ in range(_MIN_REPEATS + 1):
                replays.step(shape, [1] * shape.rows, [3] * shape.rows)
        replays.forget()
    one, same, other, again = Device.CUDAGraph.pools
    assert one is same and other is again and one is not other


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is(device: None) -> None:
    calls = 0

    def write(shape: Shape, tokens: Any, lengths: Any) -> StepOutput:
        nonlocal calls
        calls += 1
        if calls == _MIN_REPEATS + 1:
            raise RuntimeError("operation not permitted when stream is capturing")
        return StepOutput(torch.full((shape.rows, 5), float(calls)), None, None)

    replays, shape = Replays("cpu", 4, write), Shape(2, 64, watched=False, hidden=False)
    for _ in range(6):
        said = replays.step(shape, [1, 2], [3, 4])
    assert calls == 7  # the recording that failed, and every step itself
    assert said.logits[0, 0] == 7


def test_a_device_without_memory_is_no_model_that_cannot_be_recorded(
    device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True

    def write(shape: Shape, tokens: Any, lengths: Any) -> StepOutput:
        if full and replays._seen[shape] > _MIN_REPEATS:
            raise torch.OutOfMemoryError
        return StepOutput(torch.zeros(shape.rows, 5), None, None)

    def end(_: Any) -> None:
        if full:
            raise RuntimeError("the recording was broken off")

    monkeypatch.setattr(Device.CUDAGraph, "capture_end", end)
    replays, shape = Replays("cpu", 4, write), Shape(2, 64, watched=False, hidden=False)
    for _ in range(_MIN_REPEATS):
        replays.step(shape, [1, 2], [3, 4])
    with pytest.raises(torch.OutOfMemoryError):
        replays.step(shape, [1, 2], [3, 4])
    full = False
    replays.step(shape, [1, 2], [3, 4])
    assert replays._recorded


@pytest.mark.skipif(not torch.cuda.is_available(), reason="recordings are of CUDA")
def test_a_recording_says_what_the_step_says() -> None:
    model = small("cuda")
    recorded, plain = DecoderOnly(model, "cuda", 8), DecoderOnly(model, "cuda", 8)
    plain._replays = None
    for one, other in zip(written(recorded, 3, 12), written(plain, 3, 12), strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    assert recorded._replays is not None
    assert recorded._replays._recorded
