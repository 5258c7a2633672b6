// Requests to the server: with a key if it wants one, streams, uploads, and the state of the connection.

import { t } from "./texts.js";

const KEY = "hoptree.key";
const CHECK = { first: 500, most: 5000 };

const PASSING = new Set([408, 429, 500, 502, 503, 504]);
/** Failures inside a stream, which have no status. */
const PASSING_KINDS = new Set(["Unreachable", "BrokenOff", "EndpointError", "RateLimited", "IndexUnavailable", "InternalError", "Stopped", "TooSlow"]);

let remembers = false;

/** Sets whether the server caches replies, which the message about a broken connection mentions. */
export function remembering(does) {
  remembers = does;
}

/** A refusal or failure, with a message and a remedy. */
export class Problem extends Error {
  constructor({ kind = "Problem", message, remedy = "", status = 0, retryable = null }) {
    super(message);
    this.kind = kind;
    this.remedy = remedy;
    this.status = status;
    this.retryable = retryable;
  }

  /** Whether a retry may work: as the server says, else by status or kind. */
  get mayPass() {
    return this.retryable ?? (this.status ? PASSING.has(this.status) : PASSING_KINDS.has(this.kind));
  }
}

/** Dispatches `lost` when the server does not answer, and `back` when it does again. */
export const connection = new EventTarget();
let lost = false;
let askForKey = async () => null;

/** Sets the function that asks for a key: it gets whether the last key was refused, and returns one or null. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

export const hasKey = () => Boolean(sessionStorage.getItem(KEY));
export const forgetKey = () => sessionStorage.removeItem(KEY);

const address = (path) => new URL(path, document.baseURI.split("#")[0]).href;

function unreachable() {
  watch();
  return new Problem({
    kind: "Unreachable",
    message: t("The server does not answer."),
    remedy: t("It may have been stopped: start it again with hoptree serve. This page reconnects when it is back."),
  });
}

async function watch() {
  if (lost) return;
  lost = true;
  connection.dispatchEvent(new Event("lost"));
  for (let wait = CHECK.first; lost; wait = Math.min(wait * 1.5, CHECK.most)) {
    await new Promise((done) => setTimeout(done, wait));
    const answer = await fetch(address("health"), { cache: "no-store" }).catch(() => null);
    if (answer?.ok) {
      lost = false;
      connection.dispatchEvent(new Event("back"));
    }
  }
}

function headers(more) {
  const key = sessionStorage.getItem(KEY);
  return { ...more, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

/** Sends a request with the key; if the server refuses it, asks for another until the person cancels. */
async function send(path, { json, signal, ...how }) {
  for (;;) {
    const body = json === undefined ? how.body : JSON.stringify(json);
    const allHeaders = headers(json === undefined ? {} : { "Content-Type": "application/json" });
    let answer;
    try {
      answer = await fetch(address(path), { ...how, body, headers: allHeaders, signal, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw unreachable();
    }
    if (answer.status === 401 && (await keyGiven())) continue;
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }
}

let asking = null;

/** Asks for a key once, however many requests need it. */
async function keyGiven() {
  asking ||= askForKey(hasKey()).finally(() => { asking = null; });
  const key = await asking;
  if (key) sessionStorage.setItem(KEY, key);
  return Boolean(key);
}

async function refusal(answer) {
  const error = (await answer.json().catch(() => null))?.error;
  return refusalOf(answer.status, error, (name) => answer.headers.get(name));
}

function refusalOf(status, error, header) {
  const wait = header("Retry-After");
  const retryable = header("x-should-retry") === "false" ? false : error?.retryable;
  const message = error?.message || (status === 401 ? t("This server needs a key.") : t("The server refused this ({status}).", { status }));
  const remedy = error?.remedy || (wait ? t("Try again in {n} s.", { n: wait }) : status >= 500 ? t("See what the server's log says.") : "");
  return new Problem({ kind: error?.class, message, remedy, status, retryable });
}

/** Opens a file in a new tab; with a key, which a tab does not send, it is fetched first, and HTML is shown as text. */
export async function openFile(path) {
  if (!hasKey()) return void window.open(address(path), "_blank", "noopener");
  const [file, page] = path.split(/(?=#[^#]*$)/);
  const content = await (await send(file, {})).blob();
  const url = URL.createObjectURL(new Blob([content], { type: content.type.replace(/^text\/html/, "text/plain") })); // it is of this page's origin
  window.open(`${url}${page ?? ""}`, "_blank", "noopener");
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Returns the JSON of an address, or null for an empty reply. */
export async function call(path, how = {}) {
  const answer = await send(path, how);
  return answer.status === 204 ? null : answer.json();
}

/** Yields the id of the answer, then the events of a stream, as {name, data}; throws a Problem if the stream breaks off. */
export async function* stream(path, json, signal, heard = () => {}) {
  const answer = await send(path, { method: "POST", json, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let ended = false;
  yield { name: "open", data: { id: answer.headers.get("Hoptree-Answer") ?? "" } };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      heard();
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const event of blocks.map(readEvent).filter(Boolean)) {
        ended ||= event.name === "result" || event.name === "error";
        yield event;
      }
    }
  } catch (error) {
    if (signal?.aborted || error instanceof Problem) throw error;
  } finally {
    reader.cancel().catch(() => {});
  }
  if (ended) return;
  await stillThere();
  throw new Problem({
    kind: "BrokenOff",
    message: t("The connection to the server broke off before the answer was there."),
    remedy: remembers ? t("What had arrived by then is below. Ask again when the server is back: what it has looked up already is remembered.") : t("What had arrived by then is below. Ask again when the server is back."),
  });
}

async function stillThere() {
  const answer = await fetch(address("health"), { cache: "no-store" }).catch(() => null);
  if (!answer?.ok) watch();
}

function readEvent(block) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length ? { name, data: JSON.parse(data.join("\n")) } : null;
}

/** Sends files and reports progress, which fetch cannot do. */
export function upload(path, form, progress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(path));
    for (const [name, value] of Object.entries(headers({}))) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => progress(event.loaded, event.lengthComputable ? event.total : 0));
    request.addEventListener("error", () => failed(unreachable()));
    request.addEventListener("load", async () => {
      const reply = readJson(request.responseText);
      if (request.status < 300) done(reply);
      else if (request.status === 401 && (await keyGiven())) upload(path, form, progress).then(done, failed);
      else failed(refusalOf(request.status, reply?.error, (name) => request.getResponseHeader(name)));
    });
    request.send(form);
  });
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
