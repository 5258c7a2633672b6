"""Signals from the inside of models of transformers: true, whatever runs beside, and only for who asks."""

from __future__ import annotations

import asyncio
import importlib
import math
import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.models.encoder_decoders import saved as with_encoder
from tests.models.hf_asking import ask, ask_all, asking, mixed
from tests.models.hf_models import RULES
from tests.timing import TIMEOUT_S

from hoptree.core.errors import EndpointError
from hoptree.models.catalogue import Entry, find_entry, is_complete
from hoptree.models.model import Choice, Reply, Request, Signal

torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")
hf: Any = importlib.import_module("hoptree.models.hf")
weights: Any = importlib.import_module("hoptree.models.hf_weights")
signals: Any = importlib.import_module("hoptree.models.batching.rows")
decoder: Any = importlib.import_module("hoptree.models.batching.decoder")
rows: Any = importlib.import_module("hoptree.models.batching.rows")
whitebox: Any = importlib.import_module("benchmarks.whitebox")

ALL: frozenset[Signal] = frozenset(("entropy", "attention", "hidden"))


def test_equation_1_on_known_distributions() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, -math.inf, -math.inf, -math.inf], [0.0, 0.0, -1e4, -math.inf]])
    found = signals.entropies(logits.log_softmax(-1)).tolist()
    assert found == pytest.approx([math.log(4), 0.0, math.log(2)])
    third = torch.tensor([0.5, 0.25, 0.25, 0.0]).log()[None]
    assert signals.entropies(third).tolist() == pytest.approx([1.5 * math.log(2)])


def test_equation_2_takes_the_column_below_the_diagonal() -> None:
    matrix = torch.tensor(
        [
            [1.00, 0.00, 0.00, 0.00],
            [0.30, 0.70, 0.00, 0.00],
            [0.05, 0.15, 0.80, 0.00],
            [0.20, 0.10, 0.60, 0.10],
        ]
    )
    # Rows would give the largest of what each pays, itself included: 1, 0.7, 0.8, 0.6.
    assert signals.most_attended(matrix).tolist() == pytest.approx([0.30, 0.15, 0.60, 0.0])
    parts = [signals.most_attended(matrix[:2]), signals.most_attended(matrix[2:], first=2)]
    assert torch.maximum(*parts).tolist() == pytest.approx([0.30, 0.15, 0.60, 0.0])


def test_attention_is_the_mean_of_heads_that_may_share_keys() -> None:
    query = torch.zeros(1, 2, 1, 4)
    query[0, 1, 0, 0] = 2.0
    keys = torch.zeros(1, 1, 3, 4)
    keys[0, 0, 1, 0] = math.log(2)
    mask = torch.tensor([0.0, 0.0, -math.inf])
    # The first head sees two alike; of the second, the scores are 0 and 2 ln 2 / sqrt(4).
    found = signals.attention_of_heads(query, keys, mask, None)[0, 0].tolist()
    assert found == pytest.approx([(1 / 2 + 1 / 3) / 2, (1 / 2 + 2 / 3) / 2, 0.0])


def close(model: Any, requests: Sequence[Request], replies: Sequence[Reply], within: float = 1e-4) -> None:
    """Each reply's signals are those of the slow and obvious way."""
    for request, reply in zip(requests, replies, strict=True):
        expected = whitebox.plain_signals(model.loaded(), request)
        got = whitebox.told(reply.choices[0])
        assert got.text == expected.text
        assert max(whitebox.differences(got, expected).values()) < within


@pytest.mark.parametrize("kind", ["plain", "windowed"])
@pytest.mark.parametrize("tokens", [16384, 640])
def test_signals_are_those_of_plain_transformers(opened: Callable[..., Any], kind: str, tokens: int) -> None:
    """With little room, rows go back into the queue and are read again with what they wrote."""
    model = opened(kind, max_batch_tokens=tokens)
    requests = [replace(request, max_tokens=request.max_tokens + 1, signals=ALL) for request in mixed(16)]
    close(model, requests, ask_all(model, requests, gap=0.002))


