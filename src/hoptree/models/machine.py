"""Checks of this machine for embedded models and endpoints: `hoptree doctor`."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.files import find_weights
from hoptree.models import local
from hoptree.models.adapters import packaged_adapter
from hoptree.models.catalogue import DEFAULT_ENTRY, DEFAULT_NAME, find_entry, is_complete, models_folder
from hoptree.models.local import available_memory, cpu_flags

_CONNECT_TIMEOUT_S = 5.0
_MAX_MODELS_SHOWN = 5
# Neither switch touches inference: one fetches a TLS library with git, the other a grammar engine with Rust.
_BUILD_COMMAND = (
    'CMAKE_ARGS="-DLLAMA_BUILD_BORINGSSL=OFF -DLLAMA_LLGUIDANCE=OFF" '
    f"{shlex.quote(sys.executable)} -m pip install "
    "--force-reinstall --no-deps --no-cache-dir --no-binary xllamacpp xllamacpp"
)
# The names of features by the processor and by llama.cpp, and their descriptions.
_FEATURES = {
    "asimddp": ("DOTPROD", "dot-product instructions"),
    "i8mm": ("MATMUL_INT8", "8-bit matrix instructions"),
    "avx2": ("AVX2", "AVX2 instructions"),
}
# Without these a model is several times slower; the others add a little.
_ESSENTIAL = ("asimddp", "avx2")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `ok` is None for a note."""

    name: str
    ok: bool | None
    finding: str
    remedy: str = ""


_EXTRAS = {
    "local": ("xllamacpp", "models inside the process"),
    "dense": ("usearch", "search by meaning"),
    "docs": ("pypdfium2", "PDF files"),
    "server": ("fastapi", "the server and its page"),
    "mcp": ("mcp", "tools for assistants"),
    "graph": ("pyoxigraph", "knowledge graphs"),
    "eval": ("scipy", "reports with statistics"),
    "whitebox": ("transformers", "models with their inner signals"),
    "otel": ("opentelemetry.sdk", "OpenTelemetry spans"),
}
"""A module of each group of optional dependencies, and the purpose of the group."""


def examine(environ: Mapping[str, str] | None = None) -> tuple[Check, ...]:
    """Run all checks that need no model."""
    version = local.library_version()
    return (
        Check("Python", True, platform.python_version()),
        check_library(version),
        check_features(cpu_flags(), local.library_features() if version else None),
        check_model(DEFAULT_NAME),
        check_adapter(),
        check_disk(models_folder()),
        check_memory(available_memory()),
        check_endpoint(os.environ if environ is None else environ, connect=True),
        *check_extras(),
    )


def check_extras() -> Iterator[Check]:
    """Yield the installed extras, and how to install each missing one."""
    missing = [name for name, (module, _) in _EXTRAS.items() if not _is_installed(module)]
    there = ", ".join(name for name in _EXTRAS if name not in missing)
    yield Check("Extras", True, f"{there or 'none'} installed")
    for name in missing:
        yield Check(f"Extra {name}", None, f"not installed: {_EXTRAS[name][1]}.", f"pip install 'hoptree[{name}]'")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def check_library(version: str) -> Check:
    if version:
        return Check("Embedded models", True, f"xllamacpp {version}")
    remedy = "For models inside the process: pip install 'hoptree[local]'"
    return Check("Embedded models", None, "xllamacpp is not installed.", remedy)


def check_features(flags: frozenset[str] | None, built_for: frozenset[str] | None) -> Check:
    """Check that the runtime uses the processor's features; a generic wheel may not."""
    name = "Processor"
    if flags is None:
        return Check(name, None, f"{platform.machine()}; its features are not known.")
    here = [flag for flag in _FEATURES if flag in flags]
    instructions = " and ".join(_FEATURES[flag][1] for flag in here) or "no fast instructions"
    processor = f"{platform.machine()} with {instructions}"
    if built_for is None or not here:
        return Check(name, None, f"{processor}.")
    unused = [flag for flag in here if flag in _ESSENTIAL and _FEATURES[flag][0] not in built_for]
    if not unused:
        return Check(name, True, f"{processor}; the embedded runtime uses them.")
    remedy = (
        "Several times faster is a build made on this machine (it takes a C++ compiler, cmake and some minutes; "
        f"hoptree doctor --speed measures before and after): {_BUILD_COMMAND}"
    )
    finding = f"{processor}, but the installed xllamacpp does not use the {_FEATURES[unused[0]][1]}."
    return Check(name, False, finding, remedy)


