"""Small files in the format, and under the names, of the public releases."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.evaluation.dataset_rows import (
    ADVERSARIAL,
    ALIASES,
    HOTPOT,
    IIRC,
    MUSIQUE,
    NQ_ANNOTATED,
    POPQA,
    POPQA_NAMES,
    QALD,
    QALD_YES,
    STRATEGY,
    TRIVIA,
    TWO_WIKI,
    WEBQSP,
    WEBQSP_EMPTY,
)

from hoptree.evaluation.datasets.convert import Converted
from hoptree.evaluation.datasets.fetch import Order, get
from hoptree.evaluation.datasets.releases import find_set

Content = Mapping[str, bytes]

_SECOND = {
    **HOTPOT,
    "_id": "5a8b57f3",
    "question": "Who is a poet?",
    "answer": "Jan Dahl",
    "type": "comparison",
    "supporting_facts": [["Jan Dahl", 0]],
}
_PARAGRAPHS = {
    "Red kite-1": {
        "title": "Red kite",
        "section": "",
        "headers": [],
        "para_index": 1,
        "content": "A red kite is small.",
    },
    "Red kite-3": {"title": "Red kite", "section": "", "headers": [], "para_index": 3, "content": "It eats worms."},
    "Human body size-2": {"title": "Human body size", "para_index": 2, "content": "People are larger."},
}
_ARTICLES = {
    "skagen": "<a>Skagen</a> is a town at the tip of Jutland, and it is 600 years <b>old</b> &amp; small.\nGeography\n"
    "In the summer many painters came to live at the beach there for the light.",
    "unlinked": "Nobody asks about this page, which has more than ten words in its only paragraph.",
}
_IIRC = {
    **IIRC,
    "links": [{"target": "Skagen", "indices": [21, 27]}],
    "questions": [
        {
            **IIRC["questions"][0],
            "context": [{"text": "born", "passage": "main"}, {"text": "is 600 years old & small", "passage": "skagen"}],
        },
        *IIRC["questions"][1:],
    ],
}  # fmt: skip
_WITHOUT_PARAGRAPHS = {key: value for key, value in ADVERSARIAL.items() if key != "paragraphs"} | {"qas_id": "0"}
_CTXS = {
    "question": "where was ada moor born",
    "answers": ["Skagen"],
    "ctxs": [
        {"id": "71445", "title": "Jan Dahl", "text": "Jan Dahl is a poet.", "hasanswer": False, "isgold": False},
        {"id": None, "title": "Ada Moor", "text": "She was born in Skagen.", "hasanswer": True, "isgold": True},
    ],
    "nq_annotated_gold": {"title": "Ada Moor", "short_answers": ["Skagen"]},
}
_DPR = {
    "dataset": "trivia_dev",
    "question": "Which town is at the tip?",
    "answers": ["Skagen", "The Skaw"],
    "positive_ctxs": [
        {"title": "Skagen", "text": "Skagen is at the tip.", "score": 1000, "title_score": 1, "passage_id": "12"},
        {"title": "Denmark", "text": "Skagen is in Denmark.", "score": 9.2, "title_score": 0, "passage_id": "13"},
    ],
    "negative_ctxs": [],
    "hard_negative_ctxs": [{"title": "Aalborg", "text": "A city.", "score": 3, "title_score": 0, "passage_id": "14"}],
}


def jsonl(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def array(*rows: Any) -> bytes:
    return json.dumps(rows).encode()


def zipped(content: Content) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(content: Content, mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def table(names: list[str], *rows: list[str]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in (names, *rows)).encode()


RELEASES: dict[tuple[str, str], dict[str, bytes]] = {
    ("hotpotqa", "dev"): {"hotpot_dev_distractor_v1.json": array(HOTPOT, _SECOND)},
    ("2wikimultihopqa", "dev"): {
        "data_ids_april7.zip": zipped(
            {
                "data_ids_april7/dev.json": array(TWO_WIKI),
                "data_ids_april7/id_aliases.json": jsonl(*ALIASES),
                "__MACOSX/data_ids_april7/._dev.json": b"\0\0",
            }
        )
    },
    ("musique", "dev"): {"musique_ans_v1.0_dev.jsonl": jsonl(MUSIQUE)},
    ("bamboogle", "dev"): {"bamboogle.csv": b"Question,Answer\r\n\"Who, then, was it?\",Ada\r\n"},
    ("advhotpotqa", "dev"): {
        "hotpotadv_dev.json": array(_WITHOUT_PARAGRAPHS, ADVERSARIAL),
        "alt_answers.jsonlines": jsonl({"qas_id": "5ab", "answer": "Skaw"}),
    },
    ("strategyqa", "dev"): {
        "strategyqa_dataset.zip": zipped(
            {
                "strategyqa_train.json": array(STRATEGY),
                "strategyqa_train_paragraphs.json": json.dumps(_PARAGRAPHS).encode(),
            }
        )
    },
    ("iirc", "dev"): {
        "iirc_train_dev.tgz": tarred({"iirc_train_dev/train.json": b"[]", "iirc_train_dev/dev.json": array(_IIRC)}),
        "context_articles.tar.gz": tarred({"context_articles.json": json.dumps(_ARTICLES).encode()}),
    },
    ("nq", "dev"): {"nq-open-20_total_documents_gold_at_0.jsonl.gz": gzip.compress(jsonl(_CTXS))},
    ("nq", "dev_open"): {"NQ-open.dev.jsonl": jsonl({"question": "who", "answer": ["Ada", "Moor"]})},
    ("nq", "dev_pages"): {
        "nq-dev-all.jsonl.gz": gzip.compress(
            jsonl(NQ_ANNOTATED, {**NQ_ANNOTATED, "example_id": 8, "annotations": [NQ_ANNOTATED["annotations"][1]]})
        )
    },
    ("popqa", "dev"): {"popQA.tsv": table([*POPQA_NAMES, "s_pop"], [*POPQA, "236"])},
    ("popqa", "dev_longtail"): {"popqa_longtail_w_gs.jsonl": jsonl({**_CTXS, "id": 42})},
    ("triviaqa", "dev"): {"biencoder-trivia-dev.json.gz": gzip.compress(array(_DPR))},
    ("triviaqa", "dev_open"): {
        "triviaqa-unfiltered.tar.gz": tarred(
            {"triviaqa-unfiltered/unfiltered-web-dev.json": json.dumps({"Data": [TRIVIA], "Version": 1.0}).encode()}
        )
    },
    ("webquestions", "dev_open"): {
        "webquestions.test.json": array(
            {"url": "http://x", "targetValue": '(list (description "Skagen") (description Skaw))', "utterance": "where"}
        )
    },
    ("simplequestions", "dev_wikidata_open"): {
        "annotated_wd_data_test_answerable.txt": b"Q7358590\tP20\tQ1637790\tWhere did roger marquis die\n"
    },
    ("simplequestions", "dev_open"): {
        "SimpleQuestions_v2.tgz": tarred(
            {
                "SimpleQuestions_v2/annotated_fb_data_test.txt": b"www.freebase.com/m/01\twww.freebase.com/people/born"
                b"\twww.freebase.com/m/02\twhere was she born?\n"
            }
        )
    },
    ("webqsp", "dev_open"): {
        "WebQSP.zip": zipped(
            {
                "WebQSP/data/WebQSP.test.json": json.dumps(
                    {"Version": "1.0", "FreebaseVersion": "2015-08-09", "Questions": [WEBQSP, WEBQSP_EMPTY]}
                ).encode()
            }
        )
    },
    ("qald10_en", "dev_open"): {"qald_10.json": json.dumps({"questions": [QALD, QALD_YES]}).encode()},
    ("wikipedia2018", "corpus"): {
        "psgs_w100.tsv.gz": gzip.compress(b"id\ttext\ttitle\n1\t\"Skagen is a town.\"\tSkagen\n")
    },
    ("wikipedia2019", "corpus"): {
        "kilt_knowledgesource.json": jsonl({"wikipedia_id": "1", "wikipedia_title": "Skagen", "text": ["A", "B."]})
    },
}  # fmt: skip


def write(folder: Path, content: Content) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


def made(data: Path, name: str, split: str = "", **order: Any) -> Converted:
    public = find_set(name)
    return get(public, public.release(split), data, Order(**order), lambda stage, done, total: None)


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves `files`, from where a Range header says; with `cut`, it breaks off after so many bytes.

    With `pause`, it stops after so many bytes and keeps the connection.
    """

    files: dict[str, bytes]
    tag = '"one"'
    cut = pause = 0
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        type(self).asked.append((self.path, wanted))
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if self.headers.get("If-Range", self.tag) != self.tag:
            start = 0
        self.send_response(206 if start else 200)
        self.send_header("ETag", self.tag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = self.cut or self.pause
        self.wfile.write(content[start : start + stop if stop else None])
        while self.pause:
            time.sleep(0.05)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def hub(files: dict[str, bytes]) -> Iterator[str]:
    Hub.files, Hub.asked, Hub.cut, Hub.pause, Hub.tag = files, [], 0, 0, '"one"'
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
