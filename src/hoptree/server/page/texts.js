// The texts of the interface in the reader's language, as the browser names it.

import { SERVER_ROWS } from "./server_texts.js";
import { LANGUAGES, ROWS } from "./translations.js";

/** The browser's first language with texts, else English. */
export const language = (globalThis.navigator?.languages ?? []).map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];

const column = LANGUAGES.indexOf(language);
const words = LANGUAGES.map((_, at) => new Map(ROWS.map((row) => [row[0], row[at]])));

const PLACE = /\{(\w+)\}/g;

function filled(text, values) {
  return text.replace(PLACE, (place, name) => (Object.hasOwn(values, name) ? String(values[name]) : place));
}

/** Translates an English text into the reader's language, or `of`; {name} stands for a value. */
export function t(text, values = {}, of = language) {
  return filled(words[LANGUAGES.indexOf(of)]?.get(text) ?? text, values);
}

/** A pattern for an English text: {n} and {m} are numbers, other names any words. */
function pattern(english) {
  const parts = english.split(PLACE).map((part, at) => {
    if (at % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return part === "n" || part === "m" ? `(?<${part}>[\\d.,]+)` : `(?<${part}>.+)`;
  });
  return new RegExp(`^${parts.join("")}$`, "su");
}

const fixed = new Map(SERVER_ROWS.filter(([english]) => !english.includes("{")).map((row) => [row[0], row[column]]));
const varied = column ? SERVER_ROWS.filter(([english]) => english.includes("{")).map((row) => [pattern(row[0]), row[column]]) : [];

/** Adds texts of the server that only some pages show. */
export function learn(rows) {
  for (const row of rows) fixed.set(row[0], row[column]);
}

/** Localises a number in a text of the server, but not 1.2, which may be a node, unless it is seconds. */
function written(name, value) {
  if (/^\d{1,3}(,\d{3})+$/.test(value)) return digits(Number(value.replaceAll(",", "")));
  return name === "seconds" && /^\d+\.\d$/.test(value) ? decimal(Number(value)) : value;
}

/** The words of a row for a text of the server, or the text. */
function looked(text) {
  if (fixed.has(text)) return fixed.get(text);
  for (const [english, own] of varied) {
    const match = english.exec(text);
    if (match) return filled(own, Object.fromEntries(Object.entries(match.groups).map(([name, value]) => [name, placed(name, value)])));
  }
  const mark = ["; ", ", "].find((each) => text.includes(each) && text.split(each).every((part) => translated(part) !== part));
  return mark ? text.split(mark).map(translated).join(language === "zh" ? (mark === "; " ? "；" : "，") : mark) : text;
}

function placed(name, value) {
  if (name === "SENTENCES") return eachTranslated(value);
  return name === name.toUpperCase() ? translated(value) : written(name, value);
}

/** Translates the sentences of a text if there are rows for all; a file name may hold ". " too. */
function eachTranslated(text) {
  const parts = text.split(/(?<=\.) /);
  const own = [];
  for (let [from, to] = [0, 1]; from < parts.length; to += 1) {
    if (to > parts.length) return text;
    const sentence = parts.slice(from, to).join(" ");
    const words = looked(sentence);
    if (words === sentence) continue;
    own.push(words);
    from = to;
  }
  return own.join(language === "zh" ? "" : " ");
}

/** Translates a text of the server, if there are rows for it. */
export function translated(text) {
  if (!column || typeof text !== "string" || !text) return text;
  const own = looked(text);
  return own === text && text.includes(". ") ? eachTranslated(text) : own;
}

/** A number in the reader's language. */
export const digits = (number) => number.toLocaleString(language);

/** A number with a fixed number of decimal places, in the reader's language. */
export const decimal = (number, places = 1) => number.toLocaleString(language, { minimumFractionDigits: places, maximumFractionDigits: places });
