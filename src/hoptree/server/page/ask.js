// The page for questions: the form, and one answer or two side by side.

import { AnswerView } from "./answer.js";
import { call, connection, remembering } from "./api.js";
import { announce, button, count, link, make, problemBox } from "./dom.js";
import { Contender, Shared } from "./form.js";
import { note, write } from "./route.js";
import { asking, choices, forgetHistory, history, keepAsking, keepChoices, keepCorpus, keepTurns, remember, turns } from "./storage.js";
import { digits, language, t } from "./texts.js";
import { folded } from "./words.js";

const KEPT = 12;
const STORED = "#/answer/";
/** The longest question in characters, if the server does not say. */
const LONGEST = 8000;
const COUNTED_FROM = 0.9;
/** Earlier questions that are sent with a follow-up. */
const TURNS = 6;
const PAST_SHOWN = 8;
/** What marks an earlier answer that is not well supported. */
const marked = (level) => (["a guess", "partly supported"].includes(level) ? make("span", { class: "note warm", text: ` · ${t(level)}` }) : "");
/** The number of characters as the server counts them. */
const lengthOf = (text) => [...text].length;
const NO_QUESTION = t("Write a question first.");
/** Example questions about the sample. */
export const EXAMPLES = [
  "In which city did the director of the film The Hourglass Sanatorium die?",
  "Which lighthouse is taller, the Lighthouse of Genoa or the Île Vierge Lighthouse?",
  "Which film has the director who was born later, Black Girl or Touki Bouki?",
];

/** A question about a topic in the language of its passages, as another language would find less. */
function asked({ title, mentions, document, kind, language: of }) {
  const values = { topic: title, other: mentions ?? "", document: document ?? "" };
  const language = of ?? undefined; // the reader's, where that of the passages is unclear
  if (kind === "question") return title;
  if (kind === "who") return t("Who is {topic}?", values, language);
  if (kind === "what") return t("What is {topic}?", values, language);
  if (mentions) return t("How is {topic} connected with {other}?", values, language);
  return document ? t("What does “{document}” say about “{topic}”?", values, language) : t("What is said about {topic}?", values, language);
}

export class AskPage {
  #answers = new Map();
  #turns = turns();
  #offer = null;
  #loading = null;
  #shown = "";
  #examplesOf = "";
  #early = false; // asked before the form was there
  #leaving = false;

