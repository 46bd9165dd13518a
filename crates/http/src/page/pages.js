// Pages that parts bring: each is data (route, columns, filters, acts) drawn here, or a module of its own.

import { $, ago, call, count, el, span, stored, table } from "/assets/dom.js";

const PAGE = 50;

let pages = [];

// `quiet` hears which queues hold the upkeep of parts.
export async function startPages(quiet) {
  try {
    pages = (await call("GET", "/v1/pages")).items;
  } catch {
    return quiet([]);
  }
  $("pages").append(...pages.map((page) => el("a", { href: `#/${page.name}` }, page.title)));
  quiet(pages.flatMap((page) => page.quiet_queues));
  addEventListener("hashchange", go);
  go();
}

function go() {
  const [name, query] = location.hash.replace(/^#\//, "").split("?");
  const page = pages.find((one) => one.name === name);
  $("overview").hidden = Boolean(page);
  $("part").hidden = !page;
  for (const link of $("pages").children) {
    const here = link.getAttribute("href") === `#/${page ? page.name : ""}`;
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  if (page) draw(page, new URLSearchParams(query));
}

async function draw(page, filters) {
  const place = $("part");
  if (page.module) {
    const module = await import(page.module);
    return module.show(place, page);
  }
  const list = el("div", { "aria-live": "polite" });
  place.replaceChildren(
    el("div", { class: "bar" }, el("h2", { tabindex: "-1" }, page.title), filterForm(page, filters)),
    ...page.acts.filter((act) => !act.path.includes("{")).map((act) => actForm(act, () => load(page, filters, list))),
    list);
  await load(page, filters, list);
}

// Filters live in the address, so that a link shows what its sender saw.
function filterForm(page, filters) {
  if (!page.filters.length) return null;
  const field = (filter) => {
    const id = `filter-${filter.parameter}`;
    const value = filters.get(filter.parameter) || "";
    const input = filter.options.length
      ? el("select", { id, name: filter.parameter }, el("option", { value: "" }, `any ${filter.title}`),
        filter.options.map((option) => el("option", { value: option, selected: option === value }, option)))
      : el("input", { id, name: filter.parameter, type: "search", placeholder: filter.title, value });
    return [el("label", { class: "quiet", for: id }, filter.title), input];
  };
  const form = el("form", { class: "search" }, page.filters.map(field), el("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const said = [...new FormData(form)].filter(([, value]) => value);
    location.hash = `#/${page.name}${said.length ? `?${new URLSearchParams(said)}` : ""}`;
  });
  return form;
}

async function load(page, filters, list, cursor) {
  const query = new URLSearchParams(filters);
  const parts = page.route.split("?");
  for (const [name, value] of new URLSearchParams(parts[1])) query.set(name, value);
  if (page.paged) query.set("limit", String(PAGE));
  if (cursor) query.set("cursor", cursor);
  let answer;
  try {
    answer = await call("GET", `${parts[0]}?${query}`);
  } catch (error) {
    return list.replaceChildren(el("p", { class: "notice" }, `This cannot be shown: ${error.message}`));
  }
  if (!answer.items.length) return list.replaceChildren(el("p", { class: "empty" }, page.empty));
  const again = () => load(page, filters, list, cursor);
  const acts = page.acts.filter((act) => act.path.includes("{"));
  const heads = page.columns.map((column) => column.title).concat(acts.length ? [""] : []);
  const row = (item) => el("tr", {},
    page.columns.map((column) => el("td", { class: numeric(column) ? "number" : null }, cell(item, column))),
    acts.length ? el("td", { class: "acts" }, acts.map((act) => button(act, item, again))) : null);
  const next = el("button", { type: "button" }, "Next page");
  next.addEventListener("click", () => load(page, filters, list, answer.next_cursor));
  list.replaceChildren(table(heads, answer.items.map(row)), answer.next_cursor ? el("p", { class: "more" }, next) : "");
}

const numeric = (column) => column.look === "number" || column.look === "seconds";

function cell(item, column) {
  const value = column.field.split(".").reduce((inner, name) => (inner == null ? inner : inner[name]), item);
  if (value == null) return "–";
  if (column.look === "time") return el("span", { title: value }, ago(value));
  if (column.look === "seconds") return span(value);
  if (column.look === "number" && typeof value === "number") return count(value);
  if (column.look === "flag") return value ? "yes" : "no";
  return stored(typeof value === "object" ? JSON.stringify(value) : value);
}

const filled = (path, item) => path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(item[name] ?? ""));

function button(act, item, done) {
  const press = el("button", { type: "button" }, act.title);
  press.addEventListener("click", () => perform(press, act, filled(act.path, item), act.body ?? undefined, done));
  return press;
}

// An act with fields of its own is a small form above the table.
function actForm(act, done) {
  const field = (name) => [el("label", { class: "quiet", for: `act-${name}` }, name),
    el("input", { id: `act-${name}`, name, placeholder: name, autocomplete: "off" })];
  const press = el("button", { type: "submit" }, act.title);
  const form = el("form", { class: "search" }, act.fields.map(field), press);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    if (await perform(press, act, act.path, { ...(act.body || {}), ...said }, done)) form.reset();
  });
  return form;
}

async function perform(press, act, path, body, done) {
  if (act.confirm && !confirm(act.confirm)) return false;
  press.disabled = true;
  const note = el("span", { class: "notice", role: "alert" });
  press.parentNode.querySelectorAll(".notice").forEach((old) => old.remove());
  try {
    await call(act.method, path, body);
    await done();
    return true;
  } catch (error) {
    note.textContent = error.message;
    press.after(note);
    return false;
  } finally {
    press.disabled = false;
  }
}
