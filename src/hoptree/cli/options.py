"""Options that several commands have, and what their texts mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.core.errors import ConfigError, InputError

if TYPE_CHECKING:
    from hoptree.engine.context import Prices


_HOW_PRICES = "Write IN/OUT, for example --prices 0.15/0.60."

Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        envvar="HOPTREE_MODEL",
        help="openai/NAME, local/NAME, local/FILE.gguf, hf/NAME or scripted/FILE.  [default: the embedded model]",
        show_default=False,
    ),
]
Graph = Annotated[
    str | None,
    typer.Option(
        help="A knowledge graph made by hoptree graph load, a SPARQL endpoint's URL, or wikidata.", show_default=False
    ),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the method; hoptree methods NAME lists them."),
]
Roles = Annotated[
    list[str],
    typer.Option(
        "--role", metavar="ROLE=MODEL", help="A model for a part of the method; hoptree methods NAME lists its roles."
    ),
]
BaseURL = Annotated[
    str, typer.Option(help="Of an OpenAI-compatible endpoint.  [env: OPENAI_BASE_URL]", show_default=False)
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Requests at once, at most.", show_default=False)]
PricesText = Annotated[
    str, typer.Option(metavar="IN/OUT", help="Price of a million prompt and completion tokens, e.g. 0.15/0.60.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep remembered replies.")]


def read_settings(settings: list[str]) -> dict[str, Any]:
    """KEY=VALUE texts as a mapping."""
    options = {}
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not key.strip():
            raise InputError(f"--set {setting} is not possible.", "Write --set KEY=VALUE, for example --set k=3.")
        options[key.strip()] = value.strip()
    return options


def read_roles(roles: list[str]) -> dict[str, str]:
    """ROLE=MODEL texts as a mapping."""
    found: dict[str, str] = {}
    for said in roles:
        role, sign, spec = said.partition("=")
        if not sign or not role.strip() or not spec.strip():
            raise InputError(
                f"--role {said} is not possible.", "Write --role ROLE=MODEL: --role decompose=openai/NAME."
            )
        role, spec = role.strip(), spec.strip()
        if role in found:
            raise InputError(f"--role {role} was given twice: {found[role]} and {spec}.", "Name one model for a role.")
        found[role] = spec
    return found


def read_prices(text: str) -> Prices | None:
    """IN/OUT as prices; none for an empty text."""
    from hoptree.engine.context import Prices

    if not text:
        return None
    try:
        prompt, completion = (float(part) for part in text.split("/"))
    except ValueError as error:
        raise ConfigError(f"'{text}' are no prices.", _HOW_PRICES) from error
    if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
        raise ConfigError(f"'{text}' are no prices.", _HOW_PRICES)
    return Prices(prompt, completion)
