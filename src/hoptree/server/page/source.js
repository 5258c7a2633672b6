// The source of a passage: the text of its document around it, and the file itself where the server may open it.

import { call, openFile } from "./api.js";
import { button, make, problemBox } from "./dom.js";
import { t } from "./texts.js";

/** Shows a passage in its document; one that is not kept here, as of a search elsewhere, stands for itself. */
export async function openSource(corpus, passage) {
  const address = `v1/corpora/${encodeURIComponent(corpus)}/passages/${encodeURIComponent(passage.id)}`;
  const found = await call(address).catch((problem) => ({ ...passage, problem }));
  const page = /#page=(\d+)$/.exec(found.file ?? "")?.[1];
  const trouble = make("div");
  const open = () => openFile(found.file).catch((problem) => trouble.replaceChildren(problemBox(problem)));
  const paragraph = (text, kind) => (text ? make("p", { class: `quoted ${kind}`, dir: "auto", text }) : null);
  const mark = make("p", { class: "quoted", dir: "auto" }, make("mark", { text: found.text ?? "" }));
  const dialog = make("dialog", { class: "in-source", "aria-label": found.title || found.id },
    make("h2", { text: found.title || found.id, dir: "auto" }), make("p", { class: "note", text: found.document || found.id, dir: "auto" }),
    make("div", { class: "source-text", tabindex: "0" }, paragraph(found.before, "around"), mark, paragraph(found.after, "around")),
    found.problem ? make("p", { class: "note", text: t("Only the passage itself can be shown here.") }) : null, trouble,
    make("p", { class: "actions" }, button(t("Close"), () => dialog.close()),
      found.file ? button(page ? t("Open the file at page {n}", { n: page }) : t("Open the file"), open, { class: "main" }) : null));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  const box = mark.parentElement; // a passage that is longer than the box is shown from its beginning
  mark.scrollIntoView({ block: mark.offsetHeight > box.clientHeight ? "start" : "center" });
}
