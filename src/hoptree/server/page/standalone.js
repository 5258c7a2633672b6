// The file that `hoptree show --html` writes: the views of answers, without a server.

import { AnswerView } from "./answer.js";
import { make } from "./dom.js";
import { language, t } from "./texts.js";

const AT_ONCE = 3;
const main = document.getElementById("main");
document.documentElement.lang = language;
const shown = JSON.parse(document.getElementById("data").textContent);

function view({ result }) {
  const answer = new AnswerView({ question: result.question });
  answer.show(result);
  return answer.element;
}

for (const entry of shown) {
  const heading = entry.heading ? make("p", { class: "note", text: entry.heading, dir: "auto" }) : "";
  if (shown.length <= AT_ONCE) {
    main.append(make("h1", { class: "as-question", text: entry.result.question, dir: "auto" }), heading, view(entry));
    continue;
  }
  const box = make("details", { class: "entry" }, make("summary", { dir: "auto" }, entry.result.question, " ", make("strong", { text: entry.result.answer || t("no answer") })), heading);
  box.addEventListener("toggle", () => box.append(view(entry)), { once: true });
  main.append(box);
}
