"""Options that commands share, their parsing, and the engine they describe."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

from hoptree.cli.console import counted, transient_line, warn
from hoptree.core.errors import ConfigError, InputError
from hoptree.core.files import config_dir

if TYPE_CHECKING:
    from hoptree.core.config import Config
    from hoptree.engine.context import Prices
    from hoptree.engine.engine import Engine
    from hoptree.engine.trace import TraceFile


_config: Config | None = None


def read_config(*, trusted: bool) -> None:
    """Read the configuration files, if any, and print their warnings."""
    global _config
    _config = None
    if any(path.is_file() for path in (Path(".env"), Path("hoptree.toml"), config_dir() / "hoptree.toml")):
        from hoptree.core.config import load_config

        _config = load_config(os.environ, trusted=trusted)
        for note in _config.notes:
            warn(note)


def options_of_files() -> Mapping[str, Mapping[str, Any]]:
    """Return the options that configuration files set, by method."""
    return _config.options if _config else {}


def current_config() -> Config:
    """Return what configuration files set, and where each value came from."""
    from hoptree.core.config import load_config

    return _config or load_config(dict(os.environ))


class Argument:
    """An argument, declared as for typer without importing it."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


class Option(Argument):
    """An option of a command."""


def complete_method(incomplete: str) -> list[str]:
    """Return the methods that a shell offers for the beginning of a name."""
    from hoptree.engine.registry import list_methods

    return [method.name for method in list_methods() if method.name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[str]:
    """Return the kinds of models, and the known embedded ones."""
    from hoptree.models.catalogue import CATALOGUE

    kinds = ("openai/", "ollama/", "vllm/", "lmstudio/", "local/", "hf/", "scripted/")
    names = [*kinds, *(f"local/{entry.alias}" for entry in CATALOGUE)]
    return [name for name in names if name.startswith(incomplete)]


def complete_retriever(incomplete: str) -> list[str]:
    """Return the kinds of retrievers."""
    from hoptree.retrieval.retriever import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


CORPUS_HELP = (
    "An index made by hoptree index, documents (indexed into the cache), 'sample', an elasticsearch://… or milvus://… "
    "address, or a wiki as it is now: wikipedia, wikipedia:de, mediawiki+URL of its api.php."
)
RETRIEVER_HELP = (
    "bm25, linked, ranked, dense, hybrid or hippo; auto is ranked, linked in a small index or without hoptree-weights, "
    "and bm25 without links."
)

Model = Annotated[
    str,
    Option(
        "--model",
        "-m",
        envvar="HOPTREE_MODEL",
        help="openai/NAME, ollama/NAME, vllm/NAME, lmstudio/NAME, local/NAME, local/FILE.gguf, hf/NAME or "
        "scripted/FILE.  [default: the embedded model]",
        autocompletion=complete_model,
    ),
]
Corpus = Annotated[str | None, Option(envvar="HOPTREE_CORPUS", help=CORPUS_HELP)]
Graph = Annotated[
    str | None,
    Option(
        envvar="HOPTREE_GRAPH",
        help="A knowledge graph made by hoptree graph load, a SPARQL endpoint's URL, or wikidata.",
    ),
]
RetrieverKind = Annotated[
    str,
    Option("--retriever", envvar="HOPTREE_RETRIEVER", help=RETRIEVER_HELP, autocompletion=complete_retriever),
]
MethodName = Annotated[
    str,
    Option("--method", envvar="HOPTREE_METHOD", help="hoptree methods lists them.", autocompletion=complete_method),
]
Rerank = Annotated[
    str,
    Option(help="Rerank the first 100: embed/ENCODER, endpoint/MODEL@URL or cross/FOLDER; none, if a file names one."),
]
Encoder = Annotated[
    str,
    Option(help="The encoder of an experiment file's dense runs: minilm, onnx/FOLDER, openai/NAME or st/NAME."),
]
Prompts = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="Prompts in place of ours, by file name: see hoptree methods prompts --help."),
]
Settings = Annotated[
    list[str],
    Option("--set", metavar="KEY=VALUE", help="An option of the method; hoptree methods show NAME lists them."),
]
Roles = Annotated[
    list[str],
    Option("--role", metavar="ROLE=MODEL", help="A model for a part of the method: see hoptree methods show NAME."),
]
QuestionBudget = Annotated[
    str, Option(metavar="LIMITS", help="For each question: calls=20,tokens=9000,seconds=60,cost=0.1.")
]
PricesText = Annotated[
    str,
    Option(
        envvar="HOPTREE_PRICES",
        metavar="IN/OUT",
        help="Price of a million prompt and completion tokens, e.g. 0.15/0.60.",
    ),
]
BaseURL = Annotated[str, Option(help="Of an OpenAI-compatible endpoint.  [env: OPENAI_BASE_URL]")]
Concurrency = Annotated[int | None, Option(min=1, help="Requests at once, at most.")]
Limit = Annotated[int | None, Option(min=1, help="Only the first N questions.")]
Seed = Annotated[int | None, Option(help="With --limit: N questions drawn by this number.")]
Ids = Annotated[Path | None, Option(help="Only the questions whose ids stand in this file.")]
Judge = Annotated[str, Option(metavar="MODEL", help="A model that judges the answers, too.")]
JudgeBaseURL = Annotated[str, Option(help="Of the judge's endpoint, if it is another than the model's.")]
Half = Annotated[
    str,
    Option(
        metavar="first|second", help="Only one half of the questions, by their ids: choose on one, show on the other."
    ),
]
Only = Annotated[
    list[str],
    Option(metavar="NAME", help="Of an experiment file, only this data set or run; several times for several."),
]
AtOnce = Annotated[
    int, Option(metavar="RUNS", min=1, help="Runs at the same time; those of one hf/… model share its batch.")
]
MaxCost = Annotated[float | None, Option(min=0, help="Begin no question once this much was spent in all.")]
RunFolders = Annotated[list[Path], Argument(help="Folders of runs, or folders that hold such folders.")]
OtherModel = Annotated[str, Option("--model", "-m", help="openai/NAME, local/NAME, hf/NAME or scripted/FILE.")]
RetryFailed = Annotated[bool, Option(help="Ask questions that failed again.")]
Anyway = Annotated[bool, Option(help="Go on although data, index, prompts or model changed.")]
Trace = Annotated[Path | None, Option(metavar="FILE", help="Append what happens to a JSONL file.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]
NoCache = Annotated[bool, Option("--no-cache", help="Neither read nor write the reply cache.")]


def read_plainly(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """Parse a simple command line; None leaves it to the full parser."""
    converters = {str: str, str | None: str, list[str]: str, Path | None: Path}
    positional: list[str] = []
    options: dict[str, tuple[str, Any]] = {}
    values: dict[str, Any] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        kind, declared = get_args(hint) or (None, None)
        if isinstance(declared, Option):
            options |= dict.fromkeys(declared.names or (f"--{name.replace('_', '-')}",), (name, kind))
            if text := os.environ.get(declared.settings.get("envvar", "")):
                values[name] = text
        elif isinstance(declared, Argument):
            positional.append(name)
    given: dict[str, Any] = {}
    left = list(words)
    while left:
        word, sign, text = left.pop(0).partition("=") if left[0].startswith("--") else (left.pop(0), "", "")
        if not word.startswith("-") or word == "-":
            if not positional:
                return None
            given[positional.pop(0)] = word
            continue
        name, kind = options.get(word, ("", None))
        if kind is bool and not sign:
            given[name] = True
        elif kind in converters and (sign or left):
            value = converters[kind](text if sign else left.pop(0))
            given[name] = [*given.get(name, []), value] if kind == list[str] else value
        else:
            return None
    optional = command.__code__.co_varnames[: command.__code__.co_argcount][-len(command.__defaults__ or ()) :]
    return values | given if set(positional) <= set(optional) else None


def given(**values: Any) -> dict[str, Any]:
    """Return the options that were given: neither None nor empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def read_settings(settings: list[str]) -> dict[str, Any]:
    """Read KEY=VALUE texts."""
    options = {}
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not key.strip():
            raise InputError(f"--set {setting} is not possible.", "Write --set KEY=VALUE, for example --set k=3.")
        options[key.strip()] = value.strip()
    return options


def read_roles(roles: list[str]) -> dict[str, str]:
    """Read ROLE=MODEL texts."""
    return read_named(roles, "--role", "ROLE=MODEL: --role decompose=openai/NAME")


def read_named(texts: list[str], option: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """Read NAME=VALUE texts; each name may be given once."""
    named: dict[str, str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not name or not value:
            raise InputError(f"{option} {text} is not possible.", f"Write {option} {form}.")
        if name in named:
            raise InputError(f"{option} {name} was given twice: {named[name]} and {value}.", "Give each name once.")
        named[name] = value
    return named


def read_prices(text: str) -> Prices | None:
    """Read IN/OUT as prices; None for an empty text."""
    if not text:
        return None
    from hoptree.engine.context import Prices

    return Prices.parse(text)


def check_prices(limit: float | None, prices: str) -> None:
    """Refuse a limit of money without prices."""
    if limit is not None and not prices:
        raise InputError("A limit of money needs prices.", "Give them: --prices IN/OUT")


@contextmanager
def open_engine(
    *,
    corpus: str | None,
    retriever: str,
    graph: str | None,
    method: str,
    model: str,
    settings: list[str],
    roles: list[str],
    budget: str,
    prices: str,
    trace: Path | None,
    no_cache: bool,
    prompts_folder: Path | None = None,
    **more: Any,
) -> Iterator[tuple[Engine, TraceFile | None]]:
    """Yield the engine that options describe, and its trace writer."""
    from hoptree.engine.context import Budget
    from hoptree.engine.engine import Engine
    from hoptree.engine.trace import TraceFile
    from hoptree.models import DEFAULT_MODEL

    check_settings([method], method=method, retriever=retriever, budget=budget, prices=prices)
    limits = Budget.parse(budget)
    corpus = located(corpus)
    if trace and not trace.parent.is_dir():
        raise InputError(f"There is no folder {trace.parent} for the trace.", f"Make it: mkdir -p {trace.parent}")
    writer = TraceFile(trace) if trace else None
    try:
        embedded = (model or DEFAULT_MODEL).startswith(("local/", "hf/"))
        with transient_line("Opening the model …" if embedded else "Opening …"):
            engine = Engine(
                method=method,
                model=model or DEFAULT_MODEL,
                corpus=corpus,
                graph=graph,
                retriever=retriever,
                options={**options_of_files().get(method, {}), **read_settings(settings)},
                roles=read_roles(roles),
                budget=limits,
                prices=read_prices(prices),
                cache=None if no_cache else "default",
                listeners=(writer,) if writer else (),
                prompts=prompts_folder,
                **more,
            )
        warn_without_links(corpus, retriever)
        warn_without_graph(method, graph)
        warn_unused_prompts(prompts_folder, engine.prompts.of(engine.method), method)
        yield engine, writer
    finally:
        if writer:
            writer.close()


def check_settings(methods: Iterable[str], **values: str) -> None:
    """Refuse impossible values and options of methods from files, with file and key."""
    if _config is None:
        return
    from hoptree.core.config import VARIABLES
    from hoptree.engine.context import Budget
    from hoptree.engine.registry import find_method, read_options
    from hoptree.retrieval.retriever import check_kind

    checks: dict[str, Callable[[str], object]] = {"method": find_method, "retriever": check_kind}
    checks |= {"budget": Budget.parse, "prices": read_prices}
    for name, value in values.items():
        variable = VARIABLES[name]
        if value and os.environ.get(variable) == value and _config.origins.get(variable) in _config.files:
            with _naming(f"{_config.origins[variable]}, {name}"):
                checks[name](value)
    for method in methods:
        for option, setting in _config.options.get(method, {}).items():
            with _naming(f"{_config.origins[f'options.{method}.{option}']}, [options.{method}]"):
                read_options(find_method(method), {option: setting})


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Name the place of a setting in its error."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error.cause}", error.remedy) from None


def located(corpus: str | None) -> str | None:
    """Return the index of a corpus; folders are indexed into the cache."""
    from hoptree.retrieval.retriever import locate_corpus

    if corpus is None:
        return None
    with ExitStack() as stack:
        bar: list[Callable[[Any], None]] = []

        def show(progress: Any) -> None:
            if not bar:  # drawn only if there is something to do
                from hoptree.cli.progress import indexing_bar

                bar.append(stack.enter_context(indexing_bar(False)))
            bar[0](progress)

        place, outcome = locate_corpus(corpus, on_progress=show)
    if outcome:
        for sentence in outcome.report:
            warn(sentence)
        changed = outcome.added + outcome.replaced + outcome.removed
        passages = counted(outcome.manifest.passages, "passage")
        update = (
            f", {changed:,} new, changed or gone" if outcome.added < max(changed, outcome.manifest.passages) else ""
        )
        warn(f"{corpus} was indexed: {passages}{update}; kept in {place}.")
    return str(place)


def warn_without_graph(method: str, graph: str | None) -> None:
    """Warn of a knowledge graph for a method that does not use one."""
    if graph is None:
        return
    from hoptree.engine.registry import find_method

    if "graph" not in find_method(method).needs:
        warn(f"{method} does not look into a knowledge graph: --graph {graph} changes nothing.")


def warn_unused_prompts(folder: Path | str | None, used: Collection[str], user: str = "a method") -> None:
    """Warn if none of the given prompts is used."""
    if folder is not None and not used:
        warn(f"{folder} has no prompt that {user} uses and that differs from ours: --prompts changes nothing.")


def warn_without_links(corpus: str | None, retriever: str) -> None:
    """Warn that hybrid uses BM25 if the index has no links."""
    if retriever != "hybrid" or corpus is None:
        return
    from hoptree.retrieval.index.folder import MANIFEST, read_manifest

    if (Path(corpus) / MANIFEST).exists() and not read_manifest(Path(corpus)).settings.links:
        warn(f"the index {corpus} has no links: hybrid is bm25 and dense together here.")
