// The texts of the interface in the reader's language, as the browser names it.

import { LANGUAGES, ROWS } from "./translations.js";

/** The first language of the browser that there are texts in, else English. */
export const language = (globalThis.navigator?.languages ?? []).map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];

const words = new Map(ROWS.map((row) => [row[0], row[LANGUAGES.indexOf(language)]]));

/** A text in the reader's language, by the English one; {name} stands for a value. */
export function t(text, values = {}) {
  return (words.get(text) ?? text).replace(/\{(\w+)\}/g, (place, name) => (Object.hasOwn(values, name) ? String(values[name]) : place));
}

/** A number as the reader's language writes it. */
export const digits = (number) => number.toLocaleString(language);
