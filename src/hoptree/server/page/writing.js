// A text with the model's doubts: words shaded by uncertainty, and what was done about each sentence in doubt.

import { count, make } from "./dom.js";
import { translated } from "./texts.js";

/** The least doubt, in nats, of each shade; hoptree.engine.sentence_view has the same. */
export const LEVELS = [0.25, 0.75, 1.5, 2.5];
const NAMES = ["sure", "a little unsure", "unsure", "very unsure", "most unsure"];
const MEASURES = {
  score: "S is a word’s entropy times its share of attention, and θ what it must exceed.",
  probability: "p is the probability of a word’s least probable token, and θ what it must not fall below.",
  disagreement: "Disagreement is how much samples of a sentence differ, and θ what it must exceed.",
  spread: "U is how far samples of a step are apart, and θ what it must exceed.",
};
const SIGNS = { score: "S", probability: "least p", disagreement: "disagreement", spread: "U" };
const OUTCOMES = { added: "learnt", surer: "learnt, surer than before", known: "known already", unsure: "not taken, too unsure" };
const ENDS = {
  answer: "it gives an answer", end: "the model had no more to say", "no growth": "nothing new was written",
  length: "it is as long as it may be", retrievals: "nothing may be searched for any more",
  steps: "it has as many steps as it may have", documents: "it has as many documents as it may have",
};
const HITS = 8;
const known = (value) => value !== null && value !== undefined;
const two = (value) => (known(value) ? value.toFixed(2) : "unknown");
const text = (words) => make("span", { text: words, dir: "auto" });

/** The doubt about a word in nats: its entropy, else −ln of its probability; null if neither is known. */
export const doubt = (word) => (known(word.entropy) ? word.entropy : known(word.probability) ? -Math.log(Math.max(word.probability, 1e-9)) : null);

export const level = (word) => (doubt(word) === null ? 0 : LEVELS.filter((least) => doubt(word) >= least).length);

/** Draws a text, and later only the sentences that changed. */
export class WritingView {
  #drawn = {};

  constructor() {
    this.legend = make("p", { class: "note shades" });
    this.before = make("div");
    this.list = make("ol", { class: "parts" });
    this.after = make("div");
    this.element = make("section", { class: "writing", "aria-label": translated("The text, with the model’s doubts") },
      this.legend, this.before, this.list, this.after);
  }

  update(writing) {
    this.#changed("legend", () => this.legend.replaceChildren(...legend(writing)), summaryOf(writing));
    this.#changed("before", () => this.before.replaceChildren(...first(writing)), [writing.extracted, writing.first]);
    for (const [place, part] of writing.parts.entries()) {
      this.#changed(place, () => {
        const drawn = sentence(part);
        const there = this.list.children[place];
        if (there) {
          for (const [at, box] of [...there.querySelectorAll("details")].entries()) {
            const same = drawn.querySelectorAll("details")[at];
            if (same) same.open = box.open;
          }
          there.replaceWith(drawn);
        } else this.list.append(drawn);
      }, part);
    }
    while (this.list.children.length > writing.parts.length) this.list.lastElementChild.remove();
    this.#changed("after", () => this.after.replaceChildren(...ending(writing)),
      [writing.stopped, writing.answers, writing.facts, writing.conflicts, writing.missing, writing.parts.length]);
  }

  #changed(place, draw, value) {
    const state = JSON.stringify(value);
    if (this.#drawn[place] === state) return;
    this.#drawn[place] = state;
    draw();
  }
}

const wordsOf = (writing) => writing.parts.flatMap((part) => part.said.words);

function summaryOf(writing) {
  const words = wordsOf(writing);
  return [words.some((word) => known(word.entropy)), words.some((word) => known(word.probability)), words.some((word) => word.hit), writing.parts[0]?.said.measure];
}

function legend(writing) {
  const [entropy, probability, hit, measure] = summaryOf(writing);
  const line = [];
  if (entropy || probability) {
    line.push(translated(`How unsure the model was of each word (${entropy ? "entropy" : "−ln p"}, nats): `), make("span", { class: "u0", text: translated("sure") }));
    for (const [place, least] of LEVELS.entries()) line.push(" ", make("span", { class: `u${place + 1}`, text: `≥${least}` }));
    line.push(". ");
  }
  if (hit) line.push(make("span", { class: "hit", text: translated("Framed") }), translated(": words that made it look things up. "));
  if (measure) line.push(translated(MEASURES[measure] ?? ""));
  return line;
}

