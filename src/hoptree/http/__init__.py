"""Servers spoken to over HTTP: whatever goes wrong on the way becomes a typed error."""

from hoptree.http.client import MAX_BODY, Http, error_text, kind_of_body, without_password

__all__ = ["MAX_BODY", "Http", "error_text", "kind_of_body", "without_password"]
