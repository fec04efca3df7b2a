// Times in the reader's zone, pages that follow what happens, and the list of events. All else is done by the server.

const language = document.documentElement.lang;
const format = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

const shapes = {
  minute: new Intl.DateTimeFormat(language, { timeStyle: "short", hourCycle: "h23" }),
  day: new Intl.DateTimeFormat(language, { month: "short", day: "numeric" }),
};

const zone = document.getElementById("zone");
if (zone) {
  const offset = new Intl.DateTimeFormat(language, { timeZoneName: "shortOffset" }).formatToParts().find((part) => part.type === "timeZoneName");
  const name = format.resolvedOptions().timeZone;
  zone.textContent = name === "UTC" ? name : `${name} (${offset.value})`;
}
// On narrow screens the names of the pages scroll.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

function localTimes(within) {
  for (const label of within.querySelectorAll("[data-at]")) {
    label.textContent = shapes[label.dataset.form].format(new Date(label.dataset.at));
  }
  for (const time of within.querySelectorAll("time[datetime]")) {
    time.textContent = format.format(new Date(time.dateTime));
  }
}

function selectAll(within) {
  const all = within.querySelector("input[data-all]");
  if (!all) return;
  all.hidden = false;
  const boxes = within.querySelectorAll("input[name=job]");
  const count = () => {
    const chosen = [...boxes].filter((box) => box.checked).length;
    for (const shown of within.querySelectorAll("[data-chosen]")) shown.textContent = chosen ? ` (${chosen})` : "";
    all.checked = chosen > 0 && chosen === boxes.length;
  };
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    count();
  });
  for (const box of boxes) box.addEventListener("change", count);
  count();
}

// What a form would do, as it is typed.
function previews(within) {
  for (const place of within.querySelectorAll("#preview")) {
    const form = place.closest("form");
    let wait = null;
    let asked = 0;
    form.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(async () => {
        const turn = ++asked;
        const body = new URLSearchParams(new FormData(form));
        body.set("preview", "yes");
        const headers = { "content-type": "application/x-www-form-urlencoded" };
        const response = await fetch(form.action, { method: "POST", headers, body: body.toString() }).catch(() => null);
        if (!response?.ok || turn !== asked) return;
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.getElementById("preview");
        if (!fresh || turn !== asked) return;
        place.replaceChildren(...fresh.childNodes);
        localTimes(place);
      }, 400);
    });
  }
}

const main = document.getElementById("main");
const stale = document.getElementById("stale");
const button = document.getElementById("live");
const stored = "duetime-live";
const list = document.getElementById("events");

let pressed = false;
addEventListener("pointerdown", () => (pressed = true));
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => (pressed = false), 300));

// What the reader has begun is not taken away.
function isBusy() {
  const active = document.activeElement;
  return pressed || Boolean(
    main.querySelector("details[open]:not([data-open]), input:checked, [data-keep]") || (main.contains(active) && active.matches("input, select, textarea")),
  );
}

function setStale(is) {
  stale.hidden = !is;
  button.toggleAttribute("data-stale", is);
}

let reading = false;
// When it was read last.
let read = 0;
// The page is not read again before this.
let rested = 0;
async function refresh() {
  button.toggleAttribute("data-busy", isBusy());
  if (reading || document.hidden || isBusy() || list) return;
  reading = true;
  const begin = (read = performance.now());
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    if (response.redirected) return location.assign(response.url);
    if (response.status >= 500 || response.status === 429) throw new Error(response.statusText);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.getElementById("main");
    if (fresh && !isBusy()) {
      main.replaceChildren(...fresh.childNodes);
      document.title = page.title;
      for (const part of ["link[rel=icon]", "nav"]) {
        const [old, found] = [document, page].map((of) => of.querySelector(part));
        if (found && old?.outerHTML !== found.outerHTML) old?.replaceWith(found);
      }
      localTimes(main);
      selectAll(main);
      previews(main);
    }
    setStale(false);
    // A page that takes the server long is asked for less often.
    rested = performance.now() + Math.max(1000, 20 * (performance.now() - begin));
  } catch {
    setStale(true);
    rested = performance.now() + 2000 * (1 + Math.random());
  } finally {
    reading = false;
  }
  if (!stale.hidden) soon();
}

