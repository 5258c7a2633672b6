// Facts and links around an answer, drawn as a graph: names are nodes, facts and mentions are edges.

import { make } from "./dom.js";
import { placeOf } from "./evidence.js";
import { fitted, shape } from "./export.js";
import { t } from "./texts.js";
import { folded } from "./words.js";

const MOST = 28;
const [WIDTH, DOWN] = [680, 66];
const [NARROWEST, WIDEST, GAP] = [130, 240, 12];
const [ABOVE, LINE, LINES] = [11, 13, 2];

/** The graph of a result: {nodes: Map of {label, kind}, edges: [{from, to, label, kind}]}, with at most MOST nodes. */
export function graphOf(result) {
  const nodes = new Map();
  const edges = new Map();
  const place = (label, kind) => {
    const key = folded(label);
    if (!key) return null;
    const known = nodes.get(key);
    if (known) {
      if (kind === "answer" || known.kind === "name") known.kind = kind;
      return key;
    }
    if (nodes.size >= MOST) return null;
    nodes.set(key, { label: String(label), kind });
    return key;
  };
  const join = (from, to, label, kind) => {
    if (from === null || to === null || from === to) return;
    const key = [from, to].sort().join("\n");
    if (!edges.has(key)) edges.set(key, { from, to, label, kind });
  };
  const all = [];
  const walk = (node) => { all.push(node); (node.children ?? []).forEach(walk); };
  (result.tree ?? []).forEach(walk);
  const answer = result.answer ? place(result.answer, "answer") : null;
  const triples = [...all.flatMap((node) => node.facts ?? []), ...learnt(result.writing)];
  for (const [subject, relation, object] of triples) join(place(subject, "name"), place(object, "name"), relation, "fact");
  const passages = result.evidence ?? [];
  const titles = new Map(passages.map((passage) => [passage.id, passage.title || passage.id]));
  for (const title of titles.values()) place(title, "passage");
  for (const node of all) {
    if (!node.answer) continue;
    const own = place(node.answer, "name");
    for (const id of node.evidence ?? []) if (titles.has(id)) join(place(titles.get(id), "passage"), own, node.resolved || node.question, "holds");
  }
  for (const passage of passages) {
    for (const other of passages) {
      if (passage !== other && other.title && placeOf(passage.text ?? "", other.title)) join(place(titles.get(passage.id), "passage"), place(other.title, "passage"), t("mentions"), "link");
    }
    if (answer !== null && placeOf(passage.text ?? "", result.answer)) join(place(titles.get(passage.id), "passage"), answer, "", "holds");
  }
  return { nodes, edges: [...edges.values()] };
}

/** The facts that a method with doubts learnt from passages. */
function learnt(writing) {
  const read = (writing?.parts ?? []).flatMap((part) => part.facts ?? []).filter((fact) => fact.outcome === "added" || fact.outcome === "surer");
  return [...(writing?.facts ?? []), ...read].map((entry) => entry.fact);
}

/** Positions of nodes: connected components one below the other, in columns by distance from their central node. */
function laidOut(nodes, edges) {
  const near = new Map([...nodes.keys()].map((key) => [key, []]));
  for (const { from, to } of edges) {
    near.get(from).push(to);
    near.get(to).push(from);
  }
  const points = new Map();
  const order = [...nodes.keys()].sort((key, other) => (nodes.get(other).kind === "answer") - (nodes.get(key).kind === "answer") || near.get(other).length - near.get(key).length);
  let top = 0;
  for (const start of order) {
    if (points.has(start) || !near.get(start).length) continue;
    const columns = [[start]];
    const seen = new Set([start]);
    while (columns.at(-1).length) columns.push(columns.at(-1).flatMap((key) => near.get(key)).filter((key) => !seen.has(key) && seen.add(key)));
    const tallest = Math.max(...columns.map((column) => column.length));
    for (const [at, column] of columns.entries()) {
      for (const [row, key] of column.entries()) points.set(key, { x: at, y: top + ((row + 0.5) * tallest * DOWN) / column.length });
    }
    top += tallest * DOWN;
  }
  return points;
}

/** A name cut to a width; of a passage's title, the last part is kept. */
function named(label, room) {
  const last = label.split(" › ").at(-1);
  return fitted(last !== label && fitted(label, room) !== label ? `… › ${last}` : label, room);
}

/** The drawing of a result's graph; null if it has no edges. */
export function graphView(result) {
  const { nodes, edges } = graphOf(result);
  if (!edges.length) return null;
  const points = laidOut(nodes, edges);
  const columns = Math.max(...[...points.values()].map(({ x }) => x)) + 1;
  const column = Math.max(NARROWEST, Math.min(WIDEST, WIDTH / columns));
  const room = column - GAP;
  for (const point of points.values()) point.x = (point.x + 0.5) * column;
  const down = [...points.values()].map(({ y }) => y);
  const top = Math.min(...down) - 2 * ABOVE - LINE;
  const [width, height] = [columns * column, Math.max(...down) + 30 - top];
  const image = shape("svg", { viewBox: `0 ${top} ${width} ${height}`, width, height, class: "graph", role: "img", "aria-label": t("Names, facts and links around the answer") });
  const written = new Map();
  const labels = [];
  for (const { from, to, label, kind } of edges) {
    // The label of an edge stands above its outer node, whose name stands below it, so that they do not overlap.
    const [inner, outer] = [points.get(from), points.get(to)].sort((point, other) => point.x - other.x || point.y - other.y);
    const line = shape("line", { x1: inner.x, y1: inner.y, x2: outer.x, y2: outer.y, class: `edge ${kind}` });
    image.append(line);
    if (!label) continue;
    line.append(shape("title", {}, label));
    const lines = written.get(outer) ?? new Set();
    written.set(outer, lines);
    if (lines.has(label) || lines.size >= LINES) continue;
    labels.push(shape("text", { x: outer.x, y: outer.y - ABOVE - lines.size * LINE, class: "relation" }, fitted(label, room, 5.6)));
    lines.add(label);
  }
  image.append(...labels);
  for (const [key, { x, y }] of points) {
    const { label, kind } = nodes.get(key);
    const group = shape("g", { class: `node ${kind}` });
    group.append(shape("title", {}, label), shape("circle", { cx: x, cy: y, r: kind === "answer" ? 8 : 5 }), shape("text", { x, y: y + 19 }, named(label, room)));
    image.append(group);
  }
  const key = [["answer", t("the answer")], ["passage", t("a passage")], ["name", t("a name or value")]].filter(([kind]) => [...nodes.values()].some((node) => node.kind === kind));
  return make("div", { class: "graph-box" }, make("div", { class: "wide", tabindex: "0" }, image), make("p", { class: "note legend" }, key.map(([kind, words]) => make("span", { class: kind, text: words }))));
}
