"""What a knowledge graph costs: load, memory, one-hop queries and names, beside rdflib in memory in the same run.

Two graphs: a file of triples in JSON Lines, if its path is given, and generated N-Triples (a million; a hundred
thousand with --quick), a fifth of them labels, with one entity that is the object of every twentieth fact. Both systems
do the same work for a one-hop query: up to 200 facts in both directions, with the labels of all ends and properties.
Hoptree also tells the sources. rdflib looks facts up by pattern, which is its fast way, and by prepared SPARQL.

Every measurement is a process of its own, and takes its own peak memory. Figures come last, with ratios to rdflib.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

ENTITY, DIRECT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
HUB = "Q1"
LIMIT = 200
QUERIES = 1_000
SYSTEMS = ("hoptree", "rdflib")


def generate(path: Path, triples: int) -> None:
    """N-Triples with a label for every entity, and facts whose objects lean towards a few entities."""
    rng = random.Random(13)
    entities = triples // 5
    with path.open("w", encoding="utf-8") as file:
        for number in range(1, entities + 1):
            file.write(f'<{ENTITY}Q{number}> <{LABEL}> "Thing {number}"@en .\n')
        for number in range(triples - entities):
            other = 1 if number % 20 == 0 else 1 + int(entities * rng.random() ** 3)
            # The hub is the subject of nothing, so that its facts are countable.
            subject = 2 + number % (entities - 1)
            file.write(f"<{ENTITY}Q{subject}> <{DIRECT}P{1 + rng.randrange(200)}> <{ENTITY}Q{other}> .\n")


def asked(path: Path, count: int) -> tuple[list[str], list[str]]:
    """Ids and labels to ask for, drawn from a file of triples."""
    rng = random.Random(7)
    if path.suffix == ".nt":
        entities = 1 + sum(1 for _ in islice(_lines(path), 0, None)) // 5
        numbers = [rng.randrange(2, entities) for _ in range(count)]
        return [f"Q{number}" for number in numbers], [f"Thing {number}" for number in numbers]
    rows = [json.loads(line) for line in _lines(path)]
    drawn = [rng.choice(rows) for _ in range(count)]
    return [row.get("s_id") or f"name:{' '.join(row['s'].split())}" for row in drawn], [row["s"] for row in drawn]


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield from file


def timed(work: Callable[[str], int], keys: Sequence[str]) -> dict[str, float]:
    """Milliseconds a query, in the middle and for the slowest twentieth, and rows on average."""
    took: list[float] = []
    rows = 0
    for key in keys:
        began = time.perf_counter()
        rows += work(key)
        took.append((time.perf_counter() - began) * 1e3)
    took.sort()
    return {"p50": statistics.median(took), "p95": took[int(len(took) * 0.95)], "rows": rows / len(keys)}


def measure_hoptree(path: Path, folder: Path, count: int) -> dict[str, Any]:
    from hoptree.graph.embedded import EmbeddedGraph
    from hoptree.graph.loading import load_graph

    began = time.perf_counter()
    loaded = load_graph(folder, [path])
    result: dict[str, Any] = {"load": time.perf_counter() - began, "peak": _peak(), "cpu": _cpu()}
    result["facts"] = loaded.manifest.facts
    began = time.perf_counter()
    graph = EmbeddedGraph(folder)
    result |= {"open": time.perf_counter() - began, "bytes": loaded.manifest.bytes}
    ids, names = asked(path, count)
    result["hop"] = timed(lambda key: len(graph.facts_now(key, limit=LIMIT).facts), ids)
    result["name"] = timed(lambda key: len(graph.names.entities(key, 10)), names)
    if path.suffix == ".nt":
        result["hub"] = timed(lambda key: len(graph.facts_now(key, limit=LIMIT).facts), [HUB] * 20)
    return result


def measure_rdflib(path: Path, folder: Path, count: int) -> dict[str, Any]:
    rdflib: Any = import_module("rdflib")
    prepare: Any = import_module("rdflib.plugins.sparql").prepareQuery
    began = time.perf_counter()
    graph = rdflib.Graph()
    if path.suffix == ".nt":
        graph.parse(path, format="nt")
    else:
        _rows_into(graph, path)
    result: dict[str, Any] = {"load": time.perf_counter() - began, "peak": _peak(), "cpu": _cpu()}
    label = rdflib.RDFS.label

    def iri(key: str) -> Any:
        return rdflib.URIRef(f"urn:hoptree:entity:{quote(key[5:], safe='')}" if key[:5] == "name:" else ENTITY + key)

    def named(rows: list[tuple[Any, Any, Any]]) -> int:
        for s, p, o in rows:
            for term in (s, rdflib.URIRef(str(p).replace(DIRECT, ENTITY)), o):
                graph.value(term, label)
        return len(rows)

    def hop(key: str) -> int:
        node = iri(key)
        rows = list(islice((row for row in graph.triples((node, None, None)) if row[1] != label), LIMIT))
        return named(rows + list(islice(graph.triples((None, None, node)), LIMIT - len(rows))))

    query = prepare("SELECT ?s ?p ?o WHERE { { BIND(?e AS ?s) ?e ?p ?o } UNION { BIND(?e AS ?o) ?s ?p ?e } } LIMIT 200")

    def by_sparql(key: str) -> int:
        return named([tuple(row) for row in graph.query(query, initBindings={"e": iri(key)}) if row[1] != label])

    ids, names = asked(path, count)
    result["facts"] = sum(1 for _, p, _ in graph if p != label)
    result["hop"] = timed(hop, ids)
    result["sparql"] = timed(by_sparql, ids[: count // 5])
    language = "en" if path.suffix == ".nt" else None
    result["name"] = timed(lambda key: len(list(graph.subjects(label, rdflib.Literal(key, lang=language)))), names)
    if path.suffix == ".nt":
        result["hub"] = timed(hop, [HUB] * 20)
    return result


def _rows_into(graph: Any, path: Path) -> None:
    rdflib: Any = import_module("rdflib")
    for line in _lines(path):
        row = json.loads(line)
        ends = []
        for end in ("s", "o"):
            known = row.get(f"{end}_id")
            node = rdflib.URIRef(ENTITY + known if known else f"urn:hoptree:entity:{quote(row[end], safe='')}")
            graph.add((node, rdflib.RDFS.label, rdflib.Literal(row[end])))
            ends.append(node)
        known = row.get("p_id")
        relation = rdflib.URIRef(DIRECT + known if known else f"urn:hoptree:property:{quote(row['p'], safe='')}")
        graph.add((ends[0], relation, ends[1]))


def _cpu() -> float:
    """Seconds of processor time of the whole process so far, which other processes lengthen less than the clock's."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform != "darwin" else 2**20)


