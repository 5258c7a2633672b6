// The tree of sub-questions. A snapshot redraws only rows whose nodes changed, by their ids, so that a large tree can
// grow without losing scroll position, focus or folding.

import { fresh, make } from "./dom.js";
import { digits, t } from "./texts.js";
import { origin, shade, stateOf, verdict } from "./words.js";

const FOLD_FROM = 40;
/** Ids that a node reserves for nodes rebuilt below it. */
const ROOM = 100;
const OPEN_LEVELS = 2;
const REFERENCE = /(#query\d+)/;

export class TreeView {
  #items = new Map();
  #round = 0;
  #total = 0;
  #options = {};
  #current = null;
  #opened = null;
  #typed = { text: "", at: 0 };

  /** `onOpen` gets the node whose evidence to show, or null, and its element in the tree. */
  constructor({ label, onOpen }) {
    this.onOpen = onOpen;
    this.list = make("ul", { role: "tree", class: "tree", "aria-label": label });
    this.tools = make("div", { class: "tools", hidden: true },
      make("button", { type: "button", class: "quiet", on: { click: () => this.foldAll(false) } }, t("Unfold all")),
      make("button", { type: "button", class: "quiet", on: { click: () => this.foldAll(true) } }, t("Fold all")),
      make("span", { class: "size" }));
    this.element = make("div", { class: "tree-box" }, this.tools, this.list);
    this.list.addEventListener("keydown", (event) => this.#onKey(event));
    this.list.addEventListener("click", (event) => this.#onClick(event));
  }

  get opened() {
    return this.#opened?.id ?? null;
  }

  has(id) {
    return this.#items.has(id);
  }

  node(id) {
    return this.#items.get(id)?.node ?? null;
  }

  get nodes() {
    return [...this.#items.values()].map((item) => item.node);
  }

  /** Draws what changed since the last snapshot; the question itself is the root, number 0. */
  update(question, nodes, { options = {}, root = {} } = {}) {
    const itself = nodes[0]?.id === 0 ? nodes[0] : { children: nodes };
    const top = { ...itself, ...root, id: 0, question, resolved: question, isRoot: true, children: itself.children ?? [] };
    if (itself.id === 0) top.children = [...top.children, ...nodes.slice(1)];
    this.#options = options;
    this.#round += 1;
    this.#total = size(top);
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    this.#sync(this.list, [top], null, 1);
    for (const item of this.#items.values()) if (item.round !== this.#round) this.#remove(item);
    this.#refold();
    if (focused && document.activeElement !== focused) (focused.isConnected ? focused : this.#current?.row)?.focus();
    if (!this.#current) this.#select(this.#items.get(0));
    this.tools.hidden = this.#total < 8;
    this.tools.querySelector(".size").textContent = t("{n} sub-questions", { n: digits(this.#total - 1) });
    if (this.#opened) this.onOpen(this.#opened.node, this.#opened.li, false);
  }

  #sync(list, nodes, parent, level) {
    for (const [place, node] of nodes.entries()) {
      const item = this.#items.get(node.id) ?? this.#create(node.id);
      if (list.children[place] !== item.li) list.insertBefore(item.li, list.children[place] ?? null);
      Object.assign(item, { round: this.#round, parent, node, level });
      this.#draw(item, place + 1, nodes.length);
      this.#sync(item.group, node.children ?? [], item, level + 1);
    }
  }

  #create(id) {
    const row = make("div", { class: "row", role: "treeitem", tabindex: "-1", "aria-selected": "false" });
    const group = make("ul", { role: "group", id: fresh("group") });
    const item = { id, row, group, li: make("li", { role: "none", class: "new" }, row, group), drawn: "", chosen: undefined };
    row.dataset.node = id;
    this.#items.set(id, item);
    return item;
  }

  #remove(item) {
    item.li.remove();
    this.#items.delete(item.id);
    if (this.#current === item) this.#current = null;
    if (this.#opened === item) this.open(null);
  }

  #draw(item, place, of) {
    const { children, ...own } = item.node;
    const below = children?.length ? size(item.node) - 1 : 0;
    const number = this.#number(item);
    const drawn = JSON.stringify([own, number, item.level, place, of, below, this.#options.evidence]);
    if (item.drawn === drawn) return;
    item.drawn = drawn;
    const { row, node } = item;
    row.setAttribute("aria-level", item.level);
    row.setAttribute("aria-posinset", place);
    row.setAttribute("aria-setsize", of);
    if (below) row.setAttribute("aria-owns", item.group.id);
    else row.removeAttribute("aria-owns");
    row.className = `row is-${stateOf(node)}${node.isRoot ? " root" : ""}`;
    const outcome = outcomeOf(node, this.#options);
    row.replaceChildren(
      make("span", { class: "twisty", "aria-hidden": "true" }),
      node.isRoot ? "" : make("span", { class: "number", text: number }),
      make("span", { class: "words" },
        make("span", { class: "asked", dir: "auto" }, withReferences(node.resolved || node.question)), " ",
        make("span", { class: "outcome", dir: "auto" }, outcome.flatMap((part) => [part, " "]),
          below ? make("span", { class: "below", text: t("{n} below", { n: digits(below) }) }) : null)));
  }

  /** The number to show: 101 and 102 were rebuilt below 1, and are 1.1 and 1.2. */
  #number(item) {
    const above = Math.floor(item.id / ROOM);
    if (above && item.id > this.#total)
      for (let ancestor = item.parent; ancestor; ancestor = ancestor.parent) if (ancestor.id === above) return `${this.#number(ancestor)}.${item.id % ROOM}`;
    return `${item.id}`;
  }

  numberOf(id) {
    const item = this.#items.get(id);
    return item ? this.#number(item) : `${id}`;
  }

  // Folding

  #isFolded(item) {
    if (!item.node.children?.length) return false;
    return item.chosen ?? (this.#total > FOLD_FROM && item.level > OPEN_LEVELS && !this.#holdsReader(item));
  }

  #holdsReader(item) {
    for (let ancestor = this.#current; ancestor; ancestor = ancestor.parent) if (ancestor.parent === item) return true;
    for (let ancestor = this.#opened; ancestor; ancestor = ancestor.parent) if (ancestor.parent === item) return true;
    return false;
  }

  #refold() {
    for (const item of this.#items.values()) {
      const folded = this.#isFolded(item);
      if (item.group.hidden !== folded) item.group.hidden = folded;
      const expanded = item.node.children?.length ? String(!folded) : null;
      if (item.row.getAttribute("aria-expanded") === expanded) continue;
      if (expanded === null) item.row.removeAttribute("aria-expanded");
      else item.row.setAttribute("aria-expanded", expanded);
    }
  }

  fold(item, folded) {
    if (!item.node.children?.length) return;
    if (folded && this.#isBelow(this.#current, item)) this.#select(item);
    item.chosen = folded;
    this.#refold();
  }

  foldAll(folded) {
    for (const item of this.#items.values()) if (item.level > 1) item.chosen = folded;
    if (folded && this.#current?.level > 2) {
      let item = this.#current;
      while (item.level > 2) item = item.parent;
      this.#select(item);
    }
    this.#refold();
  }

  #isBelow(item, above) {
    for (let ancestor = item?.parent; ancestor; ancestor = ancestor.parent) if (ancestor === above) return true;
    return false;
  }

  // Choosing

  #select(item, focus = false) {
    if (!item) return;
    if (this.#current) this.#current.row.tabIndex = -1;
    this.#current = item;
    item.row.tabIndex = 0;
    if (focus) item.row.focus();
  }

  /** Shows the evidence of a node and unfolds its ancestors; null closes it. */
  open(id, { focus = false } = {}) {
    const item = id === null ? null : this.#items.get(id);
    if (id !== null && !item) return;
    this.#opened?.row.setAttribute("aria-selected", "false");
    this.#opened = item ?? null;
    if (item) {
      for (let ancestor = item.parent; ancestor; ancestor = ancestor.parent) if (this.#isFolded(ancestor)) ancestor.chosen = false;
      item.row.setAttribute("aria-selected", "true");
      this.#select(item, focus);
      this.#refold();
    }
    this.onOpen(item?.node ?? null, item?.li ?? null, true);
  }

  #toggle(item) {
    this.open(this.#opened === item ? null : item.id, { focus: true });
  }

  #onClick(event) {
    const row = event.target.closest(".row");
    if (!row || !this.list.contains(row)) return;
    const item = this.#itemOf(row);
    if (event.target.closest(".twisty") && item.node.children?.length) {
      this.#select(item, true);
      this.fold(item, !this.#isFolded(item));
    } else if (!String(getSelection())) this.#toggle(item);
  }

  #itemOf(row) {
    return this.#items.get(Number(row.dataset.node));
  }

  #shown() {
    return [...this.list.querySelectorAll(".row")].filter((row) => row.getClientRects().length).map((row) => this.#itemOf(row));
  }

  #onKey(event) {
    if (!event.target.classList.contains("row") || event.altKey || event.ctrlKey || event.metaKey) return;
    const item = this.#itemOf(event.target);
    const shown = this.#shown();
    const at = shown.indexOf(item);
    const folded = this.#isFolded(item);
    const moves = {
      ArrowDown: () => this.#select(shown[at + 1], true),
      ArrowUp: () => this.#select(shown[at - 1], true),
      Home: () => this.#select(shown[0], true),
      End: () => this.#select(shown.at(-1), true),
      ArrowRight: () => (folded ? this.fold(item, false) : item.node.children?.length ? this.#select(shown[at + 1], true) : null),
      ArrowLeft: () => (item.node.children?.length && !folded && item.parent ? this.fold(item, true) : this.#select(item.parent, true)),
      "*": () => { for (const sibling of item.parent?.node.children ?? []) this.fold(this.#items.get(sibling.id), false); },
      Enter: () => this.#toggle(item),
      " ": () => this.#toggle(item),
      Escape: () => this.open(null),
    };
    if (moves[event.key]) moves[event.key]();
    else if (event.key.length === 1 && /[\p{L}\p{N}.]/u.test(event.key)) this.#find(event.key, shown, at, event.timeStamp);
    else return;
    event.preventDefault();
  }

  /** Selects the next row whose number or text begins with what is typed. */
  #find(letter, shown, at, when) {
    const text = when - this.#typed.at < 700 ? this.#typed.text + letter : letter;
    this.#typed = { text, at: when };
    const order = [...shown.slice(at + (text.length === 1 ? 1 : 0)), ...shown.slice(0, at)];
    const begins = (item) => this.#number(item).startsWith(text) || (item.node.resolved || item.node.question).toLowerCase().startsWith(text.toLowerCase());
    this.#select(order.find(begins), true);
  }
}

const size = (node) => 1 + (node.children ?? []).reduce((sum, child) => sum + size(child), 0);

/** Shows "#query2" as a reference to the answer of another node. */
export function withReferences(text) {
  return String(text).split(REFERENCE).map((part) =>
    (REFERENCE.test(part) ? make("span", { class: "reference", text: t("answer {n}", { n: part.slice(6) }) }) : part));
}

/** The outcome of a node: refuted answers, the answer, and its source. */
export function outcomeOf(node, options) {
  const state = stateOf(node);
  if (state === "stopped") {
    const from = node.source ? badge(node, options) : null;
    return [...struck(node), make("strong", { text: node.answer ? t("so far: {answer}", { answer: node.answer }) : t("not answered") }), from].filter(Boolean);
  }
  if (state === "answered" || state === "unanswered" || node.isRoot) {
    if (!node.answer && !node.source && !node.verdict) return [];
    const sign = node.verdict ? make("span", { class: `verdict ${node.verdict}`, text: verdict(node) }) : null;
    const from = !node.verdict || node.facts?.length || node.evidence?.length ? badge(node, options) : null;
    return [...struck(node), make("strong", { text: node.answer || "?" }), sign, node.isRoot && !node.source ? null : from].filter(Boolean);
  }
  const guess = node.hypothesis
    ? [...struck(node), make("span", { class: "guess", text: node.hypothesis }), make("span", { class: "verdict unknown", text: t("a guess, not checked") })]
    : struck(node);
  return state === "asking" ? [pulse(), ...guess] : guess;
}

function struck(node) {
  return (node.struck ?? []).flatMap((old) => [make("del", { text: old || "?" }), make("span", { class: "arrow", text: "⇒" })]);
}

const badge = (node, options) => {
  const words = origin(node.source ? node : { ...node, source: "external" }, options);
  return make("span", { class: `source ${shade(node.source ? node : { ...node, source: "external" })}`, text: words });
};

const pulse = () => make("span", { class: "pulse" }, make("span", { class: "unseen", text: t("under way") }));
