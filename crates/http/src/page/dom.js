// What both pages share: elements, calls, figures. Stored text is hostile: it reaches a page through `el` and nothing else,
// as text, with the characters that would steer or reverse what stands around it spelled out.

export const $ = (id) => document.getElementById(id);

const HOSTILE = /[\p{Bidi_Control}\p{Cc}\u2028\u2029\ufeff\u{e0000}-\u{e0fff}]/gu;

const spelled = (character) => (character === "\n" || character === "\t" ? character : `\\u{${character.codePointAt(0).toString(16)}}`);

export const visible = (text) => String(text).replace(HOSTILE, spelled);

// An element with attributes and children; a child that is no element becomes text.
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child != null) node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

// Stored text of its own direction, which ends with it.
export const stored = (text) => el("bdi", {}, text);

export const pretty = (value) => el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));

export function table(heads, rows, style) {
  return el("div", { class: "scroll" }, el("table", { class: style },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows)));
}

// The answer's JSON; a problem becomes an error with the server's own words.
export async function call(method, path, body) {
  const options = { method, headers: { accept: "application/json" } };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const text = await response.text();
  let answer = null;
  try { answer = text ? JSON.parse(text) : null; } catch { answer = null; }
  if (!response.ok) throw new Error((answer && answer.detail) || response.statusText || "the server failed");
  return answer;
}

// Figures -----------------------------------------------------------------------------------------------------------

export const count = (n) => new Intl.NumberFormat("en").format(n);

export function span(seconds) {
  if (seconds == null) return "–";
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function ago(time) {
  if (!time) return "–";
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
}

// The time of day; the whole stamp is in the title.
export const clock = (time) => el("span", { title: time }, time ? new Date(time).toISOString().slice(11, 23) : "–");

const TONES = {
  completed: "good", indexed: "good", failed: "bad", dead_letter: "bad", running: "warn", processing: "warn",
  cancelled: "soft", superseded: "soft", deleted: "soft",
};

// The state of a job or an entity.
export const mark = (state) => el("span", { class: `mark ${TONES[state] || ""}` }, state.replace("_", " "));

export const facts = (pairs) =>
  el("dl", { class: "facts" }, pairs
    .filter(([, value]) => value != null && value !== "")
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value instanceof Node ? value : stored(value))]));
