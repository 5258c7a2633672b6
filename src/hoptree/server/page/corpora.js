// The page of corpora: list, upload, search, and add or remove documents.

import { call, connection, upload } from "./api.js";
import { announce, button, count, field, link, make, openDialog, pager, problemBox, waiting } from "./dom.js";
import { passages as drawn } from "./evidence.js";
import { write } from "./route.js";
import { digits, t, translated } from "./texts.js";

const POLL = 400;
const PAGE = 50;
const FOUND = 5;
const PASSED_OVER_SHOWN = 10;
const SEND_AGAIN = t("Nothing was changed. Look at the files, and send them again.");

export class CorporaPage {
  constructor({ onChange }) {
    this.onChange = onChange;
    this.body = make("div");
    this.element = make("section", { class: "page", "aria-label": t("Corpora") }, this.body);
    connection.addEventListener("back", () => { if (this.element.isConnected && this.body.querySelector(":scope > .problem")) this.show(this.query, this.path); });
  }

  async show(query, path) {
    if (this.path !== path) this.body.replaceChildren(waiting()); // what stood here belongs to another address: nobody is to click on it
    [this.query, this.path] = [query, path];
    const [name] = path;
    document.title = name ? `${name} – ${t("Corpora")} – Hoptree` : `${t("Corpora")} – Hoptree`;
    let corpora;
    try {
      ({ corpora, uploads: this.uploads, uploads_off: this.uploadsOff, upload_limits: this.limits } = await call("v1/corpora"));
    } catch (problem) {
      this.body.replaceChildren(make("h1", { text: t("Corpora") }), problemBox(problem, button(t("Try again"), () => this.show(query, path))));
      return;
    }
    if (this.path !== path) return;
    if (!name) this.#showAll(corpora);
    else this.#showOne(corpora.find((corpus) => corpus.name === name), name, Number(query.get("offset")) || 0);
  }

  #showAll(corpora) {
    const list = make("div");
    this.#drawList(list, corpora);
    this.body.replaceChildren(
      make("h1", { text: t("Corpora") }), list,
      this.uploads ? this.#newForm(corpora, () => this.#reload(list)) : this.#noUploads());
  }

  #drawList(list, corpora) {
    const rows = corpora.map((corpus) => make("li", { class: "entry" },
      make("div", { class: "entry-head" }, link(write(["corpora", corpus.name]), corpus.name, { class: "title" }),
        make("span", { class: "note", text: sizes(corpus) })),
      corpus.job ? this.#follow(make("div", { class: "job" }), corpus.job, (job) => { if (!job.passed_over?.length) this.#reload(list); }) : null));
    list.replaceChildren(corpora.length ? make("ul", { class: "entries" }, rows) : make("p", { class: "note", text: t("There are none yet.") }));
  }

  /** Updates the list, and leaves the form below it as it is. */
  async #reload(list) {
    const reply = await call("v1/corpora").catch(() => null);
    if (reply && list.isConnected) this.#drawList(list, reply.corpora);
  }

