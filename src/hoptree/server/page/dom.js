// Elements from plain values. Texts of a corpus, a model or the server are only ever text nodes: nothing here parses
// markup, and links stay on this page.

import { digits, t, translated } from "./texts.js";

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "text") element.textContent = value;
  else if (name === "class") element.className = value;
  else if (name === "value") element.value = value;
  else if (name === "on") for (const [kind, listener] of Object.entries(value)) element.addEventListener(kind, listener);
  else if (/^(on|style|src)/.test(name)) throw new Error(`no ${name} from values`);
  else if (name === "href" && !String(value).startsWith("#")) throw new Error("links stay on this page");
  else element.setAttribute(name, value === true ? "" : value);
}

export const button = (text, click, properties = {}) => make("button", { type: "button", on: { click }, ...properties }, text);

export const link = (hash, text, properties = {}) => make("a", { href: hash, ...properties }, text);

let numbers = 0;
export const fresh = (prefix) => `${prefix}-${++numbers}`;

/** A control with a label and a hint. */
export function field(label, control, hint = "") {
  control.id ||= fresh("field");
  const about = hint ? make("small", { id: fresh("hint"), text: hint }) : null;
  if (about) control.setAttribute("aria-describedby", about.id);
  return make("div", { class: "field" }, make("label", { for: control.id, text: label }), control, about);
}

/** A select of [value, text] pairs. */
export function choice(pairs, chosen, properties = {}) {
  const select = make("select", properties);
  for (const [value, text] of pairs) select.append(new Option(text, value, value === chosen, value === chosen));
  return select;
}

/** Announces a text to screen readers, without moving the focus. */
export function announce(text) {
  document.getElementById("announcement").textContent = text;
}

/** A number with its noun in the reader's language; the texts have "{n} call" and "{n} calls". */
export const count = (number, thing, many = `${thing}s`) => t(`{n} ${number === 1 ? thing : many}`, { n: digits(number) });

/** Texts and marks, each mark on the line of what stands before it. */
export function withMarksHeld(parts) {
  const held = [];
  for (const part of parts) {
    const last = held.at(-1);
    const end = typeof part === "string" ? null : last instanceof Element ? "" : /\S{1,8}\s*$/u.exec(last ?? "")?.[0];
    if (end === null || end === undefined) held.push(part);
    else if (last instanceof Element) last.append(part);
    else held.splice(-1, 1, last.slice(0, last.length - end.length), make("span", { class: "held" }, end, part));
  }
  return held;
}

export const spaced = (text) => String(text ?? "").replace(/\s+/g, " ").trim();

/** A note for while something is fetched, which CSS shows after a moment. */
export const waiting = () => make("p", { class: "note waiting", role: "status", text: t("Loading …") });

/** Links to the pages before and after `offset` of a list; null if it has one page. */
export function pager(offset, total, size, address) {
  const links = [];
  if (offset) links.push(link(address(Math.max(0, offset - size) || ""), t("before")));
  if (offset + size < (total ?? 0)) links.push(link(address(offset + size), t("further")));
  return links.length ? make("p", { class: "pages" }, links) : null;
}

/** Shows a dialog, and removes it when it is closed. */
export function openDialog(dialog) {
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** A box with the message and remedy of a problem, and buttons. */
export function problemBox(problem, ...actions) {
  return make("div", { class: "problem", role: "alert" },
    make("p", {}, make("strong", { text: translated(problem.message) })),
    problem.remedy ? make("p", { text: translated(problem.remedy) }) : null,
    actions.length ? make("p", { class: "actions" }, ...actions) : null);
}
