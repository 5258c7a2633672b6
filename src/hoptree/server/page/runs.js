// The page of evaluation runs: list, scores by type of question, questions with their trees, and comparison of two runs.

import { AnswerView } from "./answer.js";
import { call, connection } from "./api.js";
import { button, choice, count, field, link, make, pager, problemBox, waiting } from "./dom.js";
import { note, write } from "./route.js";
import { decimal, digits, language, t, translated } from "./texts.js";

const PAGE = 50;
const VERDICTS = [["", t("all")], ["right", t("right")], ["wrong", t("wrong")], ["failed", t("failed")]];
const percent = (value) => (typeof value === "number" ? decimal(100 * value) : "–");
const few = (value) => (typeof value === "number" ? digits(Number(value.toPrecision(3))) : "–");
const day = (text) => (text ? new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(new Date(text)) : "");
const nameOf = (run) => run.name || run.folder || run.id;

export class RunsPage {
  #turn = 0;
  #views = [];

  constructor() {
    this.body = make("div");
    this.element = make("section", { class: "page", "aria-label": t("Runs") }, this.body);
    connection.addEventListener("back", () => { if (this.element.isConnected && this.body.querySelector(":scope > .problem")) this.show(this.query, this.path); });
  }

  async show(query, path) {
    if (this.path?.join("/") !== path.join("/") || this.query.has("id") !== query.has("id")) this.body.replaceChildren(waiting());
    [this.query, this.path] = [query, path];
    const turn = ++this.#turn;
    document.title = `${t("Runs")} – Hoptree`;
    const [first, , third] = path;
    try {
      const parts = first === "compare" ? (query.has("id") ? await this.#both(query) : await this.#compared(query))
        : third ? await this.#question(first, third, query) : first ? await this.#run(first, query) : await this.#all();
      if (turn !== this.#turn) return;
      for (const view of this.#views.splice(0)) view.close();
      this.#views = newViews.splice(0);
      this.body.replaceChildren(...parts.filter(Boolean));
    } catch (problem) {
      if (!problem.message) throw problem;
      if (problem.status === 404) problem.remedy = t("“Runs” lists all runs; this one may have been moved or removed.");
      if (turn === this.#turn) this.body.replaceChildren(crumbs(), make("h1", { text: t("Runs") }), problemBox(problem, button(t("Try again"), () => this.show(query, path))));
    }
  }

  // All runs

  async #all() {
    const { runs } = await call("v1/runs");
    if (!runs.length) {
      return [make("h1", { text: t("Runs") }), make("p", { class: "note", text: t("There are none. Make one with hoptree run, and start the server with --runs and the folder it is in.") })];
    }
    const chosen = new Set();
    const go = button(t("Compare the two"), () => {
      const [a, b] = chosen;
      location.hash = write(["runs", "compare"], { a, b });
    }, { class: "main", disabled: true });
    const pick = (run) => {
      const box = make("input", { type: "checkbox", "aria-label": t("Compare {name}", { name: nameOf(run) }) });
      box.addEventListener("change", () => {
        if (box.checked) chosen.add(run.id);
        else chosen.delete(run.id);
        go.disabled = chosen.size !== 2;
      });
      return box;
    };
    const rows = runs.map((run) => (run.error
      ? ["", make("span", {}, nameOf(run), make("span", { class: "note warm", text: ` ${run.error}` })), "", "", "", "", "", "", "", "", ""]
      : [pick(run), link(write(["runs", run.id]), nameOf(run)), run.method ?? "", run.model ?? "", run.dataset ?? "", make("span", { class: "date", text: day(run.at) }), run.questions ?? "", percent(run.f1), percent(run.em), few(run.calls), run.cost ? few(run.cost) : "–"]));
    return [make("h1", { text: t("Runs") }),
      make("p", { class: "note", text: t("Choose two to compare them, question by question.") }),
      table(t("Evaluation runs"), [make("span", { class: "unseen", text: t("Choose") }), t("Run"), t("Method"), t("Model"), t("Questions of"), t("Date"), t("Questions"), "F1", "EM", t("Calls a question"), t("Cost")], rows, 5), make("p", { class: "actions" }, go)];
  }

  // One run

  async #run(id, query) {
    const filter = { type: query.get("type") ?? "", verdict: query.get("verdict") ?? "", offset: Number(query.get("offset")) || 0 };
    const asked = new URLSearchParams({ limit: PAGE, offset: filter.offset });
    for (const name of ["type", "verdict"]) if (filter[name]) asked.set(name, filter[name]);
    const at = `v1/runs/${encodeURIComponent(id)}`;
    const [run, page] = await Promise.all([call(at), call(`${at}/questions?${asked}`)]);
    document.title = `${nameOf(run)} – ${t("Runs")} – Hoptree`;
    const types = Object.entries(run.by_type ?? {}).map(([name, group]) => ({ type: name, questions: group.questions, ...means(group.metrics) }));
    Object.assign(run, means(run.metrics));
    const go = (more) => { location.hash = write(["runs", id], { type: filter.type, verdict: filter.verdict, ...more }); };
    const type = choice([["", t("all")], ...types.map((group) => [group.type, group.type || t("none given")])], filter.type);
    const verdict = choice(VERDICTS, filter.verdict);
    type.addEventListener("change", () => go({ type: type.value, offset: "" }));
    verdict.addEventListener("change", () => go({ verdict: verdict.value, offset: "" }));
    return [crumbs(), make("h1", { text: nameOf(run) }), make("p", { class: "note", text: about(run) }),
      types.length ? table(t("By type of question"), [t("Type"), t("Questions"), "F1", "EM"], types.map((group) => [group.type || t("none given"), group.questions, percent(group.f1), percent(group.em)]), 0) : null,
      make("div", { class: "filters" }, field(t("Type"), type), field(t("Answer"), verdict),
        make("p", { class: "note", role: "status", text: count(page.total ?? page.questions.length, "question") })),
      make("ul", { class: "entries" }, page.questions.map((row) => questionEntry(row, write(["runs", id, "questions", row.id])))),
      pager(filter.offset, page.total, PAGE, (offset) => write(["runs", id], { type: filter.type, verdict: filter.verdict, offset }))];
  }

  // One question of a run

  async #question(id, question, query) {
    const at = `v1/runs/${encodeURIComponent(id)}`;
    const [run, row] = await Promise.all([call(at), call(`${at}/questions/${encodeURIComponent(question)}`)]);
    document.title = `${row.question} – Hoptree`;
    const view = shown(row, { wantedNode: query.has("node") ? Number(query.get("node")) : null, onNode: (node) => note("node", node) });
    return [crumbs([write(["runs", id]), nameOf(run)]), make("h1", { class: "as-question", text: row.question, dir: "auto" }), scores(row), ...view];
  }

  // Two runs

  async #compared(query) {
    const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
    const offset = Number(query.get("offset")) || 0;
    const comparison = await call(`v1/compare?${new URLSearchParams({ a, b })}`);
    const { em = {}, f1 = {} } = comparison.metrics ?? {};
    const rows = comparison.differ.slice(offset, offset + PAGE).map((row) => make("li", { class: "entry" },
      link(write(["runs", "compare"], { a, b, id: row.id }), row.question, { class: "title", dir: "auto" }),
      make("dl", { class: "sides" },
        make("dt", { text: "A" }), make("dd", { dir: "auto" }, sign(row.a), row.a?.answer || t("no answer")),
        make("dt", { text: "B" }), make("dd", { dir: "auto" }, sign(row.b), row.b?.answer || t("no answer")),
        make("dt", { text: t("Accepted") }), make("dd", { text: gold(row), dir: "auto" }))));
    const side = (letter, run, mean) => [letter, link(write(["runs", run.id]), nameOf(run)), run.method ?? "", run.model ?? "", f1.questions ?? "", percent(f1[mean]), percent(em[mean])];
    return [crumbs(), make("h1", { text: t("Two runs") }),
      table(t("The questions that both have"), ["", t("Run"), t("Method"), t("Model"), t("Questions"), "F1", "EM"], [side("A", comparison.a, "mean_a"), side("B", comparison.b, "mean_b")], 3),
      make("p", { class: "verdict-line", text: inWords(f1) }),
      f1.power_note ? make("p", { class: "note", text: translated(f1.power_note) }) : null,
      make("h2", { text: t("Where they differ: {questions}", { questions: count(comparison.differ.length, "question") }) }),
      rows.length ? make("ul", { class: "entries" }, rows) : make("p", { class: "note", text: t("Nowhere.") }),
      pager(offset, comparison.differ.length, PAGE, (at) => write(["runs", "compare"], { a, b, offset: at }))];
  }

