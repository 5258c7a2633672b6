"""Replies held against the OpenAPI document, in which nothing may be left out."""

from __future__ import annotations

import copy
from typing import Any

import httpx
import pytest

__all__ = ["Documented"]


class Documented:
    """The document of a server; a field that a schema does not name counts as a mistake, though clients let it pass."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = copy.deepcopy(document)
        for schema in self._document["components"]["schemas"].values():
            if schema.get("properties"):
                schema.setdefault("additionalProperties", False)

    @property
    def names(self) -> set[str]:
        """What replies may refer to."""
        return {f"#/components/schemas/{name}" for name in self._document["components"]["schemas"]}

    @property
    def operations(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {
            (method.upper(), path): operation
            for path, methods in self._document["paths"].items()
            for method, operation in methods.items()
        }

    def check(self, reply: httpx.Response, path: str) -> None:
        """Fail where a reply is not what the document says of that path and status."""
        responses = self.operations[reply.request.method, path]["responses"]
        assert str(reply.status_code) in responses, f"{path} does not tell of {reply.status_code}: {reply.text[:300]}"
        self.check_value(reply.json(), responses[str(reply.status_code)]["content"]["application/json"]["schema"])

    def check_value(self, value: Any, schema: dict[str, Any]) -> None:
        jsonschema: Any = pytest.importorskip("jsonschema")
        assert schema, "there is no schema"
        complete = {**schema, "components": self._document["components"]}
        jsonschema.Draft202012Validator(complete).validate(value)
