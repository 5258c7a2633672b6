// The texts of the interface. English is the key; German and Chinese stand in tables of their own.

import { DE } from "./texts_de.js";
import { ZH } from "./texts_zh.js";

const TABLES = { en: {}, de: DE, zh: ZH };

/** The first language of the browser that there are texts in, else English. */
export const language = (globalThis.navigator?.languages ?? []).map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => Object.hasOwn(TABLES, tag)) ?? "en";

/** A text in the reader's language; {name} stands for a value. */
export function t(text, values = {}) {
  const words = Object.hasOwn(TABLES[language], text) ? TABLES[language][text] : text;
  return words.replace(/\{(\w+)\}/g, (place, name) => (Object.hasOwn(values, name) ? String(values[name]) : place));
}

/** A number as the reader's language writes it. */
export const digits = (number) => number.toLocaleString(language);