def in_process(system: str, path: Path, folder: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", system, str(path), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{system} failed on {path.name}:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def figures(title: str, found: dict[str, dict[str, Any]]) -> list[str]:
    """A line a figure: Hoptree's, rdflib's and how many times smaller Hoptree's is (below 1: larger)."""
    ours, theirs = found["hoptree"], found.get("rdflib", {})
    rows: list[tuple[str, float, float | None, str]] = [
        ("load", ours["load"], theirs.get("load"), "s"),
        ("load, processor time", ours["cpu"], theirs.get("cpu"), "s"),
        ("peak memory of loading", ours["peak"], theirs.get("peak"), "MiB"),
        ("open what was loaded before", ours["open"], theirs.get("load"), "s"),
    ]
    kinds = (
        ("one hop", "hop"),
        ("one hop, rdflib by SPARQL", "sparql"),
        ("name", "name"),
        ("entity of many facts", "hub"),
    )
    for name, kind in kinds:
        mine = ours.get("hop" if kind == "sparql" else kind)
        other = theirs.get(kind, {})
        if mine is not None and (other or kind != "sparql"):
            rows += [(f"{name}, {part}", mine[part], other.get(part), "ms") for part in ("p50", "p95")]
    lines = [f"{title}: {ours['facts']:,} facts, {ours['bytes'] / 1e6:.1f} MB on disk, {ours['hop']['rows']:.1f} a hop"]
    if theirs:
        lines[0] += f" (rdflib {theirs['facts']:,} facts, {theirs['hop']['rows']:.1f} a hop)"
    for name, own, others, unit in rows:
        beside = f"   rdflib {others:>10.3f} {unit:<4} ratio {others / own:>8.2f}" if others else ""
        lines.append(f"  {name:<34} {own:>10.3f} {unit:<4}{beside}")
    return lines


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        measure = measure_hoptree if sys.argv[2] == "hoptree" else measure_rdflib
        print(json.dumps(measure(Path(sys.argv[3]), Path(sys.argv[4]), QUERIES)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("triples", type=Path, nargs="?", help="a file of triples (.jsonl or .jsonl.gz) to measure, too")
    parser.add_argument("--quick", action="store_true", help="a hundred thousand generated triples, under a minute")
    arguments = parser.parse_args()
    systems = SYSTEMS if find_spec("rdflib") else SYSTEMS[:1]
    if len(systems) == 1:
        print("rdflib is not installed, so there is nothing to compare with: pip install rdflib", file=sys.stderr)
    count = 100_000 if arguments.quick else 1_000_000
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        generated = Path(name) / "generated.nt"
        generate(generated, count)
        paths = [(f"generated, {count:,} triples", generated)]
        if arguments.triples is not None:
            if not arguments.triples.is_file():
                parser.error(f"there is no file {arguments.triples}")
            paths.insert(0, (arguments.triples.name, arguments.triples.resolve()))
        for title, path in paths:
            found = {}
            for system in systems:
                print(f"{title}: {system} …", file=sys.stderr, flush=True)
                found[system] = in_process(system, path, Path(name) / f"{path.stem}-{system}")
            lines += figures(title, found)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
