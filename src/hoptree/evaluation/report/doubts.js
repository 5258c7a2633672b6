"use strict";
// A text that was written with doubts: its words shaded by them, and what was done about each sentence in doubt.
// All of it came from a model or a document: it is only ever set as text or as the text of a tooltip.
const drawWriting = (() => {
  const NAMES = ["sure", "a little unsure", "unsure", "very unsure", "most unsure"];
  const OUTCOMES = {
    added: "learnt", surer: "learnt, surer than before", known: "known already", unsure: "not taken, too unsure",
  };
  const ENDS = {
    answer: "it gives an answer", end: "the model had no more to say", "no growth": "nothing new was written",
    length: "it is as long as it may be", retrievals: "nothing may be searched for any more",
    steps: "it has as many steps as it may have", documents: "it has as many documents as it may have",
  };
  const two = (number) => (number === null || number === undefined ? "unknown" : number.toFixed(2));

  return (writing, { make, found }) => {
    function numbers([, , , ...told]) {
      if (told.length < 2) return told.map((one) => `probability ${two(one)}`).join("");
      return `entropy ${two(told[0])}, attention share ${two(told[1])}, score ${two(told[2])}`;
    }

    function tooltip(piece) {
      const [, level, mark] = piece;
      if (piece.length < 4) return mark === 1 ? "in doubt: most samples lack it" : "";
      const more = mark === 1 ? ", in doubt" : mark === 2 ? ", carries no content: does not count" : "";
      return `${numbers(piece)}: ${NAMES[level]}${more}`;
    }

    function shaded(pieces, struck) {
      const line = make("p", { kind: struck ? "said struck" : "said", dir: "auto" });
      for (const piece of pieces || ["(nothing)"]) {
        if (typeof piece === "string") { line.append(piece); continue; }
        const [text, level, mark] = piece;
        const title = tooltip(piece);
        line.append(make("span", { kind: `u${level}${mark === 1 ? " hit" : ""}`, ...(title ? { title } : {}) }, text));
      }
      return line;
    }

    function legend() {
      const line = make("p", { kind: "note shades" });
      if (writing.levels) {
        line.append(`How unsure the model was of each word (${writing.toldBy}, nats): `, make("span", { kind: "u0" }, "sure"));
        for (const [place, level] of writing.levels.entries()) line.append(" ", make("span", { kind: `u${place + 1}` }, `≥${level}`));
        line.append(". ");
      }
      if (hits().length) line.append(make("span", { kind: "hit" }, "Framed"), ": words that made it look things up. ");
      if (writing.explained) line.append(`${writing.explained}. `);
      if (writing.levels) line.append("Point at a word for its numbers.");
      return line.childNodes.length ? line : null;
    }

    const hits = () => (writing.parts || []).flatMap((part) => hitsOf(part));
    const hitsOf = (part) => (part.said || []).filter((piece) => typeof piece !== "string" && piece[2] === 1);

    // Rows of a label and what belongs to it.

    function rows(pairs) {
      const list = make("dl", { kind: "doubt" });
      for (const [name, ...values] of pairs) list.append(make("dt", {}, name), make("dd", {}, ...values));
      return list;
    }

    const text = (words) => make("span", { text: words });

    function inDoubt(part) {
      const words = hitsOf(part).slice(0, 8).map((piece) => (piece.length > 3 ? `${piece[0]} (${numbers(piece)})` : piece[0]));
      const more = hitsOf(part).length - words.length;
      const why = [part.compared, words.join("; ")].filter(Boolean).join(": ");
      return ["In doubt", text(more > 0 ? `${why} and ${more} more` : why)];
    }

    function names(part) {
      const list = make("ul", { kind: "names" });
      for (const [name, kind, confidence, droppedBy] of part.names || []) {
        const sure = confidence === null ? "" : ` ${two(confidence)}`;
        const item = make("li", { title: `${kind}, confidence${sure || " unknown"}` });
        if (droppedBy) item.append(make("del", { text: name }), `${sure} dropped by ${droppedBy}`);
        else item.append(make("strong", { text: name }), `${sure} kept`);
        list.append(item);
      }
      return ["Names", list];
    }

    function asked(query, label) {
      const why = query.repeated ? " (asked before)" : "";
      const line = make("div", {}, make("q", { text: query.query }), why);
      if (!query.query) line.replaceChildren("nothing: there is no word to search with");
      return [label, line, query.search === undefined ? null : found(query.search)];
    }

    function fact(one, label) {
      const source = [one.title, one.passage ? `[${one.passage}]` : ""].filter(Boolean).join(" ");
      const about = [
        one.confidence === undefined ? "" : `confidence ${two(one.confidence)}`, source ? `from ${source}` : "", label || "",
      ].filter(Boolean).join(" · ");
      const line = make("div", {}, text(one.fact.join(" | ")), make("div", { kind: "was", text: about }));
      if (one.sentence && one.passage) line.append(make("div", { kind: "was" }, make("q", { text: one.sentence })));
      return line;
    }

    function learnt(part) {
      return ["Read", ...part.facts.map((one) => fact(one, OUTCOMES[one.outcome] || "not taken, no passage states it"))];
    }

    function shown(part) {
      const lines = part.shown.map((line) => make("li", { text: line.replace(/^- /, "") }));
      return ["Memory", make("details", {}, make("summary", {}, "shown when it was written again"), make("ul", { kind: "cited" }, ...lines))];
    }

    function doubted(part) {
      const pairs = [inDoubt(part)];
      if (part.samples) pairs.push(["Samples", make("ul", { kind: "cited" }, ...part.samples.map((sample) => make("li", { text: sample })))]);
      if (part.skipped) {
        const { sentence, ...held } = part.skipped;
        pairs.push(["Memory", "It has that already, so nothing was searched for.", fact(held)]);
      }
      if (part.names) pairs.push(names(part));
      for (const query of part.queries || []) pairs.push(asked(query, "Asked"));
      if (part.leftOut) pairs.push(["Left out", text(`its least probable words: ${part.leftOut.join(", ")}`)]);
      if (part.tried) pairs.push(["Tried with", text(part.tried.map(([name, left]) => `${name}: U ${two(left)}`).join(", "))]);
      if (part.facts) pairs.push(learnt(part));
      if (part.shown && part.again) pairs.push(shown(part));
      if (part.again) {
        pairs.push(["Written again", shaded(part.again, part.lost), make("div", { kind: "was", text: part.againCompared || "" })]);
      }
      return rows(pairs);
    }

    function sentence(part) {
      const item = make("li", { kind: part.doubted ? "doubted" : "" }, shaded(part.said, part.lost && !part.replaced));
      if (part.doubted) item.append(doubted(part));
      else if (part.compared) item.append(make("div", { kind: "was", text: part.compared }));
      if (part.outcome) item.append(make("div", { kind: "was outcome", text: part.outcome }));
      return item;
    }

    function memory() {
      const spared = new Map();
      for (const [place, part] of (writing.parts || []).entries()) {
        if (!part.skipped) continue;
        const key = JSON.stringify(part.skipped.fact);
        spared.set(key, [...(spared.get(key) || []), place + 1]);
      }
      const items = writing.facts.map((one) => {
        const turns = spared.get(JSON.stringify(one.fact));
        const used = turns ? `, spared the search at ${turns.join(", ")}` : "";
        return make("li", {}, fact(one, `read at ${one.turn}${used}`));
      });
      const conflicts = (writing.conflicts || []).map((group) => make("li", { kind: "outcome" },
        text(`Sources differ: ${group.map((one) => `${one.slice(0, -1).join(" | ")} [${one[one.length - 1]}]`).join(" ↔ ")}`)));
      return [make("p", { kind: "sort", text: "Memory at the end" }), make("ul", { kind: "cited" }, ...items, ...conflicts)];
    }

    const box = make("div", { kind: "writing" }, legend());
    const before = [];
    if (writing.names) before.push(["Names in the question", text(writing.names.join(", "))]);
    for (const query of writing.first || []) before.push(asked(query, "Searched first"));
    if (before.length) box.append(rows(before));
    box.append(make("ol", { kind: "parts" }, ...(writing.parts || []).map(sentence)));
    if (writing.more) box.append(make("p", { kind: "note", text: `and ${writing.more} sentences more` }));
    if (writing.stopped) {
      const then = writing.asked ? "; then it was asked for the answer" : "";
      box.append(make("p", { kind: "note", text: `The end: ${ENDS[writing.stopped] || writing.stopped}${then}.` }));
    }
    for (const [way, answer, left] of writing.answers || []) {
      const taken = way === writing.taken ? ", taken" : "";
      box.append(make("p", { kind: "note", text: `Answer from ${way}: ${answer || "none"} (U ${two(left)}${taken})` }));
    }
    if (writing.missing) box.append(make("p", { kind: "note", text: `The model does not tell ${writing.missing.join(", ")} itself.` }));
    if (writing.facts) box.append(...memory());
    return box;
  };
})();
