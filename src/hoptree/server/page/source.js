// The source of a passage: the text around it, and its file if the server may open it.

import { call, openFile } from "./api.js";
import { button, make, openDialog, problemBox } from "./dom.js";
import { t } from "./texts.js";
import { unwrapped } from "./words.js";

/** Shows a passage in its document, or alone if the server does not store it; `draw` marks a sentence in it. */
export async function openSource(corpus, passage, draw = () => "") {
  const address = `v1/corpora/${encodeURIComponent(corpus)}/passages/${encodeURIComponent(passage.id)}`;
  const source = await call(address).catch((problem) => ({ ...passage, problem }));
  const page = /#page=(\d+)$/.exec(source.file ?? "")?.[1];
  const trouble = make("div");
  const open = () => openFile(source.file).catch((problem) => trouble.replaceChildren(problemBox(problem)));
  const paragraph = (text, kind) => (text ? make("p", { class: `quoted ${kind}`, dir: "auto", text: unwrapped(text) }) : null);
  const own = make("p", { class: "quoted", dir: "auto" }, draw(source.text ?? ""));
  if (!own.querySelector("mark")) own.replaceChildren(make("mark", { text: unwrapped(source.text ?? "") }));
  const dialog = make("dialog", { class: "in-source", "aria-label": source.title || source.id },
    make("h2", { text: source.title || source.id, dir: "auto" }), make("p", { class: "note", text: source.document || source.id, dir: "auto" }),
    make("div", { class: "source-text", tabindex: "0" }, paragraph(source.before, "around"), own, paragraph(source.after, "around")),
    source.problem ? make("p", { class: "note", text: t("Only the passage itself can be shown here.") }) : null, trouble,
    make("p", { class: "actions" }, button(t("Close"), () => dialog.close()),
      source.file ? button(page ? t("Open the file at page {n}", { n: page }) : t("Open the file"), open, { class: "main" }) : null));
  openDialog(dialog);
  const [box, mark] = [own.parentElement, own.querySelector("mark")]; // what is longer than the box is shown from its start
  mark.scrollIntoView({ block: mark.offsetHeight > box.clientHeight ? "start" : "center" });
}
