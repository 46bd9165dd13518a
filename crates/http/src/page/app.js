// The dashboard. Stored text is hostile: it reaches the page through textContent and nothing else.
"use strict";

const $ = (id) => document.getElementById(id);

// An element with attributes and children; a child that is no element becomes text.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child != null) node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

async function call(method, path, body) {
  const options = { method, headers: { accept: "application/json" } };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const text = await response.text();
  let answer = null;
  try { answer = text ? JSON.parse(text) : null; } catch { answer = null; }
  if (!response.ok) {
    const error = new Error((answer && answer.detail) || response.statusText || "the server failed");
    error.status = response.status;
    throw error;
  }
  return answer;
}

// Figures -----------------------------------------------------------------------------------------------------------

const count = (n) => new Intl.NumberFormat("en").format(n);

function span(seconds) {
  if (seconds == null) return "–";
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

function ago(time) {
  if (!time) return "–";
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
}

// The time of day; the whole stamp is in the title.
const clock = (time) => el("span", { title: time }, time ? new Date(time).toISOString().slice(11, 23) : "–");

const depth = (queue) => count(queue.depth) + (queue.depth_is_capped ? "+" : "");

function showTotals(stats) {
  const sum = (field) => stats.queues.reduce((total, queue) => total + queue[field], 0);
  const capped = stats.queues.some((queue) => queue.depth_is_capped);
  const late = stats.queues.filter(isLate).length;
  const oldest = Math.max(0, ...stats.queues.map((queue) => queue.oldest_age_seconds || 0));
  const totals = [
    ["waiting", count(sum("depth")) + (capped ? "+" : "")],
    ["running", count(sum("running"))],
    ["scheduled", count(sum("scheduled"))],
    ["oldest due", oldest ? span(oldest) : "–"],
    ["workers", count(stats.workers), stats.workers === 0 ? "bad" : null],
    ["queues past SLA", count(late), late ? "bad" : null],
  ];
  if (stats.pending_entities != null) totals.push(["entities to index", count(stats.pending_entities)]);
  if (stats.indexed_entities != null) totals.push(["entities indexed", count(stats.indexed_entities)]);
  $("totals").replaceChildren(
    ...totals.map(([name, value, tone]) => el("div", {}, el("dt", {}, name), el("dd", { class: tone }, value))),
  );
}

const isLate = (queue) => queue.sla_seconds != null && queue.p95_seconds != null && queue.p95_seconds > queue.sla_seconds;
const COLOURS = ["salmon", "blue", "lavender", "green", "yellow"];

function showQueues(stats) {
  if (stats.queues.length === 0) {
    $("queues").replaceChildren(el("p", { class: "empty" }, "There are no queues yet. ", el("code", {}, "windlass serve"), " registers them."));
    return;
  }
  $("queues").replaceChildren(...stats.queues.map(queueCard));
  const select = $("queue");
  const known = new Set([...select.options].map((option) => option.value));
  for (const queue of stats.queues) {
    if (!known.has(queue.name)) select.append(el("option", { value: queue.name }, queue.name));
  }
}

function queueCard(queue) {
  const share = queue.sla_seconds && queue.p95_seconds != null ? queue.p95_seconds / queue.sla_seconds : null;
  const tone = share == null ? "" : share > 1 ? "bad" : share > 0.8 ? "warn" : "";
  const marks = [];
  if (queue.paused) marks.push(el("span", { class: "mark warn" }, "paused"));
  if (isLate(queue)) marks.push(el("span", { class: "mark bad" }, "past SLA"));
  const fact = (name, value, tone) => el("div", {}, el("dt", {}, name), el("dd", { class: tone }, value));
  const fill = el("span", {});
  fill.style.width = `${Math.min(100, Math.round((share || 0) * 100))}%`;
  const colour = COLOURS.includes(queue.colour) ? ` c-${queue.colour}` : "";
  return el("article", { class: `card${colour}` },
    el("h3", {}, queue.name, marks),
    el("dl", {},
      fact("waiting", depth(queue)),
      fact("running", `${count(queue.running)} / ${count(queue.concurrency)}`),
      fact("scheduled", count(queue.scheduled)),
      fact("oldest due", span(queue.oldest_age_seconds)),
      fact("P95 (1 h)", queue.p95_seconds == null ? "–" : `≤ ${span(queue.p95_seconds)}`, tone || null),
      fact("SLA", queue.sla_seconds == null ? "none" : span(queue.sla_seconds))),
    el("div", { class: `meter ${tone}` }, fill),
    queue.owner ? el("p", {}, queue.owner) : null);
}

// The link to the server: a stream where there is one, else a look every two seconds. ----------------------------------

let shape = "";

function link(state, text) {
  $("link").className = `link ${state}`;
  if ($("link").textContent !== text) $("link").textContent = text;
}

function show(stats) {
  showTotals(stats);
  showQueues(stats);
  // Jobs are read again when the figures say that something happened, and now and then: a quick job leaves no trace in them.
  const now = JSON.stringify(stats.queues.map((queue) => [queue.depth, queue.running, queue.scheduled]));
  if (now !== shape || Date.now() - read > 3000) {
    shape = now;
    freshen();
  }
}

async function poll() {
  try {
    show(await call("GET", "/v1/stats"));
    link("polling", "looking every 2 s");
  } catch {
    link("lost", "the server does not answer");
  }
}

let polling = 0;

function follow() {
  const events = new EventSource("/v1/stream");
  events.addEventListener("stats", (event) => {
    clearInterval(polling);
    polling = 0;
    link("live", "live");
    show(JSON.parse(event.data));
  });
  events.addEventListener("trouble", () => link("lost", "the database does not answer"));
  events.addEventListener("error", () => {
    if (!polling) polling = setInterval(poll, 2000);
    poll();
    // A refused stream is not tried again by the browser; too many listen, so later.
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 15000);
  });
}