  #noUploads() {
    return make("p", { class: "note warm uploads-off", text: t("Files cannot be uploaded here. {why}", { why: translated(this.uploadsOff ?? "") }) });
  }

  #newForm(corpora, changed) {
    const name = make("input", { type: "text", autocomplete: "off", placeholder: t("Reports 2026") });
    const taken = corpora.map((corpus) => corpus.name);
    const hint = make("small", { class: "note", role: "status" });
    const form = this.#filesForm(t("Make a corpus"), t("Make the corpus"), async (data, box) => {
      const chosen = corpusName(name.value || stem(naming(data.getAll("files"))?.name ?? ""), taken);
      data.append("name", chosen);
      await this.#send("v1/corpora", data, box, () => {
        taken.push(chosen);
        form.reset();
        box.append(make("p", {}, `${t("{name} is ready.", { name: chosen })} `, link(write(["ask"], { corpus: chosen }), t("Ask it something")), ` ${t("or")} `,
          link(write(["corpora", chosen]), t("look at it")), "."));
        announce(t("{name} is ready.", { name: chosen }));
        changed();
      });
    });
    name.addEventListener("input", () => {
      const chosen = corpusName(name.value, taken);
      hint.textContent = name.value && chosen !== name.value ? t("It will be called {name}.", { name: chosen }) : "";
    });
    form.addEventListener("reset", () => { hint.textContent = ""; });
    form.querySelector("h2").after(field(t("Name"), name, t("Any; left empty, that of the first file.")), hint);
    return form;
  }

  /** A form for files, chosen or dropped, with a box for their progress. */
  #filesForm(title, action, submit) {
    const files = make("input", { type: "file", multiple: true, required: true });
    const box = make("div", { class: "job" });
    const send = make("button", { type: "submit", class: "main" }, action);
    const size = make("p", { class: "note", role: "status" });
    const { bytes, files: most } = this.limits;
    const kinds = t("PDF, Word, PowerPoint, Excel, HTML, Markdown, text, e-mail, JSON, or .zip archives of them. You can drop them here too.");
    const form = make("form", { class: "files" }, make("h2", { text: title }),
      field(t("Files"), files, `${kinds} ${t("At most {size} and {n} files at once.", { size: units(bytes), n: digits(most) })}`), size,
      make("p", { class: "actions" }, send), box);
    const tell = () => {
      const sum = [...files.files].reduce((total, file) => total + file.size, 0);
      size.textContent = files.files.length ? `${count(files.files.length, "file")}, ${units(sum)}${sum > bytes ? `: ${t("that is more than {size}, send fewer at once.", { size: units(bytes) })}` : ""}` : "";
      size.classList.toggle("warm", sum > bytes);
    };
    files.addEventListener("change", tell);
    form.addEventListener("reset", () => { size.textContent = ""; });
    form.addEventListener("dragover", (event) => { event.preventDefault(); form.classList.add("over"); });
    form.addEventListener("dragleave", () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      form.classList.remove("over");
      if (event.dataTransfer.files.length) files.files = event.dataTransfer.files;
      tell();
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const data = new FormData();
      for (const file of files.files) data.append("files", file, fileName(file.name));
      send.disabled = true;
      try {
        await submit(data, box);
      } finally {
        send.disabled = false;
      }
    });
    return form;
  }

  async #send(path, data, box, done) {
    const bar = make("progress", { max: "1", value: "0", "aria-label": t("Sent") });
    const words = make("p", { class: "note", text: t("Sending …") });
    box.replaceChildren(bar, words);
    try {
      const reply = await upload(path, data, (sent, total) => {
        if (total) bar.value = sent / total;
        words.textContent = total ? t("Sent {size} of {total}", { size: units(sent), total: units(total) }) : t("Sent {size}", { size: units(sent) });
      });
      this.#follow(box, reply.job, done);
    } catch (problem) {
      box.replaceChildren(problemBox({ message: problem.message, remedy: problem.remedy || SEND_AGAIN }));
    }
  }

  /** Shows the progress of a job until it ends, and waits while the server is away. */
  #follow(box, job, done) {
    const bar = make("progress", { "aria-label": t("Indexed") });
    const words = make("p", { class: "note", text: t("Indexing …") });
    box.replaceChildren(bar, words);
    const id = typeof job === "object" ? job.id : job;
    const look = async () => {
      let latest;
      try {
        latest = await call(`v1/jobs/${encodeURIComponent(id)}`);
      } catch (problem) {
        if (problem.status) {
          box.replaceChildren(problemBox(problem));
          return;
        }
        connection.addEventListener("back", look, { once: true });
        return;
      }
      if (latest.total) {
        bar.max = latest.total;
        bar.value = latest.done ?? 0;
      }
      words.textContent = [translated(latest.message) || t("Indexing …"), latest.total ? howFar(latest) : ""].filter(Boolean).join(" · ");
      if (latest.state === "running") setTimeout(look, POLL);
      else this.#ended(box, latest, done);
    };
    look();
    return box;
  }

  #ended(box, job, done) {
    if (job.state === "done") {
      box.replaceChildren(make("p", { class: "good", role: "status", text: translated(job.message) || t("Done.") }), ...passedOver(job.passed_over ?? []));
      this.onChange();
      if (box.isConnected) done(job);
      return;
    }
    const message = job.error?.message || (job.state === "stopped" ? t("It was stopped before it was done.") : job.message || t("It failed."));
    box.replaceChildren(problemBox({ message, remedy: job.error?.remedy || SEND_AGAIN }));
  }

  async #showOne(corpus, name, offset) {
    const head = [make("p", { class: "crumbs" }, link("#/corpora", t("Corpora"))), make("h1", { text: name })];
    if (!corpus) {
      this.body.replaceChildren(...head, problemBox({ message: t("There is no corpus “{name}”.", { name }), remedy: t("It may have been removed. The list shows all there are.") }));
      return;
    }
    const job = make("div", { class: "job" });
    if (corpus.job) this.#follow(job, corpus.job, (ended) => { if (!ended.passed_over?.length) this.show(this.query, this.path); });
    const documents = make("div");
    const size = make("p", { class: "note", text: about(corpus) });
    const changed = async () => {
      const now = (await call("v1/corpora").catch(() => null))?.corpora.find((other) => other.name === name);
      if (now) size.textContent = about(now);
      await this.#drawDocuments(documents, name, offset);
    };
    const parts = [...head,
      size, make("p", {}, link(write(["ask"], { corpus: name }), t("Ask it something"))), job, this.#searchForm(name)];
    if (corpus.managed && !this.uploads) parts.push(this.#noUploads(), documents);
    else if (corpus.managed) {
      const form = this.#filesForm(t("Add documents"), t("Add them"), (data, box) => this.#send(`v1/corpora/${encodeURIComponent(name)}/documents`, data, box, () => {
        form.reset();
        return changed();
      }));
      parts.push(form, documents,
        make("p", { class: "actions" }, button(t("Remove this corpus …"), () => this.#removeCorpus(name, corpus), { class: "danger" })));
    } else parts.push(make("p", { class: "note", text: t("It was given to the server when it was started, so it is not changed from here.") }));
    this.body.replaceChildren(...parts);
    if (corpus.managed) await this.#drawDocuments(documents, name, offset);
  }

  #refresh() {
    this.onChange();
    this.show(this.query, this.path);
  }

  #searchForm(name) {
    const words = make("input", { type: "search", required: true, placeholder: t("Words to look for") });
    const results = make("div", { class: "found" });
    const form = make("form", { class: "search" }, make("div", { class: "line" }, field(t("Search it"), words), make("button", { type: "submit" }, t("Search"))), results);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const { passages } = await call("v1/search", { method: "POST", json: { query: words.value, corpus: name, k: FOUND } });
        results.replaceChildren(...(passages.length ? drawn(passages.map((passage) => [passage, { words: words.value }]), name) : [make("p", { class: "note", text: t("Nothing was found.") })]));
      } catch (problem) {
        results.replaceChildren(problemBox(problem));
      }
    });
    return form;
  }

  async #drawDocuments(box, name, offset) {
    let page;
    try {
      page = await call(`v1/corpora/${encodeURIComponent(name)}/documents?offset=${offset}&limit=${PAGE}`);
    } catch (problem) {
      box.replaceChildren(make("h2", { text: t("Documents") }), problemBox(problem));
      return;
    }
    const rows = page.documents.map((file) => make("li", { class: "entry-head" },
      make("span", {}, make("span", { text: file.name || file.id, dir: "auto" }), typeof file.bytes === "number" ? make("span", { class: "note", text: ` · ${units(file.bytes)}` }) : null,
        typeof file.passages === "number" ? make("span", { class: file.passages ? "note" : "note warm", text: file.passages ? ` · ${count(file.passages, "passage")}` : ` · ${t("no passage: it is not searched")}` }) : null),
      button(t("Remove …"), (event) => this.#removeDocument(name, file, event.target.closest("li")), { class: "quiet", "aria-label": t("Remove {name}", { name: file.name || file.id }) })));
    box.replaceChildren(make("h2", { text: t("Documents") }),
      rows.length ? make("ul", { class: "entries small" }, rows) : make("p", { class: "note", text: t("It holds none.") }),
      pager(offset, page.total, PAGE, (at) => write(["corpora", name], { offset: at })) ?? "");
  }

  #removeDocument(name, file, row) {
    confirm(t("Remove “{name}”?", { name: file.name || file.id }), t("It is taken out of {name} and can no longer be found. Your own copy of it is not touched.", { name }), async () => {
      const reply = await call(`v1/corpora/${encodeURIComponent(name)}/documents/${encodeURIComponent(file.id)}`, { method: "DELETE" });
      if (!reply?.job) return this.#refresh();
      const box = make("div", { class: "job" });
      row.replaceChildren(box);
      this.#follow(box, reply.job, () => this.#refresh());
    });
  }

  #removeCorpus(name, corpus) {
    confirm(t("Remove the corpus “{name}”?", { name }), t("All of it goes: {size}. Your own copies of its files are not touched.", { size: sizes(corpus) }), async () => {
      await call(`v1/corpora/${encodeURIComponent(name)}`, { method: "DELETE" });
      this.onChange();
      announce(t("{name} was removed.", { name }));
      location.hash = "#/corpora";
    });
  }
}

