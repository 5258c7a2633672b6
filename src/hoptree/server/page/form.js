// Who answers, and how: a form made of what the server says there is.

import { choice, field, make } from "./dom.js";
import { METHOD_ROWS } from "./method_texts.js";
import { digits, learn, t, translated } from "./texts.js";

learn(METHOD_ROWS);
const NO_GRAPH = t("This server has no graph for it: under “Options and limits”, set evidence to text.");
const FIXED = t("Fixed by who runs this server.");
const BUDGET = [["calls", t("Calls"), 1], ["tokens", t("Tokens"), 1], ["seconds", t("Seconds"), "any"], ["cost", t("Cost"), "any"]];

/** The method, the model and the method's options: one who answers. `place` is "" for the first, "2" for the second. */
export class Contender {
  constructor(offer, place = "") {
    this.offer = offer;
    this.place = place;
    this.method = choice(offer.methods.map((one) => [one.name, one.name]), offer.default?.method ?? offer.methods[0]?.name);
    for (const [place, one] of offer.methods.entries()) if (!works(one)) bar(this.method.options[place], translated(one.why));
    this.model = choice(offer.models.map((name) => [name, name]), offer.default?.model ?? offer.models[0]);
    this.about = make("p", { class: "note about" });
    this.options = make("div", { class: "options" });
    this.fields = make("div", { class: "who" }, field(t("Method"), this.method), field(t("Model"), this.model));
    this.method.addEventListener("change", () => this.#drawOptions());
    this.#drawOptions();
  }

  get chosen() {
    return this.offer.methods.find((one) => one.name === this.method.value);
  }

  /** The options that a form can offer: a free text names a file or a model, which only who runs the server may set. */
  get #offered() {
    return (this.chosen?.options ?? []).filter((one) => isSwitch(one) || isNumber(one) || choices(one).length);
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

  /** What was set other than it is by itself. */
  get set() {
    const values = {};
    for (const option of this.#offered.filter((one) => !one.fixed)) {
      const told = read(option, this.controls.get(option.name));
      if (told !== undefined) values[option.name] = told;
    }
    return values;
  }

  write(query) {
    query.set(`method${this.place}`, this.method.value);
    if (this.model.value) query.set(`model${this.place}`, this.model.value);
    for (const [name, value] of Object.entries(this.set)) query.set(`o${this.place}.${name}`, value);
  }

  /** Fills the form as an address says; gives what it names that is not here, as [kind, name, what stands instead]. */
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

/** Methods without a graph here that can do with documents are left to choose: the option stands below. */
const works = (method) => method.available !== false || method.options?.some((one) => one.name === "evidence" && !one.fixed && choices(one).includes("text"));

/** Takes a choice away, and says why. */
function bar(option, why) {
  option.disabled = true;
  option.title = why ?? "";
  option.textContent = `${option.value} – ${why || t("not to be had here")}`;
}

function choose(select, value) {
  const found = [...select.options].some((option) => option.value === value);
  if (found) select.value = value;
  return found;
}

/** An option that the server sets for every question has its value as the default: another one would be refused. */
function control(option, value) {
  const made = enabled(option, option.fixed ? String(option.default) : value);
  made.disabled = Boolean(option.fixed);
  return made;
}

function enabled(option, value) {
  const plain = option.default === null || option.default === undefined ? "" : String(option.default);
  if (isSwitch(option)) {
    const on = value === undefined ? option.default === true : value === "true" || value === "on";
    return choice([["true", t("on")], ["false", t("off")]], String(on));
  }
  if (choices(option).length) return choice(choices(option).map((one) => [one, one === plain ? `${one} (${t("default")})` : one]), value ?? plain);
  return make("input", { type: "number", step: option.type.startsWith("int") ? "1" : "any", value: value ?? "", placeholder: plain || t("not set") });
}

function read(option, element) {
  const value = element.value.trim();
  const plain = option.default === null || option.default === undefined ? "" : String(option.default);
  if (value === "" || value === plain) return undefined;
  if (isSwitch(option)) return value === "true";
  return isNumber(option) ? Number(value) : value;
}

/** Where to look, and how much it may cost: the same for both who answer. */
export class Shared {
  constructor(offer) {
    this.offer = offer;
    const names = (list) => (list ?? []).map((one) => (typeof one === "string" ? one : one.name));
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

  /** What the corpora can be searched by: it comes later than the form. */
  tell(corpora) {
    this.searched = new Map(corpora.map((one) => [one.name, one.retrievers]));
    this.#barRetrievers();
  }

  #barRetrievers() {
    const able = this.searched?.get(this.corpus.value);
    for (const option of [...this.retriever.options].filter((one) => one.value)) {
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

  /** As that of `Contender`. */
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
    const found = Object.fromEntries(this.#selects().filter(([, select]) => select.value).map(([name, select]) => [name, select.value]));
    const budget = Object.fromEntries([...this.limits].filter(([, input]) => input.value).map(([name, input]) => [name, Number(input.value)]));
    return { ...found, ...(Object.keys(budget).length ? { budget } : {}) };
  }
}

/** What holds where nothing is written. */
const limit = (most) => (typeof most === "number" ? digits(most) : t("not set"));
