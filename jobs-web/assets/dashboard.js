// The dashboard's only script. Every page works without it. It shows changes while a page is open, adds the reader's time zone to
// times, selects rows, and handles a few keys.
"use strict";

(() => {
  const POLL_MS = 5000;
  const live = document.getElementById("live");
  const state = document.getElementById("live-state");

  const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const zoned = { ...time, timeZoneName: "short" };
  const day = { day: "numeric", month: "short" };
  const form = (parts) => new Intl.DateTimeFormat(undefined, parts);
  const forms = {
    hour: form(time),
    weekday: form({ weekday: "short", day: "numeric" }),
    now: form({ ...zoned, second: "2-digit" }),
    today: form(zoned),
    thisYear: form({ ...day, ...zoned }),
    step: form({ weekday: "short", ...day, ...zoned }),
    exact: form({ ...day, year: "numeric", ...zoned, second: "2-digit" }),
  };

  function local(date) {
    const now = new Date();
    if (date.toDateString() === now.toDateString()) return forms.today.format(date);
    return (date.getFullYear() === now.getFullYear() ? forms.thisYear : forms.exact).format(date);
  }

  // A page has one clock: times that the server has written in UTC are written in the reader's zone. Titles have both.
  function localTimes(within) {
    for (const time of within.querySelectorAll("time[datetime][title]")) {
      // A row that has left its table has them already.
      if (time.closest(".left")) continue;
      const date = new Date(time.dateTime);
      time.title = `${time.title}\n${forms.exact.format(date)}`;
      const at = time.querySelector(".at");
      if (at) at.textContent = local(date);
    }
    for (const label of within.querySelectorAll(".x time")) {
      label.textContent = (label.textContent.includes(":") ? forms.hour : forms.weekday).format(new Date(label.dateTime));
    }
    for (const hit of within.querySelectorAll("rect[data-at]")) {
      const title = hit.firstElementChild;
      const written = /^\d/.test(title.textContent) ? forms.today : forms.step;
      title.textContent = title.textContent.replace(/^.*? UTC/, written.format(new Date(hit.dataset.at)));
    }
    for (const note of within.querySelectorAll(".zone-note")) {
      note.textContent = `Times are in your zone, ${forms.hour.resolvedOptions().timeZone}.`;
    }
    localSentences(within.querySelector("main") || within);
  }

  // Times in our own sentences, such as since when a queue is paused. What a job has written stays as it is.
  function localSentences(within) {
    const walker = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
    const written = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?:Z| UTC)/g;
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.data.search(written) < 0 || node.parentElement.closest("pre, code, textarea, th, .error, .said, .excerpt, .name, .tag, .progress")) continue;
      node.data = node.data.replace(written, (text) => {
        const date = new Date(text.replace(" UTC", "Z").replace(" ", "T"));
        if (Number.isNaN(date.getTime())) return text;
        return (date.toDateString() === new Date().toDateString() ? forms.now : forms.exact).format(date);
      });
    }
  }

  function say(text) {
    if (state && state.textContent !== text) state.textContent = text;
  }

  // While the reader uses a part of the page, it must not be replaced.
  function inUse() {
    if (live.querySelector("input[type=checkbox]:checked")) return "while rows are selected";
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) return "while text is selected";
    const focused = document.activeElement;
    if (focused && live.contains(focused) && focused.matches("input:not([type=checkbox]), select, textarea")) return "while you write";
    return "";
  }

  // Tables are known by their captions, and rows by their headers.
  const captionOf = (table) => table.caption?.textContent;
  const keyOf = (row) => row.querySelector("th a")?.getAttribute("href") ?? row.querySelector("th")?.textContent;
  const tableLike = (within, table) => [...within.querySelectorAll("table")].find((it) => captionOf(it) === captionOf(table));

  // The rows of a table by their keys. Nothing if several rows have one key.
  function rowsOf(table) {
    const rows = [...table.tBodies[0].rows];
    const byKey = new Map(rows.map((row) => [keyOf(row), row]));
    return byKey.size === rows.length && !byKey.has(undefined) ? byKey : null;
  }

  // Rows do not move under the pointer: those of its table change where they are, the ones that have gone stay, and new
  // ones are counted.
  function keepRows(fresh, table) {
    const next = tableLike(fresh, table);
    const isEmpty = next?.tBodies[0].querySelector("td.empty");
    const [old, rows] = [rowsOf(table), isEmpty ? new Map() : next && rowsOf(next)];
    if (!old || !rows) return;
    const gone = (row) => {
      const copy = row.cloneNode(true);
      copy.classList.add("left");
      return copy;
    };
    const kept = [...old].map(([key, row]) => rows.get(key) ?? gone(row));
    const number = rows.size;
    for (const key of old.keys()) rows.delete(key);
    next.tBodies[0].replaceChildren(...kept);
    if (!rows.size) return;
    const line = document.createElement("p");
    line.className = "fresh";
    line.setAttribute("role", "status");
    const count = document.createElement("span");
    count.className = "button";
    count.textContent = `${rows.size}${rows.size === number ? " or more" : ""} new`;
    line.append(count);
    next.parentElement.before(line);
  }

  // The newest page, while a table is not shown as it is there.
  let withheld = null;

  // While a pointer is pressed, a click would be lost.
  let pressed = false;
  let waiting = null;
  addEventListener("pointerdown", (event) => (pressed = event.button === 0));
  // The menu of the browser may take the end of a press.
  for (const end of ["pointerup", "pointercancel", "contextmenu", "blur"]) {
    addEventListener(end, () => {
      pressed = false;
      const html = waiting;
      waiting = null;
      // After the click.
      if (html) setTimeout(() => show(html));
    });
  }

  // Replaces what has changed. Keeps the focus, and what is opened.
  function show(html) {
    if (pressed) {
      waiting = html;
      return;
    }
    const reason = inUse();
    if (reason) {
      say(`Updates are paused ${reason}.`);
      return;
    }
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const focused = document.activeElement;
    // Rows may have links to the same page.
    const key = (element) => {
      const row = element.closest("tr")?.querySelector("th a")?.getAttribute("href") ?? "";
      return `${row} ${element.id || element.getAttribute("href") || element.value}`;
    };
    const wanted = focused && live.contains(focused) ? [focused.tagName, key(focused)] : null;
    const opened = new Set([...live.querySelectorAll("details[open][id]")].map((element) => element.id));
    const pointed = live.querySelector("tbody tr:hover");
    const table = pointed?.closest("table");
    const top = pointed?.getBoundingClientRect().top;
    if (table) keepRows(fresh.body, table);
    withheld = table ? html : null;
    live.replaceChildren(...fresh.body.childNodes);
    const again = table && tableLike(live, table);
    const row = again && rowsOf(again)?.get(keyOf(pointed));
    for (const element of live.querySelectorAll("details[id]")) {
      if (opened.has(element.id)) element.open = true;
    }
    if (wanted) {
      const again = [...live.querySelectorAll(wanted[0])].find((element) => key(element) === wanted[1]);
      if (again) again.focus({ preventScroll: true });
    }
    const titled = live.querySelector("[data-title]");
    if (titled) document.title = titled.dataset.title;
    localTimes(live);
    // What stands above the table may have grown.
    if (row) scrollBy(0, row.getBoundingClientRect().top - top);
    say(`Live, as of ${forms.now.format(new Date())}.`);
    document.dispatchEvent(new Event("dashboard:shown"));
  }

  let source = null;
  let poll = 0;

  async function fetchPage() {
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      const text = await response.text();
      const part = new DOMParser().parseFromString(text, "text/html").getElementById("live");
      if (part) show(part.innerHTML);
      else say(`The page cannot be updated (status ${response.status}). It shows what was seen last.`);
    } catch {
      say("The server cannot be reached. The page shows what was seen last.");
    }
  }

  // Polling stands in where event streams do not arrive.
  function startPolling() {
    if (!poll) poll = setInterval(fetchPage, POLL_MS);
  }

  function stop() {
    if (source) source.close();
    source = null;
    clearInterval(poll);
    poll = 0;
  }

  function start() {
    if (source || poll) return;
    if (!window.EventSource) {
      startPolling();
      return;
    }
    source = new EventSource(state.dataset.events);
    source.addEventListener("page", (event) => {
      clearInterval(poll);
      poll = 0;
      show(event.data);
    });
    source.onerror = startPolling;
  }

  if (live && state) {
    live.addEventListener("pointerout", () => {
      setTimeout(() => {
        if (withheld && !live.querySelector("tbody tr:hover")) show(withheld);
      });
    });
    // A hidden page needs no updates, and browsers allow few connections to a server.
    document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
    addEventListener("pagehide", stop);
    if (!document.hidden) start();
  }

  // A double click sends a form once. The server does it once, too.
  for (const form of document.querySelectorAll("form.confirm")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
    // Back leads to the page as it was left.
    addEventListener("pageshow", () => delete form.dataset.sent);
  }

  function boxes() {
    return [...document.querySelectorAll("form[data-select] input[name=id][type=checkbox]")];
  }

  function selectAll() {
    const all = boxes();
    const check = all.some((box) => !box.checked);
    for (const box of all) box.checked = check;
    count();
  }

  // Says how many rows are selected.
  function count() {
    const label = document.querySelector("form[data-select] .actions .label");
    if (!label) return;
    const number = boxes().filter((box) => box.checked).length;
    label.textContent = number ? `${number} selected:` : "Selected jobs:";
  }
  document.addEventListener("change", count);
  document.addEventListener("dashboard:shown", count);

  // A search that has found nothing yet goes on with older jobs, as long as somebody looks at it and writes nothing.
  const searchOn = document.querySelector("a[data-search-on]");
  function goOn() {
    if (!document.hidden && !document.activeElement.matches("input, select, textarea")) location.replace(searchOn.href);
  }
  if (searchOn) setTimeout(goOn, 1000);

  let prefix = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    if (prefix) {
      prefix = false;
      const link = document.querySelector(`nav.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        location.assign(link.href);
      }
      return;
    }
    if (event.key === "g") {
      prefix = true;
      setTimeout(() => (prefix = false), 1500);
    } else if (event.key === "/") {
      const first = document.querySelector("form.filters input:not([type=hidden])");
      if (first) {
        event.preventDefault();
        first.focus();
      }
    } else if (event.key === "a" && boxes().length) {
      selectAll();
    } else if (event.key === "?") {
      const help = document.querySelector('nav.side a[data-key="?"]');
      if (help) location.assign(help.href);
    }
  });

  localTimes(document);
})();
