// Times in the reader's zone, pages that follow what happens, and the list of events. All else is done by the server.

const language = document.documentElement.lang;
const format = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });

const shapes = {
  minute: new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" }),
  day: new Intl.DateTimeFormat(language, { month: "short", day: "numeric" }),
};

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
  all.addEventListener("change", () => {
    for (const box of within.querySelectorAll("input[name=job]")) box.checked = all.checked;
  });
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
    main.querySelector("details[open], input:checked, [data-keep]") || (main.contains(active) && active.matches("input, select, textarea")),
  );
}

let reading = false;
let pause = 1000;
async function refresh() {
  if (reading || isBusy() || list) return;
  reading = true;
  const begin = performance.now();
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    if (response.redirected) return location.assign(response.url);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.getElementById("main");
    if (fresh && !isBusy()) {
      main.replaceChildren(...fresh.childNodes);
      localTimes(main);
      selectAll(main);
    }
    stale.hidden = true;
  } catch {
    stale.hidden = false;
  } finally {
    // A page that takes the server long is asked for less often.
    pause = Math.max(1000, 20 * (performance.now() - begin));
    reading = false;
  }
}

let due = null;
function soon() {
  due ??= setTimeout(() => {
    due = null;
    refresh();
  }, pause);
}

const MOST_EVENTS = 500;
function show(event) {
  const told = JSON.parse(event.data);
  const row = document.createElement("tr");
  const at = document.createElement("time");
  at.dateTime = told.at ?? new Date().toISOString();
  const id = document.createElement("a");
  id.href = `/jobs/${told.id}`;
  id.textContent = told.id;
  for (const value of [at, event.type, told.queue, told.kind, id, told.state, told.attempt]) {
    const cell = document.createElement("td");
    const text = document.createElement("bdi");
    text.append(value ?? "");
    cell.append(text);
    row.append(cell);
  }
  list.tBodies[0].prepend(row);
  localTimes(row);
  while (list.tBodies[0].rows.length > MOST_EVENTS) list.tBodies[0].lastElementChild.remove();
}

const WHATS = ["pushed", "imported", "started", "succeeded", "taken", "retrying", "crashed", "released", "failed", "expired", "cancelled", "changed", "retried", "deleted"];
let stream = null;
let wait = 1000;
function open() {
  if (stream || document.hidden || button.getAttribute("aria-pressed") !== "true") return;
  const opened = new EventSource(list?.dataset.stream ?? "/live");
  stream = opened;
  opened.addEventListener("subscribed", () => {
    wait = 1000;
    soon();
  });
  for (const what of WHATS) opened.addEventListener(what, list ? show : soon);
  opened.addEventListener("lost", soon);
  opened.addEventListener("error", () => {
    close();
    refresh();
    setTimeout(open, wait);
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
  open();
}
localTimes(document);
selectAll(main);