def test_rows_that_are_read_again_lose_nothing(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=600)
    requests = mixed(3, most_words=4, max_tokens=190, signals=ALL)
    close(model, requests, ask_all(model, requests))


def test_who_asks_for_nothing_gets_nothing_and_everybody_what_they_asked(opened: Callable[..., Any]) -> None:
    model = opened()
    requests = [
        asking("red"),
        asking("blue", signals=frozenset({"entropy"})),
        asking("green", signals=frozenset({"attention"})),
        asking("town", signals=frozenset({"hidden"})),
        asking("hill", top_logprobs=2),
        asking("river", prefix="who wrote the", max_tokens=0, signals=ALL),
        asking("two", n=3, temperature=1.3, signals=ALL, top_logprobs=2),
    ]
    together = ask_all(model, requests)
    assert [reply.choices[0].text for reply in together] == [ask(model, one).choices[0].text for one in requests]
    nothing, entropy, attention, hidden, top, forced, samples = (reply.choices[0] for reply in together)
    assert nothing.tokens == () and nothing.hidden == top.hidden == attention.hidden == ()
    assert {(t.attention, t.top) for t in entropy.tokens} == {(None, ())} and all(t.entropy for t in entropy.tokens)
    assert {t.entropy for t in attention.tokens} == {None} and attention.tokens[0].attention is not None
    assert len(hidden.hidden) == 32 and len(top.tokens[0].top) == 2 and top.tokens[0].entropy is None
    assert forced.text == "" and forced.tokens and samples.tokens[0].top
    assert len({choice.hidden for choice in together[-1].choices}) == 3


