// What this browser remembers: choices in the form, and earlier questions.

const CHOICES = "hoptree.choices";
const HISTORY = "hoptree.history";
const TURNS = "hoptree.turns";
const ASKING = "hoptree.asking";
const MOST = 50;

function read(name, otherwise, storage = "localStorage") {
  try {
    return JSON.parse(globalThis[storage].getItem(name)) ?? otherwise;
  } catch { // no storage, or not our data
    return otherwise;
  }
}

function write(name, value, storage = "localStorage") {
  try {
    globalThis[storage].setItem(name, JSON.stringify(value));
  } catch { // full or forbidden: the page works without it
  }
}

/** The choices under "Advanced" as a query, and whether they are shown. */
export const choices = () => {
  const kept = read(CHOICES, {});
  return { open: kept?.open === true, query: typeof kept?.query === "string" ? kept.query : "" };
};
export const keepChoices = (changed) => write(CHOICES, { ...choices(), ...changed });

/** Remembers the corpus of a question, however it was chosen. */
export function keepCorpus(name) {
  const query = new URLSearchParams(choices().query);
  query.set("corpus", name);
  keepChoices({ query: query.toString() });
}

/** Earlier questions, newest first, as {question, answer, hash, at}. */
export function history() {
  const kept = read(HISTORY, []);
  return (Array.isArray(kept) ? kept : []).filter((entry) => typeof entry?.question === "string" && String(entry.hash).startsWith("#/"));
}

export function remember(entry) {
  write(HISTORY, [entry, ...history().filter((other) => other.question !== entry.question)].slice(0, MOST));
}

export function forgetHistory() {
  write(HISTORY, []);
  keepTurns([]);
}

/** The conversation of this tab, which survives a reload, as {question, answer}. */
export function turns() {
  const kept = read(TURNS, [], "sessionStorage");
  return (Array.isArray(kept) ? kept : []).filter((turn) => typeof turn?.question === "string" && typeof turn.answer === "string");
}

/** The address of the question of this tab that is being answered; "" for none. */
export const asking = () => read(ASKING, "", "sessionStorage");
export const keepAsking = (key) => write(ASKING, key, "sessionStorage");

export const keepTurns = (list) => write(TURNS, list.slice(-MOST), "sessionStorage");