function sizes(corpus) {
  const parts = [];
  if (typeof corpus.documents === "number") parts.push(count(corpus.documents, "document"));
  if (typeof corpus.passages === "number") parts.push(count(corpus.passages, "passage"));
  return parts.join(", ") || t("size unknown");
}

const ways = (corpus) => (corpus.retrievers ?? []).filter((name) => name !== "auto");
const about = (corpus) => [sizes(corpus), ways(corpus).length ? t("searched by {ways}", { ways: ways(corpus).join(", ") }) : ""].filter(Boolean).join(" · ");

/** A cause without the file name at its beginning, which is shown already. */
const unnamed = (cause, file) => (cause.startsWith(`${file} `) ? cause.slice(file.length + 1) : cause);

/** The files that were not read in full, those of the same cause and remedy together. */
function passedOver(files) {
  if (!files.length) return [];
  const names = new Map();
  for (const file of files) {
    const words = [unnamed(translated(file.cause ?? ""), file.file), translated(file.remedy)].filter(Boolean).join(" ");
    names.set(words, [...(names.get(words) ?? []), file.file]);
  }
  const rows = [...names].map(([words, same]) => make("li", { dir: "auto" }, make("strong", { text: same.join(", ") }), same.length > 1 ? `: ${t("each {words}", { words })}` : ` ${words}`));
  const rest = rows.slice(PASSED_OVER_SHOWN);
  return [make("div", { class: "passed-over warm" }, make("p", { text: files.length === 1 ? t("1 file has a problem:") : t("{n} files have a problem:", { n: digits(files.length) }) }),
    make("ul", {}, rows.slice(0, PASSED_OVER_SHOWN)), rest.length ? make("details", {}, make("summary", { text: t("{n} more", { n: digits(rest.length) }) }), make("ul", {}, rest)) : "")];
}

