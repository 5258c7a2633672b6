// The server: requests with a key where one is wanted, events as they come, and whether it is there at all.

import { t } from "./texts.js";

const KEY = "hoptree.key";
const CHECK = { first: 500, most: 5000 };

const PASSING = new Set([408, 429, 500, 502, 503, 504]);
/** Failures told inside a stream, which have no status of their own. */
const PASSING_KINDS = new Set(["Unreachable", "BrokenOff", "EndpointError", "RateLimited", "IndexUnavailable", "InternalError", "Stopped", "TooSlow"]);

let remembers = false;

/** Take note of whether the server remembers what it looked up, for what is said when a connection breaks off. */
export function remembering(does) {
  remembers = does;
}

/** A refusal or failure, in words: what happened, and what to do. */
export class Problem extends Error {
  constructor({ kind = "Problem", message, remedy = "", status = 0, retryable = null }) {
    super(message);
    this.kind = kind;
    this.remedy = remedy;
    this.status = status;
    this.retryable = retryable;
  }

  /** Whether the same may work when it is tried again: as the server says, else by what kind of failure it is. */
  get mayPass() {
    return this.retryable ?? (this.status ? PASSING.has(this.status) : PASSING_KINDS.has(this.kind));
  }
}

/** Tells `lost` when the server does not answer, and `back` when it does again. */
export const connection = new EventTarget();
let lost = false;
let askForKey = async () => null;

/** Who asks the person for a key: called with whether the last one was refused, gives the new one or null. */
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
    remedy: t("It may have been stopped: start it again with hoptree serve. This page goes on when it is back."),
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

/** Sends with the key there is, and asks for one where the server wants it, until it fits or the person gives up. */
async function send(path, { json, signal, ...how }) {
  for (;;) {
    const body = json === undefined ? how.body : JSON.stringify(json);
    const told = headers(json === undefined ? {} : { "Content-Type": "application/json" });
    let answer;
    try {
      answer = await fetch(address(path), { ...how, body, headers: told, signal, cache: "no-store" });
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

/** One question for a key at a time, whatever number of requests want it. */
async function keyGiven() {
  asking ||= askForKey(hasKey()).finally(() => { asking = null; });
  const key = await asking;
  if (key) sessionStorage.setItem(KEY, key);
  return Boolean(key);
}

async function refusal(answer) {
  const told = (await answer.json().catch(() => null))?.error;
  return refusalOf(answer.status, told, (name) => answer.headers.get(name));
}

function refusalOf(status, told, header) {
  const wait = header("Retry-After");
  const retryable = header("x-should-retry") === "false" ? false : told?.retryable;
  const message = told?.message || (status === 401 ? t("This server wants a key.") : t("The server refused this ({status}).", { status }));
  const remedy = told?.remedy || (wait ? t("Try again in {n} s.", { n: wait }) : status >= 500 ? t("See what the server's log says.") : "");
  return new Problem({ kind: told?.class, message, remedy, status, retryable });
}

/** A file in a tab of its own: by its address, or with the key, which a tab does not send, by what was fetched. */
export async function openFile(path) {
  if (!hasKey()) return void window.open(address(path), "_blank", "noopener");
  const [file, page] = path.split(/(?=#[^#]*$)/);
  const made = URL.createObjectURL(await (await send(file, {})).blob());
  window.open(`${made}${page ?? ""}`, "_blank", "noopener");
  setTimeout(() => URL.revokeObjectURL(made), 60_000);
}

/** JSON of an address; null where there is none. */
export async function call(path, how = {}) {
  const answer = await send(path, how);
  return answer.status === 204 ? null : answer.json();
}

/** The events of a stream, as {name, data}, with the id of its answer first; one that breaks off before `result` or `error` is a Problem. */
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
    remedy: remembers ? t("What had come by then is below. Ask again when the server is back: what it has looked up already is remembered.") : t("What had come by then is below. Ask again when the server is back."),
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

/** Sends files, telling how much is gone; fetch cannot tell that. */
export function upload(path, form, progress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(path));
    for (const [name, value] of Object.entries(headers({}))) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => progress(event.loaded, event.lengthComputable ? event.total : 0));
    request.addEventListener("error", () => failed(unreachable()));
    request.addEventListener("load", async () => {
      const told = readJson(request.responseText);
      if (request.status < 300) done(told);
      else if (request.status === 401 && (await keyGiven())) upload(path, form, progress).then(done, failed);
      else failed(refusalOf(request.status, told?.error, (name) => request.getResponseHeader(name)));
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
