// The API, drawn from the OpenAPI document that the server publishes.

import { call } from "./api.js";
import { link, make, problemBox } from "./dom.js";

const TITLES = { ask: "Questions", search: "Search", openai: "OpenAI's API", corpora: "Corpora", runs: "Runs", about: "About the server" };
const main = document.getElementById("main");

const anchor = (...parts) => parts.join("-").replace(/[^A-Za-z0-9]+/g, "-");
const last = (reference) => reference.split("/").at(-1);

/** A schema as one would say it: a type, a list of them, or the name of an object. */
function told(schema) {
  if (!schema || !Object.keys(schema).length) return ["anything"];
  if (schema.$ref) return [link(`#schema-${last(schema.$ref)}`, last(schema.$ref))];
  const either = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (either) return either.flatMap((one, at) => [at ? " or " : "", ...told(one)]);
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.enum) return [schema.enum.map((one) => JSON.stringify(one)).join(" | ")];
  if (schema.type === "array") return ["list of ", ...told(schema.items)];
  if (schema.type === "object" && schema.additionalProperties) return ["object of ", ...told(schema.additionalProperties)];
  return [schema.format === "binary" || schema.contentMediaType ? "file" : schema.type ?? "object"];
}

function bounds(schema) {
  const names = { minimum: "at least {}", maximum: "at most {}", maxLength: "at most {} characters", minItems: "at least {} of them", pattern: "like {}" };
  const found = Object.entries(names).filter(([name]) => schema?.[name] !== undefined).map(([name, words]) => words.replace("{}", () => schema[name]));
  if (schema?.default !== undefined && schema.default !== null) found.push(`default ${JSON.stringify(schema.default)}`);
  return found.join(", ");
}

function table(caption, heads, rows) {
  return make("div", { class: "wide" }, make("table", {}, make("caption", { text: caption }),
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col", text: head })))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell) => make("td", {}, cell)))))));
}

const named = (name, words) => [make("code", { text: name }), words ? make("span", { class: "warm", text: ` ${words}` }) : ""];

function properties(caption, schema, marks = ["needed", ""]) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, one]) => [named(name, schema.required?.includes(name) ? marks[0] : marks[1]), told(one), [one.description, bounds(one)].filter(Boolean).join(" ")]);
  return rows.length ? table(caption, ["Field", "Type", ""], rows) : make("p", { class: "note" }, caption, ": ", ...told(schema));
}

function resolve(api, schema) {
  return schema?.$ref ? api.components.schemas[last(schema.$ref)] ?? {} : schema ?? {};
}

/** A command that asks this server, as a beginning. */
function example(method, path, body, api) {
  const address = new URL(".", document.baseURI).href + path.slice(1);
  const [kind, content] = Object.entries(body?.content ?? {})[0] ?? [];
  const schema = resolve(api, content?.schema);
  const needed = (schema.required ?? []).map((name) => [name, schema.properties[name]]);
  if (kind === "multipart/form-data") return `curl -X ${method} '${address}' ${needed.map(([name]) => (name === "files" ? "-F files=@FILE" : `-F ${name}=NAME`)).join(" ")}`;
  const sent = kind ? ` -H 'Content-Type: application/json' -d '${JSON.stringify(Object.fromEntries(needed.map(([name, one]) => [name, one.type === "array" || one.$ref ? [] : "…"])))}'` : "";
  return `curl${method === "GET" ? "" : ` -X ${method}`} '${address}'${sent}`;
}

function operation(api, path, method, about) {
  const body = about.requestBody;
  const parameters = (about.parameters ?? []).map((one) => [named(one.name, one.required && "needed"), one.in, told(one.schema), [one.description, bounds(one.schema)].filter(Boolean).join(" ")]);
  const replies = Object.entries(about.responses ?? {}).map(([status, one]) => [status, one.description ?? "",
    Object.entries(one.content ?? {}).flatMap(([kind, content], at) => [at ? ", " : "", ...(content.schema ? told(content.schema) : [kind])])]);
  const good = replies.filter(([status]) => status < 400);
  const bad = replies.filter(([status]) => status >= 400);
  return make("section", { class: "operation", id: anchor(method, path) },
    make("h3", {}, make("code", { class: `method ${method}`, text: method.toUpperCase() }), " ", make("code", { class: "path", text: path })),
    make("p", { text: about.summary ?? "" }), about.description ? make("p", { class: "note", text: about.description }) : null,
    make("pre", {}, make("code", { text: example(method.toUpperCase(), path, body, api) })),
    parameters.length ? table("Parameters", ["Name", "In", "Type", ""], parameters) : null,
    ...Object.entries(body?.content ?? {}).map(([kind, content]) => properties(`Body, ${kind}`, resolve(api, content.schema))),
    table("Replies", ["Status", "", "Body"], good),
    bad.length ? make("details", {}, make("summary", { text: `Refusals: ${bad.map(([status]) => status).join(", ")}` }), table("Refusals", ["Status", "", "Body"], bad)) : null);
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
  const schemas = Object.entries(api.components?.schemas ?? {}).sort(([one], [other]) => one.localeCompare(other));
  main.replaceChildren(
    make("h1", { text: `${api.info.title} ${api.info.version}: the API` }), make("p", { class: "note", text: api.info.summary ?? "" }),
    make("p", { class: "note" }, "Drawn from ", make("code", { text: "openapi.json" }), " of this server. Authorization: Bearer KEY. ", api.components?.securitySchemes?.key?.description ?? ""),
    make("nav", { class: "contents", "aria-label": "Routes" }, parts.map(([tag, list]) => make("div", {}, make("h2", { text: TITLES[tag] ?? tag }),
      make("ul", {}, list.map(([path, method]) => make("li", {}, link(`#${anchor(method, path)}`, `${method.toUpperCase()} ${path}`))))))),
    ...parts.flatMap(([tag, list]) => [make("h2", { text: TITLES[tag] ?? tag }), ...list.map(([path, method, about]) => operation(api, path, method, about))]),
    make("h2", { text: "Objects" }),
    ...schemas.map(([name, schema]) => make("section", { class: "operation", id: `schema-${name}` }, make("h3", {}, make("code", { text: name })),
      schema.description ? make("p", { class: "note", text: schema.description }) : null, properties("Fields", schema, ["", "may be missing"]))));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

call("openapi.json").then(draw).catch((problem) => main.replaceChildren(make("h1", { text: "The API" }), problemBox(problem)));
