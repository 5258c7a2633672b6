// The form for method, model, options and limits, made from what the server offers.

import { choice, field, make } from "./dom.js";
import { METHOD_ROWS } from "./method_texts.js";
import { digits, learn, t, translated } from "./texts.js";

learn(METHOD_ROWS);
const NO_GRAPH = t("This server has no graph for it: under “Options and limits”, set evidence to text.");
const FIXED = t("Fixed by the server's administrator.");
const BUDGET = [["calls", t("Calls"), 1], ["tokens", t("Tokens"), 1], ["seconds", t("Seconds"), "any"], ["cost", t("Cost"), "any"]];

/** A method with a model and options; `place` is "" for the first contender, "2" for the second. */
export class Contender {
  constructor(offer, place = "") {
    this.offer = offer;
    this.place = place;
    this.method = choice(offer.methods.map((method) => [method.name, method.name]), offer.default?.method ?? offer.methods[0]?.name);
    for (const [place, method] of offer.methods.entries()) if (!works(method)) bar(this.method.options[place], translated(method.why));
    this.model = choice(offer.models.map((name) => [name, name]), offer.default?.model ?? offer.models[0]);
    this.about = make("p", { class: "note about" });
    this.options = make("div", { class: "options" });
    this.fields = make("div", { class: "who" }, field(t("Method"), this.method), field(t("Model"), this.model));
    this.method.addEventListener("change", () => this.#drawOptions());
    this.#drawOptions();
  }

  get chosen() {
    return this.offer.methods.find((method) => method.name === this.method.value);
  }

  /** The options in the form; free texts may name files or models, and only the server's settings can set them. */
  get #offered() {
    return (this.chosen?.options ?? []).filter((option) => isSwitch(option) || isNumber(option) || choices(option).length);
  }

  #drawOptions(values = {}) {
    const method = this.chosen;
    this.about.replaceChildren(make("strong", { text: method?.name ?? "" }), ` ${[method?.title, method?.about].filter(Boolean).map(translated).join(". ")}`);
    if (method?.available === false) this.about.append(" ", make("span", { class: "warm", text: works(method) ? NO_GRAPH : translated(method.why ?? "") }));
    this.controls = new Map(this.#offered.map((option) => [option.name, control(option, values[option.name])]));
    const fields = this.#offered.map((option) => field(option.name, this.controls.get(option.name), [translated(option.about), option.fixed ? FIXED : ""].filter(Boolean).join(" ")));
    this.options.replaceChildren(make("p", { class: "label", text: t("Options of {method}", { method: method?.name ?? "" }) }),
      fields.length ? make("div", { class: "grid" }, fields) : make("p", { class: "note", text: t("It has none.") }));
  }

  /** The options that differ from their defaults. */
  get set() {
    const values = {};
    for (const option of this.#offered.filter((option) => !option.fixed)) {
      const value = read(option, this.controls.get(option.name));
      if (value !== undefined) values[option.name] = value;
    }
    return values;
  }

  write(query) {
    query.set(`method${this.place}`, this.method.value);
    if (this.model.value) query.set(`model${this.place}`, this.model.value);
    for (const [name, value] of Object.entries(this.set)) query.set(`o${this.place}.${name}`, value);
  }

  /** Fills the form from an address; returns unknown names, as [kind, name, what is chosen instead]. */
  read(query) {
    const gone = [];
    for (const [kind, select] of [["method", this.method], ["model", this.model]]) {
      const name = query.get(`${kind}${this.place}`);
      if (name && !choose(select, name)) gone.push([kind, name, select.value]);
    }
    const prefix = `o${this.place}.`;
    this.#drawOptions(Object.fromEntries([...query].filter(([name]) => name.startsWith(prefix)).map(([name, value]) => [name.slice(prefix.length), value])));
    return gone;
  }

  get request() {
    const options = this.set;
    return { method: this.method.value, ...(this.model.value ? { model: this.model.value } : {}), ...(Object.keys(options).length ? { options } : {}) };
  }

  get name() {
    return [this.method.value, this.model.value].filter(Boolean).join(" · ");
  }
}

const isSwitch = (option) => option.type === "on|off";
const isNumber = (option) => /^(int|float)\b/.test(option.type);
const choices = (option) => option.choices?.length ? option.choices.map(String) : [];

/** Whether a method can be chosen: one that lacks a graph may have an option to do without. */
const works = (method) => method.available !== false || method.options?.some((option) => option.name === "evidence" && !option.fixed && choices(option).includes("text"));

/** Disables a choice, with the reason. */
function bar(option, why) {
  option.disabled = true;
  option.title = why ?? "";
  option.textContent = `${option.value} – ${why || t("not available here")}`;
}

function choose(select, value) {
  const exists = [...select.options].some((option) => option.value === value);
  if (exists) select.value = value;
  return exists;
}

