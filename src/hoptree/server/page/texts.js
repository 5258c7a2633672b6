// The texts of the interface in the reader's language, as the browser names it.

import { SERVER_ROWS } from "./server_texts.js";
import { LANGUAGES, ROWS } from "./translations.js";

/** The first language of the browser that there are texts in, else English. */
export const language = (globalThis.navigator?.languages ?? []).map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];

const column = LANGUAGES.indexOf(language);
const words = LANGUAGES.map((_, at) => new Map(ROWS.map((row) => [row[0], row[at]])));

const PLACE = /\{(\w+)\}/g;

function filled(text, values) {
  return text.replace(PLACE, (place, name) => (Object.hasOwn(values, name) ? String(values[name]) : place));
}

/** A text in the reader's language, or another one, by the English one; {name} stands for a value. */
export function t(text, values = {}, of = language) {
  return filled(words[LANGUAGES.indexOf(of)]?.get(text) ?? text, values);
}

/** What the server writes where a value stands: {n} and {m} are numbers, all others any words. */
function pattern(english) {
  const parts = english.split(PLACE).map((part, at) => {
    if (at % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return part === "n" || part === "m" ? `(?<${part}>[\\d.,]+)` : `(?<${part}>.+)`;
  });
  return new RegExp(`^${parts.join("")}$`, "su");
}

const fixed = new Map(SERVER_ROWS.filter(([english]) => !english.includes("{")).map((row) => [row[0], row[column]]));
const varied = column ? SERVER_ROWS.filter(([english]) => english.includes("{")).map((row) => [pattern(row[0]), row[column]]) : [];

/** Further texts of the server, of a page that shows them. */
export function learn(rows) {
  for (const row of rows) fixed.set(row[0], row[column]);
}

/** A value of the server as the reader's language writes it: thousands, and the parts of seconds; 1.2 may be a node. */
function written(name, value) {
  if (/^\d{1,3}(,\d{3})+$/.test(value)) return digits(Number(value.replaceAll(",", "")));
  return name === "seconds" && /^\d+\.\d$/.test(value) ? decimal(Number(value)) : value;
}

/** What the server said, in the reader's language where there are words for it. */
export function translated(text) {
  if (!column || typeof text !== "string" || !text) return text;
  if (fixed.has(text)) return fixed.get(text);
  for (const [english, own] of varied) {
    const match = english.exec(text);
    if (match) return filled(own, Object.fromEntries(Object.entries(match.groups).map(([name, value]) => [name, name === name.toUpperCase() ? translated(value) : written(name, value)])));
  }
  const mark = ["; ", ", "].find((each) => text.includes(each) && text.split(each).every((part) => translated(part) !== part));
  return mark ? text.split(mark).map(translated).join(language === "zh" ? (mark === "; " ? "；" : "，") : mark) : text;
}

/** A number as the reader's language writes it. */
export const digits = (number) => number.toLocaleString(language);

/** A number with so many places behind the point, or the comma. */
export const decimal = (number, places = 1) => number.toLocaleString(language, { minimumFractionDigits: places, maximumFractionDigits: places });