def check_model(name: str, folder: Path | None = None) -> Check:
    """Check that the weights are complete; the file is read only if it changed."""
    title = "Model"
    fetch = f"Fetch it: hoptree models pull {name}"
    try:
        entry = find_entry(name)
    except InputError as error:
        return Check(title, False, error.cause, error.remedy)
    if isinstance(entry, Path):
        there = entry.is_file()
        return Check(title, there, f"{entry} is {'here' if there else 'not here'}.", "" if there else "Check the path.")
    path = (folder or models_folder()) / entry.file
    if not path.is_file():
        return Check(title, None, f"{entry.title} is not on this machine ({_gigabytes(entry.size)}).", fetch)
    if not is_complete(entry, folder):
        return Check(title, False, f"{path} is not the file it should be.", f"Delete it. {fetch}")
    return Check(title, True, f"{entry.title} ({_gigabytes(entry.size)}) in {path.parent}")


def check_adapter() -> Check:
    """Check that the adapter of the default model is installed and undamaged."""
    title = "Adapter"
    try:
        if find_weights() is None:
            finding = "hoptree-weights is not installed: the embedded model is not trained for hop."
            return Check(title, None, finding, "Install it: pip install hoptree-weights")
        adapter = packaged_adapter()
    except ConfigError as error:
        return Check(title, False, error.cause, error.remedy)
    return Check(title, True, f"hoptree-weights {adapter.digest[:8]} for {' and '.join(adapter.bases.values())}")


def check_disk(folder: Path) -> Check:
    """Check that the disk of the models has room for the default model and some work."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free
    needed = DEFAULT_ENTRY.size + 1_000_000_000
    if free >= needed:
        return Check("Disk", True, f"{_gigabytes(free)} free for {folder}")
    remedy = "Free some space, or set HOPTREE_MODELS to a folder on another disk."
    return Check("Disk", False, f"Only {_gigabytes(free)} free for {folder}.", remedy)


def check_memory(available: int | None) -> Check:
    if available is None:
        return Check("Memory", None, "The system does not say how much is free.")
    # Weights, the rearranged copy llama.cpp makes of them, and the context of its lanes.
    needed = DEFAULT_ENTRY.size * 5 // 2
    if available >= needed:
        return Check("Memory", True, f"{_gigabytes(available)} free")
    finding = f"Only {_gigabytes(available)} free; the default model takes {_gigabytes(needed)}."
    return Check("Memory", False, finding, "Close other programs, or choose the light model: local/smollm.")


def check_endpoint(environ: Mapping[str, str], *, connect: bool = False) -> Check:
    """Check that an OpenAI-compatible endpoint is set and answers; never show its key."""
    base, key = environ.get("OPENAI_BASE_URL", ""), environ.get("OPENAI_API_KEY", "")
    if not base and not key:
        remedy = "For a model behind an API: set OPENAI_API_KEY, and OPENAI_BASE_URL for servers other than OpenAI's."
        return Check("Endpoint", None, "OPENAI_BASE_URL and OPENAI_API_KEY are not set.", remedy)
    with_key = "with a key" if key else "without a key"
    shown = "OpenAI"
    if base:
        try:
            parts = urlsplit(base)
            host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https"):
            remedy = "Set it to something like http://localhost:8000/v1."
            return Check("Endpoint", False, "OPENAI_BASE_URL is not an http or https address.", remedy)
        shown = f"{parts.scheme}://{host}{parts.path}"
    set_up = Check("Endpoint", True, f"{shown}, {with_key}")
    return _connected(set_up, base) if connect else set_up


def _connected(set_up: Check, base: str) -> Check:
    """Ask an endpoint for its models; an error becomes the finding."""
    from hoptree.models.openai import list_models

    try:
        models = asyncio.run(list_models(base, timeout=_CONNECT_TIMEOUT_S))
    except HoptreeError as error:
        return Check("Endpoint", False, f"{set_up.finding}: {error.cause}", error.remedy)
    shown = f"{', '.join(models[:_MAX_MODELS_SHOWN])}{', …' if len(models) > _MAX_MODELS_SHOWN else ''}"
    counted = f"{len(models)} model{'' if len(models) == 1 else 's'}"
    return replace(set_up, finding=f"{set_up.finding}; it answers, with {counted} ({shown or 'none'})")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