/** A number of bytes with a unit. */
export function units(bytes) {
  const [size, unit] = bytes < 1e3 ? [bytes, "B"] : bytes < 1e6 ? [bytes / 1e3, "kB"] : bytes < 1e9 ? [bytes / 1e6, "MB"] : [bytes / 1e9, "GB"];
  return `${size < 10 && unit !== "B" ? digits(Number(size.toFixed(1))) : digits(Math.round(size))} ${unit}`;
}

const howFar = ({ done, total, unit }) => (unit === "bytes" ? t("{done} of {total}", { done: units(done), total: units(total) }) : t("{done} of {total} passages", { done: digits(done), total: digits(total) }));

/** The first file that looks like a document, to name a corpus after; else the first. */
const naming = (files) => files.find((file) => file.size && !/^(?:image|audio|video)\//.test(file.type)) ?? files[0];

const stem = (name) => name.replace(/\.[^.]*$/, "");

/** Makes a valid new corpus name from any text: small letters of its script, digits, - and _. */
export function corpusName(text, taken) {
  const plain = [...text.normalize("NFKC").toLowerCase().normalize("NFKC").replace(/[^\p{Ll}\p{Lm}\p{Lo}\p{Mn}\p{Mc}\p{Nd}_]+/gu, "-").replace(/^[-_\p{M}]+/u, "")].slice(0, 50).join("").replace(/[-_]+$/, "") || "corpus";
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? plain : `${plain}-${number}`;
    if (!taken.includes(name)) return name;
  }
}

/** Makes a valid file name: no invisible characters, no dots or spaces at its ends, and not too long. */
export function fileName(name) {
  const clean = name.replace(/[\p{C}\\/]/gu, "").replace(/^[.\s]+|\s+$/g, "").trim();
  const at = clean.lastIndexOf(".");
  const [base, suffix] = at > 0 && clean.length - at <= 12 ? [clean.slice(0, at), clean.slice(at)] : [clean, ""];
  let short = base;
  while (new TextEncoder().encode(short + suffix).length > 180) short = short.slice(0, -1);
  return short + suffix || "file";
}

/** Asks for confirmation, and shows failures of the action in the same dialog. */
function confirm(title, text, act) {
  const trouble = make("div");
  const yes = button(t("Remove"), async () => {
    yes.disabled = true;
    try {
      await act();
      dialog.close();
    } catch (problem) {
      trouble.replaceChildren(problemBox(problem));
      yes.disabled = false;
    }
  }, { class: "danger" });
  const no = button(t("Keep it"), () => dialog.close());
  const dialog = make("dialog", { "aria-label": title }, make("h2", { text: title, dir: "auto" }), make("p", { text }), trouble, make("p", { class: "actions" }, no, yes));
  openDialog(dialog);
  no.focus();
}
