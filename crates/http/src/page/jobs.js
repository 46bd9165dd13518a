// The list of jobs and what can be done about one.

import { $, ago, call, clock, el, facts, mark, pretty, stored, table, visible } from "/assets/dom.js";
import { action, openDetail } from "/assets/detail.js";

const PAGE = 25;
// A list that takes long to read is read less often: at most a twentieth of the time.
const SHARE = 20;

let older = null;
let lookingBack = false;
let reading = false;
let again = false;
let rest = 0;
let waiting = 0;
// The queues there are; nothing is read before they are known.
let families = null;

// Queues with the upkeep of parts: their jobs are left out of the list unless asked for.
let quiet = null;

const isQuiet = (name) => quiet.has(name);

export function setQuiet(names) {
  quiet = new Set(names);
  $("quiet-switch").hidden = quiet.size === 0;
  if (families) loadJobs();
}

function path(cursor) {
  const query = new URLSearchParams({ limit: String(PAGE) });
  if ($("state").value) query.set("state", $("state").value);
  if ($("kind").value) query.set("kind", $("kind").value);
  if ($("queue").value) query.set("queue", $("queue").value);
  else if (hidesQuiet()) query.set("queue", families.filter((name) => !isQuiet(name)).join(","));
  if (cursor) query.set("cursor", cursor);
  return `/v1/jobs?${query}`;
}

// A choice of queue or kind, or of what failed, shows them. A kind of upkeep has the name of its queue.
const hidesQuiet = () => quiet.size > 0 && !$("quiet").checked && !isQuiet($("kind").value)
  && !/failed|dead_letter/.test($("state").value) && families.some((name) => !isQuiet(name));

// As the newest figures have them.
export function setFamilies(names) {
  const changed = !families || families.join() !== names.join();
  families = names;
  offer($("queue"), names);
  if (changed) loadJobs();
}

function offer(select, names) {
  const known = new Set([...select.options].map((option) => option.value));
  for (const name of names) if (!known.has(name)) select.append(el("option", { value: name }, name));
}

// Soon, unless somebody reads further back or nobody looks.
export function freshen() {
  if (waiting || lookingBack || document.hidden || Date.now() < rest) return;
  waiting = setTimeout(() => { waiting = 0; loadJobs(); }, 300);
}

export const lastRead = { at: 0 };

export async function loadJobs() {
  again = reading;
  if (reading || !families || !quiet) return;
  reading = true;
  lastRead.at = Date.now();
  try {
    const page = await call("GET", path(null));
    older = page.next_cursor;
    lookBack(false);
    keepFocus(() => showJobs(page.items));
  } catch (error) {
    $("jobs").replaceChildren(el("p", { class: "notice" }, `Jobs cannot be shown: ${error.message}`));
  } finally {
    reading = false;
    rest = Date.now() + SHARE * (Date.now() - lastRead.at);
  }
  // A filter that changed while the list was read.
  if (again) loadJobs();
}

async function loadOlder() {
  try {
    const page = await call("GET", path(older));
    older = page.next_cursor;
    lookBack(true);
    $("jobs").querySelector("tbody").append(...page.items.map(jobRow));
    $("more").hidden = !older;
  } catch (error) {
    $("paused-why").textContent = visible(`Older jobs cannot be shown: ${error.message}`);
    $("paused").hidden = false;
  }
}

// A table somebody reads further back in stands still, and says so.
function lookBack(back) {
  lookingBack = back;
  $("paused").hidden = !back;
  $("paused-why").textContent = "This list is paused while you look back.";
}

// The table is made anew; whoever stands on a job stays on it.
function keepFocus(change) {
  const on = $("jobs").contains(document.activeElement) ? document.activeElement.dataset.job : null;
  change();
  const row = on && rowOf(on);
  if (row) row.focus({ preventScroll: true });
}

const rowOf = (id) => [...$("jobs").querySelectorAll("[data-job]")].find((button) => button.dataset.job === id);

function showJobs(jobs) {
  $("more").hidden = !older;
  if (jobs.length === 0) {
    const filtered = $("state").value || $("queue").value || $("kind").value;
    const hint = hidesBoxes() ? " Jobs that index entities are not shown." : "";
    $("jobs").replaceChildren(el("p", { class: "empty" }, filtered
      ? `No job matches.${hint}`
      : [`No jobs yet.${hint} Try one: `, el("code", {}, "windlass enqueue NOOP")]));
    return;
  }
  const heads = ["job", "state", "kind", "queue", "entity", "attempt", "when", "last error"];
  $("jobs").replaceChildren(table(heads, jobs.map(jobRow), "jobs"));
}

