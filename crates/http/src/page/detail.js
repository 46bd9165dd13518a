// The dialog with everything about one thing. While it is open it looks again every second, so what it shows is how things
// are; it is drawn anew only when they changed.

import { $, call, el, stored, visible } from "/assets/dom.js";

let shown = null;

// `what` has a title, the path it is read from, how its answer is drawn, and what gets the focus back.
export function openDetail(what) {
  clearTimeout(shown && shown.timer);
  shown = { ...what, text: "", timer: 0, lost: false };
  $("detail-title").replaceChildren(stored(what.title));
  $("detail-state").replaceChildren();
  $("detail-body").replaceChildren(el("p", { class: "soft" }, "reading…"));
  if (!$("detail").open) $("detail").showModal();
  look(shown);
}

async function look(one) {
  clearTimeout(one.timer);
  try {
    if (!document.hidden) draw(one, await call("GET", one.path));
    if (one === shown && one.lost) say("");
    one.lost = false;
  } catch (error) {
    // What was read before stays: it is old, and the line says so.
    if (one === shown) say(one.text ? `cannot be read again: ${error.message}` : error.message);
    one.lost = true;
  }
  if (one === shown) one.timer = setTimeout(() => look(one), 1000);
}

function draw(one, answer) {
  const text = JSON.stringify(answer);
  if (one !== shown || text === one.text) return;
  one.text = text;
  const on = $("detail-body").contains(document.activeElement) ? document.activeElement.textContent : null;
  const { state, parts } = one.draw(answer);
  $("detail-state").replaceChildren(state);
  $("detail-body").replaceChildren(...parts, el("p", { class: "soft", role: "status", id: "detail-said" }));
  if (on == null) return;
  const again = [...$("detail-body").querySelectorAll("button, pre")].find((node) => node.textContent === on);
  (again || $("close")).focus();
}

function say(text) {
  const line = $("detail-said");
  if (line) line.textContent = visible(text);
  else $("detail-body").replaceChildren(el("p", { class: "notice" }, text));
}

// A button of the dialog: acts, then shows what became of it.
export function action(label, method, path, after) {
  const button = el("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    const one = shown;
    try {
      draw(one, await call(method, path));
      if (after) after();
    } catch (error) {
      say(error.message);
    }
    look(one);
  });
  return button;
}

$("close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("click", (event) => { if (event.target === $("detail")) $("detail").close(); });
$("detail").addEventListener("close", () => {
  // Told late: by then the dialog may show something else.
  if ($("detail").open) return;
  const one = shown;
  shown = null;
  clearTimeout(one && one.timer);
  const back = one && one.back();
  if (back) back.focus();
});
