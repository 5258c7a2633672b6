// The API, drawn from the OpenAPI document that the server publishes.

import { call } from "./api.js";
import { API_ROWS } from "./api_texts.js";
import { link, make, problemBox, waiting } from "./dom.js";
import { language, learn, t, translated } from "./texts.js";

learn(API_ROWS);
const TITLES = { ask: t("Ask"), search: t("Search"), openai: t("OpenAI’s API"), corpora: t("Corpora"), runs: t("Runs"), about: t("About the server") };
const main = document.getElementById("main");

const anchor = (...parts) => parts.join("-").replace(/[^A-Za-z0-9]+/g, "-");
const last = (reference) => reference.split("/").at(-1);

/** The type of a schema in words, with links to objects. */
function typeOf(schema) {
  if (!schema || !Object.keys(schema).length) return [t("anything")];
  if (schema.$ref) return [link(`#schema-${last(schema.$ref)}`, last(schema.$ref))];
  const either = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (either) return either.flatMap((option, at) => [at ? ` ${t("or")} ` : "", ...typeOf(option)]);
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" | ")];
  if (schema.type === "array") return [`${t("list of")} `, ...typeOf(schema.items)];
  if (schema.type === "object" && schema.additionalProperties) return [`${t("object of")} `, ...typeOf(schema.additionalProperties)];
  return [schema.format === "binary" || schema.contentMediaType ? t("file") : schema.type ?? "object"];
}

function bounds(schema) {
  const names = { minimum: t("at least {n}"), maximum: t("at most {n}"), maxLength: t("at most {n} characters"), minItems: t("at least {n} of them"), pattern: t("like {n}") };
  const limits = Object.entries(names).filter(([name]) => schema?.[name] !== undefined).map(([name, words]) => words.replace("{n}", () => schema[name]));
  if (schema?.default !== undefined && schema.default !== null) limits.push(t("default {value}", { value: JSON.stringify(schema.default) }));
  return limits.join(", ");
}

function table(caption, heads, rows) {
  return make("div", { class: "wide" }, make("table", {}, make("caption", { text: caption }),
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col", text: head })))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell) => make("td", {}, cell)))))));
}

const named = (name, words) => [make("code", { text: name }), words ? make("span", { class: "warm", text: ` ${words}` }) : ""];

/** A description with the limits of its schema. */
const explained = (about, schema) => [translated(about), bounds(schema)].filter(Boolean).join(" ");

function properties(caption, schema, marks = [t("needed"), ""]) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, property]) => [named(name, schema.required?.includes(name) ? marks[0] : marks[1]), typeOf(property), explained(property.description, property)]);
  return rows.length ? table(caption, [t("Field"), t("Type"), ""], rows) : make("p", { class: "note" }, caption, ": ", ...typeOf(schema));
}

function resolve(api, schema) {
  return schema?.$ref ? api.components.schemas[last(schema.$ref)] ?? {} : schema ?? {};
}

/** A curl command for an operation of this server. */
function example(method, path, body, api) {
  const address = new URL(".", document.baseURI).href + path.slice(1);
  const [kind, content] = Object.entries(body?.content ?? {})[0] ?? [];
  const schema = resolve(api, content?.schema);
  const needed = (schema.required ?? []).map((name) => [name, schema.properties[name]]);
  if (kind === "multipart/form-data") return `curl -X ${method} '${address}' ${needed.map(([name]) => (name === "files" ? "-F files=@FILE" : `-F ${name}=NAME`)).join(" ")}`;
  const sent = kind ? ` -H 'Content-Type: application/json' -d '${JSON.stringify(Object.fromEntries(needed.map(([name, property]) => [name, property.type === "array" || property.$ref ? [] : "…"])))}'` : "";
  return `curl${method === "GET" ? "" : ` -X ${method}`} '${address}'${sent}`;
}

function operation(api, path, method, about) {
  const body = about.requestBody;
  const parameters = (about.parameters ?? []).map((parameter) => [named(parameter.name, parameter.required && t("needed")), parameter.in, typeOf(parameter.schema), explained(parameter.description, parameter.schema)]);
  const replies = Object.entries(about.responses ?? {}).map(([status, reply]) => [status, translated(reply.description ?? ""),
    Object.entries(reply.content ?? {}).flatMap(([kind, content], at) => [at ? ", " : "", ...(content.schema ? typeOf(content.schema) : [kind])])]);
  const good = replies.filter(([status]) => status < 400);
  const bad = replies.filter(([status]) => status >= 400);
  return make("section", { class: "operation", id: anchor(method, path) },
    make("h3", {}, make("code", { class: `method ${method}`, text: method.toUpperCase() }), " ", make("code", { class: "path", text: path })),
    make("p", { text: translated(about.summary ?? "") }), about.description ? make("p", { class: "note", text: translated(about.description) }) : null,
    make("pre", {}, make("code", { text: example(method.toUpperCase(), path, body, api) })),
    parameters.length ? table(t("Parameters"), [t("Name"), t("In"), t("Type"), ""], parameters) : null,
    ...Object.entries(body?.content ?? {}).map(([kind, content]) => properties(t("Body, {kind}", { kind }), resolve(api, content.schema))),
    table(t("Replies"), [t("Status"), "", t("Body")], good),
    bad.length ? make("details", {}, make("summary", { text: `${t("Refusals")}: ${bad.map(([status]) => status).join(", ")}` }), table(t("Refusals"), [t("Status"), "", t("Body")], bad)) : null);
}

function draw(api) {
  const groups = new Map(Object.keys(TITLES).map((tag) => [tag, []]));
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const tag = about.tags?.[0] ?? "about";
      groups.set(tag, [...(groups.get(tag) ?? []), [path, method, about]]);
    }
  }
  const parts = [...groups].filter(([, list]) => list.length);
  const schemas = Object.entries(api.components?.schemas ?? {}).sort(([name], [other]) => name.localeCompare(other));
  main.replaceChildren(
    make("h1", { text: t("{title} {version}: the API", { title: api.info.title, version: api.info.version }) }), make("p", { class: "note", text: translated(api.info.summary ?? "") }),
    make("p", { class: "note" }, t("Drawn from openapi.json of this server."), " Authorization: Bearer KEY. ", translated(api.components?.securitySchemes?.key?.description ?? "")),
    make("nav", { class: "contents", "aria-label": t("Routes") }, parts.map(([tag, list]) => make("div", {}, make("h2", { text: TITLES[tag] ?? tag }),
      make("ul", {}, list.map(([path, method]) => make("li", {}, link(`#${anchor(method, path)}`, `${method.toUpperCase()} ${path}`))))))),
    ...parts.flatMap(([tag, list]) => [make("h2", { text: TITLES[tag] ?? tag }), ...list.map(([path, method, about]) => operation(api, path, method, about))]),
    make("h2", { text: t("Objects") }),
    ...schemas.map(([name, schema]) => make("section", { class: "operation", id: `schema-${name}` }, make("h3", {}, make("code", { text: name })),
      schema.description ? make("p", { class: "note", text: translated(schema.description) }) : null, properties(t("Fields"), schema, ["", t("may be missing")]))));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

document.documentElement.lang = language;
for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.textContent);
main.replaceChildren(waiting());
call("openapi.json").then(draw).catch((problem) => main.replaceChildren(make("h1", { text: t("The API") }), problemBox(problem)));
