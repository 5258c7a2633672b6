// Export an answer: copy it, save it as Markdown, JSON or SVG, or share its address.

import { announce, button, link, make } from "./dom.js";
import { t } from "./texts.js";
import { origin, support } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const ROW = 26;
const INDENT = 26;
const WIDTH = 960;
const LETTER = 7.2;

/** The buttons below an answer; `address` returns the hash to share, and whether the answer is stored there. */
export function tools(result, options, address) {
  const name = fileName(result.question);
  const status = make("p", { class: "note shared", role: "status", hidden: true });
  const say = (...parts) => { status.replaceChildren(...parts); status.hidden = false; };
  const copy = async (text, words, ...more) => {
    await toClipboard(text);
    say(words, ...more);
    announce(words);
  };
  const share = () => {
    const { hash, stored } = address();
    const url = new URL(hash, location.href).href;
    copy(url, stored ? t("The address of this answer was copied:") : t("The address was copied. It holds the question only: this server stores no answers."), " ", link(hash, url));
  };
  return make("div", { class: "export" },
    make("p", { class: "actions" }, button(t("Copy"), () => copy(plain(result), t("The answer was copied.")), { class: "quiet" }),
      location.protocol === "file:" ? null : button(t("Share link"), share, { class: "quiet" }),
      button("Markdown", () => save(`${name}.md`, "text/markdown", markdown(result, options)), { class: "quiet", title: t("Save the answer as Markdown") }),
      button("JSON", () => save(`${name}.json`, "application/json", JSON.stringify(result, null, 2)), { class: "quiet", title: t("Save the answer as JSON") }),
      button("SVG", () => save(`${name}.svg`, "image/svg+xml", drawing(result, options)), { class: "quiet", title: t("Save the tree as a drawing") })), status);
}

export const fileName = (question) => [...question.normalize("NFC").toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-/, "")].slice(0, 60).join("").replace(/-$/, "") || "answer";

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not a secure context, or not allowed
    const box = make("textarea", { value: text, class: "unseen", readonly: true });
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const anchor = document.createElement("a");
  [anchor.href, anchor.download] = [address, name];
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The answer as text: the sentence, and the passages of its numbers. */
export function plain(result) {
  const named = (result.evidence ?? []).map((passage, at) => `[${at + 1}] ${passage.title || passage.id} (${passage.id})`);
  return [result.question, result.sentence || result.answer || t("No answer."), ...named].join("\n");
}

/** Escapes the special characters of Markdown and HTML. */
const escaped = (text) => String(text ?? "").replace(/[\\`*_{}[\]()#+!|<>&~]/g, "\\$&").replace(/\s+/g, " ").trim();

export function markdown(result, options = {}) {
  const lines = [`# ${escaped(result.question)}`, "", `**${escaped(result.answer || t("No answer."))}**`, ""];
  if (result.answer && result.sentence) lines.push(escaped(result.sentence), "");
  if (support(result)) lines.push(`*${escaped(support(result))}*`, "");
  if (result.tree?.length) lines.push(`## ${t("Sub-questions")}`, "", ...result.tree.flatMap((node) => listed(node, 0, options)), "");
  if (result.evidence?.length) {
    lines.push(`## ${t("Evidence")}`, "");
    for (const [at, passage] of result.evidence.entries()) lines.push(`${at + 1}. **${escaped(passage.title || passage.id)}** (${escaped(passage.id)})`, `   > ${escaped(passage.text)}`, "");
  }
  return `${lines.join("\n")}\n`;
}

function listed(node, depth, options) {
  const outcome = node.answer ? ` → **${escaped(node.answer)}** (${escaped(origin(node, options))})` : "";
  return [`${"  ".repeat(depth)}- ${escaped(node.resolved || node.question)}${outcome}`, ...(node.children ?? []).flatMap((child) => listed(child, depth + 1, options))];
}

export function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A text cut to a width. */
export const fitted = (text, width, letter = LETTER) => (text.length * letter <= width ? text : `${text.slice(0, Math.max(1, Math.floor(width / letter) - 1))}…`);

/** The tree as an SVG file: a line for each question, with its answer below. */
function drawing(result, options) {
  const image = shape("svg", { xmlns: SVG, "font-family": "Georgia, serif", "font-size": "14" });
  const root = { question: result.question, answer: result.answer, id: 0, children: result.tree?.[0]?.id === 0 ? [...(result.tree[0].children ?? []), ...result.tree.slice(1)] : result.tree ?? [] };
  let y = ROW;
  const draw = (node, depth, parentY) => {
    const x = 16 + depth * INDENT;
    const room = WIDTH - x - 24;
    if (depth) image.append(shape("path", { d: `M${x - INDENT + 6} ${parentY + 8}V${y - 5}H${x - 4}`, fill: "none", stroke: "#8b8474" }));
    const own = y;
    image.append(shape("text", { x, y, fill: "#211f1b", "font-weight": depth ? "400" : "600" }, fitted(node.resolved || node.question, room)));
    y += 20;
    if (node.answer) {
      image.append(shape("text", { x: x + 12, y, fill: "#1c6239" }, fitted(`→ ${node.answer}${node.source ? `  (${origin(node, options)})` : ""}`, room - 12)));
      y += ROW;
    }
    for (const child of node.children ?? []) draw(child, depth + 1, own);
  };
  draw(root, 0, 0);
  image.prepend(shape("rect", { width: WIDTH, height: y, fill: "#fbfaf6" }));
  for (const [name, value] of [["width", WIDTH], ["height", y], ["viewBox", `0 0 ${WIDTH} ${y}`]]) image.setAttribute(name, value);
  return new XMLSerializer().serializeToString(image);
}
