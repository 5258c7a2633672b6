"""FlashRAG against the endpoint of `throughput.py`: run by that with the Python of an environment that has FlashRAG.

    pip install --no-deps flashrag-dev==0.1.2, and what its pipelines import: torch, transformers, datasets, openai,
    tiktoken, bm25s, numba, PyStemmer, faiss-cpu, rouge, tqdm

Pipelines, BM25 (bm25s), prompts and the OpenAI client are FlashRAG's own. Its pipelines for one question at a time do
not fit its OpenAI generator (they pass texts, it takes lists of messages), so a text becomes one message here. Words
stand in for tiktoken's tokens, whose tables are fetched from the network, and prompts are not measured for truncation:
both spare FlashRAG processor time. A line of JSON for each method has the endpoint's figures and the processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import importlib.metadata
import json
import re
import sys
import tempfile
import time
import urllib.request
from itertools import islice
from pathlib import Path
from typing import Any

PACKAGES = ("flashrag-dev", "bm25s", "numba", "openai", "transformers", "torch")
METHODS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "oner": ("SequentialPipeline", "read", 5, {}),
    "iter_retgen": ("IterativePipeline", "think", 5, {"iter_num": 3}),
    "ircot": ("IRCOTPipeline", "sentence", 6, {"max_iter": 10}),
    "self_ask": ("SelfAskPipeline", "follow_up", 5, {"max_iter": 10}),
    "flare": ("FLAREPipeline", "draft", 2, {"threshold": 0.8}),
}
"""By our name: the pipeline, the step that the endpoint plays, passages a search, and limits as our method has them."""


class Words:
    """Words with the space before them as tokens."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def encode(self, text: str, **_: Any) -> list[int]:
        return [self._ids.setdefault(word, len(self._ids)) for word in re.findall(r"\s*\S+", text)]

    def decode(self, ids: list[int]) -> str:
        words = list(self._ids)
        return "".join(words[number] for number in ids)


class Settings(dict[str, Any]):
    """FlashRAG's configuration; what is not set is None."""

    def __missing__(self, name: str) -> None:
        return None


def settings(chosen: argparse.Namespace, step: str, k: int, folder: str) -> Settings:
    openai = {"api_key": "none", "base_url": f"{chosen.url}/v1", "default_headers": {"X-Hoptree-Step": f"it/{step}"}}
    return Settings(
        framework="openai",
        generator_model="slots",
        generator_batch_size=chosen.cap,
        generation_params={"max_tokens": 64, "temperature": 0},
        openai_setting=openai,
        retrieval_method="bm25",
        bm25_backend="bm25s",
        index_path=str(chosen.index),
        retrieval_topk=k,
        metrics=["em", "f1"],
        save_dir=folder,
        dataset_name="questions",
    )


def build_index(passages: Path, folder: Path) -> None:
    """Build FlashRAG's BM25 index, as its index builder does."""
    import bm25s
    import Stemmer

    with gzip.open(passages) if passages.suffix == ".gz" else passages.open("rb") as lines:
        rows = [json.loads(line) for line in lines]
    corpus = [{**row, "contents": f"{row['title']}\n{row['text']}"} for row in rows]
    tokens = bm25s.tokenize([row["contents"] for row in corpus], stopwords="en", stemmer=Stemmer.Stemmer("english"))
    retriever = bm25s.BM25(corpus=corpus, backend="numba")
    retriever.index(tokens)
    retriever.save(str(folder), corpus=corpus)


def mend() -> None:
    """Let FlashRAG's pipelines for one question work with its OpenAI generator, offline."""
    import tiktoken

    words = Words()
    tiktoken.encoding_for_model = lambda name: words
    from flashrag.generator.openai_generator import OpenaiGenerator
    from flashrag.prompt import PromptTemplate

    generate = OpenaiGenerator.generate

    def generate_texts(self: Any, prompts: Any, **how: Any) -> Any:
        if not isinstance(prompts, str) and not isinstance(prompts[0], dict):
            return generate(self, prompts, **how)
        text = prompts if isinstance(prompts, str) else "\n\n".join(message["content"] for message in prompts)
        return generate(self, [{"role": "user", "content": text}], **how)

    OpenaiGenerator.generate = generate_texts
    PromptTemplate.truncate_prompt = lambda self, prompt: prompt


def measure(chosen: argparse.Namespace, method: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Run one method over the questions, after three more so that numba has compiled what it needs."""
    from flashrag import pipeline
    from flashrag.dataset.dataset import Dataset, Item

    name, step, k, limits = METHODS[method]
    items = [Item({"id": row["id"], "question": row["question"], "golden_answers": row["answers"]}) for row in rows]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        config = settings(chosen, step, k, folder)
        opened = getattr(pipeline, name)(config, **limits)
        opened.run(Dataset(config, data=items[chosen.questions :]))
        figures(chosen.url)
        cpu = time.process_time()
        opened.run(Dataset(config, data=items[: chosen.questions]))
        return {"method": method, "cpu": time.process_time() - cpu, "figures": figures(chosen.url)}


def figures(url: str) -> dict[str, Any]:
    """Return what the endpoint has done since it was last asked."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/figures") as reply:
        done: dict[str, Any] = json.load(reply)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="the endpoint, without /v1")
    parser.add_argument("--methods", required=True, help="our names, with commas")
    parser.add_argument("--data", type=Path, required=True, help="questions as JSON lines: id, question, answers")
    parser.add_argument("--passages", type=Path, required=True, help="passages as JSON lines: id, title, text")
    parser.add_argument("--index", type=Path, required=True, help="where the BM25 index is; built if it is not there")
    parser.add_argument("--questions", type=int, required=True)
    parser.add_argument("--cap", type=int, required=True, help="requests at once (FlashRAG's batch size)")
    chosen = parser.parse_args()
    if not chosen.index.is_dir():
        build_index(chosen.passages, chosen.index)
    with chosen.data.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, chosen.questions + 3)]
    mend()
    asyncio.set_event_loop(asyncio.new_event_loop())
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    for method in chosen.methods.split(","):
        print(json.dumps(measure(chosen, method, rows) | {"versions": versions}), flush=True)


if __name__ == "__main__":
    main()
