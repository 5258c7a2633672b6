// Passages, with the sentence that holds the answer marked.

import { button, make, spaced } from "./dom.js";
import { openSource } from "./source.js";
import { t } from "./texts.js";
import { unwrapped } from "./words.js";

const splitter = Intl.Segmenter ? new Intl.Segmenter("en", { granularity: "sentence" }) : null;
const SHORT = /(?:^|[\s(])(?:\p{Lu}|St|Dr|Mr|Mrs|Ms|Prof|Jr|Sr|vs|No|Mt|Lt|Gen|Col|Capt|c|ca|approx|(?:[Aa]m|[Ii]m|[Dd](?:er|ie|as|en|em|es)|[Vv]om|[Zz]u[mr]|[Bb]is)\s\d{1,3})\.\s*$/u;
/** Letters of scripts without spaces, each of which is a word; hoptree.text.tokens has the same. */
const UNSPACED = "[\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}]";
const SPACED = `(?:(?!${UNSPACED})[\\p{L}\\p{N}])`;
const LETTERS = new RegExp(`${UNSPACED}|${SPACED}+`, "gu");
const isUnspaced = (word) => Boolean(word) && new RegExp(`^${UNSPACED}`, "u").test(word);
const UNTOLD = new Set(["yes", "no", "true", "false"]);

/** A line of the head of an e-mail, which states an answer only if nothing else does. */
const MAIL_HEAD = /^(?:From|To|Cc|Date): /;

/** Splits a text into sentences with their trailing spaces. */
export function sentences(wrapped) {
  const text = unwrapped(wrapped);
  if (!splitter) return text.match(/[^.!?]*[.!?]*\s*/g)?.filter(Boolean) ?? [text];
  const parts = [];
  for (const { segment } of splitter.segment(text)) {
    const last = parts.length - 1;
    if (last >= 0 && SHORT.test(parts[last])) parts[last] += segment;
    else parts.push(segment);
  }
  return parts;
}

const wordsOf = (text) => text.toLowerCase().match(LETTERS) ?? [];

/** A pattern for an answer of one letter, such as B or C++, not an article or part of a code; hoptree.text.equal_forms has the same. */
function loneLetter(letter, marks) {
  const code = marks ? "" : "|[-/.][\\p{L}\\p{N}_]|\\s?\\p{N}|['’][\\p{L}\\p{N}_]";
  const alone = `(?<![\\p{L}\\p{N}_.\\-/])${letter}${marks.replaceAll("+", "\\+")}(?![\\p{L}\\p{N}_+#]${code})`;
  if (marks || !"AI".includes(letter)) return new RegExp(alone, "iu");
  return new RegExp(`(?<=[\\p{L}\\p{N}_,;:]\\s)${alone}(?!\\s+[A-Z])|(?<=["“„'‘([])${letter}(?=["”“'’)\\]])`, "u");
}

/** A pattern for an option or variable of one letter, such as -M or $x, else null. */
function loneOption(answer) {
  const [, sign, letter] = /^[^\p{L}\p{N}]*?([-‐‑−~@#$%&\\.])(\p{L})[^\p{L}\p{N}]*$/u.exec(answer) ?? [];
  if (!letter) return null;
  return new RegExp(`(?<![\\p{L}\\p{N}_.‐‑−-])[${"-‐‑−".includes(sign) ? "‐‑−-" : sign.replace("\\", "\\\\")}]${letter}(?![\\p{L}\\p{N}_])`, "u");
}

/** Start and end of an answer in a text, as whole words in any case; null if it is not there. */
export function placeOf(text, answer) {
  const words = String(answer ?? "").match(LETTERS);
  if (!words || (words.length === 1 && UNTOLD.has(words[0].toLowerCase()))) return null;
  if (words.length === 1 && /^\p{L}$/u.test(words[0]) && !isUnspaced(words[0])) {
    const marks = /\p{L}([+#]*)/u.exec(answer)[1];
    const lone = (loneOption(answer) ?? loneLetter(words[0].toUpperCase(), marks)).exec(text);
    return lone ? [lone.index, lone.index + lone[0].length] : null;
  }
  const form = words.map((word, at) => `${at ? `[^\\p{L}\\p{N}]${isUnspaced(word) || isUnspaced(words[at - 1]) ? "*" : "+"}` : ""}${word}`).join("");
  const [before, behind] = [isUnspaced(words[0]) ? "" : `(?<!${SPACED})`, isUnspaced(words.at(-1)) ? "" : `(?!${SPACED})`];
  const match = new RegExp(`${before}${form}${behind}`, "iu").exec(text);
  return match ? [match.index, match.index + match[0].length] : null;
}

/** The index of a quoted or cited sentence, else of one with an answer and most words of the question, or -1. */
export function usedSentence(parts, { answers = [], question = "", cited = [], quote = "" }) {
  const words = spaced(quote).split("…").map((piece) => piece.trim()).filter(Boolean);
  const whole = words.length ? parts.findIndex((part) => words.every((piece) => spaced(part).includes(piece))) : -1;
  if (whole >= 0) return whole;
  const quoted = parts.findIndex((part) => cited.some((sentence) => sentence && spaced(part) && spaced(sentence).includes(spaced(part))));
  if (quoted >= 0) return quoted;
  const asked = new Set(wordsOf(question));
  let best = -1;
  let most = -1;
  for (const [place, part] of parts.entries()) {
    if (!answers.some((answer) => placeOf(part, answer))) continue;
    const shared = MAIL_HEAD.test(part) ? -0.5 : new Set(wordsOf(part).filter((word) => asked.has(word))).size;
    if (shared > most) [best, most] = [place, shared];
  }
  return best;
}

/** Draws passages: cited ones by number, then those with a used sentence, and others folded. */
export function passages(pairs, corpus = "") {
  const read = pairs.map(([hit, used]) => ({ hit, used, place: usedSentence(sentences(hit.text ?? ""), used) }));
  const anyUsed = read.some(({ place }) => place >= 0);
  const numbered = read.filter(({ used }) => used.number).sort((a, b) => a.used.number - b.used.number);
  const others = read.filter(({ used }) => !used.number);
  return [...numbered, ...others.filter(({ place }) => place >= 0), ...others.filter(({ place }) => place < 0)]
    .map((each) => passage(each, !each.used.number && (anyUsed || numbered.length > 0) && each.place < 0, corpus));
}

/** The nodes of a passage's text, with the sentence marked that was used, or the words of a search. */
export function withMarks(text, used) {
  if (used.words) return withWords(text, used.words);
  const parts = sentences(text);
  const place = usedSentence(parts, used);
  return parts.flatMap((part, at) => (at === place ? [marked(part.trimEnd(), used.answers ?? []), part.slice(part.trimEnd().length)] : part));
}

function passage({ hit, used, place }, folded, corpus) {
  const name = [used.number ? make("span", { class: "cited-as", text: `[${used.number}]` }) : null, make("span", { text: hit.title || hit.id }), hit.title ? make("code", { text: hit.id }) : null];
  const source = corpus ? button(t("In its source"), () => openSource(corpus, hit, used.words ? undefined : (text) => withMarks(text, used)), { class: "quiet to-source" }) : null;
  const box = folded ? make("details", { class: "passage" }, make("summary", { dir: "auto" }, name[1]))
    : make("article", { class: "passage" }, make("h4", { dir: "auto" }, [...name, source].flatMap((part) => [part, " "])));
  if (hit.text === undefined) {
    box.append(make("p", { class: "note", text: t("Its text comes with the answer.") }));
    return box;
  }
  box.append(make("p", { class: "quoted", dir: "auto" }, withMarks(hit.text, used)));
  if (folded && source) box.append(source);
  if (!folded && place < 0 && (used.answers ?? []).some((answer) => answer && !UNTOLD.has(answer.toLowerCase()))) {
    box.append(make("p", { class: "note unheld", text: t("It does not contain the answer word for word.") }));
  }
  return box;
}

/** A text with the words of a search marked, also in other forms: bee, bees. */
function withWords(wrapped, query) {
  const text = unwrapped(wrapped);
  const stems = new Set(wordsOf(query).filter((word) => !isUnspaced(word) && (word.length > 2 || /[^a-z]/.test(word))).map(stem));
  const pieces = [];
  let at = 0;
  for (const { 0: word, index } of text.matchAll(LETTERS)) {
    if (index < at) continue;
    const end = isUnspaced(word) ? sharedEnd(text, index, query) : stems.has(stem(word.toLowerCase())) ? index + word.length : index;
    if (end === index) continue;
    pieces.push(text.slice(at, index), make("mark", { text: text.slice(index, end) }));
    at = end;
  }
  return [...pieces, text.slice(at)];
}

/** The end of letters that a text shares with a query: at least two, unless the query is one. */
function sharedEnd(text, start, query) {
  let end = start;
  while (end < text.length && query.includes(text.slice(start, end + 1))) end += 1;
  return end - start >= Math.min(2, query.trim().length) ? end : start;
}

const stem = (word) => (word.length > 4 ? word.replace(/(?:ies|es|s|ed|ing|en|er|e)$/, "") : word.length > 3 ? word.replace(/s$/, "") : word);

function marked(sentence, answers) {
  const mark = make("mark");
  const place = answers.map((answer) => placeOf(sentence, answer)).find(Boolean);
  if (!place) mark.textContent = sentence;
  else mark.append(sentence.slice(0, place[0]), make("b", { text: sentence.slice(...place) }), sentence.slice(place[1]));
  return mark;
}

/** Facts of a graph: subject, relation, object. */
export function facts(list) {
  return make("ul", { class: "facts" }, list.map((fact) => make("li", { dir: "auto" },
    fact.flatMap((part, place) => [place ? make("span", { class: "dash", text: " — " }) : null,
      make(place === 1 ? "em" : "span", { text: part })]))));
}
