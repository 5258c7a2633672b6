"""`hoptree align gguf`: an adapter as a LoRA file of llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hoptree.cli.console import clean, print_json
from hoptree.cli.options import AsJson
from hoptree.errors import InputError

__all__ = ["gguf"]


def gguf(
    adapter: Annotated[Path, typer.Argument(help="The folder of an adapter of hoptree align train.")],
    base: Annotated[str, typer.Option(help="The model that llama.cpp runs: FILE.gguf, or a name of the catalogue.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write an adapter as a LoRA file for llama.cpp, whose server puts it on a GGUF model (--lora).

    Models of the kinds llama and qwen2 can be converted for. All layers are held against those of the base, which may
    have fewer bits than the weights that were trained on.

    \b
    hoptree align gguf adapters/both --base qwen --out both.gguf
    llama-server -m qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --lora both.gguf --port 8080
    hoptree ask "Who …?" --corpus docs.idx -m openai/both --base-url http://localhost:8080/v1
    """
    from hoptree.alignment.training.gguf_adapter import convert
    from hoptree.models.hf_weights import adapter_folder, source_of

    file = source_of(base).file
    if file is None:
        raise InputError(f"{base} is no GGUF file.", "Give --base FILE.gguf: what llama.cpp runs.")
    told = convert(adapter_folder(str(adapter)), file, out)
    if as_json:
        print_json(told)
        return
    typer.echo(clean(f"{told['layers']:,} layers of rank {told['rank']} for {told['base']} ({told['kind']}): {out}"))
