"""Experiment files: every run with every data set and every model, and nothing that is misspelt."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.experiment_files import write

from hoptree.core.errors import ConfigError, InputError
from hoptree.engine.context import Budget, Prices
from hoptree.evaluation.experiment import BoundaryExperiment, Experiment
from hoptree.evaluation.plan import IndexPlan, Planned, chosen, experiments_folder, read_plan

DATA = "data: {one: {questions: one/dev.jsonl, corpus: one/corpus.jsonl}, two: {questions: two.jsonl}}\n"
TWO_RUNS = "runs: {direct: {method: direct}, wide: {method: oner, options: {k: 9}}}\n"
TWO_MODELS = "models: {big: openai/big, small: {model: hf/small, prices: [1, 2]}}\n"


def plan(folder: Path, text: str, **overrides: Any) -> list[Planned]:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path, Path("root"), overrides)


def names(planned: list[Planned]) -> list[str]:
    return [one.run_name for one in planned if one.data_name == planned[0].data_name]


def test_every_run_is_made_with_every_data_set(tmp_path: Path) -> None:
    found = plan(tmp_path, DATA + "every: {limit: 5, budget: {calls: 3}}\n" + TWO_RUNS, seed=7)
    assert [(one.data_name, one.run_name, str(one.folder)) for one in found] == [
        ("one", "direct", "one/direct"),
        ("one", "wide", "one/wide"),
        ("two", "direct", "two/direct"),
        ("two", "wide", "two/wide"),
    ]
    assert found[1].experiment == Experiment(
        Path("root/one/dev.jsonl"),
        method="oner",
        corpus="root/one/corpus.jsonl",
        options={"k": 9},
        limit=5,
        seed=7,
        budget=Budget(calls=3),
        name="wide on one",
    )
    assert found[1].corpora == (Path("root/one/corpus.jsonl"),) and found[3].corpora == ()


def test_a_data_set_may_have_a_limit_of_its_own_which_the_command_line_overrides(tmp_path: Path) -> None:
    text = "data: {one: {questions: a, limit: 2}, two: {questions: b}}\nevery: {limit: 5}\n" + TWO_RUNS
    assert [one.experiment.limit for one in plan(tmp_path, text)] == [2, 2, 5, 5]
    assert [one.experiment.limit for one in plan(tmp_path, text, limit=1)] == [1] * 4


def test_a_data_set_may_name_its_questions(tmp_path: Path) -> None:
    text = "data: {one: {questions: a, ids: further/one.txt}, two: {questions: b}}\n" + TWO_RUNS
    assert [one.experiment.ids for one in plan(tmp_path, text)][1:3] == [tmp_path / "further" / "one.txt", None]


def test_a_data_set_may_be_measured_on_one_half_of_it(tmp_path: Path) -> None:
    text = "data: {one: {questions: a, half: second}, two: {questions: b}}\n" + TWO_RUNS
    assert [one.experiment.half for one in plan(tmp_path, text)] == ["second", "second", "", ""]
    assert [one.experiment.half for one in plan(tmp_path, "every: {half: first}\n" + text)][1:3] == ["second", "first"]
    assert [one.experiment.half for one in plan(tmp_path, text, half="first")] == ["first"] * 4
    with pytest.raises(ConfigError, match="'third' is not a half of a data set"):
        plan(tmp_path, text.replace("second", "third"))


def test_a_data_set_may_have_a_graph_which_the_command_line_overrides(tmp_path: Path) -> None:
    """A folder below that of the data, unless it is on the network or said in full."""
    text = (
        "data: {one: {questions: a, graph: one/kg}, two: {questions: b, graph: wikidata}, five: {questions: e},"
        " three: {questions: c, graph: 'https://kg.example/sparql'}, four: {questions: d, graph: /kg}}\n"
        "runs: {tree: {method: treeqa}, direct: {method: direct}, mind: {method: boundary}}\n"
    )
    found = {one.data_name: one.experiment.graph for one in plan(tmp_path, text) if one.run_name == "tree"}
    assert found == {
        "one": "root/one/kg",
        "two": "wikidata",
        "three": "https://kg.example/sparql",
        "four": "/kg",
        "five": None,
    }
    without = {one.experiment.graph for one in plan(tmp_path, text) if one.run_name == "direct"}
    assert without == {None}, "who asks no graph does not need that of the data set"
    given = plan(tmp_path, text, graph="mine")
    assert {one.experiment.graph for one in given if one.run_name == "direct"} == {"mine"}
    assert {one.experiment.graph for one in given if one.run_name == "mind"} == {None}, "what a model knows needs none"


def test_the_command_line_puts_another_corpus_in_the_place_of_all(tmp_path: Path) -> None:
    text = DATA + "runs: {direct: {method: direct}, mind: {method: boundary}}\n"
    given = plan(tmp_path, text, corpus="mine")
    assert {(one.experiment.corpus, one.corpora) for one in given if one.run_name == "direct"} == {("mine", ())}
    assert {one.experiment.corpus for one in given if one.run_name == "mind"} == {None}, "what a model knows needs none"


def test_a_corpus_may_be_on_the_network_and_files_beside_the_plan(tmp_path: Path) -> None:
    text = (
        "data: {wiki: {questions: ./own.jsonl, corpus: wikipedia}, engine: {questions: a, corpus: 'milvus://host/docs'},"
        " here: {questions: a, corpus: ./docs, graph: ./kg}}\nruns: {one: {method: treeqa}}\n"
    )
    wiki, engine, here = plan(tmp_path, text)
    assert (wiki.experiment.data, wiki.experiment.corpus, wiki.corpora) == (tmp_path / "own.jsonl", "wikipedia", ())
    assert (engine.experiment.corpus, engine.corpora) == ("milvus://host/docs", ())
    assert (here.corpora, here.experiment.corpus) == ((tmp_path / "docs",), str(tmp_path / "docs"))
    assert (here.experiment.graph, here.experiment.data) == (str(tmp_path / "kg"), Path("root/a"))


def test_several_corpora_are_searched_as_one(tmp_path: Path) -> None:
    (found,) = plan(
        tmp_path, "data: {one: {questions: q, corpus: [a.jsonl, ./b.jsonl]}}\nruns: {one: {method: oner}}\n"
    )
    assert found.corpora == (Path("root/a.jsonl"), tmp_path / "b.jsonl")
    for wrong in ("[a.jsonl, wikipedia]", "[a.jsonl, 3]"):
        with pytest.raises(ConfigError):
            plan(tmp_path, f"data: {{one: {{questions: q, corpus: {wrong}}}}}\nruns: {{one: {{method: oner}}}}\n")


def test_options_for_all_runs_hold_beside_those_of_one(tmp_path: Path) -> None:
    text = DATA + "every: {options: {k: 7, titles: true}}\n" + TWO_RUNS
    found = {one.run_name: one.experiment.options for one in plan(tmp_path, text)}
    assert found == {"direct": {"k": 7, "titles": True}, "wide": {"k": 9, "titles": True}}
    assert plan(tmp_path, text, options={"k": 1})[1].experiment.options == {"k": 1}


def test_every_run_is_made_with_every_model(tmp_path: Path) -> None:
    found = plan(tmp_path, DATA + TWO_MODELS + TWO_RUNS)
    assert names(found) == ["direct, big", "direct, small", "wide, big", "wide, small"]
    assert [one.experiment.model for one in found[:4]] == ["openai/big", "hf/small"] * 2
    assert found[1].experiment.prices == Prices(1, 2) and found[0].experiment.prices is None
    assert str(found[0].folder) == "one/direct--big"


def test_a_model_told_takes_the_place_of_all_that_the_file_names(tmp_path: Path) -> None:
    found = plan(tmp_path, DATA + TWO_MODELS + TWO_RUNS, model="local/mine", base_url="")
    assert names(found) == ["direct", "wide"], "one model is no difference"
    assert {one.experiment.model for one in found} == {"local/mine"}
    assert {one.experiment.prices for one in found} == {None}, "what was said of another model does not hold for it"


def test_one_run_with_several_models_is_called_by_the_model(tmp_path: Path) -> None:
    text = DATA + TWO_MODELS + "runs: {anything: {method: direct}}\n"
    assert names(plan(tmp_path, text)) == ["big", "small"]
    assert names(plan(tmp_path, text, model="local/mine")) == ["local/mine"]


def test_boundary_is_measured_without_documents(tmp_path: Path) -> None:
    found = plan(tmp_path, DATA + "runs: {boundary: {method: boundary, limit: 3}}\n")
    assert all(isinstance(one.experiment, BoundaryExperiment) for one in found)
    assert [(one.corpora, one.experiment.corpus, one.experiment.limit) for one in found] == [((), None, 3)] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DATA + "runs: {a: {methd: direct}}\n", "no 'methd' here. Did you mean method"),
        (DATA + TWO_RUNS + "model: {a: b}\n", "Did you mean models"),
        (DATA + TWO_RUNS + "models: {}\n", "models is empty"),
        (DATA + TWO_RUNS + "models: [openai/a]\n", "models is not a list of names"),
        (DATA + TWO_RUNS + "models: {a: {method: direct}}\n", "no 'method' here"),
        (DATA + TWO_MODELS + "runs: {a: {model: openai/b}}\n", "a has a model of its own"),
        (DATA + "runs: {a: {limit: many}}\n", "limit is not a number"),
        (DATA + "runs: {a: {limit: true}}\n", "limit is not a number"),
        (DATA + "runs: {a: {budget: {calls: true}}}\n", "'calls=True' is not a budget"),
        (DATA + "runs: {a: {budget: true}}\n", "'True' is not a budget"),
        (DATA + "runs: {a: {prices: {prompt: 1}}}\n", "are not prices"),
        (DATA + "runs: {a: {method: 5}}\n", "method is not text: 5"),
        (DATA + "runs: {a: {sample: [nq]}}\n", r"sample is not text: \['nq'\]"),
        ("data: {one: {corpus: x}}\n" + TWO_RUNS, "one has no questions"),
        ("data: {one: {questions: x}}\n", "runs is not a list of names"),
        ("data: [\n", "is not YAML"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(tmp_path, text)


def test_text_from_a_file_never_becomes_a_path(tmp_path: Path) -> None:
    found = plan(tmp_path, "data: {../up: {questions: q}}\nruns: {'/etc/x': {}}\n")
    assert str(found[0].folder) == "up/etc-x"
    with pytest.raises(InputError, match="cannot name a folder"):
        _ = plan(tmp_path, "data: {..: {questions: q}}\nruns: {a: {}}\n")[0].folder


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_plan(tmp_path / "none.yaml", tmp_path)
    assert issubclass(ConfigError, InputError)


def test_some_of_a_files_runs_are_chosen_by_data_set_and_by_name(tmp_path: Path) -> None:
    found = plan(tmp_path, DATA + TWO_RUNS)

    def folders(*wanted: str) -> list[str]:
        return [str(one.folder) for one in chosen(found, wanted)]

    assert folders("two") == ["two/direct", "two/wide"]
    assert folders("wide") == ["one/wide", "two/wide"]
    assert folders("two", "wide") == ["two/wide"]
    assert folders("one", "two", "direct", "wide") == [str(one.folder) for one in found]


def test_a_name_that_chooses_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run and no data set 'wid'") as refused:
        chosen(plan(tmp_path, DATA + TWO_RUNS), ["one", "wid"])
    assert refused.value.remedy == "Did you mean 'wide'?"


INDEXED = "every: {retriever: dense, index: {chunk: 'tokens:300', encoder: minilm}}\n"


def test_how_files_are_indexed_follows_the_retriever(tmp_path: Path) -> None:
    text = (
        "data: {one: {questions: a, corpus: c.jsonl}, far: {questions: b, corpus: wikipedia}}\n" + INDEXED + "runs:\n"
        "  plain: {method: oner}\n  words: {method: oner, retriever: bm25}\n"
        "  facts: {method: hipporag, retriever: hippo, only: [one], index: {facts: on}}\n"
    )
    by_name = {(one.data_name, one.run_name): one for one in plan(tmp_path, text)}
    assert ("far", "facts") not in by_name
    assert by_name["one", "plain"].index == IndexPlan("tokens:300", "minilm")
    assert by_name["one", "words"].index == IndexPlan("tokens:300")
    assert by_name["one", "facts"].index == IndexPlan("tokens:300", "minilm", facts=True)
    far = by_name["far", "plain"].experiment
    assert (far.retriever, far.rerank) == ("bm25", "embed/minilm"), "its own search finds, the encoder ranks"
    other = plan(tmp_path, text, encoder="openai/nv-embed")
    assert other[0].index.encoder == "openai/nv-embed" and other[3].experiment.rerank == "embed/openai/nv-embed"
    assert all(one.index.encoder == "" for one in plan(tmp_path, text, retriever="bm25"))
    offline = plan(tmp_path, text, corpus="wikipedia=here.idx")
    assert [one.experiment.corpus for one in offline if one.run_name == "plain"] == ["root/c.jsonl", "here.idx"]
    assert {one.experiment.retriever for one in offline if one.run_name == "plain"} == {"dense"}
    assert {one.experiment.corpus for one in plan(tmp_path, text, corpus="a=b.idx")} == {"a=b.idx"}, "a path"


def test_labels_lie_beside_the_questions_and_a_reranker_can_be_taken_away(tmp_path: Path) -> None:
    text = DATA + "every: {rerank: embed/st/e5}\nruns: {near: {method: skr, options: {how: knn, labels: l.jsonl}}}\n"
    found = plan(tmp_path, text)
    assert [one.experiment.options["labels"] for one in found] == ["root/one/l.jsonl", "root/l.jsonl"]
    assert found[0].experiment.rerank == "embed/st/e5"
    other = plan(tmp_path, text, rerank="none", options={"how": "knn", "labels": "mine.jsonl"})
    assert (other[0].experiment.rerank, other[0].experiment.options["labels"]) == ("", "mine.jsonl")


def test_a_sample_has_the_papers_mixture_or_what_there_is(tmp_path: Path) -> None:
    def asked(types: list[str], **more: Any) -> Counter[str]:
        rows = [
            {"id": f"{kind}{number}", "question": f"{kind} {number}?", "answers": ["x"], "type": kind}
            for number, kind in enumerate(types)
        ]
        file = write(tmp_path / "hotpotqa" / "dev.jsonl", rows)
        return Counter(one.type for one in Experiment(file, sample="taikc", seed=1, **more).read_data().examples)

    assert asked(["bridge"] * 400 + ["comparison"] * 200) == {"bridge": 386, "comparison": 114}
    assert asked(["bridge"] * 400 + ["comparison"] * 20) == {"bridge": 386, "comparison": 20}
    assert asked(["other"] * 600) == {"other": 500}, "those of no known type are drawn as of any"
    assert asked(["bridge"] * 400 + ["comparison"] * 200, limit=7).total() == 7


def test_a_run_without_a_model_is_made_once(tmp_path: Path) -> None:
    text = DATA + TWO_MODELS + "runs: {direct: {method: direct}, alone: {method: direct, model: none}}\n"
    assert names(plan(tmp_path, text)) == ["direct, big", "direct, small", "alone"]
    assert [one.experiment.model for one in plan(tmp_path, text, model="m")][:2] == ["m", "none"]


@pytest.mark.parametrize(
    ("every", "told"),
    [
        ("index: {chunk: lines}", "'lines' is not a way to cut"),
        ("index: {encoder: elmo}", "no encoder 'elmo'"),
        ("index: {facts: many}", "Facts are on or off"),
        ("index: {chunks: 3}", "there is no 'chunks' here"),
        ("only: [three]", "are not data sets of it"),
        ("only: one", "are not data sets of it"),
    ],
)
def test_an_index_that_cannot_be_made_is_refused(tmp_path: Path, every: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        plan(tmp_path, DATA + f"every: {{{every}}}\n" + TWO_RUNS)


def test_an_encoder_in_place_of_the_files_is_that_of_its_reranker_too(tmp_path: Path) -> None:
    file = experiments_folder() / "taikc" / "table8.yaml"
    named = {run.experiment.rerank for run in read_plan(file, tmp_path, {"encoder": "minilm"})}
    assert named == {"embed/minilm"}
    both = {"encoder": "minilm", "rerank": "cross/reranker"}
    assert {run.experiment.rerank for run in read_plan(file, tmp_path, both)} == {"cross/reranker"}
