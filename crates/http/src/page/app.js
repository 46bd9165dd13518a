// The dashboard: the figures of the moment, kept up to date. Jobs and pages of parts have files of their own.

import { $, call, count, el, span } from "/assets/dom.js";
import { freshen, lastRead, setFamilies, setQuiet, startJobs } from "/assets/jobs.js";
import { startPages } from "/assets/pages.js";

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
  // Figures that parts bring.
  for (const [name, value] of Object.entries(stats)) {
    if (name !== "workers" && typeof value === "number") totals.push([name.replaceAll("_", " "), count(value)]);
  }
  $("totals").replaceChildren(
    ...totals.map(([name, value, tone]) => el("div", {}, el("dt", {}, name), el("dd", { class: tone }, value))),
  );
}

const isLate = (queue) => queue.sla_seconds != null && queue.p95_seconds != null && queue.p95_seconds > queue.sla_seconds;
const COLOURS = ["salmon", "blue", "lavender", "green", "yellow", "teal", "olive", "grey"];

function showQueues(stats) {
  if (stats.queues.length === 0) {
    $("queues").replaceChildren(el("p", { class: "empty" }, "There are no queues yet. ", el("code", {}, "windlass serve"), " registers them."));
    return;
  }
  $("queues").replaceChildren(...stats.queues.map(queueCard));
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
  setFamilies(stats.queues.map((queue) => queue.name));
  // Jobs are read again when the figures say that something happened, and now and then: a quick job leaves no trace in them.
  const now = JSON.stringify(stats.queues.map((queue) => [queue.depth, queue.running, queue.scheduled]));
  if (now !== shape || Date.now() - lastRead.at > 3000) {
    shape = now;
    freshen();
  }
}

async function poll() {
  try {
    show(await call("GET", "/v1/stats"));
    if (polling || !("EventSource" in window)) link("polling", "looking every 2 s");
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

startPages(setQuiet);
startJobs();
poll();
if ("EventSource" in window) follow(); else setInterval(poll, 2000);