/** The control of an option, disabled if the server fixes its value. */
function control(option, value) {
  const element = enabled(option, option.fixed ? String(option.default) : value);
  element.disabled = Boolean(option.fixed);
  return element;
}

function enabled(option, value) {
  const plain = option.default === null || option.default === undefined ? "" : String(option.default);
  if (isSwitch(option)) {
    const on = value === undefined ? option.default === true : value === "true" || value === "on";
    return choice([["true", t("on")], ["false", t("off")]], String(on));
  }
  if (choices(option).length) return choice(choices(option).map((name) => [name, name === plain ? `${name} (${t("default")})` : name]), value ?? plain);
  return make("input", { type: "number", step: option.type.startsWith("int") ? "1" : "any", value: value ?? "", placeholder: plain || t("not set") });
}

function read(option, element) {
  const value = element.value.trim();
  const plain = option.default === null || option.default === undefined ? "" : String(option.default);
  if (value === "" || value === plain) return undefined;
  if (isSwitch(option)) return value === "true";
  return isNumber(option) ? Number(value) : value;
}

/** Sources and budget, which both contenders share. */
export class Shared {
  constructor(offer) {
    this.offer = offer;
    const names = (list) => (list ?? []).map((item) => (typeof item === "string" ? item : item.name));
    const select = (list, chosen, none) => choice([...(none ? [["", none]] : []), ...names(list).map((name) => [name, name])], chosen ?? "");
    this.corpus = select(offer.corpora, offer.default?.corpus ?? names(offer.corpora)[0], names(offer.corpora).length ? "" : t("none"));
    this.graph = select(offer.graphs, "", t("none"));
    this.retriever = select(offer.retrievers, "", offer.default?.retriever ? `${offer.default.retriever} (${t("default")})` : t("default"));
    this.rerank = select(offer.rerankers, "", t("none"));
    const fields = [field(t("Documents"), this.corpus)];
    if (names(offer.graphs).length) fields.push(field(t("Graph"), this.graph));
    if (names(offer.retrievers).length) fields.push(field(t("Retriever"), this.retriever));
    if (names(offer.rerankers).length) fields.push(field(t("Reranker"), this.rerank));
    this.fields = make("div", { class: "who" }, fields);
    const budget = BUDGET.filter(([name]) => name !== "cost" || offer.prices === undefined || Boolean(offer.prices));
    this.limits = new Map(budget.map(([name, , step]) => [name, make("input", { type: "number", min: "0", step, placeholder: limit(offer.limits?.[name]) })]));
    this.budget = make("div", { class: "options" }, make("p", { class: "label", text: t("At most") }),
      make("p", { class: "note", text: t("Left empty, the server’s own limits hold.") }),
      make("div", { class: "grid" }, budget.map(([name, label]) => field(label, this.limits.get(name)))));
    this.corpus.addEventListener("change", () => this.#barRetrievers());
  }

  /** Sets the retrievers of corpora, which arrive after the form is drawn. */
  tell(corpora) {
    this.searched = new Map(corpora.map((corpus) => [corpus.name, corpus.retrievers]));
    this.#barRetrievers();
  }

  #barRetrievers() {
    const able = this.searched?.get(this.corpus.value);
    for (const option of [...this.retriever.options].filter((option) => option.value)) {
      option.disabled = false;
      option.title = "";
      option.textContent = option.value;
      if (able?.length && !able.includes(option.value)) bar(option, t("{corpus} is not indexed for it", { corpus: this.corpus.value }));
    }
  }

  #selects() {
    return [["corpus", this.corpus], ["graph", this.graph], ["retriever", this.retriever], ["rerank", this.rerank]];
  }

  write(query) {
    for (const [name, select] of this.#selects()) if (select.value) query.set(name, select.value);
    for (const [name, input] of this.limits) if (input.value) query.set(`b.${name}`, input.value);
  }

  /** As in `Contender`. */
  read(query) {
    const gone = [];
    for (const [name, select] of this.#selects()) {
      const value = query.get(name);
      if (value !== null && !choose(select, value)) gone.push([name === "rerank" ? "reranker" : name, value, select.value]);
      else if (value === null && name !== "corpus") select.value = "";
    }
    for (const [name, input] of this.limits) input.value = query.get(`b.${name}`) ?? "";
    this.#barRetrievers();
    return gone;
  }

  get request() {
    const names = Object.fromEntries(this.#selects().filter(([, select]) => select.value).map(([name, select]) => [name, select.value]));
    const budget = Object.fromEntries([...this.limits].filter(([, input]) => input.value).map(([name, input]) => [name, Number(input.value)]));
    return { ...names, ...(Object.keys(budget).length ? { budget } : {}) };
  }
}

/** The placeholder of a limit. */
const limit = (most) => (typeof most === "number" ? digits(most) : t("not set"));
