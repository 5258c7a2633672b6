"""Names of models, and the settings behind them."""

from __future__ import annotations

import pytest

from hoptree.core.errors import ConfigError, EndpointError
from hoptree.models import open_model
from hoptree.models.openai import OpenAIModel


@pytest.mark.parametrize("spec", ["gpt-4o", "openai/", "opnai/x", "", "/x"])
def test_what_names_no_model_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="names no model"):
        open_model(spec)


@pytest.mark.parametrize(
    ("spec", "meant"), [("opnai/x", "'openai/…'"), ("smollm", "'local/smollm'"), ("qwn", "'local/qwen'")]
)
def test_what_may_be_meant_is_told(spec: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_model(spec)
    assert caught.value.remedy.startswith(f"Did you mean {meant}? ")


@pytest.mark.parametrize("settings", ["n_ctx=many", "n_ctx", "batch=3", "slots=-1"])
def test_unknown_settings_of_a_local_model_are_refused(settings: str) -> None:
    with pytest.raises(ConfigError, match="not a setting of a local model"):
        open_model(f"local/smollm?{settings}")


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        ("ollama/llama3.1", "http://localhost:11434/v1"),
        ("vllm/Qwen/Qwen2.5-7B", "http://localhost:8000/v1"),
        ("lmstudio/phi", "http://localhost:1234/v1"),
    ],
)
def test_programs_on_this_machine_have_names(spec: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.example/v1")
    model = open_model(spec)
    assert (model.name, model.endpoint) == (spec, url)
    assert open_model(spec, base_url="http://other:1/v1").endpoint == "http://other:1/v1"


def test_an_endpoint_has_a_timeout_and_no_other_setting() -> None:
    here, there = "http://localhost:1/v1", "http://models.example/v1"
    seconds = [
        open_model(spec, base_url=url)._http._timeout  # type: ignore[attr-defined]
        for spec, url in (("openai/x?timeout=3000", there), ("openai/x", there), ("openai/x", here))
    ]
    assert seconds == [3000, 120, 1800], "a processor of this machine may be slow"
    assert open_model("openai/x?timeout=3000", base_url=there).name == "openai/x"
    for wrong in ("timeuot=3000", "timeout", "timeout=soon", "n_ctx=3"):
        with pytest.raises(ConfigError, match="not a setting of an endpoint's model"):
            open_model(f"openai/x?{wrong}", base_url=here)


def test_a_base_url_is_for_endpoints() -> None:
    with pytest.raises(ConfigError, match="no base URL"):
        open_model("scripted/x.json", base_url="http://localhost:1/v1")


def test_a_key_is_trimmed_and_one_that_cannot_be_sent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-abc\n")
    OpenAIModel("x", base_url="http://localhost:1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abc…")
    with pytest.raises(ConfigError, match="character that no key has"):
        OpenAIModel("x", base_url="http://localhost:1/v1")


@pytest.mark.parametrize("url", ["localhost:8000", "http://", "http://localhost:99999/v1", "ftp://x/v1", "http://[::1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a base URL"):
        OpenAIModel("x", base_url=url)


def test_an_error_in_a_200_is_said() -> None:
    with pytest.raises(EndpointError, match="quota gone"):
        OpenAIModel("x", base_url="http://localhost:1/v1")._read(b'{"error": {"message": "quota gone"}}')


def test_a_password_in_the_url_is_not_shown() -> None:
    model = OpenAIModel("x", base_url="http://user:secret@localhost:1/v1")
    failure = model._failure(500, {}, b"")
    assert isinstance(failure, EndpointError)
    assert "secret" not in str(failure) and "http://localhost:1/v1" in str(failure)