  /** One question in both runs, their trees side by side. */
  async #both(query) {
    const [a, b, id] = ["a", "b", "id"].map((name) => query.get(name) ?? "");
    const at = (run) => `v1/runs/${encodeURIComponent(run)}`;
    const [first, second, ...runs] = await Promise.all([...[a, b].map((run) => call(`${at(run)}/questions/${encodeURIComponent(id)}`)), ...[a, b].map((run) => call(at(run)))]);
    document.title = `${first.question} – Hoptree`;
    const pane = (row, run) => make("div", { class: "pane-box" }, make("h2", { class: "pane-head", text: nameOf(run) }), scores(row), shown(row, { narrow: true }));
    return [crumbs([write(["runs", "compare"], { a, b }), t("Two runs")]), make("h1", { class: "as-question", text: first.question, dir: "auto" }),
      make("div", { class: "panes two" }, pane(first, runs[0]), pane(second, runs[1]))];
  }
}

/** The answers drawn for the view that is about to be shown. */
const newViews = [];

function shown(row, how) {
  if (!row.result) return [make("p", { class: "note", text: t("The run has no trace of this question, so its tree cannot be drawn.") })];
  const view = new AnswerView({ question: row.question, ...how });
  view.show(row.result);
  newViews.push(view);
  return [view.element];
}

