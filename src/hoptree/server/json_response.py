"""JSON replies, whatever a model or a file wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from hoptree.server.error_responses import Refusal, error_body


def to_json(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8; lone surrogates, as models write them, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class Json(Response):
    """A JSON reply."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(to_json(content), status_code, headers)


def refusal_response(refusal: Refusal, *, openai: bool = False) -> Json:
    """Build the reply to a request that is refused."""
    return Json(error_body(refusal, openai=openai), refusal.status, refusal.headers)
