// The source of a passage: the text around it, and its file if the server may open it.

import { call, openFile } from "./api.js";
import { button, link, make, openDialog, problemBox, waiting } from "./dom.js";
import { write } from "./route.js";
import { t } from "./texts.js";
import { unwrapped } from "./words.js";

const fetched = (corpus, id) => call(`v1/corpora/${encodeURIComponent(corpus)}/passages/${encodeURIComponent(id)}`);

/** The document's name, the text with the passage marked, and the button of the file after `actions`. */
function parts(source, draw, ...actions) {
  const page = /#page=(\d+)$/.exec(source.file ?? "")?.[1];
  const trouble = make("div");
  const open = () => openFile(source.file).catch((problem) => trouble.replaceChildren(problemBox(problem)));
  const paragraph = (text, kind) => (text ? make("p", { class: `quoted ${kind}`, dir: "auto", text: unwrapped(text) }) : null);
  const own = make("p", { class: "quoted", dir: "auto" }, draw(source.text ?? ""));
  if (!own.querySelector("mark")) own.replaceChildren(make("mark", { text: unwrapped(source.text ?? "") }));
  return [make("p", { class: "note", text: source.document || source.id, dir: "auto" }),
    make("div", { class: "source-text", tabindex: "0" }, paragraph(source.before, "around"), own, paragraph(source.after, "around")),
    source.problem ? make("p", { class: "note", text: t("Only the passage itself can be shown here.") }) : null, trouble,
    make("p", { class: "actions" }, ...actions,
      source.file ? button(page ? t("Open the file at page {n}", { n: page }) : t("Open the file"), open, { class: "main" }) : null)];
}

/** Scrolls to the mark; what is longer than the box is shown from its start. */
function scrollToMark(element) {
  const [box, mark] = [element.querySelector(".source-text"), element.querySelector("mark")];
  mark.scrollIntoView({ block: mark.offsetHeight > box.clientHeight ? "start" : "center" });
}

/** Shows a passage in its document, or alone if the server does not store it; `draw` marks a sentence in it. */
export async function openSource(corpus, passage, draw = () => "") {
  const source = await fetched(corpus, passage.id).catch((problem) => ({ ...passage, problem }));
  const dialog = make("dialog", { class: "in-source", "aria-label": source.title || source.id },
    make("h2", { text: source.title || source.id, dir: "auto" }), parts(source, draw, button(t("Close"), () => dialog.close())));
  openDialog(dialog);
  scrollToMark(dialog);
}

/** A cited passage by its address, to which the server leads browsers without a key. */
export class PassagePage {
  constructor() {
    this.element = make("section", { class: "page in-source", "aria-label": t("Evidence") });
  }

  async show(query, [corpus = "", id = ""]) {
    document.title = `${id} – Hoptree`;
    this.element.replaceChildren(waiting());
    try {
      const source = await fetched(corpus, id);
      this.element.replaceChildren(make("p", { class: "crumbs" }, link(write(["corpora", corpus]), corpus)),
        make("h1", { text: source.title || source.id, dir: "auto" }), ...parts(source, () => "").filter(Boolean));
      scrollToMark(this.element);
    } catch (problem) {
      if (!problem.message) throw problem;
      if (problem.status === 404) problem.remedy = t("The document may have been changed or removed since the answer.");
      this.element.replaceChildren(make("h1", { text: id, dir: "auto" }), problemBox(problem, button(t("Try again"), () => this.show(query, [corpus, id]))));
    }
  }
}
