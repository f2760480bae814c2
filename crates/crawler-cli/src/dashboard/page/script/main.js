// Receives the status once a second, shows it, and connects again when the connection is lost.

let latestStatus = null;
let receivedAt = 0;

const PHASES = { waiting: "Waiting", running: "Running", paused: "Paused", stopping: "Stopping", ended: "Ended" };
const MODES = { pipeline: "pipeline", classic: "classic", redis: "distributed over Redis" };

const showTop = (status) => {
  const totals = status.totals || {};
  const name = plain(status.name) || "Crawler";
  say(byId("name"), name);
  byId("name").title = name;
  say(byId("facts"), [MODES[status.mode] || plain(status.mode), duration(status.elapsed), counted(totals.pages, "page")].filter(Boolean).join(" · "));
  const phase = PHASES[status.phase] ? status.phase : "running";
  say(byId("phase"), PHASES[phase]);
  byId("phase").dataset.phase = phase;
  document.title = `${PHASES[phase]}: ${counted(totals.pages, "page")} – ${name.slice(0, 60)}`;
  notice("end", status.phase === "ended" ? `The crawl has ended${status.end ? `: ${plain(status.end)}` : "."}` : "", "end");
  each(
    byId("warnings"),
    list(status.warnings).slice(0, 10).map(plain),
    (text) => text,
    () => element("li", "notice warn", element("bdi")),
    (child, text) => say(child.firstChild, text),
  );
};

// A sentence in a box, if there is one to say.
const notice = (id, text, tone) => {
  const parent = byId(id);
  if (text && parent.textContent !== text) {
    parent.replaceChildren(element("p", `notice ${tone}`, element("bdi", "", text)));
  } else if (!text && parent.firstChild) {
    parent.replaceChildren();
  }
};

const PANELS = [showTop, showActions, showCharts, showBudgets, showPipeline, showHosts, showOutcomes, showDistributions, showLatest, showWorkers, showCluster];

const show = () => {
  if (!latestStatus || document.hidden) {
    return;
  }
  for (const panel of PANELS) {
    panel(latestStatus);
  }
  say(byId("updated"), `updated ${clock(receivedAt / 1000)}`);
};

// The connection.

const RECONNECT_AFTER = 2000;
// After the end of the crawl, its process exits. Another one may come.
const RETRY_ENDED = 10000;
// The server sends each second; the connection is lost when nothing came for this time.
const SILENCE = 15000;
let source = null;
let opened = 0;

// A browser has few connections to a server: when a tab comes to the front, the hidden ones give theirs up. A single tab
// keeps it, and gets the final state of the crawl.
const tabs = new BroadcastChannel("crawler-dashboard");
let isAsleep = false;

const sleepIfHidden = () => {
  if (document.hidden) {
    isAsleep = true;
    source.close();
  }
};

const changeVisibility = () => {
  if (document.hidden) {
    return;
  }
  tabs.postMessage("front");
  if (isAsleep) {
    isAsleep = false;
    connect();
  }
  show();
};

const connect = () => {
  if (isAsleep) {
    return;
  }
  if (source) {
    source.close();
  }
  opened = Date.now();
  source = new EventSource("events");
  source.addEventListener("status", receive);
  // The server ends each stream after some minutes, so that clients that are gone lose their places.
  source.addEventListener("reconnect", connect);
  source.addEventListener("end", () => {
    source.close();
    disconnected();
    setTimeout(connect, RETRY_ENDED);
  });
  source.addEventListener("error", () => {
    disconnected();
    if (source.readyState === EventSource.CLOSED) {
      reconnect();
    }
  });
};

// The browser does not retry an answer that is not a stream: find out what it is, then try again.
const reconnect = async () => {
  try {
    await getSession();
  } catch (cause) {
    if (!(cause instanceof TypeError)) {
      disconnected(cause.message);
    }
  }
  setTimeout(connect, RECONNECT_AFTER);
};

const receive = (event) => {
  let status;
  try {
    status = JSON.parse(event.data);
  } catch {
    return;
  }
  if (status.version !== 1) {
    notice("connection", "The crawler was updated: reload the page.", "warn");
    return;
  }
  const isNew = document.body.dataset.connection !== "live";
  latestStatus = status;
  receivedAt = Date.now();
  addSamples(status);
  if (isNew) {
    document.body.dataset.connection = "live";
    notice("connection", "", "");
    session = null;
  }
  requestAnimationFrame(show);
};

const disconnected = (reason) => {
  const ended = latestStatus && latestStatus.phase === "ended";
  document.body.dataset.connection = ended ? "over" : "lost";
  const since = receivedAt ? ` This is the state of ${clock(receivedAt / 1000)}.` : "";
  const what = ended ? "The crawler has exited." : "Connection lost, reconnecting…";
  notice("connection", `${what}${since}${reason ? ` The server says: ${reason}` : ""}`, ended ? "end" : "warn");
  if (!ended) {
    say(byId("phase"), "Reconnecting");
    byId("phase").dataset.phase = "lost";
  }
};

// The theme: that of the system, unless one is chosen.

const THEMES = ["automatic", "light", "dark"];

const storedTheme = () => {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
};

const setTheme = (theme) => {
  const chosen = THEMES.includes(theme) ? theme : "automatic";
  document.documentElement.dataset.theme = chosen;
  byId("theme").setAttribute("aria-label", `Theme: ${chosen}`);
  byId("theme").title = `Theme: ${chosen}`;
  try {
    localStorage.setItem("theme", chosen);
  } catch {
    // Without storage, the choice holds for this page.
  }
};

setTheme(storedTheme());
byId("theme").addEventListener("click", () => {
  const next = THEMES.indexOf(document.documentElement.dataset.theme) + 1;
  setTheme(THEMES[next % THEMES.length]);
});
makeCharts();
makeHosts();
makeActions();
document.addEventListener("visibilitychange", changeVisibility);
tabs.addEventListener("message", sleepIfHidden);
new ResizeObserver(() => requestAnimationFrame(show)).observe(byId("main"));
setInterval(() => {
  if (Date.now() - Math.max(receivedAt, opened) > SILENCE && source.readyState !== EventSource.CLOSED) {
    disconnected();
    connect();
  }
}, 1000);
connect();
changeVisibility();
