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
    with pytest.raises(ConfigError, match="no setting of a local model"):
        open_model(f"local/smollm?{settings}")


def test_a_base_url_is_for_endpoints() -> None:
    with pytest.raises(ConfigError, match="no base URL"):
        open_model("scripted/x.json", base_url="http://localhost:1/v1")


def test_a_key_is_trimmed_and_one_that_cannot_be_sent_is_refused() -> None:
    OpenAIModel("x", base_url="http://localhost:1/v1", api_key=" sk-abc\n")
    with pytest.raises(ConfigError, match="character that no key has"):
        OpenAIModel("x", base_url="http://localhost:1/v1", api_key="sk-abc…")


@pytest.mark.parametrize("url", ["localhost:8000", "http://", "http://localhost:99999/v1", "ftp://x/v1", "http://[::1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no base URL"):
        OpenAIModel("x", base_url=url)


def test_an_error_in_a_200_is_said() -> None:
    with pytest.raises(EndpointError, match="quota gone"):
        OpenAIModel("x", base_url="http://localhost:1/v1")._read(b'{"error": {"message": "quota gone"}}')


def test_a_password_in_the_url_is_not_shown() -> None:
    model = OpenAIModel("x", base_url="http://user:secret@localhost:1/v1")
    failure = model._failure(500, {}, b"")
    assert isinstance(failure, EndpointError)
    assert "secret" not in str(failure) and "http://localhost:1/v1" in str(failure)