  constructor() {
    this.longest = LONGEST;
    this.question = make("textarea", { rows: "1", placeholder: t("Ask a question that takes more than one step"), autocomplete: "off", spellcheck: "true", "aria-describedby": "question-length" });
    this.question.id = "question";
    this.length = make("p", { id: "question-length", class: "note length", role: "status", hidden: true });
    this.button = make("button", { type: "submit", class: "main" }, t("Ask"));
    this.compare = make("input", { type: "checkbox", id: "compare" });
    this.goesOn = make("input", { type: "checkbox", id: "goes-on", checked: true });
    this.talk = make("label", { class: "check", for: "goes-on", hidden: !this.#turns.length }, this.goesOn, t("A follow-up: read it with the questions before it"));
    this.first = make("div", { class: "contender" });
    this.second = make("div", { class: "contender second", hidden: true });
    this.shared = make("div", { class: "contender" });
    this.abouts = make("div", { class: "abouts" });
    this.settings = make("details", { class: "settings" }, make("summary", { text: t("Options and limits") }));
    this.chosen = make("span", { class: "chosen" });
    this.advanced = make("details", { class: "advanced", open: choices().open }, make("summary", {}, t("Advanced"), this.chosen),
      make("div", { class: "setup" }, this.first, this.second, this.shared), this.abouts,
      make("div", { class: "setup-more" },
        make("label", { class: "check", for: "compare" }, this.compare, t("Compare with a second method or model")), this.settings));
    this.advanced.addEventListener("toggle", () => keepChoices({ open: this.advanced.open }));
    this.advanced.addEventListener("change", () => this.#keepChoices());
    this.form = make("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); this.#submit(); } } },
      make("div", { class: "question-line" }, make("label", { for: "question", class: "unseen", text: t("Question") }), this.question, this.button), this.length, this.talk, this.advanced);
    this.trouble = make("div");
    this.hint = make("p", { class: "note hint", role: "status", hidden: true });
    this.gone = make("div", { class: "gone", role: "status" });
    this.examples = make("div", { class: "examples", hidden: true });
    this.past = make("div", { class: "past", hidden: true });
    this.before = make("section", { class: "before", "aria-label": t("Asked before in this conversation"), hidden: true });
    this.verdict = make("p", { class: "agreement", role: "status", hidden: true });
    this.panes = make("div", { class: "panes" });
    this.element = make("section", { class: "page ask-page", "aria-label": t("Ask") },
      make("h1", { class: "unseen", text: t("Ask a question") }), this.form, this.trouble, this.gone, this.hint, this.examples, this.past, this.before, this.verdict, this.panes);
    this.question.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.form.requestSubmit();
      }
    });
    this.question.addEventListener("input", () => {
      this.#fit();
      if (this.hint.textContent === NO_QUESTION) this.hint.hidden = true;
    });
    for (const name of ["pagehide", "pageshow"]) window.addEventListener(name, () => { this.#leaving = name === "pagehide"; });
    window.addEventListener("resize", () => this.#fit());
    this.compare.addEventListener("change", () => {
      this.#differ();
      this.#showSecond();
    });
    connection.addEventListener("back", () => { if (!this.#offer && this.element.isConnected) this.show(this.query); });
  }

  /** Rebuilds the form when it is next shown, as the corpora changed. */
  forget() {
    this.#offer = null;
  }

  async show(query) {
    this.query = query;
    document.title = "Hoptree";
    if (this.#offer && !this.#loading && this.#lacks(query)) this.#offer = null;
    const first = !this.contender;
    this.#loading ||= this.#load().finally(() => { this.#loading = null; });
    if (!(await this.#loading)) return;
    const typed = first ? this.question.value : "";
    const asked = new URLSearchParams(query);
    asked.delete("node");
    const key = asked.toString();
    if (key !== this.#shown || !this.panes.childElementCount) this.#restore(asked, key, query);
    this.question.value ||= typed;
    this.#fit();
    if (first && key && asking() === key) this.#early = true; // the page was reloaded before the answer came
    if (this.#early && this.element.isConnected && this.question.value) this.#submit();
    this.#early = false;
    if (!this.question.value && this.element.isConnected && matchMedia("(hover: hover)").matches) this.question.focus();
  }

  /** Whether a new address names something that the form does not have, but the server may have by now. */
  #lacks(query) {
    const asked = new URLSearchParams(query);
    asked.delete("node");
    const named = [["method", "methods"], ["model", "models"], ["corpus", "corpora"]];
    return asked.toString() !== this.#shown && named.some(([kind, list]) => query.get(kind) && !this.#offer[list].some((entry) => (entry.name ?? entry) === query.get(kind)));
  }

  async #load() {
    if (this.#offer) return true;
    try {
      this.#offer = await call("v1/methods");
      remembering(this.#offer.remembers === true);
    } catch (problem) {
      this.#early = false;
      this.trouble.replaceChildren(problemBox(problem, button(t("Try again"), () => this.show(this.query))));
      return false;
    }
    this.trouble.replaceChildren();
    this.longest = this.#offer.limits?.question ?? LONGEST;
    const typed = this.question.value;
    const before = this.contender ? this.#query() : this.query;
    this.contender = new Contender(this.#offer);
    this.other = new Contender(this.#offer, "2");
    this.where = new Shared(this.#offer);
    call("v1/corpora").then(({ corpora }) => this.where.tell(corpora)).catch(() => {});
    this.contender.method.addEventListener("change", () => this.#differ());
    this.where.corpus.addEventListener("change", () => this.#offerExamples());
    this.first.replaceChildren(this.contender.fields);
    this.second.replaceChildren(this.other.fields);
    this.shared.replaceChildren(this.where.fields);
    this.abouts.replaceChildren(this.contender.about, this.other.about);
    this.settings.replaceChildren(this.settings.firstElementChild, this.contender.options,
      this.other.options, this.where.budget);
    this.#showSecond();
    this.#fill(before);
    this.question.value ||= typed;
    this.#differ();
    this.#offerExamples();
    return true;
  }

  /** Chooses another second method, so that none is compared with itself by default. */
  #differ() {
    const [mine, other] = [this.contender, this.other];
    if (other.method.value === mine.method.value && other.model.value === mine.model.value) {
      const another = this.#offer.methods.find((method) => method.name !== mine.method.value && method.available !== false);
      if (another) other.method.value = another.name;
      other.method.dispatchEvent(new Event("change"));
    }
    this.#tellChosen();
  }

  #tellChosen() {
    this.chosen.textContent = [this.contender.name, this.where.corpus.value].filter(Boolean).join(" · ");
  }

  #keepChoices() {
    this.#tellChosen();
    const query = new URLSearchParams();
    this.contender.write(query);
    this.where.write(query);
    keepChoices({ query: query.toString() });
  }

  /** Suggests questions about the chosen corpus: fixed ones for the sample, else from its topics. */
  async #offerExamples() {
    const corpus = this.where.corpus.value;
    this.#examplesOf = corpus;
    this.examples.replaceChildren();
    if (!corpus) return;
    let questions = EXAMPLES;
    if (corpus !== "sample") {
      const { topics } = await call(`v1/corpora/${encodeURIComponent(corpus)}/topics`).catch(() => ({ topics: [] }));
      if (this.where.corpus.value !== corpus) return;
      questions = topics.map(asked);
    }
    const ask = (question) => (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab only shows it
      event.preventDefault();
      this.question.value = question;
      this.goesOn.checked = false;
      this.#fit();
      this.#submit();
    };
    const items = questions.map((question) => make("li", { dir: "auto" }, link(write(["ask"], { q: question, corpus }), question, { on: { click: ask(question) } })));
    if (items.length) this.examples.replaceChildren(make("p", { class: "label", text: corpus === "sample" ? t("Questions about the sample") : t("Questions about {corpus}", { corpus }) }), make("ul", {}, items));
  }

  /** Lists earlier questions of this browser, newest first. */
  #showPast(shown) {
    const asked = shown ? history() : [];
    this.past.hidden = !asked.length;
    if (!asked.length) return;
    const date = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
    const entry = (past) => make("li", {}, link(past.hash, past.question, { dir: "auto" }),
      make("p", { class: "note", dir: "auto" }, make("strong", { text: past.answer ?? "" }), marked(past.level), ` · ${Number.isFinite(past.at) ? date.format(past.at) : ""}`));
    const rest = asked.slice(PAST_SHOWN);
    this.past.replaceChildren(make("p", { class: "label", text: t("Asked before, in this browser") }), make("ul", {}, asked.slice(0, PAST_SHOWN).map(entry)),
      rest.length ? make("details", {}, make("summary", { text: t("{n} more", { n: digits(rest.length) }) }), make("ul", {}, rest.map(entry))) : "",
      button(t("Forget these"), () => {
        forgetHistory();
        this.#turns = [];
        this.talk.hidden = true;
        this.#showPast(true);
      }, { class: "quiet" }));
  }

  /** Fills the form from an address, and from remembered choices if it names no method. */
  #fill(address) {
    const query = address.has("method") ? address : new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(choices().query)), ...Object.fromEntries(address) });
    this.question.value = query.get("q") ?? "";
    const gone = this.contender.read(query);
    if (query.get("vs")) gone.push(...this.other.read(query));
    if (query.has("q") || query.has("corpus")) gone.push(...this.where.read(query));
    const named = gone.filter(([, name]) => [...address.values()].includes(name));
    this.gone.replaceChildren(...named.map(([kind, name, instead]) => make("p", { class: "warm", dir: "auto",
      text: `${t("This address names the {kind} “{name}”, which this server does not have.", { kind: t(kind), name })} ${instead ? t("“{name}” is chosen instead.", { name: instead }) : t("None is chosen instead.")}` })));
    this.compare.checked = Boolean(query.get("vs"));
    this.#tellChosen();
    this.#showSecond();
  }

  #showSecond() {
    this.second.hidden = this.other.options.hidden = this.other.about.hidden = !this.compare.checked;
    this.form.classList.toggle("two", this.compare.checked);
  }

  /** Restores the answers of an address, or fills the form without sending it. */
  #restore(asked, key, query) {
    this.#shown = key;
    this.goesOn.checked = asked.has("turn"); // a question out of an address stands for itself
    this.#fill(asked);
    if (this.#examplesOf !== this.where.corpus.value) this.#offerExamples();
    const kept = this.#answers.get(key);
    this.panes.replaceChildren(...(kept ?? []).map((view) => view.element));
    this.panes.classList.toggle("two", kept?.length === 2);
    this.examples.hidden = Boolean(kept) || Boolean(asked.get("q"));
    this.#showPast(!this.examples.hidden);
    const stored = kept || asked.has("vs") ? null : this.#turns.find((turn) => turn.key === key && String(turn.hash).startsWith(STORED));
    this.hint.hidden = Boolean(kept) || Boolean(stored) || !asked.get("q");
    this.hint.textContent = t("This address holds a question. Nothing is asked until you press Ask.");
    this.wanted = query.has("node") ? Number(query.get("node")) : null;
    this.#judge(kept ?? []);
    this.#showBefore(kept?.[0].before ?? this.#turns.slice(0, Number(asked.get("turn"))));
    if (stored) this.#showStored(stored);
    if (!kept && asked.get("q")) this.button.focus();
  }

  /** Shows the stored answer of a question of this conversation, as after a reload. */
  async #showStored({ key, hash }) {
    const id = hash.slice(STORED.length);
    const { corpus, result } = await call(`v1/answers/${id}`).catch(() => ({}));
    if (this.#shown !== key || this.#answers.has(key)) return;
    this.hint.hidden = Boolean(result);
    if (!result) return;
    const view = this.#view(this.question.value.trim(), corpus);
    view.id = id;
    view.before = this.#before();
    this.#keep(key, [view]);
    this.panes.replaceChildren(view.element);
    view.show(result);
    this.goesOn.checked = true;
  }

  /** The turns before the question of the form; one that was asked keeps its place. */
  #before() {
    const shown = new URLSearchParams(this.#shown);
    const placed = shown.has("turn") || this.#answers.has(this.#shown);
    return placed && this.question.value.trim() === shown.get("q") ? this.#turns.slice(0, Number(shown.get("turn"))) : [...this.#turns];
  }

  #query() {
    const query = new URLSearchParams();
    const before = this.#before();
    query.set("q", this.question.value.trim());
    if (this.goesOn.checked && before.length) query.set("turn", String(before.length));
    this.contender.write(query);
    this.where.write(query);
    if (this.compare.checked) {
      query.set("vs", "1");
      this.other.write(query);
    }
    return query;
  }

  #submit() {
    const question = this.question.value.trim();
    if (!question || !this.#offer || lengthOf(question) > this.longest) {
      this.#early = Boolean(question) && Boolean(this.#loading);
      if (!question) {
        this.hint.textContent = NO_QUESTION;
        this.hint.hidden = false;
      }
      this.question.focus();
      return;
    }
    this.gone.replaceChildren();
    const query = this.#query();
    const key = query.toString();
    for (const view of this.#answers.get(key) ?? []) view.close();
    const contenders = this.compare.checked ? [this.contender, this.other] : [this.contender];
    this.#turns = this.goesOn.checked ? this.#before() : [];
    const history = this.#turns.length ? { history: this.#turns.slice(-TURNS).map(({ question, answer }) => ({ question, answer })) } : {};
    const views = contenders.map((contender) => this.#ask(question, { question, ...history, ...contender.request, ...this.where.request }, contenders.length > 1 ? contender.name : "", contenders.length > 1));
    views[0].before = [...this.#turns];
    keepAsking(key);
    keepCorpus(this.where.corpus.value);
    this.#keep(key, views);
    this.wanted = null;
    this.#shown = key;
    this.hint.hidden = this.examples.hidden = this.past.hidden = true;
    this.panes.replaceChildren(...views.map((view) => view.element));
    this.panes.classList.toggle("two", views.length === 2);
    this.#judge(views);
    this.#showBefore(views[0].before);
    const hash = write(["ask"], query);
    if (location.hash !== hash) location.hash = hash;
  }

  #view(question, corpus, heading = "", narrow = false) {
    const view = new AnswerView({
      question, heading, narrow, corpus, wantedNode: this.wanted,
      onNode: (id) => { if (!narrow && view.element.isConnected) note("node", id); },
    });
    view.asked = question;
    return view;
  }

  #ask(question, request, heading, narrow) {
    const view = this.#view(question, request.corpus ?? "", heading, narrow);
    view.addEventListener("done", () => this.#onDone(view));
    view.addEventListener("again", () => { view.ask(request); this.#judge(this.#viewsShown()); });
    view.ask(request);
    return view;
  }

  #viewsShown() {
    return this.#answers.get(this.#shown) ?? [];
  }

  #onDone(view) {
    const views = this.#viewsShown();
    if (!views.includes(view)) return;
    if (!this.#leaving && !views.some((shown) => shown.running)) keepAsking("");
    this.#judge(views);
    const hash = view.id ? write(["answer", view.id]) : location.hash;
    const { question, answer, confidence, error } = view.result ?? { error: true };
    if ((answer || !error) && view === views[0]) {
      this.#turns = [...view.before, { question, answer: answer ?? "", hash, key: this.#shown, level: answer ? confidence?.level : "" }];
      keepTurns(this.#turns);
      this.talk.hidden = false;
      this.goesOn.checked = true;
    }
    if (!error && view === views[0]) remember({ question, answer: answer || t("No answer."), level: answer ? confidence?.level : "", hash, at: Date.now() });
    if (answer && view === views[0] && this.question.value.trim() === view.asked) this.#makeRoom();
    if (answer) document.title = `${answer} – Hoptree`;
  }

  /** Shows the turns of the conversation that an answer goes on from. */
  #showBefore(turns) {
    this.before.hidden = !turns.length;
    const entry = (turn) => make("li", { dir: "auto" }, make("span", { class: "asked", text: turn.question }), " ",
      String(turn.hash).startsWith("#/") ? link(turn.hash, turn.answer || t("No answer.")) : make("span", { text: turn.answer || t("No answer.") }), marked(turn.level));
    this.before.replaceChildren(make("p", { class: "label", text: t("Asked before in this conversation") }), make("ol", {}, turns.slice(-TURNS).map(entry)));
  }

  /** Selects the question that was answered, so that the next one takes its place. */
  #makeRoom() {
    const idle = [document.body, this.question, this.button].includes(document.activeElement);
    if (idle && matchMedia("(hover: hover)").matches) this.focus();
  }

  /** Says whether two answers are the same. */
  #judge(views) {
    const results = views.map((view) => view.result);
    this.verdict.hidden = views.length < 2 || results.some((result) => !result);
    if (this.verdict.hidden) return;
    const [first, second] = results.map((result) => result.answer || t("no answer"));
    const same = folded(first) === folded(second);
    const calls = results.map((result) => count(result.usage?.llm_calls ?? 0, "call"));
    this.verdict.className = `agreement ${same ? "same" : "differ"}`;
    this.verdict.replaceChildren(
      ...(same ? [`${t("Both say")} `, make("strong", { text: first })] : [`${t("They differ:")} `, make("strong", { text: first }), ` ${t("against")} `, make("strong", { text: second })]),
      ` · ${calls.join(` ${t("against")} `)}`);
    announce(this.verdict.textContent);
  }

  #keep(key, views) {
    this.#answers.delete(key);
    this.#answers.set(key, views);
    for (const [old, kept] of this.#answers) {
      if (this.#answers.size <= KEPT) break;
      if (kept.some((view) => view.running)) continue;
      for (const view of kept) view.close();
      this.#answers.delete(old);
    }
  }

  /** Fits the height of the box to the question, and counts its characters near the limit. */
  #fit() {
    this.question.style.height = "auto";
    this.question.style.height = `${this.question.scrollHeight}px`;
    this.question.style.overflowY = this.question.scrollHeight > this.question.clientHeight + 1 ? "auto" : "hidden";
    const long = lengthOf(this.question.value.trim());
    const values = { n: digits(long), most: digits(this.longest) };
    this.length.hidden = long < this.longest * COUNTED_FROM;
    this.button.disabled = long > this.longest;
    this.length.classList.toggle("warm", this.button.disabled);
    this.length.textContent = this.length.hidden ? "" : this.button.disabled ? `${t("Too long to be asked: {n} characters, at most {most}.", values)} ${t("Put longer material into a corpus, and ask about it.")}` : t("{n} of at most {most} characters.", values);
  }

  focus() {
    this.question.focus();
    this.question.select();
  }
}
