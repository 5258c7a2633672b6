// Answers in a file of their own, as `hoptree show --html` writes it: the same view as the page's, without a server.

import { AnswerView } from "./answer.js";
import { make } from "./dom.js";
import { t } from "./texts.js";

const AT_ONCE = 3;
const main = document.getElementById("main");
const shown = JSON.parse(document.getElementById("data").textContent);

function view({ result }) {
  const made = new AnswerView({ question: result.question });
  made.show(result);
  return made.element;
}

for (const one of shown) {
  const heading = one.heading ? make("p", { class: "note", text: one.heading, dir: "auto" }) : "";
  if (shown.length <= AT_ONCE) {
    main.append(make("h1", { class: "as-question", text: one.result.question, dir: "auto" }), heading, view(one));
    continue;
  }
  const box = make("details", { class: "entry" }, make("summary", { dir: "auto" }, one.result.question, " ", make("strong", { text: one.result.answer || t("no answer") })), heading);
  box.addEventListener("toggle", () => box.append(view(one)), { once: true });
  main.append(box);
}
