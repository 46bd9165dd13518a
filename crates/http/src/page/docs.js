// Renders /openapi.json: every operation with what it takes, an example that can be pasted, and what it answers.

import { $, el, table } from "/assets/dom.js";

const last = (reference) => reference.split("/").pop();

// A schema in a few words; a named object is a link to its own entry.
function kind(schema) {
  if (!schema || Object.keys(schema).length === 0) return "any JSON";
  if (schema.$ref) return el("a", { href: `#shape-${last(schema.$ref)}` }, last(schema.$ref));
  const several = schema.oneOf || schema.anyOf;
  if (several) return el("span", {}, several.map((one, n) => [n ? " or " : null, kind(one)]));
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return el("span", {}, "list of ", kind(schema.items));
  if (schema.properties) {
    const inner = Object.entries(schema.properties).map(([name, one], n) => [n ? ", " : null, `${name}: `, kind(one)]);
    return el("span", {}, "{ ", inner, " }");
  }
  const words = [].concat(schema.type || "any JSON").join(" or ");
  return [words, schema.format, bounds(schema)].filter(Boolean).join(", ");
}

function bounds({ minimum, maximum }) {
  if (minimum != null && maximum != null) return `${minimum}–${maximum}`;
  return minimum ? `at least ${minimum}` : null;
}

// Names are never broken; on a narrow page each row stands on lines of its own.
const row = (name, value, when, about) =>
  el("tr", {}, el("td", { class: "name" }, el("code", {}, name)), el("td", {}, value), el("td", { class: "soft" }, when), el("td", {}, about || null));

function rows(schema) {
  const required = new Set(schema.required || []);
  return Object.entries(schema.properties || {}).map(([field, one]) =>
    row(field, kind(one), required.has(field) ? "always" : "optional", [one.description, preset(one)]));
}

const preset = (schema) => (schema.default === undefined ? null : `${schema.description ? ". " : ""}Default: ${schema.default}`);

const fields = (schema) => table(["field", "value", "", ""], rows(schema), "fields");

function parameters(list) {
  const about = (one) => [one.description, preset({ ...one.schema, description: one.description })];
  const each = (one) => row(one.name, kind(one.schema), one.required ? `${one.in}, required` : one.in, about(one));
  return [el("h4", {}, "Parameters"), table(["name", "value", "in", ""], list.map(each), "fields")];
}

// An object that has no name of its own is told field by field.
function body(requestBody) {
  return Object.entries(requestBody.content).map(([media, { schema }]) => [
    el("h4", {}, "Body, ", el("code", {}, media)),
    schema && schema.properties ? fields(schema) : el("p", {}, kind(schema), schema && schema.description ? `. ${schema.description}` : null),
  ]);
}

function answers(responses) {
  const each = ([status, answer]) => {
    const [media, content] = Object.entries(answer.content || {})[0] || ["nothing", {}];
    const carried = content.schema ? kind(content.schema) : media;
    return row(status, carried, null, answer.description);
  };
  return [el("h4", {}, "Answers"), table(["status", "carries", "", ""], Object.entries(responses).map(each), "fields")];
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// A line for a shell, against the server that shows this page.
function command(method, path, entry) {
  const hole = (_, name) => {
    const one = (entry.parameters || []).find((parameter) => parameter.in === "path" && parameter.name === name);
    return one && one.example != null ? encodeURIComponent(one.example) : name.toUpperCase();
  };
  const parts = ["curl -s"];
  const [media, content] = Object.entries(entry.requestBody ? entry.requestBody.content : {})[0] || [];
  const sends = content && content.example !== undefined;
  if (method !== (sends ? "post" : "get")) parts.push(`-X ${method.toUpperCase()}`);
  parts.push(quoted(location.origin + path.replace(/\{([^}]*)\}/g, hole)));
  if (sends) {
    const text = typeof content.example === "string" ? content.example : JSON.stringify(content.example);
    parts.push(`-H ${quoted(`content-type: ${media}`)}`, `--data-binary ${quoted(text)}`);
  }
  return parts.join(" ");
}

function operation(method, path, entry) {
  const inside = [
    entry.description ? el("p", {}, entry.description) : null,
    entry.parameters ? parameters(entry.parameters) : null,
    entry.requestBody ? body(entry.requestBody) : null,
    el("h4", {}, "Example"), el("pre", { tabindex: "0" }, command(method, path, entry)),
    answers(entry.responses),
  ];
  return el("details", { id: entry.operationId, class: "operation" },
    el("summary", {}, el("span", { class: `verb ${method}` }, method.toUpperCase()), el("code", {}, path), el("span", { class: "soft" }, entry.summary)),
    el("div", {}, inside));
}

const shape = (name, schema) => el("details", { id: `shape-${name}`, class: "shape" },
  el("summary", {}, el("strong", {}, name), el("span", { class: "soft" }, schema.description || "")),
  el("div", {}, fields(schema)));

function openTarget() {
  const target = location.hash && $(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
}

function render(doc) {
  $("about").replaceChildren(`${doc.info.title} ${doc.info.version}. ${doc.info.description}`);
  const groups = new Map();
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, entry] of Object.entries(methods)) {
      const group = entry.tags[0];
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(operation(method, path, entry));
    }
  }
  $("operations").replaceChildren(...[...groups].map(([group, entries]) => el("section", {}, el("h2", {}, group), entries)));
  $("shapes").replaceChildren(...Object.entries(doc.components.schemas).map(([name, schema]) => shape(name, schema)));
}

async function start() {
  try {
    render(await (await fetch("/openapi.json")).json());
    openTarget();
  } catch (error) {
    $("operations").replaceChildren(el("p", { class: "notice" }, `The document cannot be shown: ${error.message}`));
  }
}

addEventListener("hashchange", openTarget);
start();