function first(writing) {
  const rows = [];
  if (writing.extracted?.length) rows.push(["Names in the question", text(writing.extracted.join(", "))]);
  for (const query of writing.first ?? []) rows.push(asked(query, "Searched first"));
  return rows.length ? [table(rows)] : [];
}

function table(rows) {
  return make("dl", { class: "doubt" }, rows.flatMap(([name, ...values]) => [make("dt", { text: translated(name) }), make("dd", {}, ...values)]));
}

/** A sentence with its words shaded; offsets count characters, not UTF-16 units. */
function shaded(said, isStruck) {
  const letters = Array.from(said.text);
  const line = make("p", { class: isStruck ? "said struck" : "said", dir: "auto" });
  const slice = (start, end) => letters.slice(start, end).join("");
  let at = 0;
  for (const word of said.words) {
    if (word.start > at) line.append(slice(at, word.start));
    const title = numbers(word);
    line.append(make("span", { class: `u${level(word)}${word.hit ? " hit" : ""}`, title: title ? `${title}: ${translated(NAMES[level(word)])}` : null, text: slice(word.start, word.end) }));
    at = word.end;
  }
  line.append(slice(at) || (said.text ? "" : translated("(nothing)")));
  return isStruck ? make("del", {}, line) : line;
}

function numbers(word) {
  const measures = [["entropy", word.entropy], ["attention share", word.attention], ["score", word.score], ["probability", word.probability]];
  const parts = measures.filter(([, value]) => known(value)).map(([name, value]) => `${name} ${two(value)}`);
  if (known(word.entropy) && !word.content) parts.push("carries no content: does not count");
  return parts.join(", ");
}

/** A measure compared with its threshold: "S 3.00 > θ 1.65". */
export function compared(said) {
  if (!known(said.measured)) return said.measure === "spread" && said.triggered ? "no sample said anything" : "";
  const value = `${SIGNS[said.measure] ?? said.measure} ${two(said.measured)}`;
  if (!known(said.theta)) return value;
  const below = said.measure === "probability";
  return `${value} ${said.triggered ? (below ? "<" : ">") : below ? "≥" : "≤"} θ ${two(said.theta)}`;
}

const replaced = (part) => Boolean(part.again);

/** The outcome of a sentence, or "" if it simply stays. */
function outcome(part) {
  if (part.kept === false) return `left out: ${whyLost(part)}`;
  if (!part.said.triggered || replaced(part)) return "";
  return part.kept === null ? "not written again" : `stays as it is: ${whyKept(part)}`;
}

function whyLost(part) {
  if (!part.said.triggered || replaced(part)) return "it says nothing new";
  return !part.queries.length && !part.skipped ? "nothing may be searched for any more" : "nothing was written in its place";
}

function whyKept(part) {
  const last = part.queries.at(-1);
  if (!last?.query) return "there is nothing to search with";
  return last.repeated ? "this was searched for before" : "nothing new was found";
}

function sentence(part) {
  const isStruck = replaced(part) || part.kept === false;
  const item = make("li", { class: part.said.triggered ? "doubted" : "" }, shaded(part.said, isStruck));
  if (part.again) {
    const again = shaded(part.again, part.kept === false);
    item.append(make("div", { class: "again" }, make("span", { class: "arrow", text: "⇒" }), again));
  }
  if (part.said.triggered) item.append(make("details", {}, make("summary", { text: summary(part) }), table(rows(part))));
  else if (compared(part.said)) item.append(make("div", { class: "note", text: translated(compared(part.said)) }));
  if (outcome(part)) item.append(make("div", { class: "note warm", text: translated(outcome(part)) }));
  return item;
}

function summary(part) {
  const hits = part.said.words.filter((word) => word.hit).map((word) => `“${word.text}”`);
  const unsure = translated(hits.length ? `In doubt: ${hits.slice(0, 3).join(", ")}${hits.length > 3 ? " …" : ""}` : "In doubt");
  const did = part.skipped ? translated("memory had it") : part.queries.length ? count(part.queries.length, "search", "searches") : translated("nothing to search with");
  const learnt = part.facts.filter((fact) => fact.outcome === "added" || fact.outcome === "surer").length;
  return [unsure, did, learnt ? translated(`learnt: ${count(learnt, "fact")}`) : ""].filter(Boolean).join(" · ");
}

