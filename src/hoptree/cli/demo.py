"""`hoptree demo`: a real multi-hop question, or all of the sample's, with the embedded model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from hoptree.cli.console import AS_BEFORE, clean, echo, print_error, print_json, run, stoppable, what_stays
from hoptree.cli.options import AsJson, BaseURL, Model, NoCache, Prompts, Settings, read_settings, warn_unused_prompts
from hoptree.engine.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from hoptree.engine.engine import Engine
    from hoptree.engine.result import Result


_DEMO_QUESTION = "q01"
# What suits the embedded 1.5B model: TAIKC puts documents first, since such a model rarely knows what it does not know,
# and gives no answer rather than a guess.
_CAREFUL = {"taikc": {"robust": "on", "continuation": "off"}}


@stoppable(AS_BEFORE)
def demo(
    every: Annotated[bool, Option("--all", help="Ask all 20 questions and print the score; resumes.")] = False,
    method: Annotated[str, Option(help="hoptree methods lists them.")] = DEFAULT_METHOD,
    settings: Settings = [],  # noqa: B006 - typer copies it
    prompts: Prompts = None,
    model: Model = "",
    base_url: BaseURL = "",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Ask a multi-hop question over the packaged sample, and watch the tree grow.

    \b
    hoptree demo                                   one question; fetches the embedded model first (1.1 GB)
    hoptree demo --all                             all 20, with the score
    hoptree demo --all --method direct             the same model without documents, for comparison
    hoptree demo --all --method taikc --set robust=off      TAIKC as in its paper
    """
    from hoptree.engine.engine import Engine
    from hoptree.models import DEFAULT_MODEL
    from hoptree.models.catalogue import DEFAULT_NAME, Entry, find_entry, is_complete

    chosen = model or DEFAULT_MODEL
    entry = find_entry(DEFAULT_NAME)
    if chosen == DEFAULT_MODEL and isinstance(entry, Entry) and not is_complete(entry):
        from hoptree.cli.machine import pull_with_progress

        typer.echo(f"Fetching {entry.title} ({entry.size / 1e6:,.0f} MB) once …", err=True)
        pull_with_progress(entry)
    engine = Engine(
        method=method,
        model=chosen,
        corpus="sample",
        options=demo_options(method, read_settings(settings)),
        cache=None if no_cache else "default",
        base_url=base_url,
        prompts=prompts,
    )
    warn_unused_prompts(prompts, engine)
    work = _ask_all(engine, as_json) if every else _ask_one(engine, as_json)
    if code := run(work, stays=what_stays(cached=not no_cache)):
        raise typer.Exit(code)


def demo_options(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the demo; settings that choose how careful to be replace its own choice."""
    careful = _CAREFUL.get(method, {})
    usual = {"k": "3"} if method == "taikc" else {}
    return usual | ({} if careful.keys() & settings.keys() else careful) | settings


async def _ask_one(engine: Engine, as_json: bool) -> int:
    from hoptree.cli.ask import ask_and_show
    from hoptree.sample import sample_questions

    question = next(row for row in sample_questions() if row["id"] == _DEMO_QUESTION)
    result = await ask_and_show(engine, question["question"], as_json=as_json)
    if not as_json:
        echo(f"gold answer: {question['answers'][0]}")
    if result.failure:
        print_error(result.failure)
        return result.failure.exit_code
    return 0


async def _ask_all(engine: Engine, as_json: bool) -> int:
    """Ask every question and print the score; a failed question counts as wrong."""
    from hoptree.engine.schedule import together
    from hoptree.sample import sample_questions

    rows: dict[str, dict[str, Any]] = {}
    questions = sample_questions()

    async def ask(question: dict[str, Any]) -> None:
        row = _score(question, await engine.ask(question["question"]))
        rows[question["id"]] = row
        if not as_json:
            mark = "right" if row["right"] else "wrong"
            answer = clean(row["answer"]) or (f"({row['error']})" if row["error"] else "(no answer)")
            gold = (*question["answers"], "no answer")[0]
            echo(f"{len(rows):2}/{len(questions)} {mark}  {question['question']}")
            echo(f"             {answer}   gold: {gold}")

    async with engine:
        if engine.model.slots == 1 or engine.model.name.startswith("local/"):
            for question in questions:  # one after the other: each prompt's beginning stays in the model's memory
                await ask(question)
        else:
            await together(ask(question) for question in questions)
    ordered = [rows[question["id"]] for question in questions]
    right, exact = sum(row["right"] for row in ordered), sum(row["exact"] for row in ordered)
    names = {"method": engine.method.name, "model": engine.model.name}
    if as_json:
        print_json({**names, "right": right, "exact": exact, "questions": len(ordered), "rows": ordered})
    else:
        echo(f"{', '.join(names.values())}: {right} of {len(ordered)} right ({exact} word for word)")
    return 1 if all(row["error"] for row in ordered) else 0


def _score(question: dict[str, Any], result: Result) -> dict[str, Any]:
    """Score a result: right is an accepted answer, give or take two words, or none to an unanswerable question."""
    from hoptree.evaluation.metrics import contains, exact_match

    if question["answerable"]:
        short = [gold for gold in question["answers"] if len(result.answer.split()) <= len(gold.split()) + 2]
        right, exact = contains(result.answer, short), exact_match(result.answer, question["answers"])
    else:
        right = exact = result.abstained
    return {
        "id": question["id"],
        "question": question["question"],
        "answer": result.answer,
        "gold": question["answers"],
        "right": right,
        "exact": exact,
        "error": result.error,
        "usage": result.usage.as_dict(),
    }
