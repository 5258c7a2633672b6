"""The table of commands; it imports nothing, so that `hoptree --help` is fast."""

from __future__ import annotations

_INTRODUCTION = """\
Answer questions that need several facts joined together, and show the tree behind the answer.

First steps:
  hoptree demo                                     a real question over the packaged sample
  hoptree index docs/ --out docs.idx               make your documents searchable
  hoptree ask "Who …?" --corpus docs.idx           ask about them with the embedded model
  hoptree ask "Who …?" --corpus docs.idx -m ollama/NAME          or openai/NAME, vllm/NAME"""

# Heading -> name -> (module of hoptree.cli and its function or Typer app, help).
COMMANDS = {
    "Ask": {
        "ask": ("ask:ask", "Answer a question, and show the tree; hoptree chat holds a conversation."),
        "show": ("show:show", "Draw stored answers again: a trace, or questions of a run."),
        "search": ("search:search", "Show the passages that a method would read."),
        "demo": ("machine:demo", "Ask a multi-hop question over the packaged sample."),
    },
    "Documents and facts": {
        "index": ("index:app", "Make documents searchable, and keep the index up to date."),
        "graph": ("graph:app", "Load, extract and query facts about entities."),
    },
    "Evaluate": {
        "run": ("run:run", "Put a file of questions to a method; keep answers, traces and scores."),
        "eval": ("main:evaluation", "Compare, report, judge, tune and reproduce runs; measure retrieval."),
        "data": ("data:app", "Get public data sets in our layout, and draw the papers' samples."),
        "paper": ("paper:paper", "Make a table or figure of a paper, beside the paper's own figures."),
    },
    "Models and methods": {
        "models": ("machine:models_app", "List the models that run inside Hoptree, and fetch them."),
        "methods": ("methods:app", "List the methods with needs and costs, or explain one."),
        "align": ("align:app", "Teach a model its part in a method: training sets and LoRA adapters."),
        "doctor": ("machine:doctor", "Find what is missing or slow here; hoptree config shows the settings."),
    },
    "Serve": {
        "serve": ("serve:serve", "Serve questions over HTTP, with a page for the browser."),
        "mcp": ("serve:mcp", "Serve tools over the Model Context Protocol."),
    },
}

_EVALUATION_INTRODUCTION = """\
Evaluate runs, and measure what retrieval finds.

  hoptree run --method oner --data dev.jsonl --corpus docs.idx --out runs/oner
  hoptree run --method hop --data dev.jsonl --corpus docs.idx --out runs/hop
  hoptree eval compare runs/oner runs/hop
  hoptree eval report runs --html report.html"""

EVALUATION_COMMANDS = {
    "Runs": {
        "compare": ("report:compare", "Compare runs question by question, with a paired test."),
        "report": ("report:report", "Write tables, plots and a page with every question of the runs."),
        "judge": ("judge:judge", "Have a model decide which answers of a run are right."),
        "reproduce": ("report:reproduce", "Repeat a run, and compare the outcome."),
        "support": ("report:support", "Measure how often well supported answers, and guesses, are right."),
        "tune": ("tune:tune", "Find the best values of a method's options on some questions."),
    },
    "Parts of a method": {
        "retrieval": ("search:eval_retrieval", "Measure how many gold passages a retriever finds."),
        "linking": ("eval_linking:eval_linking", "Measure how often entities and relations are found in a graph."),
        "boundary": ("judge:boundary", "Measure whether a model knows what it knows."),
        "annotate": ("judge:annotate", "Write a sheet of RA-ISF's decisions for people to rate."),
        "ratings": ("judge:ratings", "Sum up rated sheets: how often modules were right, and agreement."),
    },
}

SHORT = {"chat": ("ask", "--chat"), "config": ("doctor", "--settings")}  # commands for another one with an option
SHORT_HELP = {
    "chat": """\
Hold a conversation about your documents. Each question is read with those before it; an empty line or Ctrl-D ends it.

\b
hoptree chat docs/                                   a folder, indexed into the cache
hoptree chat --corpus docs.idx -m ollama/NAME        then: Who directed film X?   And where was she born?
""",
    "config": "Show the settings that hold, and where they come from: options, environment, .env and hoptree.toml.",
}

Table = dict[str, dict[str, tuple[str, str]]]
_HELP_OPTION = {"-h, --help": "Show this message."}
_TOP_OPTIONS = {
    "--install-completion": "Complete commands and options in this shell.",
    "--version": "Print the version.",
    **_HELP_OPTION,
}


def top_help() -> str:
    """Return what `hoptree --help` prints."""
    return _help("hoptree", _INTRODUCTION, COMMANDS, _TOP_OPTIONS)


def evaluation_help() -> str:
    """Return what `hoptree eval --help` prints."""
    return _help("hoptree eval", _EVALUATION_INTRODUCTION, EVALUATION_COMMANDS, _HELP_OPTION)


def _help(program: str, introduction: str, table: Table, options: dict[str, str]) -> str:
    sections = {heading: {name: text for name, (_, text) in commands.items()} for heading, commands in table.items()}
    width = max(len(name) for names in (*sections.values(), options) for name in names)
    lines = [f"Usage: {program} COMMAND …", "", introduction]
    for heading, names in (*sections.items(), ("Options", options)):
        lines += ["", f"{heading}:", *(f"  {name:{width}}  {text}" for name, text in names.items())]
    return "\n".join([*lines, "", f"{program} COMMAND --help explains a command, with examples.", ""])


def suggest_command(name: str) -> str:
    """Return the command that a mistyped name probably means, or ""."""
    from difflib import get_close_matches

    top = {command: command for commands in COMMANDS.values() for command in commands}
    below = {command: f"eval {command}" for commands in EVALUATION_COMMANDS.values() for command in commands}
    known = {"completion": "--install-completion"}
    known |= {"chooser": "methods chooser", "eval-retrieval": "eval retrieval", "eval-linking": "eval linking"}
    known |= below | top
    meant = get_close_matches(name, known, 1)
    return known[meant[0]] if meant else ""
