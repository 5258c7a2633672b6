"""The public releases (`releases.toml`), and the experiments that need them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, closest, did_you_mean


@dataclass(frozen=True, slots=True)
class Remote:
    """A file at a public address; size 0 and an empty digest mean unknown."""

    name: str
    url: str
    size: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """A file in our layout, and its origin: see `releases.toml`."""

    split: str
    rows: tuple[str, ...]
    remotes: tuple[Remote, ...] = ()
    form: str = ""
    questions: int = 0
    corpus: str = ""
    aliases: str = ""
    passages: str = ""
    source_split: str = "dev"
    note: str = ""

    @property
    def size(self) -> int:
        """Bytes to fetch; 0 if the size of a file is unknown."""
        return sum(remote.size for remote in self.remotes) if all(remote.size for remote in self.remotes) else 0

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files made from it."""
        return tuple(filter(None, (f"{self.split}.jsonl", self.corpus))) if self.form else self.rows


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A data set: folder, title, licence, and releases by split."""

    name: str
    title: str
    licence: str
    home: str
    releases: Mapping[str, Release]

    def release(self, split: str) -> Release:
        """Return the release of a split; the first one for ""."""
        if split and split not in self.releases:
            raise ConfigError(f"{self.name} has no split '{split}'.", did_you_mean(split, self.releases))
        return self.releases[split or next(iter(self.releases))]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("releases.toml").read_text(encoding="utf-8"))


@cache
def public_sets() -> dict[str, PublicSet]:
    """Return all data sets by name."""
    sets = {}
    for name, declared in _table()["sets"].items():
        facts = {key: value for key, value in declared.items() if isinstance(value, str)}
        splits = {}
        for split, value in declared.items():
            if isinstance(value, dict):
                remotes = tuple(Remote(**remote) for remote in value.get("remotes", ()))
                splits[split] = Release(split, **{**value, "rows": tuple(value["rows"]), "remotes": remotes})
        sets[name] = PublicSet(name=name, releases=splits, **facts)
    return sets


def find_set(name: str) -> PublicSet:
    """Return a data set by its name; the error names the closest one."""
    sets = public_sets()
    if name not in sets:
        known = {public.title.casefold(): key for key, public in sets.items()} | {key: key for key in sets}
        close = closest(name.casefold(), known)
        remedy = f"Did you mean {known[close]}?" if close else f"There are {', '.join(sets)}."
        raise ConfigError(f"There is no data set '{name}'.", remedy)
    return sets[name]


def paper_sample(paper: str, name: str) -> dict[str, int]:
    """Return how many questions of each type a paper draws."""
    samples = _table()["samples"]
    if paper not in samples:
        raise ConfigError(f"There is no sample '{paper}'.", did_you_mean(paper, samples))
    if name not in samples[paper]:
        raise ConfigError(f"{paper} draws no sample of {name}.", did_you_mean(name, samples[paper]))
    drawn = samples[paper][name]
    return {"": drawn} if isinstance(drawn, int) else dict(drawn)


def needed_by(experiments: Path) -> dict[str, dict[str, set[str]]]:
    """Return the experiments that need each data file, by data set and file."""
    import yaml

    needs: dict[str, dict[str, set[str]]] = {}
    for path in sorted(experiments.rglob("*.yaml")):
        try:
            plan = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue  # running the file reports that it cannot be read
        data = plan.get("data") if isinstance(plan, dict) else None
        for places in data.values() if isinstance(data, dict) else ():
            corpus = places.get("corpus") if isinstance(places, dict) else None
            questions = places.get("questions") if isinstance(places, dict) else None
            for file in (questions, *(corpus if isinstance(corpus, list) else (corpus,))):
                folder, slash, name = str(file).partition("/")
                if slash and folder in public_sets():
                    experiment = path.relative_to(experiments).with_suffix("").as_posix()
                    needs.setdefault(folder, {}).setdefault(name, set()).add(experiment)
    return needs


def command_for(file: str, data: Path) -> str:
    """Return the command that fetches a file of a data set; "" if no release has it."""
    name, _, wanted = file.partition("/")
    public = public_sets().get(name)
    for split, release in public.releases.items() if public else ():
        if wanted in release.files:
            named = "" if public and release is public.release("") else f" --split {split}"
            return f"hoptree data get {name}{named} --data {data}"
    return ""