// Jobs --------------------------------------------------------------------------------------------------------------

const TONES = { completed: "good", failed: "bad", dead_letter: "bad", running: "warn", cancelled: "soft", superseded: "soft" };
let older = null;
let extra = [];
let reading = false;
let read = 0;

function jobsPath(cursor) {
  const query = new URLSearchParams({ limit: "25" });
  if ($("state").value) query.set("state", $("state").value);
  if ($("queue").value) query.set("queue", $("queue").value);
  if (cursor) query.set("cursor", cursor);
  return `/v1/jobs?${query}`;
}

// At most once a second, and not while somebody reads further back.
let waiting = 0;
function freshen() {
  if (waiting || extra.length || document.hidden) return;
  waiting = setTimeout(() => { waiting = 0; loadJobs(); }, 300);
}

async function loadJobs() {
  if (reading) return;
  reading = true;
  read = Date.now();
  try {
    const page = await call("GET", jobsPath(null));
    extra = [];
    older = page.next_cursor;
    keepFocus(() => showJobs(page.items));
  } catch (error) {
    $("jobs").replaceChildren(el("p", { class: "notice" }, `Jobs cannot be shown: ${error.message}`));
  } finally {
    reading = false;
  }
}

async function loadOlder() {
  const page = await call("GET", jobsPath(older));
  extra = extra.concat(page.items);
  older = page.next_cursor;
  $("jobs").querySelector("tbody").append(...page.items.map(jobRow));
  $("more").hidden = !older;
}

// The table is made anew; whoever stands on a job stays on it.
function keepFocus(change) {
  const on = $("jobs").contains(document.activeElement) ? document.activeElement.dataset.job : null;
  change();
  const again = on && [...$("jobs").querySelectorAll("[data-job]")].find((button) => button.dataset.job === on);
  if (again) again.focus({ preventScroll: true });
}

function showJobs(jobs) {
  $("more").hidden = !older;
  if (jobs.length === 0) {
    const filtered = $("state").value || $("queue").value;
    $("jobs").replaceChildren(el("p", { class: "empty" }, filtered
      ? "No job matches."
      : ["No jobs yet. Try one: ", el("code", {}, "windlass enqueue NOOP")]));
    return;
  }
  const heads = ["job", "state", "kind", "queue", "attempt", "when", "last error"];
  $("jobs").replaceChildren(el("div", { class: "scroll" },
    el("table", { class: "jobs" },
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, jobs.map(jobRow)))));
}

function jobRow(job) {
  const open = el("button", { class: "plainbutton", type: "button", "data-job": job.id, "aria-label": `Job ${job.id}, ${job.kind}, ${job.state}` }, job.id);
  const row = el("tr", { class: "open" },
    el("td", { class: "id" }, open),
    el("td", {}, el("span", { class: `mark ${TONES[job.state] || ""}` }, job.state.replace("_", " "))),
    el("td", {}, job.kind),
    el("td", { class: "soft" }, job.queue),
    el("td", { class: "soft" }, `${job.attempt} of ${job.max_attempts}`),
    el("td", { class: "when soft", title: job.finished_at || job.run_at || job.created_at }, ago(job.finished_at || job.started_at || job.run_at || job.created_at)),
    el("td", { class: "error" }, job.last_error ? el("span", {}, job.last_error) : null));
  row.addEventListener("click", () => showDetail(job.id));
  return row;
}

async function showDetail(id) {
  const dialog = $("detail");
  $("detail-title").textContent = `Job ${id}`;
  $("detail-body").replaceChildren(el("p", { class: "soft" }, "reading…"));
  if (!dialog.open) dialog.showModal();
  try {
    fillDetail(await call("GET", `/v1/jobs/${encodeURIComponent(id)}`));
  } catch (error) {
    $("detail-body").replaceChildren(el("p", { class: "notice" }, error.message));
  }
}

