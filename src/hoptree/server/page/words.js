// Words for outcomes of nodes, the same as in the terminal.

import { count } from "./dom.js";
import { decimal, digits, t, translated } from "./texts.js";

const SOURCES = {
  internal: "from the model’s own knowledge",
  external: "from documents",
  synthesis: "from its sub-questions",
  fallback: "guess: nothing that was read clearly says so",
  none: "no answer found",
};
const LOOKED_IN = { graph: "from the graph", hybrid: "from documents or the graph" };
const VERDICTS = {
  supported: "supported",
  refuted: "refuted, and corrected",
  replaced: "refuted; what took its place is not verified",
  unknown: "not verified",
};

/** The source of an answer: by what it cites, else by its own source and the option `evidence`. */
export function origin(node, options = {}) {
  if (node.source !== "external") return t(SOURCES[node.source] ?? node.source ?? "");
  if (node.facts?.length) return node.evidence?.length ? t("from documents and the graph") : t("from the graph");
  return t(node.evidence?.length ? SOURCES.external : LOOKED_IN[options.evidence] ?? SOURCES.external);
}

/** The style of a source: "graph" if only facts are cited. */
export function shade(node) {
  if (node.source === "external" && node.facts?.length && !node.evidence?.length) return "graph";
  return Object.hasOwn(SOURCES, node.source) ? node.source : "other";
}

export function verdict(node) {
  if (node.verdict === "refuted" && !node.struck?.length) return t("refuted");
  if (node.verdict === "refuted" && node.source === "internal") return t(VERDICTS.replaced);
  return t(VERDICTS[node.verdict] ?? node.verdict ?? "");
}

/** What the model said about its own knowledge, unless the answer comes from it. */
export function knowing(node) {
  if (node.know === undefined || node.know === null || node.source === "internal") return "";
  return node.know ? t("The model says that it knows.") : t("The model says that it does not know.");
}

/** The state of a node, from the server or else from its fields. */
export function stateOf(node) {
  return node.state || (node.answer || node.source || node.verdict ? "answered" : "waiting");
}

export function cost(usage, seconds = usage?.seconds ?? 0) {
  if (!usage) return "";
  const cached = usage.cached_calls ? ` (${t("{n} from the cache", { n: digits(usage.cached_calls) })})` : "";
  const parts = [
    `${count(usage.llm_calls ?? 0, "call")}${cached}`,
    t("{read} tokens read, {written} written", { read: digits(usage.prompt_tokens ?? 0), written: digits(usage.completion_tokens ?? 0) }),
    count(usage.retrievals ?? 0, "search", "searches"),
    `${decimal(seconds)} s`,
  ];
  if (usage.cost) parts.push(t("cost {n}", { n: digits(Number(usage.cost.toPrecision(4))) }));
  return parts.join(" · ");
}

/** Splits a sentence into texts and citation numbers; argv[1] is not a citation. hoptree.engine.answer_sentence has the same. */
export const pieces = (sentence) => sentence.split(/((?<!\S)(?:\[\d+\])+)/).flatMap((part, at) => (at % 2 ? part.match(/\d+/g).map(Number) : [part]));

/** The words that an answer's sentence quotes from the passage with a number, or "". */
export function quotation(sentence, number) {
  const quoted = (sentence ?? "").matchAll(/(?<=: |：|\] ?)[“„](.*?)[”“] ?\[(\d+)\]/gs);
  return [...quoted].find((match) => Number(match[2]) === number)?.[1] ?? "";
}

/** The server's estimate of the seconds left, after `passed` more; without it once it has proved too short. */
export function countedDown(text, passed) {
  return text.replace(/, [\d,]+ a second, about ([\d,]+) s left$/, (estimate, seconds) => {
    const left = Math.round(Number(seconds.replaceAll(",", "")) - passed);
    return left > 0 ? estimate.replace(/about [\d,]+/, `about ${left.toLocaleString("en")}`) : "";
  });
}

/** What to show in place of an answer. */
export function noAnswer(result) {
  if (result.error) return t("None: an error stopped it.");
  if (result.stopped_by) return t("None yet: it was stopped ({why}).", { why: translated(result.stopped_by) });
  return translated(result.sentence) || t("None: no answer was found.");
}

/** The reasons for a guess that its sentence already gives. */
const IN_SENTENCE = ["nothing that was read says so", "the model answered from its own knowledge, and nothing that was read says so"];

/** Whether the sentence of an answer says why it is a guess. */
export const guesses = (result) => Boolean(result.sentence && result.answer) && IN_SENTENCE.includes(result.confidence?.reason);

/** How well an answer is supported, and why; "" if its sentence says so. */
export function support(result) {
  const { level, reason } = result.confidence ?? {};
  return level && !guesses(result) ? t("{level}: {reason}.", { level: capital(t(level)), reason: translated(reason) }) : "";
}

export const capital = (words) => words[0].toUpperCase() + words.slice(1);

/** An answer for comparison: without case, articles and punctuation. */
export const folded = (answer) =>
  String(answer ?? "").normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\b(the|a|an)\b/g, " ").replace(/[^\p{L}\p{N}]+/gu, " ").trim();

const [MIN_WIDTH, FULL, MIN_SPACES, MIN_INDENTED_LINES] = [50, 0.85, 5, 3];
const GOES_ON = /^[\p{L}\p{N}"'“„‘(]/u;
const BEGINS_ITEM = /^(?:[\p{L}\p{N}_]{1,3}[.)]\s|[\p{L}\p{N}_-]{1,20}:\s)/u;

const isFull = (line, following, width) => line.length + 1 + following.split(" ")[0].length > FULL * width && line.split(" ").length > MIN_SPACES;
const widest = (lines) => Math.max(...lines.map((line) => line.length));

/** The lines of indented prose without the indent; other lines as they are. */
function withoutIndent(lines) {
  const bare = lines.map((line) => line.replace(/^ +/, ""));
  const indents = new Set(lines.slice(1).filter((line) => line.trim()).map((line) => line.search(/[^ ]/)));
  const width = widest(bare);
  const isProse = lines.length >= MIN_INDENTED_LINES && bare.slice(1).every((line, at) => !line || isFull(bare[at], line, width));
  return indents.size === 1 && isProse ? bare : lines;
}

/** Replaces the line breaks inside sentences with spaces; hoptree.text.line_breaks has the same. */
export function unwrapped(text) {
  return text.split("\n\n").map((paragraph) => {
    const lines = paragraph.split("\n");
    const read = withoutIndent(lines);
    const width = widest(read);
    if (lines.length < 2 || width < MIN_WIDTH) return paragraph;
    return lines.slice(1).reduce((joined, original, at) => {
      const [line, following] = [read[at], read[at + 1]];
      const ends = !line.trim() || /[.!?:;…"”]$/.test(line);
      return joined + (isFull(line, following, width) && !ends && GOES_ON.test(following) && !BEGINS_ITEM.test(following) ? " " : "\n") + original;
    }, lines[0]);
  }).join("\n\n");
}
