// Renders /openapi.json. Everything goes through textContent.
"use strict";

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value != null) node.setAttribute(name, value);
  for (const child of children.flat(Infinity)) if (child != null) node.append(child instanceof Node ? child : String(child));
  return node;
}

const last = (reference) => reference.split("/").pop();

// A schema in a few words; a named object is a link to its own entry.
function kind(schema) {
  if (!schema) return "nothing";
  if (schema.$ref) return el("a", { href: `#shape-${last(schema.$ref)}` }, last(schema.$ref));
  const several = schema.oneOf || schema.anyOf;
  if (several) return el("span", {}, several.flatMap((one, n) => (n ? [" or ", kind(one)] : [kind(one)])));
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return el("span", {}, "list of ", kind(schema.items));
  if (schema.properties) {
    const inner = Object.entries(schema.properties).flatMap(([name, one], n) => [n ? ", " : "", `${name}: `, kind(one)]);
    return el("span", {}, "{ ", inner, " }");
  }
  const words = [].concat(schema.type || "any JSON").join(" or ");
  const bounds = [schema.format, schema.minimum != null && schema.maximum != null ? `${schema.minimum}–${schema.maximum}` : null];
  return [words, ...bounds.filter(Boolean)].join(", ");
}

function table(heads, rows) {
  return el("table", {},
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell))))));
}

function operation(method, path, entry) {
  const body = el("div", {});
  if (entry.parameters) {
    body.append(el("h4", {}, "Parameters"), table(["name", "in", "value", ""],
      entry.parameters.map((one) => [el("code", {}, one.name), one.in, kind(one.schema), one.description])));
  }
  if (entry.requestBody) {
    body.append(el("h4", {}, "Body"), el("p", {}, kind(entry.requestBody.content["application/json"].schema)));
  }
  const answers = Object.entries(entry.responses).map(([status, answer]) => {
    const [media, content] = Object.entries(answer.content || {})[0] || ["", {}];
    return [status, answer.description, content && content.schema ? kind(content.schema) : media];
  });
  body.append(el("h4", {}, "Answers"), table(["status", "", "carries"], answers));
  return el("details", { id: entry.operationId },
    el("summary", {}, el("span", { class: `verb ${method}` }, method.toUpperCase()), el("code", {}, path), el("span", { class: "soft" }, entry.summary)),
    body);
}

function shape(name, schema) {
  const required = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([field, one]) =>
    [el("code", {}, field), kind(one), required.has(field) ? "always" : "optional", one.description || ""]);
  return el("details", { id: `shape-${name}` },
    el("summary", {}, el("strong", {}, name), el("span", { class: "soft" }, schema.description || "")),
    el("div", {}, table(["field", "value", "", ""], rows)));
}

function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
}

async function start() {
  const place = document.getElementById("operations");
  try {
    const doc = await (await fetch("/openapi.json")).json();
    document.getElementById("about").textContent = `${doc.info.title} ${doc.info.version}. ${doc.info.description}`;
    const groups = new Map();
    for (const [path, methods] of Object.entries(doc.paths)) {
      for (const [method, entry] of Object.entries(methods)) {
        const group = entry.tags[0];
        if (!groups.has(group)) groups.set(group, []);
        groups.get(group).push(operation(method, path, entry));
      }
    }
    for (const [group, entries] of groups) place.append(el("section", {}, el("h2", {}, group), entries));
    const shapes = document.getElementById("shapes");
    for (const [name, schema] of Object.entries(doc.components.schemas)) shapes.append(shape(name, schema));
    openTarget();
  } catch (error) {
    place.replaceChildren(el("p", { class: "notice" }, `The document cannot be shown: ${error.message}`));
  }
}

addEventListener("hashchange", openTarget);
start();