const pretty = (value) => el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));

function fillDetail(job) {
  const facts = [
    ["state", job.cancel_requested ? `${job.state} (a cancel was asked for)` : job.state],
    ["kind", `${job.kind} in ${job.queue}`],
    ["attempt", `${job.attempt} of ${job.max_attempts}`],
    ["priority", job.priority],
    ["created", job.created_at], ["due", job.run_at], ["started", job.started_at], ["finished", job.finished_at],
    ["progress", job.progress && `${job.progress.percent} % ${job.progress.message || ""}`],
    ["unique key", job.unique_key], ["concurrency key", job.concurrency_key],
    ["tags", job.tags.join(", ")],
    ["entity", job.entity && `${job.entity.type}:${job.entity.id}`],
    ["last error", job.last_error],
  ].filter(([, value]) => value != null && value !== "");
  const parts = [
    el("dl", { class: "facts" }, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    actions(job),
    el("h3", {}, "Payload"), pretty(job.payload),
  ];
  if (job.result != null) parts.push(el("h3", {}, "Result"), pretty(job.result));
  if (job.attempts.length) {
    const row = (run) => el("tr", {}, el("td", {}, run.attempt), el("td", {}, run.outcome), el("td", { class: "when" }, clock(run.started_at)), el("td", { class: "when" }, clock(run.ended_at)), el("td", { class: "error" }, run.error || ""));
    const heads = ["run", "outcome", "started", "ended", "error"];
    parts.push(el("h3", {}, "Runs"), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, job.attempts.map(row)))));
  }
  if (job.logs.length) {
    parts.push(el("h3", {}, "Log"), el("pre", { tabindex: "0" }, job.logs.map((log) => `${log.at} [${log.attempt}] ${log.line}`).join("\n")));
  }
  $("detail-body").replaceChildren(...parts);
}

function actions(job) {
  const finished = !["scheduled", "pending", "running"].includes(job.state);
  const again = ["failed", "dead_letter", "cancelled", "scheduled"].includes(job.state);
  const said = el("span", { class: "soft", role: "status" });
  const act = (label, verb) => {
    const button = el("button", { type: "button" }, label);
    button.addEventListener("click", async () => {
      try {
        fillDetail(await call("POST", `/v1/jobs/${encodeURIComponent(job.id)}/${verb}`));
        loadJobs();
      } catch (error) {
        said.textContent = error.message;
      }
    });
    return button;
  };
  return el("div", { class: "actions" },
    again ? act(job.state === "scheduled" ? "Run now" : "Retry", "retry") : null,
    finished ? null : act("Cancel", "cancel"), said);
}

// Search ------------------------------------------------------------------------------------------------------------

async function search(event) {
  event.preventDefault();
  const type = $("type").value.trim();
  const body = { query: $("words").value, limit: 10 };
  if (type) body.type = type;
  $("hits").replaceChildren(el("p", { class: "soft" }, "searching…"));
  try {
    showHits(await call("POST", "/v1/search", body));
  } catch (error) {
    const text = error.status === 404 || error.status === 405
      ? "Search is not available on this server: nothing is indexed here."
      : `Search failed: ${error.message}`;
    $("hits").replaceChildren(el("p", { class: "notice" }, text));
  }
}

function showHits(answer) {
  if (!answer.hits.length) {
    $("hits").replaceChildren(el("p", { class: "empty" }, "Nothing matches. ", el("code", {}, "windlass index FILE.ndjson --type document"), " loads something to search."));
    return;
  }
  const found = `${count(answer.total)}${answer.total_relation === "gte" ? "+" : ""} found in ${answer.took_ms} ms`;
  $("hits").replaceChildren(el("p", { class: "soft" }, found), el("ol", { class: "hits" }, answer.hits.map(hit)));
}

function hit(hit) {
  const fields = hit.fields || {};
  const title = fields.title ?? fields.name ?? Object.values(fields).find((value) => typeof value === "string") ?? hit.id;
  return el("li", { class: "panel" },
    el("div", { class: "line" },
      el("h3", {}, title),
      el("span", { class: "mark soft" }, hit.type),
      hit.stale ? el("span", { class: "mark warn", title: "The index has not caught up with its newest content" }, "stale") : null,
      el("span", { class: "soft" }, `score ${Number(hit.score).toFixed(3)} · ${hit.id}`)),
    hit.snippet ? el("p", {}, hit.snippet) : null);
}

// Start -------------------------------------------------------------------------------------------------------------

$("search").addEventListener("submit", search);
$("state").addEventListener("change", loadJobs);
$("queue").addEventListener("change", loadJobs);
$("more").addEventListener("click", loadOlder);
$("close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("click", (event) => { if (event.target === $("detail")) $("detail").close(); });
loadJobs();
if ("EventSource" in window) follow(); else { poll(); setInterval(poll, 2000); }