function crumbs(...more) {
  return make("p", { class: "crumbs" }, link("#/runs", t("Runs")), more.flatMap(([hash, text]) => [" › ", link(hash, text)]));
}

const means = (metrics) => ({ f1: metrics?.f1?.mean, em: metrics?.em?.mean });

const GOLDS = 3;

/** The first few accepted answers, or "no answer" for a question that has none. */
function gold(row) {
  const all = (Array.isArray(row.gold) ? row.gold : [row.gold]).filter(Boolean);
  return all.slice(0, GOLDS).join(` ${t("or")} `) + (all.length > GOLDS ? " …" : "") || t("no answer");
}

function sign(row) {
  const words = row.verdict ?? (row.error ? "failed" : row.em === 1 ? "right" : "wrong");
  return make("span", { class: `sign ${words}`, text: t(words) });
}

function questionEntry(row, hash) {
  return make("li", { class: "entry" }, link(hash, row.question, { class: "title", dir: "auto" }),
    make("p", { class: "outcome-line", dir: "auto" }, sign(row), make("strong", { text: row.answer || (row.error ? row.error : t("no answer")) }),
      make("span", { class: "note", text: `${t("accepted: {answers}", { answers: gold(row) })} · F1 ${percent(row.f1)}${row.type ? ` · ${row.type}` : ""}` })));
}

function scores(row) {
  return make("p", { class: "outcome-line", dir: "auto" }, sign(row), make("span", { class: "note", text: `${t("accepted: {answers}", { answers: gold(row) })} · F1 ${percent(row.f1)}${row.type ? ` · ${row.type}` : ""}` }));
}

function about(run) {
  return [run.method, run.model, run.dataset, run.questions ? count(run.questions, "question") : "", `F1 ${percent(run.f1)}`, `EM ${percent(run.em)}`].filter(Boolean).join(" · ");
}

/** A difference in words: its size, interval and p-value. */
export function inWords(difference) {
  if (typeof difference.difference !== "number") return "";
  const points = 100 * difference.difference;
  const size = points === 0 ? t("A and B have the same F1") : t("{run} is {n} points of F1 better", { run: points > 0 ? "B" : "A", n: decimal(Math.abs(points)) });
  const { low, high, level } = difference.interval ?? {};
  const interval = typeof low === "number" ? ` (${t("B − A between {low} and {high}, {level} %", { low: signed(100 * low), high: signed(100 * high), level: Math.round(100 * (level ?? 0.95)) })})` : "";
  const p = difference.p_value;
  const luck = typeof p === "number" && points !== 0 ? `; p ${p < 0.001 ? `< ${decimal(0.001, 3)}` : `= ${decimal(p, 3)}`}, ${p < 0.05 ? t("unlikely to be chance") : t("may be chance")}` : "";
  return `${size}${interval}${luck}.`;
}

const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${decimal(Math.abs(value))}`;

function table(caption, heads, rows, texts) {
  const kind = (place) => (place > texts ? "number" : "");
  return make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, make("caption", { text: caption }),
    make("thead", {}, make("tr", {}, heads.map((head, place) => make("th", { scope: "col", class: kind(place) }, head)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell, place) => make("td", { class: kind(place) }, typeof cell === "number" ? digits(cell) : cell)))))));
}
