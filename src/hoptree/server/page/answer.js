// One answer, streamed or stored: the tree of sub-questions, and beside it the evidence of a node.

import { Problem, stream } from "./api.js";
import { announce, button, count, make, problemBox, withMarksHeld } from "./dom.js";
import { facts, passages, withMarks } from "./evidence.js";
import { tools } from "./export.js";
import { graphView } from "./graph.js";
import { read, write } from "./route.js";
import { openSource } from "./source.js";
import { decimal, t, translated } from "./texts.js";
import { TreeView, withReferences } from "./tree.js";
import { capital, cost, countedDown, guesses, knowing, noAnswer, origin, pieces, quotation, support, verdict } from "./words.js";
import { WritingView } from "./writing.js";

const STEPS_SHOWN = 5;
const SILENT = 20;
/** The server's warning of a guess, which is not repeated below the sentence. */
const UNSUPPORTED = "what was read does not hold the answer: it is a guess that documents do not support";

const FIDELITY = { prompted: t("prompted where its paper trained a model") };

export class AnswerView extends EventTarget {
  #passages = new Map();
  #request = null;
  #running = null;
  #began = 0;
  #heard = 0;
  #told = 0;
  #clock = 0;
  #usage = null;
  #steps = 0;
  #writing = null;
  #closed = false;
  #old = false;
  #roomy;
  #moved;
  #drawnInputs = "";

