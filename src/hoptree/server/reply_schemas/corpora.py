"""Corpora, their documents, and the jobs that change them."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from hoptree.server.reply_schemas.errors import Why

__all__ = ["Corpora", "Documents", "JobReply", "Started"]


class PassedOver(TypedDict):
    """A file that was not read, or not wholly."""

    file: str
    cause: str
    remedy: str


class JobReply(TypedDict):
    """A change of a corpus, and how far it is."""

    id: str
    kind: Literal["create", "add", "remove"]
    corpus: str
    state: Literal["running", "done", "failed", "stopped"]
    done: int
    total: int | None
    message: str
    passed_over: list[PassedOver]
    error: Why | None


class CorpusReply(TypedDict):
    """A corpus; `managed` ones were made over HTTP and can be changed so."""

    name: str
    passages: int | None
    documents: int | None
    retrievers: list[str]
    managed: bool
    job: JobReply | None


class Corpora(TypedDict):
    corpora: list[CorpusReply]
    uploads: bool


class Started(TypedDict):
    """The id of the job that was begun."""

    job: str


class DocumentReply(TypedDict):
    id: str
    name: str
    bytes: int
    passages: int | None


class Documents(TypedDict):
    documents: list[DocumentReply]
    total: int
    offset: int
