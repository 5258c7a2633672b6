// A stored answer, shown by its shared address without asking again.

import { AnswerView } from "./answer.js";
import { call } from "./api.js";
import { button, link, make, problemBox, waiting } from "./dom.js";
import { note, write } from "./route.js";
import { t } from "./texts.js";

export class StoredPage {
  #turn = 0;
  #shown = "";
  #view = null;

  constructor() {
    this.body = make("div");
    this.element = make("section", { class: "page", "aria-label": t("Stored answer") }, this.body);
  }

  async show(query, [id = ""]) {
    if (this.#shown === id && this.body.childElementCount) return;
    const turn = ++this.#turn;
    this.#shown = id;
    this.#view?.close();
    this.body.replaceChildren(waiting());
    try {
      const { corpus, result } = await call(`v1/answers/${encodeURIComponent(id)}`);
      if (turn !== this.#turn) return;
      document.title = `${result.answer || result.question} – Hoptree`;
      this.#view = new AnswerView({ question: result.question, corpus, id, wantedNode: query.has("node") ? Number(query.get("node")) : null, onNode: (node) => note("node", node) });
      const asked = { q: result.question, method: result.method, model: result.model, corpus };
      this.body.replaceChildren(make("h1", { class: "as-question", text: result.asked || result.question, dir: "auto" }),
        make("p", { class: "note" }, `${t("Answered before, and shown as it was.")} `, link(write(["ask"], asked), t("Ask it again"))), this.#view.element);
      this.#view.show(result);
    } catch (problem) {
      if (!problem.message) throw problem;
      this.#shown = "";
      if (turn === this.#turn) this.body.replaceChildren(make("h1", { text: t("Stored answer") }), problemBox(problem, button(t("Try again"), () => this.show(query, [id]))));
    }
  }
}