function rows(part) {
  const hits = part.said.words.filter((word) => word.hit);
  const words = hits.slice(0, HITS).map((word) => (numbers(word) ? `${word.text} (${numbers(word)})` : word.text)).join("; ");
  const more = hits.length > HITS ? ` and ${hits.length - HITS} more` : "";
  const rows = [["In doubt", text([compared(part.said), words].filter(Boolean).join(": ") + more)]];
  if (part.said.samples.length) rows.push(["Samples", make("ul", {}, part.said.samples.map((sample) => make("li", { text: sample })))]);
  if (part.skipped) rows.push(["Memory", translated("It has that already, so nothing was searched for."), fact(part.skipped)]);
  if (part.names.length) rows.push(["Names", names(part)]);
  for (const query of part.queries) rows.push(asked(query, "Asked"));
  if (part.left_out.length) rows.push(["Left out", text(translated(`its least probable words: ${part.left_out.join(", ")}`))]);
  if (part.tried.length) rows.push(["Tried with", text(part.tried.map(([name, left]) => `${name}: U ${two(left)}`).join(", "))]);
  if (part.facts.length) rows.push(["Read", ...part.facts.map((read) => fact(read, translated(OUTCOMES[read.outcome] ?? "not taken, no passage states it")))]);
  if (part.again && compared(part.again)) rows.push(["Again", text(compared(part.again))]);
  return rows;
}

function names(part) {
  const list = make("ul", { class: "names" });
  for (const candidate of part.names) {
    const sure = known(candidate.confidence) ? ` ${two(candidate.confidence)}` : "";
    const name = make(candidate.dropped_by ? "del" : "strong", { text: candidate.name, title: candidate.kind });
    list.append(make("li", {}, name, candidate.dropped_by ? `${sure} ${translated(`dropped by ${candidate.dropped_by}`)}` : `${sure} ${translated("kept")}`));
  }
  return list;
}

function asked(query, label) {
  const why = query.repeated ? ` (${translated("asked before")})` : "";
  const line = make("div", {}, query.query ? make("q", { text: query.query }) : translated("nothing: there is no word to search with"), why);
  if (!known(query.search)) return [label, line];
  const titles = query.passages.map(([id, title]) => title || id).join(", ");
  return [label, line, make("div", { class: "note", text: translated(titles ? `found ${titles}` : "found nothing") })];
}

function fact(entry, label = "") {
  const source = [entry.title, entry.passage ? `[${entry.passage}]` : ""].filter(Boolean).join(" ");
  const about = [known(entry.confidence) ? translated(`confidence ${two(entry.confidence)}`) : "", source ? translated(`read in ${source}`) : "", label].filter(Boolean).join(" · ");
  const box = make("div", { class: "fact" }, text(entry.fact.join(" — ")), make("div", { class: "note", text: about }));
  if (entry.sentence && entry.passage) box.append(make("div", { class: "note" }, make("q", { text: entry.sentence })));
  return box;
}

function ending(writing) {
  const parts = [];
  const say = (words) => parts.push(make("p", { class: "note", text: translated(words) }));
  if (writing.stopped) say(`The end: ${ENDS[writing.stopped] ?? writing.stopped}${writing.asked_for_answer ? "; then it was asked for the answer" : ""}.`);
  for (const [way, answer, left] of writing.answers ?? []) say(`Answer from ${way}: ${answer || "none"} (U ${two(left)}${way === writing.taken ? ", taken" : ""})`);
  if (writing.missing?.length) say(`The model does not tell ${writing.missing.join(", ")} itself.`);
  if (writing.facts?.length) parts.push(make("details", {}, make("summary", { text: translated(`Memory at the end: ${count(writing.facts.length, "fact")}`) }), memory(writing)));
  return parts;
}

function memory(writing) {
  const spared = (entry) => writing.parts.filter((part) => part.skipped && JSON.stringify(part.skipped.fact) === JSON.stringify(entry.fact)).map((part) => part.turn);
  const items = writing.facts.map((entry) => {
    const turns = spared(entry);
    return make("li", {}, fact(entry, translated(`read at ${entry.turn}${turns.length ? `, spared the search at ${turns.join(", ")}` : ""}`)));
  });
  const sides = (group) => group.map((side) => `${side.slice(0, -1).join(" — ")} [${side.at(-1)}]`).join(" ↔ ");
  const conflicts = (writing.conflicts ?? []).map((group) => make("li", { class: "warm", text: translated(`Sources differ: ${sides(group)}`) }));
  return make("ul", {}, items, conflicts);
}
