// Elements out of plain values. Whatever comes from a corpus, a model or the server is only ever a text node: nothing
// here parses markup, and a link leads nowhere but to another part of this page.

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

/** A label above its control. */
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

/** Tells a screen reader, without moving the focus. */
export function announce(text) {
  document.getElementById("announcement").textContent = text;
}

/** A number of things, in the reader's language: the texts have "{n} call" and "{n} calls". */
export const count = (number, thing, many = `${thing}s`) => t(`{n} ${number === 1 ? thing : many}`, { n: digits(number) });

export const spaced = (text) => String(text ?? "").replace(/\s+/g, " ").trim();

/** What went wrong, why, and what to do about it. */
export function problemBox(problem, ...actions) {
  return make("div", { class: "problem", role: "alert" },
    make("p", {}, make("strong", { text: translated(problem.message) })),
    problem.remedy ? make("p", { text: translated(problem.remedy) }) : null,
    actions.length ? make("p", { class: "actions" }, ...actions) : null);
}
