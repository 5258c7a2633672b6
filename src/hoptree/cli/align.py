"""`hoptree align`: training sets for the parts a model plays in a method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from hoptree.cli import options
from hoptree.cli.align_adapters import evaluate, gguf, print_beside_the_paper, train
from hoptree.cli.console import counted, echo, fail, print_json, print_report, run_to_end, warn
from hoptree.cli.progress import progress_bar, rate_bar
from hoptree.core.errors import InputError
from hoptree.retrieval import DEFAULT_RETRIEVER

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Teach a model its part in a method: training sets, LoRA adapters, what they gained.",
)
app.command("train")(train)
app.command("eval")(evaluate)
app.command("gguf")(gguf)
Exclude = Annotated[
    list[Path],
    Option(
        metavar="EVAL",
        help="Evaluation questions (FILE, or FILE:N for its first N), a folder of one or more runs, a JSON file of "
        "ids by file, or SET=FILE.txt with an id a line: none of these, by id or words, is used.",
    ),
]


@app.command()
def build(
    kind: Annotated[
        str,
        Argument(
            help="hop, sampled; if, kbae, gold (TAIKC); ra-isf-know, ra-isf-relevance, ra-isf-decompose; replug-lsr."
        ),
    ],
    data: Annotated[list[Path], Option(help="Train questions; several times for several files.")],
    out: Annotated[Path, Option(help="The file to write (JSON Lines; a JSON list for LLaMA-Factory).")],
    exclude: Exclude = [],
    any_split: Annotated[
        bool, Option("--any-split", help="Take rows of any split; --exclude or --half must name what is measured on.")
    ] = False,
    half: Annotated[
        str, Option(help="Only the first or second half of each file; ids decide. The other half counts as excluded.")
    ] = "",
    limit: Annotated[int | None, Option(min=1, help="Only N questions: the first of each file in turn.")] = None,
    seed: Annotated[int | None, Option(help="Draws the questions of --limit and the rows of --balance.")] = None,
    balance: Annotated[
        float | None,
        Option(min=1.0, help="kbae, know, relevance: at most so many rows of one label for one of the other."),
    ] = None,
    model: options.Model = "",
    judge: Annotated[
        str, Option(metavar="MODEL", help="kbae: a model that says which answers are right.  [default: exact match]")
    ] = "",
    right_f1: Annotated[
        float | None,
        Option(
            help="know, sampled: F1 from which an answer is right; 1 takes equal words only.  [default: 0.8; sampled: "
            "it is or holds an accepted answer]"
        ),
    ] = None,
    samples: Annotated[int | None, Option(min=1, help="sampled: runs a question.  [default: 8]")] = None,
    temperature: Annotated[
        float | None, Option(min=0.0, help="sampled: at which the model's replies are drawn.  [default: 0.7]")
    ] = None,
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    no_cache: options.NoCache = False,
    corpus: Annotated[
        list[str],
        Option(
            metavar="[SET=]INDEX",
            help="hop, sampled, if, gold, relevance, lsr: the index to search, or 'sample'; hop and sampled take "
            "several, by data set.",
        ),
    ] = [],
    retriever: options.RetrieverKind = DEFAULT_RETRIEVER,
    rerank: options.Rerank = "",
    k: Annotated[
        int, Option("-k", min=1, max=1000, help="hop, sampled, gold, relevance, lsr: passages of each search.")
    ] = 5,
    rows: Annotated[
        int | None, Option(min=1, help="hop, sampled: at most so many rows, drawn by --seed evenly from all data sets.")
    ] = None,
    titles: Annotated[
        bool, Option("--titles", help="gold, relevance: show titles, for methods with --set titles=on.")
    ] = False,
    settings: options.Settings = [],
    linked: Annotated[
        bool,
        Option("--linked", help="decompose: also chains of sub-questions, for ra_isf with --set link_siblings=on."),
    ] = False,
    teacher: Annotated[
        bool, Option("--teacher", help="relevance, decompose: the model (-m) labels, as in the paper, and not gold.")
    ] = False,
    paper: Annotated[
        str,
        Option(help="As many questions of each data set and type as a paper draws: taikc-training, ra-isf-training, …"),
    ] = "",
    form: Annotated[str, Option("--format", help="chat, trl or llama-factory.")] = "chat",
    as_json: options.AsJson = False,
) -> None:
    """Make a training set for a part of hop, TAIKC or RA-ISF, with their prompts.

    Rows of a dev or test split are refused unless --any-split is given. So is a file that is excluded, or that is named
    for evaluation ("dev.jsonl") while none of its questions is excluded. A question is excluded by its data set and id,
    if it shares 80 % of its words with an evaluation question, or if it shares a step: a single question, a fact or a
    sub-question.

    \b
    hop        gold steps, facts, sentences and passages as readings (a third NOT FOUND), and plans; no model
    sampled    the model (-m) answers by hop, --samples times a question; what was right by its evidence is kept
    if         a teacher (-m) answers by taikc (--set); the steps to right answers are kept
    kbae       the model answers; it learns to answer where it was right, else to ask for documents
    gold       packaged plans, the steps and facts of questions, and gold passages of --corpus; no model
    know       the model answers, and learns whether it was right
    relevance  gold passages, and what else a search finds; with --teacher, what the model says of what it finds
    decompose  the steps (MuSiQue, StrategyQA) or facts (2WikiMultihopQA) of questions; with --teacher, the model's

    lsr        how likely each passage that a search finds makes the right answer, by a model (-m hf/NAME); REPLUG
               trains a retriever by that, which is not done here

    \b
    hoptree align build hop --data nq/dev.jsonl --any-split --exclude nq/dev.jsonl:300 --corpus nq.idx --out hop.jsonl
    hoptree align build sampled --data train.jsonl --exclude dev.jsonl --corpus docs.idx -m hf/NAME --out sampled.jsonl
    hoptree align build if --data train.jsonl --exclude dev.jsonl --corpus docs.idx -m openai/NAME --out if.jsonl
    hoptree align build if --data hotpotqa/train.jsonl --data 2wikimultihopqa/train.jsonl --paper taikc-training …
    hoptree align build kbae --data nq.jsonl --half first -m hf/NAME --balance 1.5 --out kbae.jsonl
    hoptree align build gold --data musique.jsonl --exclude dev.jsonl --corpus docs.idx --out gold.jsonl
    hoptree align build ra-isf-know --data train.jsonl --exclude dev.jsonl -m openai/NAME --out know.jsonl
    hoptree align build ra-isf-relevance --data train.jsonl --corpus docs.idx --balance 1 --out relevance.jsonl
    hoptree align build ra-isf-relevance --data train.jsonl --corpus docs.idx --teacher -m openai/NAME --out rel.jsonl
    hoptree align build ra-isf-decompose --data musique.jsonl --linked --out decompose.jsonl
    """
    from hoptree.training.build import build
    from hoptree.training.formats import SetSpec, read_format, read_kind

    kind = read_kind(kind)
    for value, option, *kinds in (
        (settings, "--set", "taikc-if"),
        (judge, "--judge", "taikc-kbae"),
        (rows, "--rows", "hop", "sampled"),
        (samples, "--samples", "sampled"),
        (temperature is not None, "--temperature", "sampled"),
    ):
        if value and kind not in kinds:
            raise InputError(f"{option} is for {' and '.join(kinds)}, and not for {kind}.", f"Leave {option} out.")
    of_hop = kind in ("hop", "sampled")
    if len(corpus) > 1 and not of_hop:
        raise InputError("Only hop and sampled are built from several corpora.", "Give --corpus once.")
    spec = SetSpec(
        kind,
        tuple(data),
        out,
        tuple(exclude),
        any_split=any_split,
        half=half,
        limit=limit,
        seed=seed,
        balance=balance,
        base_url=base_url,
        cache=None if no_cache else "default",
        concurrency=concurrency,
        corpus="" if of_hop or not corpus else corpus[0],
        corpora=_corpora(corpus) if of_hop else {},
        rows=rows,
        retriever=retriever,
        rerank=rerank,
        k=k,
        titles=titles,
        linked=linked,
        teacher=teacher,
        paper=paper,
        judge=judge,
        options=options.read_settings(settings),
        form=read_format(form),
        **options.given(model=model, right_f1=right_f1, samples=samples, temperature=temperature),
    )
    if teacher and not model:
        warn(f"No --model was given: the teacher is {spec.model}.")
    with progress_bar(as_json) as update_bar:
        work = build(spec, on_progress=lambda done, total: update_bar(done, total, lambda: "questions"))
        summary = run_to_end(work, "questions" if of_hop else "", cached=not no_cache)
    print_report(summary, _report, as_json=as_json)
    if failed := len(summary.get("failed", ())):
        fail(
            f"{counted(failed, 'question was', 'questions were')} not answered, and gave no row.",
            "The same command asks again; the others cost nothing.",
        )


def _corpora(given_corpora: list[str]) -> dict[str, str]:
    """Return the index of each data set; one without a name is for all others."""
    corpora: dict[str, str] = {}
    for text in given_corpora:
        name, _, index = text.partition("=") if "=" in text and not Path(text).exists() else ("", "", text)
        if name in corpora:
            raise InputError(f"--corpus is given twice for {name or 'all data sets'}.", "Give one index for each.")
        corpora[name] = index
    return corpora


def _report(summary: Mapping[str, Any]) -> None:
    used, read = summary["questions"]["in_rows"], summary["questions"]["read"]
    rows = counted(summary["rows"], "row")
    echo(f"{summary['kind']}: {rows} from {used:,} of {read:,} questions, in {summary['out']}")
    if "right_from_f1" in summary:
        echo(f"  labels by the answers of {summary['model']}, right from an F1 of {summary['right_from_f1']:g} on")
    if "right_by" in summary:
        echo(f"  labels by the answers of {summary['model']}, right by {summary['right_by']}, and for it alone")
    if "teacher" in summary:
        verb = "solved" if summary["kind"] == "taikc-if" else "labelled"
        echo(f"  {summary['solved']:,} questions {verb} by {summary['teacher']}")
    if sampling := summary.get("sampling"):
        runs = f"{sampling['runs']:,} runs of {sampling['model']} at temperature {sampling['temperature']:g}"
        echo(f"  {runs}, {sampling['samples']:,} a question: {sampling['right']:,} with the right answer")
        rights = f"{sampling['plans']:,} plans and {sampling['readings']:,} first readings were right"
        echo(f"  by their evidence: {rights}")
    for source, labels in summary["sources"].items():
        echo(f"  {source:20} {_shares(labels)}")
    if len(summary["sources"]) > 1:
        echo(f"  {'all':20} {_shares(summary['labels'])}")
    for name in ("prompt", "target"):
        words = summary[f"{name}_words"]
        echo(f"  words a {name}: {words['mean']:,.1f} on average, {words['max']:,} at most")
    print_beside_the_paper(summary.get("beside_the_paper", ()), "words")
    for warning in summary["warnings"]:
        warn(warning)
    for why, count in summary["left_out"].items():
        echo(f"  left out: {count:,} {why}")
    for split, count in summary["splits"].items() if summary["any_split"] else ():
        if split not in ("", "train"):
            questions = counted(count, f"question of the split '{split}' was", f"questions of the split '{split}' were")
            echo(f"  {questions} taken, by --any-split")
    if without_split := summary["splits"].get(""):
        echo(f"  {without_split:,} questions do not say of which split they are, nor does their file's name")
    _report_excluded(summary)


def _report_excluded(summary: Mapping[str, Any]) -> None:
    files, known = summary["excluded"]["files"], summary["excluded"]["questions"]
    if files:
        other_half = " and the other half" if summary.get("half") else ""
        echo(f"  checked against {known:,} evaluation questions of {counted(len(files), 'file')}{other_half}")
    elif known:
        echo(f"  checked against {counted(known, 'question')} of the other half")
    else:
        echo("  no evaluation questions were excluded: name those you will measure on with --exclude")
    if without_steps := summary["excluded"]["without_steps"]:
        questions = f"{without_steps:,} of {known:,} excluded questions {'tells' if without_steps == 1 else 'tell'}"
        echo(f"  {questions} no steps: only their ids and words were compared")


def _shares(labels: Mapping[str, int]) -> str:
    """Return how many there are of each label, with their shares."""
    total = sum(labels.values())
    return ", ".join(f"{count:,} {label} ({count / total:.0%})" for label, count in sorted(labels.items()))


@app.command()
def skr(
    without: Annotated[Path, Argument(help="The folder of a run without documents: cot.")],
    with_documents: Annotated[Path, Argument(help="The folder of a run with them: iter_retgen, rounds=1.")],
    out: Annotated[Path, Option(help="The file to write (JSON Lines).")],
    metric: Annotated[str, Option(help="The score that says which answer is better.")] = "em",
    exclude: Exclude = [],
    allow_evaluation_questions: Annotated[
        bool, Option("--allow-evaluation-questions", help="Label evaluation questions, too; every row says so.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Label questions by whether documents improved their answer, for skr how=knn.

    Both runs are of the same train questions and the same model. Questions that failed in one of them are left out;
    those that are as good with documents as without are labelled as ties, which the method counts.

    \b
    hoptree run --data train.jsonl --method cot -m openai/NAME --out runs/cot
    hoptree run --data train.jsonl --method iter_retgen --set rounds=1 --corpus docs.idx -m openai/NAME --out runs/read
    hoptree align skr runs/cot runs/read --out labels.jsonl
    hoptree run --data dev.jsonl --method skr --set how=knn --set labels=labels.jsonl --corpus docs.idx --out runs/skr
    """
    from hoptree.training.skr_labels import LabelsSpec, label_questions

    summary = label_questions(
        LabelsSpec(without, with_documents, out, metric, tuple(exclude), allow_evaluation=allow_evaluation_questions)
    )
    if as_json:
        print_json(summary)
        return
    echo(f"{summary['questions']:,} questions labelled by {summary['metric']}, in {summary['out']}")
    echo(f"  documents made the answer: {_shares(summary['labels'])}")
    for why, count in summary["left_out"].items():
        echo(f"  left out: {count:,} {why}")
    for warning in summary["warnings"]:
        warn(warning)
    if summary["evaluation_allowed"]:
        echo("  EVALUATION QUESTIONS ARE ALLOWED, and the rows say so")
    elif not summary["excluded"]:
        echo("  no evaluation questions were excluded: name those you will measure on with --exclude")


