// What this browser remembers of the person who uses it: choices, and the questions that were asked.

const CHOICES = "hoptree.choices";
const HISTORY = "hoptree.history";
const MOST = 50;

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch { // no storage here, or not of our making
    return otherwise;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
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

export const forgetHistory = () => write(HISTORY, []);