  /** `narrow` shows the evidence inside the tree, for two answers side by side. */
  constructor({ question, heading = "", narrow = false, corpus = "", id = "", wantedNode = null, onNode = () => {} }) {
    super();
    this.question = question;
    this.corpus = corpus;
    this.id = id;
    this.result = null;
    this.problem = null;
    this.onNode = onNode;
    this.wantedNode = wantedNode;
    this.#roomy = narrow ? null : matchMedia("(min-width: 68rem)");
    this.#moved = () => this.#place();
    this.#roomy?.addEventListener("change", this.#moved);
    this.answer = make("div", { class: "answer" });
    this.status = make("p", { class: "status" });
    this.trouble = make("div");
    this.tree = new TreeView({ label: t("The sub-questions of: {question}", { question }), onOpen: (node, li, chosen) => this.#open(node, li, chosen) });
    this.writing = make("div");
    this.log = make("ol", { class: "steps" });
    this.steps = make("details", { class: "log", open: true, hidden: true }, make("summary", { text: t("What happens") }), this.log);
    this.more = make("div", { class: "more" });
    this.tools = make("div");
    this.bill = make("p", { class: "bill" });
    this.detail = make("section", { class: "detail", "aria-label": t("Evidence"), hidden: true });
    this.margin = make("div", { class: "margin" });
    this.aside = make("div");
    this.detail.addEventListener("keydown", (event) => { if (event.key === "Escape") this.#close(); });
    this.element = make("article", { class: narrow ? "pane narrow" : "pane" },
      make("div", { class: "column" }, heading ? make("h2", { class: "pane-head", text: heading }) : null,
        this.answer, this.tools, this.status, this.trouble, this.tree.element, this.writing, this.aside, this.more, this.steps, this.bill),
      this.margin);
  }

  get running() {
    return this.#running !== null;
  }

  // Asking

  async ask(request) {
    this.#request = request;
    this.#begin();
    const abort = new AbortController();
    this.#running = abort;
    try {
      for await (const { name, data } of stream("v1/ask", { ...request, stream: true }, abort.signal, () => this.#hear())) this.#take(name, data);
    } catch (error) {
      if (abort.signal.aborted) this.#end(t("Stopped. What had arrived by then is shown here."));
      else this.#fail(error instanceof Problem ? error : new Problem({ message: t("This page failed while it drew the answer."), remedy: String(error.message) }));
      if (!(error instanceof Problem) && !abort.signal.aborted) console.error(error);
    } finally {
      clearInterval(this.#clock);
      this.#running = null;
      if (this.#usage && !this.result) this.#usage = { ...this.#usage, seconds: (performance.now() - this.#began) / 1000 };
      this.element.classList.remove("running");
      this.#showStatus();
      this.dispatchEvent(new Event("done"));
    }
  }

  stop() {
    this.#running?.abort();
  }

  /** Stops the request, and removes listeners of the window. */
  close() {
    this.stop();
    this.#roomy?.removeEventListener("change", this.#moved);
  }

  #begin() {
    this.problem = null;
    this.#began = this.#heard = performance.now();
    this.ended = "";
    this.trouble.replaceChildren();
    this.element.classList.add("running");
    this.doing = t("Asked");
    if (this.tree.has(0)) this.#old = true;
    else this.#clear();
    this.#clock = setInterval(() => this.#showStatus(), 200);
    this.#showStatus();
  }

  /** Clears an earlier attempt, once the server sends something: a failure keeps it. */
  #clear() {
    this.#old = false;
    this.result = this.#usage = this.#writing = null;
    this.#steps = 0;
    for (const part of [this.answer, this.tools, this.more, this.writing, this.log, this.bill]) part.replaceChildren();
    this.steps.querySelector("summary").textContent = t("What happens");
    this.steps.open = true;
    this.steps.hidden = true;
    this.tree.element.hidden = false;
    this.tree.update(this.question, [], { root: { state: "asking" } });
  }

  #hear() {
    this.#heard = performance.now();
  }

  #take(name, data) {
    if (name === "open") {
      this.id = data.id;
      return;
    }
    if (this.#old) this.#clear();
    if (name === "tree") this.#grow(data);
    else if (name === "step") this.#step(data);
    else if (name === "progress") [this.doing, this.#told] = [data.text, performance.now()];
    else if (name === "passages") this.#addPassages(data.passages);
    else if (name === "result") this.show(data);
    else if (name === "error") {
      if (data.result) this.show(data.result);
      this.#fail(new Problem({ kind: data.class, message: data.message, remedy: data.remedy, retryable: data.retryable }));
    }
  }

  /** Passages come before the nodes that cite them. */
  #addPassages(passages) {
    this.#keep(passages);
    if (!this.detail.hidden) this.#drawDetail(this.tree.node(this.tree.opened));
  }

  #grow(data) {
    this.#usage = data.usage ?? this.#usage;
    this.question = data.question ?? this.question;
    this.tree.update(this.question, data.tree ?? [], { options: this.#options(), root: this.#root(data.tree, {}) });
    if (data.writing) this.#write(data.writing);
    this.#openWanted();
  }

  /** Hides the tree of a method without sub-questions, which would only repeat the question. */
  #hideBareTree() {
    const bare = this.tree.nodes.length === 1 && (this.#writing !== null || this.result !== null) && !this.tree.node(0).answer;
    this.tree.element.hidden = bare;
    this.element.classList.toggle("bare", bare);
  }

  #options() {
    return { ...this.#request?.options, ...this.result?.options };
  }

  #root(tree, more) {
    return tree?.[0]?.id === 0 ? more : { state: "asking", ...more };
  }

  #write(writing) {
    if (!this.#writing) {
      this.#writing = new WritingView();
      this.writing.replaceChildren(this.#writing.element);
    }
    this.#writing.update(writing);
    this.#hideBareTree();
  }

  #step(data) {
    if (!data.text) return;
    const text = translated(data.text);
    this.doing = data.text;
    this.#steps += 1;
    this.steps.hidden = false;
    const about = Number.isInteger(data.node) && data.node > 0
      ? button(`${data.node}`, () => this.tree.open(data.node, { focus: true }), { class: "to-node", "aria-label": t("To sub-question {n}", { n: data.node }) }) : null;
    const time = typeof data.t === "number" ? make("span", { class: "time", text: `${decimal(data.t)} s` }) : null;
    this.log.append(make("li", {}, time, make("span", { class: "words" }, make("span", { text, dir: "auto" }), about)));
    for (const item of this.log.querySelectorAll(`li.recent:nth-last-child(n + ${STEPS_SHOWN + 1})`)) item.classList.remove("recent");
    this.log.lastElementChild.classList.add("recent");
    this.#showStatus();
  }

  // Showing

  /** Shows a complete result: the last event of a stream, or one of a run. */
  show(result) {
    this.result = result;
    this.#usage = result.usage;
    this.#keep(result.evidence);
    this.#keep(result.consulted);
    const state = result.stopped_by ? "stopped" : "answered";
    const tree = result.tree ?? [];
    const itself = tree[0]?.id === 0;
    if (result.asked) this.question = result.question;
    this.tree.update(this.question, tree, { options: this.#options(), root: itself ? {} : { state: "", answer: "", source: "" } });
    this.#showAnswer(result, state);
    if (result.writing) this.#write(result.writing);
    this.#hideBareTree();
    this.more.replaceChildren(...this.#notes(result));
    this.tools.replaceChildren(result.error ? "" : tools(result, this.#options(), () => this.#address()));
    this.steps.querySelector("summary").textContent = this.#steps ? t("What happened, in {steps}", { steps: count(this.#steps, "step") }) : "";
    this.steps.open = false;
    this.bill.textContent = [result.method, result.model, FIDELITY[result.fidelity] ?? ""].filter(Boolean).join(" · ");
    this.#showStatus();
    if (this.running) announce(result.answer ? t("Answer: {answer}", { answer: result.answer }) : noAnswer(result));
    this.#openWanted();
    if (!this.detail.hidden) this.#drawDetail(this.tree.node(this.tree.opened));
    else if (!this.#failed && !this.#closed && this.tree.opened === null && (this.#roomy || this.tree.nodes.length === 1)) this.tree.open(0);
  }

  #showAnswer(result, state) {
    const label = result.answer && state === "stopped" ? t("Best answer so far") : guesses(result) ? capital(t("a guess")) : t("Answer");
    const supported = support(result);
    this.answer.replaceChildren(result.asked ? make("p", { class: "note read-as", text: t("Read as: {question}", { question: result.question }), dir: "auto" }) : "",
      make("p", { class: "label", text: label }),
      result.answer && result.sentence ? make("p", { class: "sentence", dir: "auto" }, ...this.#cited(result)) : "",
      result.answer ? make("p", { class: "answer-text", text: result.answer, dir: "auto" }) : make("p", { class: "answer-text none", text: noAnswer(result) }),
      supported ? make("p", { class: "note confidence", text: supported, dir: "auto" }) : "",
      result.why && result.answer ? make("p", { class: "note why", text: t("Why this one: {why}", { why: translated(result.why) }), dir: "auto" }) : "");
    if (result.error) this.trouble.replaceChildren(problemBox(result.error));
  }

  /** The sentence of an answer, with [N] as buttons that open the evidence. */
  #cited({ sentence, evidence = [] }) {
    return withMarksHeld(pieces(sentence).map((part) => {
      const passage = typeof part === "number" ? evidence[part - 1] : null;
      const open = () => {
        this.tree.open(0);
        if (this.corpus) openSource(this.corpus, passage, (text) => withMarks(text, this.#used(this.tree.node(0), passage.id)));
      };
      return passage ? button(`[${part}]`, open, { class: "quiet citation", title: passage.title || passage.id }) : typeof part === "number" ? `[${part}]` : part;
    }));
  }

  /** The address to share: that of the stored answer, else of this page. */
  #address() {
    return this.id ? { hash: write(["answer", this.id]), stored: true } : { hash: location.hash, stored: read().path[0] === "runs" };
  }

  #notes(result) {
    const notes = (result.warnings ?? []).filter((text) => result.confidence?.level !== "a guess" || text !== UNSUPPORTED).map((text) => make("p", { class: "note warm", text: t("Note: {text}", { text: translated(text) }), dir: "auto" }));
    if (result.chains?.length) {
      notes.push(make("details", {}, make("summary", { text: result.chains.length === 1 ? t("The chain of reasoning") : t("The chains of reasoning") }),
        result.chains.map((text) => make("p", { class: "chain", text, dir: "auto" }))));
    }
    const graph = graphView(result);
    if (graph) notes.push(make("details", { class: "graph-view" }, make("summary", { text: t("Graph of facts and links") }), graph));
    return notes;
  }

  #showStatus() {
    const seconds = this.running ? (performance.now() - this.#began) / 1000 : this.#usage?.seconds ?? (performance.now() - this.#began) / 1000;
    const soFar = this.#usage ? cost(this.#usage, this.running ? Math.max(seconds, 0) : this.#usage.seconds ?? seconds) : `${decimal(seconds)} s`;
    if (!this.running) {
      const parts = [this.ended, this.#usage ? soFar : ""].filter(Boolean);
      this.status.replaceChildren(parts.join(" "));
      return;
    }
    const silent = (performance.now() - this.#heard) / 1000;
    const doing = silent > SILENT ? t("No news for {n} s", { n: silent.toFixed(0) }) : translated(countedDown(this.doing, (performance.now() - this.#told) / 1000));
    if (!this.status.querySelector("button")) {
      this.status.replaceChildren(make("span", { class: "doing", dir: "auto" }), make("span", { class: "so-far" }), button(t("Stop"), () => this.stop()));
    }
    setText(this.status.querySelector(".doing"), doing);
    setText(this.status.querySelector(".so-far"), soFar);
  }

  #end(words) {
    this.ended = words;
    this.#calm();
    announce(words);
  }

  #fail(problem) {
    this.problem = problem;
    this.#calm();
    const again = problem.mayPass ? [button(t("Ask again"), () => this.dispatchEvent(new Event("again")), { class: "main" })] : [];
    this.trouble.replaceChildren(problemBox(problem, ...again));
  }

  /** Marks running nodes as waiting, after the end. */
  #calm() {
    const calm = (node) => ({ ...node, state: node.state === "asking" ? "waiting" : node.state, children: (node.children ?? []).map(calm) });
    const root = this.tree.node(0);
    if (root) this.tree.update(this.question, [calm(root)]);
  }

  #keep(passages) {
    for (const passage of passages ?? []) this.#passages.set(passage.id, passage);
  }

  // Evidence

  #openWanted() {
    if (this.wantedNode === null || !this.tree.has(this.wantedNode)) return;
    const wanted = this.wantedNode;
    this.wantedNode = null;
    this.tree.open(wanted);
  }

  #open(node, li, chosen) {
    if (chosen) {
      this.onNode(node ? node.id : null);
      if (node) this.#closed = false;
    }
    this.detail.hidden = !node;
    if (!node) return;
    this.li = li;
    this.#drawDetail(node);
    this.#place();
  }

  #close() {
    const id = this.tree.opened;
    this.#closed = true;
    this.tree.open(null);
    if (id !== null) this.tree.list.querySelector(`[data-node="${id}"]`)?.focus();
  }

  #place() {
    const bare = this.tree.element.hidden;
    const below = bare || (this.#roomy && this.tree.opened === 0); // above the sub-questions it would hide them
    const above = this.#roomy?.matches ? this.margin : below ? this.aside : this.li;
    if (!above || this.detail.parentElement === above) return;
    if (above === this.li) above.insertBefore(this.detail, above.children[1] ?? null);
    else above.append(this.detail);
  }

  #drawDetail(node) {
    if (!node) return;
    const inputs = JSON.stringify([{ ...node, children: 0 }, this.#passages.size, this.result !== null, this.#failed]);
    if (this.#drawnInputs === inputs) return;
    this.#drawnInputs = inputs;
    const itself = node.id === 0;
    const grounds = this.#grounds(node);
    const unheld = !node.facts?.length && grounds.some((ground) => ground.matches(".read") || ground.querySelector(".unheld"));
    const rests = this.result?.answer && (!unheld || this.#numbers.size > 0);
    const bare = grounds.length === 1 && grounds[0].matches("p.note");
    const own = !this.result ? t("The question itself") : bare ? t("Evidence") : rests ? t("What the answer rests on") : t("What was read");
    this.detail.replaceChildren(
      make("div", { class: "detail-head" },
        make("p", { class: "label", text: itself ? own : t("Sub-question {n}", { n: this.tree.numberOf(node.id) }) }),
        button("×", () => this.#close(), { class: "quiet close", "aria-label": t("Close the evidence") })),
      itself ? "" : make("h3", { dir: "auto" }, withReferences(node.resolved || node.question)),
      ...this.#reasons(node),
      ...grounds);
  }

  #reasons(node) {
    const lines = [];
    const line = (name, ...values) => lines.push(make("dt", { text: name }), make("dd", { dir: "auto" }, ...values));
    if (node.id !== 0 && node.question && node.resolved && node.question !== node.resolved) line(t("Planned as"), ...withReferences(node.question));
    for (const old of node.struck ?? []) line(t("Refuted"), make("del", { text: old || "?" }));
    if (node.answer) line(node.state === "stopped" ? t("So far") : t("Answer"), make("strong", { text: node.answer }));
    if (node.hypothesis && node.hypothesis !== node.answer) line(t("Guessed first"), node.hypothesis);
    if (node.source) line(t("Source"), origin(node, this.#options()));
    if (node.verdict) line(t("Verdict"), verdict(node));
    if (node.module) line(t("Answered by"), node.module);
    if (node.why) line(t("Why"), translated(node.why));
    if (knowing(node)) line(t("Knowledge"), knowing(node));
    return lines.length ? [make("dl", { class: "reasons" }, lines)] : [];
  }

  #grounds(node) {
    const { evidence, read } = node.id === 0 && this.result ? this.#support : { evidence: node.evidence ?? [], read: [] };
    const drawn = (ids, used) => passages(ids.map((id) => [this.#passages.get(id) ?? { id }, used(id)]), this.corpus);
    const grounds = drawn(evidence, (id) => ({ ...this.#used(node, id), number: this.#numbers.get(id) }));
    if (node.facts?.length) grounds.unshift(facts(node.facts));
    if (!grounds.length) grounds.push(make("p", { class: "note", text: this.#noGrounds(node) }));
    if (read.length) grounds.push(make("details", { class: "read" }, make("summary", { text: t("Read, but no evidence: {passages}", { passages: count(read.length, "passage") }) }), drawn(read, () => ({}))));
    return grounds;
  }

  /** The ids of the evidence, and of passages that were only read; guesses and failures have no evidence. */
  get #support() {
    const { answer, evidence = [], consulted, tree = [] } = this.result;
    const unsupported = this.#failed || (tree.length > 0 && tree.every((node) => node.source === "fallback"));
    const ids = (list) => list.map((passage) => passage.id);
    const rests = unsupported ? [] : ids(answer ? evidence : consulted ?? evidence);
    return { evidence: rests, read: ids(consulted ?? (unsupported ? evidence : [])).filter((id) => !rests.includes(id)) };
  }

  /** The citation numbers in the sentence of the answer, by passage id. */
  get #numbers() {
    const { answer, sentence, evidence = [] } = this.result ?? {};
    const numbers = new Map();
    for (const n of answer && sentence ? pieces(sentence).filter(Number.isInteger) : []) if (evidence[n - 1]) numbers.set(evidence[n - 1].id, n);
    return numbers;
  }

  /** What to mark in a passage: the answer of a node that cites it, else that of the question, and cited or quoted sentences; nothing if it is not cited. */
  #used(node, id) {
    const others = this.tree.nodes.filter((other) => other.id !== 0 && other.answer && other.evidence?.includes(id));
    const citing = node.id !== 0 ? node : others.find((other) => other.answer === this.result?.answer) ?? others[0];
    const read = (this.result?.writing?.facts ?? []).filter((fact) => fact.passage === id);
    const numbers = this.#numbers;
    if (node.id === 0 && numbers.size && !numbers.has(id) && !read.length && !others.some((other) => other.evidence[0] === id)) return {};
    const quote = node.id === 0 || node.answer === this.result?.answer ? quotation(this.result?.sentence, numbers.get(id)) : "";
    if (citing) return { answers: [citing.answer], question: citing.resolved || citing.question, quote };
    return { answers: [this.result?.answer].filter(Boolean), question: this.question, quote, cited: read.map((fact) => fact.sentence) };
  }

  get #failed() {
    return Boolean(this.problem || this.result?.error);
  }

  #noGrounds(node) {
    if (this.#failed && !node.answer && (node.id !== 0 || !this.result?.answer)) return this.#usage?.retrievals ? t("It failed before an answer was found.") : t("It failed before anything was looked up.");
    if (node.id === 0 && !this.result) return t("The evidence of the answer comes with it.");
    if (node.id === 0 && !node.source) return this.#usage?.retrievals ? t("Of what was read, nothing is named as evidence.") : t("Nothing was looked up: the model answered by itself.");
    if (!node.answer && !node.source) return t("It has no result yet.");
    if (node.source === "internal") return t("Nothing was looked up: the model answered from its own knowledge.");
    if (node.source === "fallback") return t("It is a guess: nothing that was read holds it.");
    if (node.source === "synthesis") return t("It follows from the answers below it.");
    return t("It cites no passage.");
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