@app.command()
def ranker(
    data: Annotated[list[Path], Option(help="Questions with gold passages (supporting_ids); several times.")],
    corpus: Annotated[list[str], Option(metavar="[SET=]INDEX", help="The index of a data set, or of all others.")],
    out: Annotated[Path, Option(help="The file to write (JSON).")],
    exclude: Exclude,
    as_json: options.AsJson = False,
) -> None:
    """Fit the ranker of --retriever ranked to questions with gold passages.

    No model and no GPU are needed. Questions of --exclude, those with nearly their words and those that share a step
    with them are left out. An interrupted command resumes from what is kept in OUT.part.

    An index uses the ranker.json in its own folder, or else that of hoptree-weights.

    \b
    hoptree align ranker --data nq/dev.jsonl --exclude nq/dev.jsonl:300 --corpus nq.idx --out nq.idx/ranker.json
    hoptree eval retrieval --data nq/dev.jsonl --limit 300 --corpus nq.idx --retriever linked --retriever ranked
    """
    from hoptree.training.fit_ranker import RankerSpec, fit_ranker

    spec = RankerSpec(tuple(data), _corpora(corpus), out, tuple(exclude))
    with rate_bar(as_json, "steps") as advance:
        summary = fit_ranker(spec, lambda stage, done, total: advance(stage, done, total, done))
    if as_json:
        print_json(summary)
        return
    for name, count in summary["questions"].items():
        echo(f"  {name:20} {counted(count, 'question')}")
    for why, count in summary["left_out"].items():
        echo(f"  left out: {count:,} {why}")
    echo(f"written to {out}")