const entityOf = (job) => (job.entity ? `${job.entity.type}/${job.entity.id}` : "");

function jobRow(job) {
  const label = `Job ${job.id}, ${job.kind}, ${job.state}`;
  const open = el("button", { class: "plainbutton", type: "button", "data-job": job.id, "aria-label": label }, job.id);
  const when = job.finished_at || job.started_at || job.run_at || job.created_at;
  const row = el("tr", { class: "open" },
    el("td", { class: "id" }, open),
    el("td", {}, mark(job.state)),
    el("td", {}, job.kind),
    el("td", { class: "soft" }, job.queue),
    el("td", { class: "entity" }, job.entity ? stored(entityOf(job)) : null),
    el("td", { class: "soft" }, `${job.attempt} of ${job.max_attempts}`),
    el("td", { class: "when soft", title: when }, ago(when)),
    el("td", { class: "error" }, job.last_error ? el("span", {}, stored(job.last_error)) : null));
  row.addEventListener("click", () => showJob(job.id));
  return row;
}

export function showJob(id, back) {
  openDetail({
    title: `Job ${id}`,
    path: `/v1/jobs/${encodeURIComponent(id)}`,
    draw: (job) => ({ state: mark(job.state), parts: parts(job) }),
    back: back || (() => rowOf(id) || $("jobs-title")),
  });
}

function parts(job) {
  const parts = [
    facts([
      ["kind", `${job.kind} in ${job.queue}`],
      ["asked", job.cancel_requested ? "a cancel was asked for" : null],
      ["attempt", `${job.attempt} of ${job.max_attempts}`],
      ["priority", job.priority],
      ["created", job.created_at], ["due", job.run_at], ["started", job.started_at], ["finished", job.finished_at],
      ["progress", job.progress && `${job.progress.percent} % ${job.progress.message || ""}`],
      ["waits for", job.waits_for], ["unique key", job.unique_key], ["concurrency key", job.concurrency_key],
      ["tags", job.tags.join(", ")],
      ["entity", entityOf(job)],
      ["last error", job.last_error],
    ]),
    actions(job),
    el("h3", {}, "Payload"), pretty(job.payload),
  ];
  if (job.result != null) parts.push(el("h3", {}, "Result"), pretty(job.result));
  if (job.attempts.length) {
    const row = (run) => el("tr", {}, el("td", {}, run.attempt), el("td", {}, run.outcome),
      el("td", { class: "when" }, clock(run.started_at)), el("td", { class: "when" }, clock(run.ended_at)),
      el("td", { class: "error" }, stored(run.error || "")));
    parts.push(el("h3", {}, "Runs"), table(["run", "outcome", "started", "ended", "error"], job.attempts.map(row)));
  }
  if (job.graph) {
    const row = (one) => el("tr", {}, el("td", {}, stored(one.name)), el("td", {}, one.waiting ? "waits" : one.state),
      el("td", { class: "soft" }, stored(one.after.join(", "))));
    const title = `Workflow ${job.graph.name || job.graph.id}: ${job.graph.state}`;
    parts.push(el("h3", {}, stored(title)), table(["job", "state", "after"], job.graph.jobs.map(row)));
  }
  if (job.logs.length) {
    const lines = job.logs.map((log) => `${log.at} [${log.attempt}] ${log.line}`).join("\n");
    parts.push(el("h3", {}, "Log"), el("pre", { tabindex: "0" }, lines));
  }
  return parts;
}

function actions(job) {
  const finished = !["scheduled", "pending", "running"].includes(job.state);
  const waits = job.waiting_on.length > 0;
  const again = !waits && ["failed", "dead_letter", "cancelled", "scheduled"].includes(job.state);
  const act = (label, verb) => action(label, "POST", `/v1/jobs/${encodeURIComponent(job.id)}/${verb}`, freshen);
  return el("div", { class: "actions" },
    again ? act(job.state === "scheduled" ? "Run now" : "Retry", "retry") : null,
    finished ? null : act("Cancel", "cancel"));
}

export async function startJobs() {
  for (const id of ["state", "queue", "kind", "quiet"]) $(id).addEventListener("change", loadJobs);
  $("more").addEventListener("click", loadOlder);
  $("newest").addEventListener("click", () => { loadJobs(); $("jobs-title").focus(); });
  try {
    offer($("kind"), (await call("GET", "/v1/kinds")).items.map((kind) => kind.name));
  } catch {
    // The list works without it; the link line says when the server is away.
  }
}
