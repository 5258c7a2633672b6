// What this browser remembers of the person who uses it: choices, and the questions that were asked.

const CHOICES = "hoptree.choices";
const HISTORY = "hoptree.history";
const TURNS = "hoptree.turns";
const MOST = 50;

function read(name, otherwise, storage = "localStorage") {
  try {
    return JSON.parse(globalThis[storage].getItem(name)) ?? otherwise;
  } catch { // no storage here, or not of our making
    return otherwise;
  }
}

function write(name, value, storage = "localStorage") {
  try {
    globalThis[storage].setItem(name, JSON.stringify(value));
  } catch { // full or forbidden: the page works without
  }
}

/** The choices under "Advanced", as an address has them, and whether they are shown. */
export const choices = () => {
  const kept = read(CHOICES, {});
  return { open: kept?.open === true, query: typeof kept?.query === "string" ? kept.query : "" };
};
export const keepChoices = (changed) => write(CHOICES, { ...choices(), ...changed });

/** Questions that were asked, the latest first, as {question, answer, hash, at}. */
export function history() {
  const kept = read(HISTORY, []);
  return (Array.isArray(kept) ? kept : []).filter((one) => typeof one?.question === "string" && String(one.hash).startsWith("#/"));
}

export function remember(entry) {
  write(HISTORY, [entry, ...history().filter((one) => one.question !== entry.question)].slice(0, MOST));
}

export function forgetHistory() {
  write(HISTORY, []);
  keepTurns([]);
}

/** The conversation of this tab, which outlasts loading the page again, as {question, answer}. */
export function turns() {
  const kept = read(TURNS, [], "sessionStorage");
  return (Array.isArray(kept) ? kept : []).filter((one) => typeof one?.question === "string" && typeof one.answer === "string");
}

export const keepTurns = (list) => write(TURNS, list.slice(-MOST), "sessionStorage");
