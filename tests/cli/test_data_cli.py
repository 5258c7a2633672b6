"""`hoptree data`: list, get and sample at the command line, and a run over what they make."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.command_line import call
from tests.evaluation.dataset_rows import HOTPOT
from tests.evaluation.release_files import RELEASES, Hub, array, hub, write

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def data(here: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {"NO_PROXY": "127.0.0.1", "XDG_CACHE_HOME": str(here / "cache")}
    return call("data", *map(str, arguments), folder=here, environment=environment)


def many(here: Path, kinds: dict[str, int]) -> Path:
    rows = [{**HOTPOT, "_id": f"{kind}{n}", "type": kind} for kind, count in kinds.items() for n in range(count)]
    (here / "hotpot_dev_distractor_v1.json").write_bytes(array(*rows))
    return here / "hotpot_dev_distractor_v1.json"


def test_get_then_run_an_experiment_over_it(tmp_path: Path) -> None:
    for name in ("hotpotqa", "2wikimultihopqa"):
        write(tmp_path / "download", RELEASES[name, "dev"])
    done = data(tmp_path, "get", "hotpotqa", "--data", "D", "--from", "download")
    assert done.returncode == 0, done.stderr
    assert (
        "wrote D/hotpotqa/dev.jsonl\nwrote D/hotpotqa/corpus.jsonl.gz\n2 questions, 3 passages; CC BY-SA 4.0\n"
        in done.stdout
    )
    assert "The release has 7,405 questions, this file 2." in done.stdout
    done = data(tmp_path, "get", "2wikimultihopqa", "--data", "D", "--from", "download/data_ids_april7.zip", "--json")
    summary = json.loads(done.stdout)
    assert (summary["questions"], summary["passages"], summary["files"][0]) == (1, 3, "D/2wikimultihopqa/dev.jsonl")
    (tmp_path / "m.json").write_text(json.dumps({"replies": [{"reply": "Skagen"}]}))
    (tmp_path / "plan.yaml").write_text(
        "data:\n"
        "  HotpotQA: {questions: hotpotqa/dev.jsonl, corpus: hotpotqa/corpus.jsonl.gz}\n"
        "  2Wiki: {questions: 2wikimultihopqa/dev.jsonl, corpus: 2wikimultihopqa/corpus.jsonl.gz}\n"
        "every: {retriever: bm25}\nruns: {one reading: {method: oner, options: {k: 3}}}\n"
    )
    given = ("run", "plan.yaml", "--data", "D", "--model", "scripted/m.json", "--out", "runs", "--json", "--no-cache")
    ran = call(*given, folder=tmp_path, environment={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert ran.returncode == 0, ran.stderr
    hotpot, two_wiki = json.loads(ran.stdout)
    assert (hotpot["finished"], hotpot["metrics"]["em"]["mean"]) == (2, 0.5)
    assert (two_wiki["finished"], two_wiki["metrics"]["em"]["mean"]) == (1, 1)
    assert two_wiki["metrics"]["retrieval_recall"]["mean"] == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("get", "hotpot"), "There is no data set 'hotpot'. Did you mean hotpotqa?"),
        (("get", "hotpotqa", "--split", "tset"), "hotpotqa has no split 'tset'."),
        (("get", "hotpotqa", "--from", "none.json"), "There is no none.json."),
        (("get", "hotpotqa", "--from", "h.json", "--sha256", "0" * 64), "The SHA-256 of h.json is "),
        (("get", "hotpotqa", "--from", "bad.json"), "Row 2 (line 1) of bad.json holds no question."),
        (("get", "hotpotqa", "--from", "other.jsonl"),
         "Row 1 (line 1) of other.jsonl is of the data set musique, not of hotpotqa. Give the file hotpot_dev_"),
        (("get", "2wikimultihopqa", "--from", "cut.zip"), "cut.zip is cut short or damaged: "),
        (("get", "hotpotqa", "--from", "h.json", "--data", "h.json/x"), "x/hotpotqa cannot be used: Not a dir"),
        (("list", "hotpod"), "Did you mean hotpotqa?"),
        (("sample", "h.json", "--out", "o"), "Give one of --count, --of and --paper."),
        (("sample", "h.json", "--out", "o", "--count", "3"), "h.json has 1 question, not 3."),
        (("sample", "h.json", "--out", "o", "--of", "bridge=x"), "--of bridge=x is not possible."),
        (("sample", "h.json", "--out", "o", "--of", "bridge=2"), "h.json has 1 question of bridge, not 2."),
        (("sample", "h.json", "--out", "o", "--of", "brige=1"), "the type 'brige'. Did you mean bridge?"),
        (("sample", "h.json", "--out", "o", "--of", "xyz=1"), "of the type 'xyz'. There are 2 hops, bridge."),
        (("sample", "h.json", "--out", "o", "--of", "bridge=1", "--of", "2 hops=1"),
         "h.json has 0 questions of 2 hops that no other type takes, not 1."),
        (("sample", "hotpotqa", "--out", "o", "--paper", "taikc"),
         "There is no data/hotpotqa/dev.jsonl. Get it: hoptree data get hotpotqa --data data; or"),
        (("sample", "hotpotqa", "--out", "o", "--count", "1", "--split", "train", "--data", "D"),
         "There is no D/hotpotqa/train.jsonl. Get it: hoptree data get hotpotqa --split train --data D; or"),
        (("sample", "hotpotqa", "--out", "o", "--count", "1", "--split", "nope"),
         "hotpotqa has no split 'nope'. There are dev, train."),
        (("sample", "wikipedia2018", "--out", "o", "--count", "1"), "wikipedia2018 holds documents, and no questions."),
        (("sample", "nosuch", "--out", "o", "--count", "1"), "There is no data set 'nosuch'."),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_with_a_remedy(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "h.json").write_bytes(array(HOTPOT))
    (tmp_path / "other.jsonl").write_text('{"id": "1", "dataset": "musique", "question": "Who?", "answers": ["Ann"]}')
    (tmp_path / "bad.json").write_bytes(array(HOTPOT, {**HOTPOT, "_id": "b", "question": ""}))
    (tmp_path / "cut.zip").write_bytes(RELEASES["2wikimultihopqa", "dev"]["data_ids_april7.zip"][:200])
    done = data(tmp_path, *arguments)
    assert done.returncode == 2 and sentence in done.stderr, done
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    assert not done.stdout


def test_size_licence_and_address_are_told_before_a_download(tmp_path: Path) -> None:
    with hub({"/h.json": RELEASES["hotpotqa", "dev"]["hotpot_dev_distractor_v1.json"]}) as address:
        done = data(tmp_path, "get", "hotpotqa", "--url", f"{address}/h.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        f"hoptree: HotpotQA (CC BY-SA 4.0): hotpot_dev_distractor_v1.json, 46.3 MB, from {address}/h.json"
    )
    assert "read h.json, SHA-256 " in done.stdout and (tmp_path / "data" / "hotpotqa" / "dev.jsonl").exists()


def test_a_killed_download_goes_on(tmp_path: Path) -> None:
    content = RELEASES["hotpotqa", "dev"]["hotpot_dev_distractor_v1.json"]
    with hub({"/h.json": content + b" " * 4_000_000}) as address:
        Hub.pause = 2_000_000
        command = [sys.executable, "-m", "hoptree", "data", "get", "hotpotqa", "--url", f"{address}/h.json"]
        environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
        child = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
        downloads = tmp_path / "data" / "hotpotqa" / ".downloads"
        for _ in range(600):
            if any(part.stat().st_size for part in downloads.rglob("h.json.part")):
                break
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        (part,) = downloads.rglob("h.json.part")
        kept = part.stat().st_size
        Hub.pause = 0
        done = data(tmp_path, "get", "hotpotqa", "--url", f"{address}/h.json")
        assert done.returncode == 0, done.stderr
        assert 0 < kept < len(content) + 4_000_000 and Hub.asked[-1] == ("/h.json", f"bytes={kept}-")


def test_list_says_what_is_here_and_which_tables_need_it(tmp_path: Path) -> None:
    data(tmp_path, "get", "hotpotqa", "--from", write(tmp_path / "x", RELEASES["hotpotqa", "dev"]))
    done = data(tmp_path, "list")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "hotpotqa: HotpotQA; CC BY-SA 4.0; https://hotpotqa.github.io" in lines
    assert "    dev: 7,405 questions, 46.3 MB, here: dev.jsonl, corpus.jsonl.gz" in lines
    assert "    train: 90,447 questions, 566.4 MB, not here" in lines
    rows = {row["name"]: row for row in json.loads(data(tmp_path, "list", "--json").stdout)}
    assert len(rows) == 16 and rows["webqsp"]["needed_by"] == ["treeqa/table2", "treeqa/table3", "treeqa/table7"]
    assert rows["hotpotqa"]["splits"][0]["made_of"] and rows["hotpotqa"]["missing"] == []
    assert rows["iirc"]["missing"] == ["corpus.jsonl", "dev.jsonl"]
    assert "    for mind/table1, mind/table2" in lines
    assert rows["bamboogle"]["in_no_release"] == ["corpus.jsonl"]
    assert "    for mind/table1, mind/table2" in data(tmp_path, "list", "iirc").stdout, "ours, wherever it is called"


def test_a_sample_is_the_same_for_the_same_seed_and_has_the_paper_s_mixture(tmp_path: Path) -> None:
    data(tmp_path, "get", "hotpotqa", "--from", many(tmp_path, {"bridge": 500, "comparison": 200}))
    for out in ("a.txt", "b.txt"):
        done = data(tmp_path, "sample", "hotpotqa", "--paper", "taikc", "--seed", "1", "--out", out)
        assert done.returncode == 0, done.stderr
    assert "500 ids of 700 in data/hotpotqa/dev.jsonl (386 bridge, 114 comparison)" in done.stdout
    ids = (tmp_path / "a.txt").read_text().split()
    assert ids == (tmp_path / "b.txt").read_text().split() and sum(key.startswith("bridge") for key in ids) == 386
    drawn = data(tmp_path, "sample", "hotpotqa", "--count", "20", "--seed", "1", "--out", "c.txt", "--json")
    other = data(tmp_path, "sample", "hotpotqa", "--count", "20", "--seed", "2", "--out", "d.txt", "--json")
    assert json.loads(drawn.stdout)["ids"] != json.loads(other.stdout)["ids"]
    from hoptree.evaluation.datasets.reading import read_examples

    path = tmp_path / "data" / "hotpotqa" / "dev.jsonl"
    asked = read_examples(path, limit=20, seed=1).examples  # what hoptree run --limit 20 --seed 1 asks
    assert json.loads(drawn.stdout)["ids"] == [example.id for example in asked]
    assert len(read_examples(path, ids=tmp_path / "a.txt").examples) == 500
    mixed = data(tmp_path, "sample", path, "--of", "2 hops=30", "--out", "e.txt")
    assert mixed.returncode == 0 and len((tmp_path / "e.txt").read_text().split()) == 30
    both = data(tmp_path, "sample", path, "--of", "comparison=30", "--of", "2 hops=30", "--out", "f.txt")
    assert both.returncode == 0 and "60 ids of 700" in both.stdout, "a question that fits two counts once"
