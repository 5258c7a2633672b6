// The words for what became of a node, the same as in the terminal.

import { count } from "./dom.js";

const SOURCES = {
  internal: "from the model’s own knowledge",
  external: "from documents",
  synthesis: "from its sub-questions",
  fallback: "guess: the documents do not say",
  none: "no answer found",
};
const LOOKED_IN = { graph: "from the graph", hybrid: "from documents or the graph" };
const VERDICTS = {
  supported: "supported",
  refuted: "refuted, and corrected",
  replaced: "refuted; what took its place is not verified",
  unknown: "not verified",
};

/** Where an answer comes from: what it cites tells, else what it says of itself and where was looked. */
export function origin(node, options = {}) {
  if (node.source !== "external") return SOURCES[node.source] ?? node.source ?? "";
  if (node.facts?.length) return node.evidence?.length ? "from documents and the graph" : "from the graph";
  return node.evidence?.length ? SOURCES.external : LOOKED_IN[options.evidence] ?? SOURCES.external;
}

/** The colour of an origin: graph where only facts are cited. */
export function shade(node) {
  if (node.source === "external" && node.facts?.length && !node.evidence?.length) return "graph";
  return Object.hasOwn(SOURCES, node.source) ? node.source : "other";
}

export function verdict(node) {
  if (node.verdict === "refuted" && !node.struck?.length) return "refuted";
  if (node.verdict === "refuted" && node.source === "internal") return VERDICTS.replaced;
  return VERDICTS[node.verdict] ?? node.verdict;
}

/** What the model said of its own knowledge, unless the answer comes from there. */
export function knowing(node) {
  if (node.know === undefined || node.know === null || node.source === "internal") return "";
  return node.know ? "The model says that it knows." : "The model says that it does not know.";
}

/** Whether a node is waiting, under way, done or ended; told by the server, else by what there is. */
export function stateOf(node) {
  return node.state || (node.answer || node.source || node.verdict ? "answered" : "waiting");
}

export function cost(usage, seconds = usage?.seconds ?? 0) {
  if (!usage) return "";
  const cached = usage.cached_calls ? ` (${usage.cached_calls.toLocaleString("en")} from the cache)` : "";
  const parts = [
    `${count(usage.llm_calls ?? 0, "call")}${cached}`,
    `${(usage.prompt_tokens ?? 0).toLocaleString("en")} tokens read, ${(usage.completion_tokens ?? 0).toLocaleString("en")} written`,
    count(usage.retrievals ?? 0, "search", "searches"),
    `${seconds.toFixed(1)} s`,
  ];
  if (usage.cost) parts.push(`cost ${Number(usage.cost.toPrecision(4))}`);
  return parts.join(" · ");
}

/** The answer of a result in words, where there is none. */
export function noAnswer(result) {
  if (result.error) return "None: the run failed.";
  if (result.stopped_by) return `None yet: the run was stopped (${result.stopped_by}).`;
  return result.sentence || "None: no answer was found.";
}

/** Two answers are the same whatever their capitals, articles and marks. */
export const folded = (answer) =>
  String(answer ?? "").normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\b(the|a|an)\b/g, " ").replace(/[^\p{L}\p{N}]+/gu, " ").trim();