let due = null;
function soon() {
  due ??= setTimeout(() => {
    due = null;
    refresh();
  }, Math.max(0, rested - performance.now()));
}

// As on pages of the server: what is not seen, or changes how other text is seen, is shown as its number; not what joins or colours emoji.
const hidden = /(?![\n\t]|(?<=[\p{ExtPict}\ufe0f])\u200d(?=\p{ExtPict})|(?<=\p{ExtPict})[\ufe0e\ufe0f])[\p{Cc}\p{Zl}\p{Zp}\p{DI}\ufff9-\ufffb]/gu;
function visible(text) {
  return String(text).replace(hidden, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

// The path of the first page: the dashboard may be mounted under a prefix.
const root = document.querySelector("a.brand").getAttribute("href").replace(/\/$/, "");

const MOST_EVENTS = 500;
const exact = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
function link(href, text) {
  const to = document.createElement("a");
  to.href = href;
  to.textContent = visible(text);
  return to;
}

// A stream that opens again begins with events that are here already.
const seen = new Set();
function show(event) {
  const told = JSON.parse(event.data);
  const key = `${event.type} ${told.id} ${told.at} ${told.attempt}`;
  if (seen.has(key)) return;
  seen.add(key);
  const row = document.createElement("tr");
  const at = document.createElement("time");
  at.dateTime = told.at ?? new Date().toISOString();
  at.title = at.dateTime;
  at.textContent = exact.format(new Date(at.dateTime));
  // Browsers resolve dots in paths.
  const path = [".", ".."].includes(told.queue) ? "-?name=" : "";
  const queue = link(`${root}/queues/${path}${encodeURIComponent(told.queue ?? "")}`, told.queue ?? "");
  const id = link(`${root}/jobs/${told.id}`, told.id);
  for (const value of [at, event.type, queue, told.kind, id, told.attempt]) {
    const cell = document.createElement("td");
    const text = document.createElement("bdi");
    text.append(value instanceof Node ? value : visible(value ?? ""));
    cell.append(text);
    if (value === at) cell.className = "instant";
    if (value === told.attempt) cell.className = "number";
    row.append(cell);
  }
  list.tBodies[0].prepend(row);
  row.dataset.key = key;
  while (list.tBodies[0].rows.length > MOST_EVENTS) {
    const oldest = list.tBodies[0].lastElementChild;
    seen.delete(oldest.dataset.key);
    oldest.remove();
  }
}

const WHATS = ["pushed", "imported", "started", "succeeded", "taken", "retrying", "crashed", "released", "failed", "expired", "cancelled", "changed", "retried", "deleted"];
let stream = null;
let wait = 1000;
function open() {
  if (stream || document.hidden || button.getAttribute("aria-pressed") !== "true") return;
  const opened = new EventSource(list?.dataset.stream ?? `${root}/live?every=1s`);
  stream = opened;
  opened.addEventListener("subscribed", () => {
    wait = 1000;
    soon();
  });
  for (const what of list ? WHATS : []) opened.addEventListener(what, show);
  opened.addEventListener("activity", soon);
  opened.addEventListener("lost", soon);
  opened.addEventListener("error", () => {
    close();
    refresh();
    // Pages that lost the same server do not all come back at once.
    setTimeout(open, wait * (1 + Math.random()));
    wait = Math.min(wait * 2, 30_000);
  });
}

function close() {
  stream?.close();
  stream = null;
}

if (button && document.querySelector("nav")) {
  button.hidden = false;
  button.setAttribute("aria-pressed", String(localStorage.getItem(stored) !== "off"));
  button.addEventListener("click", () => {
    const live = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(live));
    localStorage.setItem(stored, live ? "on" : "off");
    live ? open() : close();
  });
  // Browsers open few connections to one server.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  // Times pass, and a store can fail, without an event.
  setInterval(() => stream && performance.now() - read > 14_000 && soon(), 1_000);
  open();
}
localTimes(document);
selectAll(main);
previews(main);
