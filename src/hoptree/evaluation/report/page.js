
"use strict";
(() => {
  // Every text here came from a model, a document or a data set: it is only ever set as textContent.
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 100;
  const FOLDED = 4;
  const SOURCES = {
    internal: "from memory", external: "from documents", fallback: "guess", synthesis: "put together", none: "no answer",
  };
  // A verdict has a sign, a word and a colour: none of them stands alone.
  const VERDICTS = { supported: ["✓", "Supported"], refuted: ["✗", "Refuted"], unknown: ["?", "Unknown"] };
  const SCORES = ["EM", "F1", "Contains", "Judge", "Retrieval recall"];
  const at = (id) => document.getElementById(id);

  function make(tag, options = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "text") { element.textContent = value; element.dir = "auto"; }
      else if (name === "kind") element.className = value;
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  const several = (count, what, end = "s") => `${count} ${what}${count === 1 ? "" : end}`;
  const runsOf = (set) => data.runs.filter((run) => run.set === set);
  const outcome = (question, run) => question.outcomes[run.place];
  const right = (one) => one.scores[0] === 1;
  const link = (question) => `#q=${question.set}/${encodeURIComponent(question.id)}`;
  const byLink = new Map(data.questions.map((question) => [link(question), question]));
  const folded = new Map();

  function words(question) {
    if (!folded.has(question)) {
      const said = Object.values(question.outcomes).map((one) => one.answer);
      folded.set(question, [question.id, question.question, ...question.answers, ...said].join("\n").toLowerCase());
    }
    return folded.get(question);
  }

  // The list and what is asked of it

  let found = [];
  let shown = 0;

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text]) => make("option", { value, text })));
    if (options.some(([value]) => value === chosen)) select.value = chosen;
  }

  function chooseSet() {
    const runs = runsOf(Number(at("set").value)).map((run) => [String(run.place), `${run.name} [${run.id}]`]);
    fill(at("run"), [["", "any run"], ...runs], at("run").value);
    fill(at("other"), [["", "any other run"], ...runs], at("other").value);
    select();
  }

  function wanted(question, show, run, other) {
    const some = run === "" ? Object.values(question.outcomes) : [question.outcomes[run]].filter(Boolean);
    if (show === "wrong") return some.some((one) => !right(one));
    if (show === "failed") return some.some((one) => one.error);
    if (show === "abstained") return some.some((one) => one.abstained && !one.error);
    if (show === "flipped") {
      const rest = other === "" ? Object.values(question.outcomes) : [question.outcomes[other]].filter(Boolean);
      return some.some((one) => rest.some((that) => right(one) !== right(that)));
    }
    return run === "" || some.length > 0;
  }

  function select() {
    const set = Number(at("set").value);
    const [show, run, other] = ["show", "run", "other"].map((name) => at(name).value);
    const sought = at("words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const here = data.questions.filter((question) => question.set === set);
    found = here.filter((question) =>
      wanted(question, show, run, other) && sought.every((word) => words(question).includes(word)));
    at("other-label").hidden = show !== "flipped";
    at("run-word").textContent = show === "flipped" ? "between" : "in";
    at("count").textContent = `${found.length.toLocaleString("en")} of ${here.length.toLocaleString("en")} questions`;
    at("list").replaceChildren();
    shown = 0;
    more();
  }

  function more() {
    const current = location.hash;
    for (const question of found.slice(shown, shown + PAGE)) {
      const item = make("a", { href: link(question) }, make("span", { text: question.question }), states(question));
      if (link(question) === current) item.setAttribute("aria-current", "true");
      at("list").append(make("li", {}, item));
    }
    shown = Math.min(found.length, shown + PAGE);
    at("more").hidden = shown >= found.length;
  }

  function states(question) {
    const line = make("span", { kind: "state" });
    for (const run of runsOf(question.set)) {
      const one = outcome(question, run);
      if (!one) continue;
      const good = right(one);
      const said = one.error ? "failed" : good ? "right" : one.abstained ? "no answer" : "wrong";
      line.append(make("span", { kind: good ? "right" : "wrong" , text: `${good ? "✓" : "✗"} ${run.name}: ${said}` }), "  ");
    }
    return line;
  }

  // One question

  function facts(pairs) {
    const list = make("dl", { kind: "facts" });
    for (const [name, value] of pairs) {
      if (value === "" || value === null || value === undefined) continue;
      list.append(make("dt", { text: name }), make("dd", { text: value }));
    }
    return list;
  }

  function open() {
    const question = byLink.get(location.hash);
    for (const item of at("list").querySelectorAll("[aria-current]")) item.removeAttribute("aria-current");
    if (!question) return;
    if (String(question.set) !== at("set").value) { at("set").value = String(question.set); chooseSet(); }
    const item = [...at("list").querySelectorAll("a")].find((one) => one.getAttribute("href") === link(question));
    if (item) item.setAttribute("aria-current", "true");
    const golds = question.answers.join(" · ") + (question.more ? ` · and ${question.more} more` : "");
    const heading = make("h3", { text: question.question, tabindex: "-1" });
    at("one").replaceChildren(heading, facts([
      ["Right answer", golds], ["Type", question.type], ["Hops", question.hops || ""], ["Id", question.id],
      ["Gold passages", question.gold.join(", ")],
    ]), outcomes(question));
    for (const run of runsOf(question.set)) {
      const one = outcome(question, run);
      if (one) at("one").append(details(question, run, one));
    }
    heading.focus({ preventScroll: true });
    at("one").scrollIntoView({ block: "nearest" });
    if (at("one").getBoundingClientRect().top > window.innerHeight - 200) at("one").scrollIntoView({ block: "start" });
  }

  function outcomes(question) {
    const known = SCORES.map((name, place) => [name, place]).filter(([, place]) =>
      Object.values(question.outcomes).some((one) => one.scores[place] !== null));
    const head = make("tr", {}, make("th", { text: "Run", scope: "col" }), make("th", { kind: "text", text: "Answer", scope: "col" }),
      ...known.map(([text]) => make("th", { text, scope: "col" })));
    const body = make("tbody");
    for (const run of runsOf(question.set)) {
      const one = outcome(question, run);
      const name = make("th", { text: `${run.name} `, scope: "row" });
      name.append(make("small", { kind: "id", text: run.id }));
      const row = make("tr", {}, name);
      if (!one) row.append(make("td", { kind: "absent", text: "not asked yet", colspan: String(known.length + 1) }));
      else {
        const said = one.answer || (one.error ? `failed: ${one.error}` : "no answer");
        row.append(make("td", { kind: `text ${right(one) ? "right" : "wrong"}`, text: said }));
        for (const [, place] of known) {
          const score = one.scores[place];
          row.append(make("td", { text: score === null ? "n/a" : (100 * score).toFixed(1) }));
        }
      }
      body.append(row);
    }
    const table = make("table", {}, make("caption", { text: "Answers" }), make("thead", {}, head), body);
    return make("div", { kind: "wide", tabindex: "0", role: "region", "aria-label": "Answers" }, table);
  }

  function details(question, run, one) {
    const box = make("section", { kind: "run" }, make("h4", { text: `${run.name} [${run.id}]` }));
    const [calls, prompt, completion, searches, seconds, cost] = one.usage;
    const spent = [several(calls, "call"), `${prompt} + ${completion} tokens`, several(searches, "search", "es"), `${seconds} s`].join(" · ");
    box.append(make("p", { kind: "note", text: cost ? `${spent} · cost ${cost}` : spent }));
    if (one.error) box.append(make("p", { kind: "wrong", text: `Failed with ${one.error}: ${one.message || ""}` }));
    if (one.stopped) box.append(make("p", { kind: "note", text: `Stopped by ${one.stopped}.` }));
    const trace = one.trace;
    if (!trace) { box.append(make("p", { kind: "note", text: "Its trace is not on this page." })); return box; }
    for (const warning of trace.warnings || []) box.append(make("p", { kind: "note", text: `Note: ${warning}` }));
    if (trace.why) box.append(make("p", { kind: "note", text: `Why this answer: ${trace.why}.` }));
    const gold = new Set(question.gold);
    if (trace.tree) box.append(tree(trace.tree, trace, gold));
    const drawn = new Set();
    if (trace.writing) {
      const found = (place) => { drawn.add(place); return came(trace.searches[place], [one.answer], gold); };
      box.append(drawWriting(trace.writing, { make, found }));
    }
    if (trace.chains) {
      box.append(make("p", { kind: "sort", text: "Chains" }));
      box.append(make("ol", {}, ...trace.chains.map((chain) => make("li", { text: chain }))));
    }
    const loose = (trace.searches || []).filter((search, place) => !drawn.has(place) && (!trace.tree || search.node === null));
    for (const search of loose) box.append(searched(search, [one.answer], gold));
    return box;
  }

  // Which module of the method answered a node, and why; other methods say only where an answer comes from.
  function module(node) {
    if (!node.module) return SOURCES[node.source] || node.source;
    return node.module !== "none" && node.source === "none" ? `${node.module}: no answer` : node.module === "none" ? SOURCES.none : node.module;
  }

  function reasons(node, level) {
    if (!node.module) return node.why || "";
    const told = node.knows === undefined || (node.knows && node.source === "internal");
    const knows = told ? "" : `says that it knows: ${node.knows ? "yes" : "no"}`;
    return [`level ${level}`, knows, node.why].filter(Boolean).join(" · ");
  }

  // What evidence said of a hypothesis, what it replaced, what was tried, and what is cited.

  function signed(verdict) {
    const [sign, word] = VERDICTS[verdict] || ["·", verdict];
    return `${sign} ${word}`;
  }

  function judged(node) {
    const kind = Object.hasOwn(VERDICTS, node.verdict) ? node.verdict : "none";
    const became = node.source === "internal" ? "; what took its place is not verified" : ", corrected";
    const ends = node.verdict === "refuted" && node.struck ? became : "";
    return make("span", { kind: `badge verdict ${kind}`, text: signed(node.verdict) + ends });
  }

  function struck(node) {
    return (node.struck || []).flatMap((text) => [
      make("span", { kind: "unseen", text: "struck out: " }), make("del", { text: text || "no hypothesis" }),
      make("span", { kind: "unseen", text: ", replaced by: " }), make("span", { "aria-hidden": "true", text: " ⇒ " }),
    ]);
  }

  function checks(node) {
    const lines = [];
    if (node.draft && node.draft !== node.answer) lines.push(`draft before anything was looked up: ${node.draft}`);
    if (node.sizes) lines.push(`rebuilt with all below it: ${several(node.sizes[0], "node")} before, ${node.sizes[1]} after`);
    for (const text of (node.tries || []).slice(1)) lines.push(`clue tried: “${text.query}”`);
    for (const text of node.unfounded || []) lines.push(`cited, but not among what was found: ${text}`);
    return lines.map((text) => make("div", { kind: "was", text }));
  }

  function cited(node) {
    if (!node.facts) return null;
    return make("ul", { kind: "cited" }, ...node.facts.map((fact) => make("li", { text: `fact: ${fact.join(" — ")}` })));
  }

  function tries(node) {
    if (!node.tries) return null;
    const summary = `${several(node.tries.length, "validation")}: ${node.tries.map((one) => signed(one.verdict)).join(", ")}`;
    const items = node.tries.map((one) => {
      const what = `held against ${several(one.passages, "passage")} and ${several(one.found, "fact")}`;
      const item = make("li", {}, make("span", { text: `${signed(one.verdict)}: searched for “${one.query}”, ${what}` }));
      if (one.reason) item.append(make("div", { kind: "was", text: `reason: ${one.reason}` }));
      if (one.facts.length) item.append(make("ul", { kind: "cited" }, ...one.facts.map((text) => make("li", { text }))));
      return item;
    });
    return make("details", {}, make("summary", { text: summary }), make("ol", {}, ...items));
  }

  // Where many names are looked up for one node, or its validations tell of them, its searches fold into one line.
  function together(searches, node) {
    if (searches.length <= (node.tries ? 1 : FOLDED)) return searches;
    return [make("details", {}, make("summary", { text: several(searches.length, "search", "es") }), ...searches)];
  }

  function tree(nodes, trace, gold, level = 0) {
    const list = make("ul", { kind: "tree" });
    const all = new Map((trace.searches || []).flatMap((search) => search.found).map((place) => [data.passages[place][0], place]));
    for (const node of nodes) {
      const line = make("div", { kind: "node" }, make("span", { text: `${node.id}. ${node.asked}` }));
      const known = node.state === "answered";
      const ended = node.state === "stopped";
      const state = known || node.state === "unanswered" ? "" : ended ? "not answered" : `not answered (${node.state})`;
      const said = node.answer && ended ? `so far: ${node.answer}` : node.answer;
      line.append(" → ", ...struck(node), make("strong", { text: said || state || "?" }));
      const source = node.source && SOURCES[node.source] ? node.source : "none";
      if (node.verdict) line.append(judged(node));
      else if (node.source) line.append(make("span", { kind: `badge ${source}`, text: module(node) }));
      const why = reasons(node, level);
      if (why) line.append(make("div", { kind: "was", text: why }));
      if (node.asked !== node.question) line.append(make("div", { kind: "was", text: `planned as: ${node.question}` }));
      line.append(...checks(node));
      const item = make("li", {}, line, cited(node));
      const searches = (trace.searches || []).filter((search) => search.node === node.id);
      const places = new Map(searches.flatMap((search) => search.found).map((place) => [data.passages[place][0], place]));
      for (const name of node.evidence) {
        const place = places.get(name) ?? all.get(name);
        const text = place === undefined ? [name, "", "Its text is not in the trace."] : data.passages[place];
        item.append(passage(text, [node.answer], gold, "evidence", true));
      }
      item.append(...[tries(node)].filter(Boolean));
      item.append(...together(searches.map((search) => searched(search, [node.answer], gold, node.judged)), node));
      if (node.children.length) item.append(tree(node.children, trace, gold, level + 1));
      list.append(item);
    }
    return list;
  }

  function searched(search, answers, gold, judged = {}) {
    return came(search, answers, gold, judged, `searched “${search.query}”: ${several(search.found.length, "passage")}`);
  }

  function came(search, answers, gold, judged = {}, words = "") {
    const titles = search.found.map((place) => data.passages[place][1] || data.passages[place][0]).join(", ");
    const summary = make("summary", { text: words || (titles ? `found ${titles}` : "found nothing") });
    return make("details", {}, summary,
      ...search.found.map((place) => passage(data.passages[place], answers, gold, verdict(judged, data.passages[place][0]), false)));
  }

  function verdict(judged, id) {
    return Object.hasOwn(judged, id) ? (judged[id] ? "judged relevant" : "judged irrelevant") : "";
  }

  function passage([id, title, text], answers, gold, word, folded) {
    const name = [word, title, `[${id}]`, gold.has(id) ? "gold" : ""].filter(Boolean).join(" · ");
    const body = marked(text, answers);
    if (folded) return make("details", { kind: "evidence" }, make("summary", { text: name }), make("div", { kind: "passage" }, body));
    return make("div", { kind: "passage" }, make("span", { kind: "sort", text: name }), body);
  }

  function marked(text, answers) {
    const body = make("p", { text: "" });
    const answer = answers.find((one) => one && text.toLowerCase().includes(one.toLowerCase()));
    const place = answer ? text.toLowerCase().indexOf(answer.toLowerCase()) : -1;
    if (place < 0 || text.toLowerCase().length !== text.length) { body.textContent = text; return body; }
    const mark = make("mark");
    mark.textContent = text.slice(place, place + answer.length);
    body.append(text.slice(0, place), mark, text.slice(place + answer.length));
    return body;
  }

  // Beginning

  for (const note of data.notes) at("notes").append(make("p", { kind: "note", text: note }));
  fill(at("set"), data.sets.map((name, place) => [String(place), name]), "0");
  at("set-label").hidden = data.sets.length < 2;
  at("set").addEventListener("change", chooseSet);
  for (const name of ["show", "run", "other"]) at(name).addEventListener("change", select);
  at("words").addEventListener("input", select);
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("more").addEventListener("click", more);
  window.addEventListener("hashchange", open);
  at("controls").hidden = at("browser").hidden = false;
  chooseSet();
  open();
  document.documentElement.dataset.ready = String(data.questions.length);
})();
