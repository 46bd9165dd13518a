// The search page and the page of one entity.

import { $, call, count, el, facts, mark, stored } from "/assets/dom.js";
import { openDetail } from "/assets/detail.js";
import { showJob } from "/assets/jobs.js";

const MOST = 10;

async function search(event) {
  event.preventDefault();
  const type = $("type").value.trim();
  const body = { query: $("words").value, limit: MOST };
  if (type) body.type = type;
  $("hits").replaceChildren(el("p", { class: "soft" }, "searching…"));
  try {
    showHits(await call("POST", "/v1/search", body));
  } catch (error) {
    $("hits").replaceChildren(el("p", { class: "notice" }, `Search failed: ${error.message}`));
  }
}

function showHits(answer) {
  if (!answer.hits.length) {
    $("hits").replaceChildren(el("p", { class: "empty" }, "Nothing matches."));
    return;
  }
  // A page that is not full holds all hits, even when the total is only a lower bound.
  const all = answer.hits.length < MOST || answer.total <= answer.hits.length && answer.total_relation === "eq";
  const total = `${count(answer.total)}${answer.total_relation === "gte" ? " or more" : ""}`;
  const found = all ? `${answer.hits.length} found` : `the best ${answer.hits.length} of ${total}`;
  $("hits").replaceChildren(
    el("p", { class: "soft" }, `${found}, in ${answer.took_ms} ms`),
    el("ol", { class: "hits" }, answer.hits.map(hit)));
}

// The title or name of an entity, if it has one.
function titleOf(fields) {
  const named = [fields.title, fields.name].find((value) => typeof value === "string" && value.trim() || typeof value === "number");
  return named == null ? null : String(named);
}

// Removes the title, or the end of it, from the start of the snippet: the title is shown above it.
function withoutTitle(snippet, title) {
  const [first, ...others] = snippet.split(" · ");
  const bare = (text) => text.split(/\s+/).filter(Boolean).join(" ");
  const said = bare(first).replace(/^…/, "");
  return title != null && bare(title).endsWith(said) ? others.join(" · ") : snippet;
}

function hit(hit) {
  const title = titleOf(hit.fields || {});
  const open = el("button", { class: "plainbutton", type: "button" }, stored(title ?? hit.id));
  open.addEventListener("click", () => showEntity(hit.type, hit.id, open));
  const snippet = withoutTitle(hit.snippet || "", title);
  return el("li", { class: "panel" },
    el("div", { class: "line" },
      el("h3", {}, open),
      el("span", { class: "mark soft" }, hit.type),
      hit.stale ? el("span", { class: "mark warn", title: "The index has not caught up with its newest content" }, "stale") : null,
      el("span", { class: "soft" }, `score ${Number(hit.score).toFixed(3)}`),
      title == null ? null : el("span", { class: "soft" }, stored(hit.id))),
    snippet ? el("p", {}, stored(snippet)) : null);
}

function showEntity(type, id, opener) {
  openDetail({
    title: `${type}/${id}`,
    path: `/v1/entities/${encodeURIComponent(type)}/${encodeURIComponent(id)}`,
    draw: (entity) => ({ state: mark(entity.status), parts: parts(entity, opener) }),
    back: () => (opener.isConnected ? opener : $("words")),
  });
}

function parts(entity, opener) {
  const field = ([name, value]) => [name, typeof value === "object" || value === "" ? JSON.stringify(value) : value];
  return [
    facts([
      ["type", entity.type], ["id", entity.id], ["version", entity.version],
      ["version indexed", entity.indexed_version ?? "none yet"],
      ["why", entity.why],
      ["indexed by", entity.job_id && jobLink(entity.job_id, opener)],
      ["created", entity.created_at], ["updated", entity.updated_at],
    ]),
    el("h3", {}, "Fields"),
    facts(Object.entries(entity.fields || {}).map(field)),
  ];
}

function jobLink(id, opener) {
  const open = el("button", { class: "plainbutton", type: "button" }, `job ${id}`);
  open.addEventListener("click", () => showJob(id, () => (opener.isConnected ? opener : $("words"))));
  return open;
}

function form() {
  const words = el("input", {
    id: "words", type: "search", name: "words", placeholder: "Search what is indexed", autocomplete: "off", maxlength: "500",
    required: true,
  });
  const type = el("input", {
    id: "type", type: "text", name: "type", list: "types", placeholder: "type (any)", autocomplete: "off", maxlength: "64",
    size: "12",
  });
  const search_form = el("form", { id: "search", class: "search", role: "search" },
    el("label", { class: "quiet", for: "words" }, "Words to search for"), words,
    el("label", { class: "quiet", for: "type" }, "Type"), type, el("datalist", { id: "types" }),
    el("button", { type: "submit" }, "Search"));
  search_form.addEventListener("submit", search);
  return search_form;
}

// Renders the page into the element that the dashboard provides.
export async function show(place) {
  place.replaceChildren(
    el("h2", { tabindex: "-1" }, "Search"), form(), el("div", { id: "hits", "aria-live": "polite" }));
  try {
    const types = (await call("GET", "/v1/types")).items;
    $("types").replaceChildren(...types.map((type) => el("option", { value: type.name })));
  } catch {
    // Without suggestions the field accepts any text, and a search reports an unknown type.
  }
}