def test_rows_that_ask_for_nothing_do_not_pay(opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = opened()
    seen: list[tuple[int, ...]] = []
    compute = signals.attention_of_heads

    def listen(query: Any, *others: Any) -> Any:
        seen.append(tuple(query.shape))
        return compute(query, *others)

    monkeypatch.setattr(signals, "attention_of_heads", listen)
    ask_all(model, mixed(4, top_logprobs=3))
    assert seen == []
    ask_all(model, [*mixed(4), asking(signals=frozenset({"attention"}), max_tokens=5)])
    # Queries of one row, from its second token to the last, which is read for that alone; in one layer of two.
    assert seen == [(1, 4, 1, 8)] * 4


def test_a_token_that_ends_the_reply_is_no_later_one(opened: Callable[..., Any]) -> None:
    model = opened()
    request = asking(max_tokens=30, signals=ALL)
    free = ask(model, request).choices[0].tokens
    stop = next(token.text for token in free[5:] if token.text.isalnum())
    stopped = ask(model, replace(request, stop=(stop,))).choices[0]
    assert 5 <= len(stopped.tokens) < 30
    assert [token.logprob for token in stopped.tokens] == pytest.approx(
        [token.logprob for token in free[: len(stopped.tokens)]]
    )
    whole = whitebox.prompt_of(model.loaded(), request)
    rows = model._engine.ready().text.rows(request)
    model._engine.ready().batcher.submit(rows)
    rows[0].future.result(20)
    count = len(stopped.tokens)
    with whitebox.attention_by(model.loaded(), "eager"):
        text = torch.cat([whole, torch.tensor([rows[0].output[:count]])], dim=1)
        expected = whitebox.looked_up(model.loaded(), text, whole.shape[1])
    assert [t.attention for t in stopped.tokens][:-1] == pytest.approx(expected.attention, abs=1e-5)
    assert stopped.tokens[-1].attention is None
    assert list(stopped.hidden) == pytest.approx(expected.hidden, rel=1e-4, abs=1e-4)


def forced(model: Any, request: Request) -> tuple[Choice, Any, Any, int]:
    """A choice about a prefix, and what plain transformers tell of it: the signals, the matrix, where it begins."""
    choice = ask(model, request).choices[0]
    row = model._engine.ready().text.rows(request)[0]
    loaded = model.loaded()
    whole = torch.tensor([row.prompt + row.forced])
    with whitebox.attention_by(loaded, "eager"), torch.inference_mode():
        expected = whitebox.looked_up(loaded, whole, row.read)
        matrix = loaded.model(whole, output_attentions=True).attentions[-1][0].mean(0)
    return choice, expected, matrix, row.read


@pytest.mark.parametrize("kind", ["plain", "windowed"])
@pytest.mark.parametrize("portion", [4, 64])
def test_the_tokens_of_a_prefix(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: str, portion: int
) -> None:
    monkeypatch.setattr(decoder, "_FORCED_TOKENS_PER_PASS", portion)
    model = opened(kind)
    prefix = " the river is a green hill where three towns wrote"
    choice, expected, _, _ = forced(model, asking(RULES, prefix=prefix, max_tokens=0, signals=ALL))
    assert "".join(token.text for token in choice.tokens) == prefix
    assert max(whitebox.differences(whitebox.told(choice), expected).values()) < 1e-4
    assert choice.finish == "stop" and choice.text == ""


def test_a_long_prefix_and_an_empty_one(opened: Callable[..., Any]) -> None:
    model = opened()
    reply = ask(model, asking(prefix=RULES, max_tokens=0, signals=ALL))
    assert "".join(token.text for token in reply.choices[0].tokens).strip() == RULES.strip()
    assert reply.usage.completion == 0 and reply.usage.prompt > 100
    empty = ask(model, asking(max_tokens=0, signals=ALL)).choices[0]
    assert empty.tokens == () and len(empty.hidden) == 32
    with pytest.raises(EndpointError, match="context 1024"):
        ask(model, asking(prefix="river " * 1024, max_tokens=0, signals=ALL))


@pytest.mark.parametrize("portion", [4, 64])
def test_what_a_span_of_the_prefix_looks_back_at(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(decoder, "_FORCED_TOKENS_PER_PASS", portion)
    model = opened()
    prefix = "the hill is three red towns"
    spans = tuple((prefix.index(word), prefix.index(word) + len(word)) for word in ("hill", "three red"))
    request = asking("where is the river", prefix=prefix, max_tokens=0, signals=ALL, attention_of=(*spans, (99, 100)))
    choice, _, matrix, read = forced(model, request)
    seen = choice.attended
    assert seen is not None and seen.text.endswith(f"assistant\n{prefix}") and "where is the river" in seen.text
    begin = len(seen.text) - len(prefix)
    for (start, end), row in zip(spans, seen.weights, strict=False):
        covered = [n for n, (a, b) in enumerate(seen.spans) if a < begin + end and b > begin + start]
        assert covered[0] >= read
        expected = matrix[covered].mean(0)[: covered[0]]
        assert list(row) == pytest.approx(expected.tolist(), abs=1e-5)
        assert 0 < sum(row) < 1
    assert seen.weights[2] == ()
    words = [seen.text[start:end] for start, end in seen.spans]
    assert "river" in "".join(words)


def test_not_a_number_fails_one_question_and_not_the_run(opened: Callable[..., Any]) -> None:
    model = opened()
    requests = [replace(request, signals=ALL) for request in mixed(5, max_tokens=20)]
    expected = ask_all(model, requests)
    poison = model.loaded().tokenizer.encode("zzzz")[-1]

    def damage(module: Any, args: Any, output: Any) -> Any:
        """Whoever reads this token gets no numbers from the first layer on."""
        return output.masked_fill((args[0] == poison)[..., None], float("nan"))

    embedding = model.loaded().model.get_input_embeddings()
    handle = embedding.register_forward_hook(damage)
    try:
        calls = [*requests[:3], asking("zzzz"), *requests[3:], asking(prefix="zzzz red", max_tokens=0, signals=ALL)]

        async def all_of() -> list[Any]:
            return await asyncio.gather(*(model.generate(one, step="s") for one in calls), return_exceptions=True)

        found = asyncio.run(asyncio.wait_for(all_of(), TIMEOUT_S))
    finally:
        handle.remove()
    broken = [found.pop(6), found.pop(3)]
    assert all(isinstance(one, EndpointError) and "not finite" in str(one) and not one.retryable for one in broken)
    for one, other in zip(found, expected, strict=True):
        assert one.text == other.text
        assert whitebox.differences(whitebox.told(one.choices[0]), whitebox.told(other.choices[0]))["attention"] < 1e-5


def test_what_a_model_can_tell(opened: Callable[..., Any]) -> None:
    assert {"entropy", "attention", "hidden_states"} <= opened().capabilities


@pytest.mark.parametrize(("kind", "there"), [(b"t5", True), (b"llama", False)])
def test_a_gguf_file_says_whether_there_is_an_encoder(tmp_path: Path, kind: bytes, there: bool) -> None:
    key = b"general.architecture"
    head = struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, len(key)) + key + struct.pack("<IQ", 8, len(kind)) + kind
    path = tmp_path / "model.gguf"
    path.write_bytes(head + struct.pack("<Q", 12) + b"general.name")
    assert weights.has_encoder(weights.resolve_source(str(path))) == there


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_a_model_with_an_encoder_tells_of_its_scores_only(tmp_path: Path, kind: str) -> None:
    model = hf.HFModel(str(with_encoder(tmp_path, kind)), device="cpu")
    try:
        assert "entropy" in model.capabilities and not {"attention", "hidden_states"} & model.capabilities
        entropy: frozenset[Signal] = frozenset({"entropy"})
        request = asking("who wrote", prefix="the river is", max_tokens=0, signals=entropy)
        free = asking("red hill", signals=entropy)
        found, beside = (reply.choices[0] for reply in ask_all(model, [request, free]))
        assert all(token.entropy is not None for token in beside.tokens)
        row = model._engine.ready().text.rows(request)[0]
        with torch.inference_mode():
            ids = torch.tensor([row.begin + row.forced])
            logits = model.loaded().model(input_ids=torch.tensor([row.prompt]), decoder_input_ids=ids).logits[0]
        before = logits[len(row.begin) - 1 : -1].double().log_softmax(-1)
        expected = [float(one[token]) for one, token in zip(before, row.forced, strict=True)]
        assert [token.logprob for token in found.tokens] == pytest.approx(expected, abs=1e-4)
        entropies = [float(-(one.exp() * one).sum()) for one in before]
        assert [token.entropy for token in found.tokens] == pytest.approx(entropies, abs=1e-4)
        for more in ({"signals": ALL}, {"max_tokens": 0, "prefix": "x", "attention_of": ((0, 1),)}):
            with pytest.raises(EndpointError, match="encoder") as caught:
                ask(model, replace(asking(), **more))
            assert caught.value.exit_code == 2
    finally:
        asyncio.run(model.aclose())


def test_too_little_memory_for_a_prefix_is_no_end(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=4096)
    requests = [asking(request.messages[0].content, prefix=RULES, max_tokens=0, signals=ALL) for request in mixed(4)]
    requests += mixed(4)
    expected = ask_all(model, requests)
    passes = 0

    def full(module: Any, args: Any, kwargs: Any) -> None:
        nonlocal passes
        passes += 1
        if passes == 4:
            raise torch.OutOfMemoryError("no room")

    handle = model.loaded().model.register_forward_pre_hook(full, with_kwargs=True)
    found = ask_all(model, requests)
    handle.remove()
    for one, other in zip(found, expected, strict=True):
        assert one.text == other.text
        told = whitebox.differences(whitebox.told(one.choices[0]), whitebox.told(other.choices[0]))
        assert max(told["entropy"], told["attention"]) < 1e-4


SMOLLM = find_entry("smollm")


@pytest.fixture(scope="module")
def smollm() -> Iterator[Any]:
    if not isinstance(SMOLLM, Entry) or not is_complete(SMOLLM):
        pytest.skip("hoptree models pull smollm2-135m-instruct")
    model = hf.HFModel("smollm", device="cpu", dtype="fp32")
    model.loaded()
    yield model
    asyncio.run(model.aclose())


@pytest.mark.timeout(600)  # a GGUF file is loaded slowly, and more so where others use the machine
def test_real_weights_tell_the_truth_in_batches_of_any_size(smollm: Any) -> None:
    texts = ["Name three colours.", "Who wrote Hamlet? " * 2, "What is two plus two?", "Where is the Rhine?"]
    requests = [asking(text, max_tokens=4 + number, signals=ALL) for number, text in enumerate(texts)]
    assert {"attention", "hidden_states"} <= smollm.capabilities
    single = [ask(smollm, request) for request in requests]
    close(smollm, requests, single, within=1e-3)
    alone = [whitebox.told(reply.choices[0]) for reply in single]
    for copies in (1, 4):  # of 4 and 16 rows
        found = [whitebox.told(reply.choices[0]) for reply in ask_all(smollm, requests * copies)]
        for one, other in zip(found, alone * copies, strict=True):
            assert one.text == other.text
            assert max(whitebox.differences(one, other).values()) < 1e-3


@pytest.mark.timeout(600)
def test_real_weights_tell_of_a_prefix(smollm: Any) -> None:
    prefix = " Hamlet was written by William Shakespeare."
    request = asking("Who wrote Hamlet?", prefix=prefix, max_tokens=0, signals=ALL, attention_of=((24, 43),))
    choice, expected, matrix, read = forced(smollm, request)
    assert "".join(token.text for token in choice.tokens) == prefix
    assert max(whitebox.differences(whitebox.told(choice), expected).values()) < 1e-3
    assert choice.attended is not None
    assert list(choice.attended.weights[0])[:read] == pytest.approx(
        matrix[[n for n, (a, b) in enumerate(choice.attended.spans) if b > len(choice.attended.text) - 19]]
        .mean(0)[:read]
        .tolist(),
        abs=1e-4,
    )


def test_a_hidden_state_alone_costs_no_scores_of_tokens(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("scores were noted that nobody asked for")

    monkeypatch.setattr(rows, "note_scores", refuse)
    choice = ask(opened(), asking(max_tokens=5, signals=frozenset({"hidden"}))).choices[0]
    assert choice.hidden and choice.tokens == ()


def test_a_peak_is_that_of_the_work_alone() -> None:
    """As far as what was there before was given back; what fails meanwhile is told."""

    def use() -> None:
        with mmap.mmap(-1, 64 << 20) as fresh:  # what is merely allocated may be memory that the process had before
            for page in range(0, len(fresh), mmap.PAGESIZE):
                fresh[page] = 1

    def fail() -> None:
        raise OSError("the disk is full")

    few = whitebox.peak_of("cpu", lambda: None)
    if few is None:
        pytest.skip("only Linux resets the peak of a process, and not in every sandbox")
    many = whitebox.peak_of("cpu", use)
    assert 60 < many - few < 100, "64 MB more"
    assert whitebox.peak_of("cpu", lambda: None) < many - 30
    with pytest.raises(OSError, match="full"):
        whitebox.peak_of("cpu", fail)


def test_the_benchmark_bounds_the_memory_of_signals() -> None:
    found = {"generate": 1.0, "signals": 1.0, "device": "cpu", "dtype": "torch.bfloat16"}
    missed = [
        [goal.name for goal in whitebox.goals({**found, "peaks": peaks}, quick=True) if goal.missed]
        for peaks in ({"signals": 105.0, "generate": 100.0}, {"signals": 120.0, "generate": 100.0})
    ]
    assert missed == [[], ["peak memory with signals / by generate"]]
