"""Put trained weights into the package: files, their manifest, and the digests and figures of the model card.

    python weights/pack.py ADAPTER    # a folder of hoptree align train
    python weights/pack.py            # the manifest and the card anew, for what is there

The manifest lists every file of the package. Tables of the card come from figures.json beside this file:
{"tables": [{"title": "…", "about": "model, hardware, date, questions", "command": "…", "columns": […], "rows": [[…]]}]}
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hoptree.core.errors import HoptreeError, InputError
from hoptree.core.files import ADAPTER, WEIGHTS_FORMAT, WEIGHTS_MANIFEST, atomic_write
from hoptree.models.adapters import read_adapter
from hoptree.models.catalogue import locate_weights
from hoptree.training.lora.checkpoint import read_card
from hoptree.training.lora.gguf import convert

HERE = Path(__file__).resolve().parent
MAX_BYTES = 40_000_000
_FROM_CARD = ("made_with", "examples", "tokens", "steps", "recipe", "loss", "seconds")


def pack(adapter: Path | None, *, base: str = "qwen", here: Path = HERE) -> Path:
    """Write the files that are given, then the manifest and the card; return the path of the manifest."""
    folder = here / "src" / "hoptree_weights"
    path = folder / WEIGHTS_MANIFEST
    training = json.loads(path.read_text(encoding="utf-8"))["training"] if path.is_file() else {}
    if adapter is not None:
        from hoptree.models.hf_weights import find_adapter  # imports torch, which the rest goes without

        card = read_card(adapter)
        if card is None or not card.get("templates"):
            raise InputError(f"{adapter} does not say which prompts it was trained on.", "Train it anew.")
        convert(adapter, locate_weights(base), folder / ADAPTER)
        trained = find_adapter(str(adapter))
        assert trained is not None
        training = {"adapter": trained.digest, **_training(card)}
    lora = read_adapter(folder / ADAPTER)
    if lora.path.stat().st_size > MAX_BYTES:
        raise InputError(f"{lora.path} has more than {MAX_BYTES / 1e6:.0f} MB.", "Train a smaller rank.")
    manifest = {
        "format": WEIGHTS_FORMAT,
        "files": {file.name: _describe(file) for file in _data_files(folder)},
        "bases": dict(lora.bases),
        "templates": sorted(lora.templates),
        "training": training,
    }
    atomic_write(path, [json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"])
    write_card(manifest, here)
    return path


def _data_files(folder: Path) -> list[Path]:
    """Return the files that hold weights."""
    return sorted(
        file for file in folder.iterdir() if file.is_file() and file.suffix != ".py" and file.name != WEIGHTS_MANIFEST
    )


def _describe(file: Path) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "bytes": file.stat().st_size}


def _training(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the manifest keeps of an adapter's card: no paths of the machine it was trained on."""
    sets = [{**part, "file": Path(part["file"]).name} for part in card["sets"]]
    return {"sets": sets, "templates": card["templates"], **{name: card[name] for name in _FROM_CARD if name in card}}


def write_card(manifest: Mapping[str, Any], here: Path) -> None:
    """Fill the parts of the model card between `<!-- NAME -->` and `<!-- /NAME -->`."""
    path, figures = here / "MODEL_CARD.md", here / "figures.json"
    measured = json.loads(figures.read_text(encoding="utf-8")) if figures.is_file() else {"tables": []}
    parts = {
        "digests": "\n".join(_digests(manifest)),
        "training": "\n".join(_training_lines(manifest["training"])),
        "figures": "\n\n".join("\n".join(_figures(table)) for table in measured["tables"]),
    }
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        text = f"{before}{begin}{part}{chr(10) if part else ''}{end}{after}"
    atomic_write(path, [text])


def _digests(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from _table(("file", "bytes", "SHA-256"), [
        (f"`{name}`", f"{entry['bytes']:,}", f"`{entry['sha256']}`") for name, entry in manifest["files"].items()
    ])  # fmt: skip
    yield ""
    yield from _table(("base", "digest"), [(f"`{name}`", f"`{digest}`") for digest, name in manifest["bases"].items()])


def _training_lines(training: Mapping[str, Any]) -> Iterator[str]:
    if not training:
        return
    yield from _table(("set", "rows", "SHA-256"), [
        (f"`{part['file']}`", f"{part['rows']:,}", f"`{part['digest']}`") for part in training["sets"]
    ])  # fmt: skip
    yield ""
    rows = [(f"`{template}`", f"{count:,}") for template, count in training["templates"].items()]
    yield from _table(("prompt", "rows"), rows)
    yield ""
    for name in ("recipe", "loss", "made_with"):
        values = ", ".join(f"{key} {value}" for key, value in training.get(name, {}).items() if value != "")
        yield f"- {name.replace('_', ' ')}: {values}"
    yield f"- {training['examples']:,} examples in {training['seconds'] / 60:.0f} minutes"


def _figures(table: Mapping[str, Any]) -> Iterator[str]:
    yield f"**{table['title']}** ({table['about']})"
    yield ""
    yield f"    {table['command']}"
    yield ""
    yield from _table(table["columns"], table["rows"])


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapter", type=Path, nargs="?")
    parser.add_argument("--base", default="qwen", help="the model that llama.cpp runs")
    given = parser.parse_args()
    try:
        print(pack(given.adapter, base=given.base))
    except HoptreeError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
