// The frame of the page: choice of the view, dialog for the key, and banner of the connection.

import { connection, call, forgetKey, hasKey, onKeyWanted } from "./api.js";
import { AskPage } from "./ask.js";
import { CorporaPage } from "./corpora.js";
import { button, fresh, make, openDialog } from "./dom.js";
import { read } from "./route.js";
import { RunsPage } from "./runs.js";
import { PassagePage } from "./source.js";
import { StoredPage } from "./stored.js";
import { language, t } from "./texts.js";

const main = document.getElementById("main");
const banner = document.getElementById("connection");
const ask = new AskPage();
const pages = {
  ask,
  corpora: new CorporaPage({ onChange: () => ask.forget() }),
  runs: new RunsPage(),
  answer: new StoredPage(),
  passage: new PassagePage(),
};

// Translate the texts in the HTML.
document.documentElement.lang = language;
for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.textContent);

function show() {
  if (location.hash === "#main") return;
  const { path, query } = read();
  const name = Object.hasOwn(pages, path[0]) ? path[0] : "ask";
  const page = pages[name];
  if (page.element.parentElement !== main) {
    main.replaceChildren(page.element);
    window.scrollTo(0, 0);
  }
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  page.show(query, path.slice(1));
}

window.addEventListener("hashchange", () => {
  for (const dialog of document.querySelectorAll("dialog[open]:not(.key)")) dialog.close(); // it belongs to what was shown
  show();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  event.preventDefault();
  if (!ask.element.isConnected) location.hash = "#/ask";
  setTimeout(() => ask.focus());
});

// Connection

connection.addEventListener("lost", () => {
  banner.className = "banner lost";
  banner.textContent = t("The server does not answer. This page keeps trying to reach it.");
  banner.hidden = false;
});

connection.addEventListener("back", () => {
  banner.className = "banner back";
  banner.textContent = t("The server is back.");
  setTimeout(() => { if (banner.classList.contains("back")) banner.hidden = true; }, 6000);
});

// Key

const forget = document.getElementById("forget-key");
forget.addEventListener("click", () => {
  forgetKey();
  location.reload();
});

onKeyWanted((refused) => new Promise((done) => {
  const input = make("input", { type: "password", autocomplete: "off", required: true, id: fresh("key") });
  const form = make("form", { method: "dialog" },
    make("h2", { text: t("This server needs a key") }),
    refused ? make("p", { class: "problem", role: "alert", text: t("It refused the key it was given.") }) : null,
    make("p", { class: "note", text: t("The server's administrator gives it out. It is kept until this tab is closed, and sent to this server only.") }),
    make("label", { for: input.id, text: t("Key") }), input,
    make("p", { class: "actions" }, make("button", { type: "submit", class: "main", value: "ok" }, t("Use it")),
      button(t("Not now"), () => dialog.close(""))));
  const dialog = make("dialog", { class: "key" }, form);
  dialog.addEventListener("close", () => {
    const given = dialog.returnValue === "ok" ? input.value.trim() : "";
    if (given) forget.hidden = false;
    done(given || null);
  });
  openDialog(dialog);
}));

forget.hidden = !hasKey();
call("health").then((health) => { document.getElementById("version").textContent = `Hoptree ${health.version ?? ""}`; }).catch(() => {});
show();
