// Budgets, outcomes, distributions, workers, Redis and the latest URLs.

// A limit as large as this is none.
const NO_LIMIT = 2 ** 53;
const limited = (limit) => Number.isFinite(limit) && limit > 0 && limit < NO_LIMIT;

// An estimate of more than ten years says nothing.
const FAR = 3e8;

const showBudgets = (status) => {
  const totals = status.totals || {};
  const limits = status.limits || {};
  const used = Math.max(finite(totals.bytes), finite(totals.received));
  const rows = [
    { name: "Pages", used: finite(totals.pages), limit: limits.max_pages, format: short },
    { name: "Data", used, limit: limits.max_bytes, format: bytes },
    { name: "Time", used: finite(status.elapsed), limit: limits.max_time, format: duration },
  ];
  const runs = status.phase === "running";
  each(byId("budget-rows"), rows, (row) => row.name, makeBudget, showBudget);
  say(byId("left"), runs ? timeLeft(status) : phaseSentence(status));
  pairs(byId("settings"), [
    ["Delay per host", Number.isFinite(limits.delay) ? setting(limits.delay) : null],
    ["Maximum depth", Number.isFinite(limits.max_depth) ? number(limits.max_depth) : "none"],
  ]);
};

const timeLeft = ({ remaining_seconds: left, at_most_seconds: atMost }) => {
  if (Number.isFinite(left) && left < FAR) {
    return `About ${about(left)} left at this speed.`;
  }
  return Number.isFinite(atMost) && atMost < FAR ? `At most ${duration(atMost)} left (--max-time).` : "";
};

const phaseSentence = ({ phase }) =>
  ({ paused: "Paused: time does not count.", stopping: "Requests in flight finish.", ended: "The crawl has ended." })[phase] || "";

const makeBudget = (row) => {
  const bar = element("span", "track", element("span"));
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-label", row.name);
  bar.setAttribute("aria-valuemin", "0");
  bar.setAttribute("aria-valuemax", "100");
  return element("div", "budget", element("p", "", element("strong", "", row.name), element("span")), bar, element("p", "aside"));
};

const showBudget = (child, row) => {
  const [line, bar, note] = child.children;
  const hasLimit = limited(row.limit);
  const share = hasLimit ? Math.min(100, (100 * row.used) / row.limit) : 0;
  say(line.lastChild, hasLimit ? `${row.format(row.used)} of ${row.format(row.limit)}` : row.format(row.used));
  hide(bar, !hasLimit);
  bar.firstChild.style.width = `${share}%`;
  bar.setAttribute("aria-valuenow", String(Math.floor(share)));
  bar.setAttribute("aria-valuetext", line.lastChild.textContent);
  bar.classList.toggle("warn", share >= 95);
  say(note, hasLimit ? `${percent(row.used, row.limit)} used` : "no limit");
};

// Colours of the groups. Others are grey.
const TONES = { pending: "none", page: "good", redirect: "info", skip: "warn", fail: "bad" };
const toneOf = (group) => {
  const name = plain(group).toLowerCase();
  const found = Object.keys(TONES).find((key) => name.startsWith(key));
  return found ? TONES[found] : "rest";
};

const MAX_REASONS = 8;

const showOutcomes = (status) => {
  const totals = status.totals || {};
  const groups = list(status.outcomes)
    .map((group) => ({ name: plain(group.group), count: finite(group.count), reasons: list(group.reasons), tone: toneOf(group.group) }))
    .filter((group) => group.count > 0);
  const total = sum(groups.map((group) => group.count));
  say(byId("admitted"), total > 0 ? `${counted(total, "URL")} admitted, ${counted(totals.links, "link")} found on pages.` : "No URL yet.");
  each(
    byId("shares"),
    groups,
    (group) => group.name,
    () => element("span"),
    (child, group) => {
      child.className = group.tone;
      child.style.flexGrow = String(group.count / Math.max(1, total));
    },
  );
  byId("shares").setAttribute("aria-label", groups.map((group) => `${group.name} ${percent(group.count, total)}`).join(", ") || "No outcome yet");
  each(byId("outcomes"), groups, (group) => group.name, makeGroup, (child, group) => showGroup(child, group, total));
};

const makeGroup = () =>
  element("li", "", element("p", "", element("span", "dot"), element("bdi"), element("span", "count"), element("span", "share")), element("ul", "reasons"));

const showGroup = (child, group, total) => {
  const [line, reasons] = child.children;
  const [dot, name, count, share] = line.children;
  dot.className = `dot ${group.tone}`;
  say(name, group.name);
  say(count, short(group.count));
  say(share, percent(group.count, total));
  const rows = group.reasons.map((reason) => ({ label: plain(reason.label), count: finite(reason.count) }));
  rows.sort((one, other) => other.count - one.count);
  const rest = rows.splice(MAX_REASONS);
  if (rest.length > 0) {
    rows.push({ label: `${number(rest.length)} more reasons`, count: sum(rest.map((row) => row.count)) });
  }
  each(
    reasons,
    rows.length === 1 && rows[0].label.toLowerCase() === group.name.toLowerCase().replace(/s$/, "") ? [] : rows,
    (row) => row.label,
    () => element("li", "", element("bdi"), element("span", "count")),
    (item, row) => {
      say(item.firstChild, row.label);
      say(item.lastChild, short(row.count));
    },
  );
};

const STATUS_TONES = { 2: "good", 3: "info", 4: "warn", 5: "bad" };
const byCount = (rows) => rows.sort((one, other) => other.count - one.count);

const showDistributions = (status) => {
  const statuses = list(status.statuses).map((entry) => ({
    label: plain(entry.status), count: finite(entry.count), tone: STATUS_TONES[Math.floor(finite(entry.status) / 100)] || "rest",
  }));
  bars(byId("statuses"), byCount(statuses), 8);
  const types = list(status.content_types).map((entry) => ({ label: plain(entry.type), count: finite(entry.count) }));
  bars(byId("types"), byCount(types), 8);
  const languages = list(status.languages).map((entry) => ({
    label: plain(entry.language === undefined ? entry.type : entry.language), count: finite(entry.count),
  }));
  bars(byId("languages"), byCount(languages), 8);
  drawDepths(list(status.depths).map(finite));
};

const drawDepths = (depths) => {
  const parent = byId("depths");
  if (sum(depths) === 0) {
    parent.replaceChildren(element("p", "empty", "None yet"));
    return;
  }
  const width = parent.clientWidth;
  const height = 150;
  const deepest = depths.reduce((last, count, depth) => (count > 0 ? depth : last), 0);
  const label = `${counted(sum(depths), "page")}, the deepest at depth ${deepest}`;
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  columns(picture, depths, { x: 0, y: 4, width, height: height - 22 }, (depth) => `Depth ${depth}`);
  picture.append(
    shape("text", { x: 0, y: height - 4, class: "tiny" }, "0"),
    shape("text", { x: width, y: height - 4, class: "tiny end" }, counted(depths.length - 1, "link")),
  );
  parent.replaceChildren(picture);
};

const age = (seconds) => (Number.isFinite(seconds) ? `${duration(seconds)} ago` : "–");

const WORKER_COLUMNS = [
  { name: "Worker", show: (cell, worker) => say(cell, plain(worker.id)) },
  { name: "State", show: (cell, worker) => {
    say(cell, plain(worker.state) || "–");
    cell.className = ["dead", "no heartbeat"].includes(worker.state) ? "bad" : "";
  } },
  { name: "Domains", numeric: true, show: (cell, worker) => say(cell, short(worker.domains)) },
  { name: "Leased", numeric: true, show: (cell, worker) => say(cell, short(worker.leased)) },
  { name: "Load", bar: true, show: (cell, worker, most) => {
    cell.firstChild.firstChild.style.width = `${(100 * finite(worker.leased)) / most}%`;
  } },
  { name: "Heartbeat", numeric: true, remote: true, show: (cell, worker) => say(cell, age(worker.heartbeat_age)) },
  { name: "Location", remote: true, show: (cell, worker) => say(cell, plain(worker.location) || "–") },
];

const showWorkers = (status) => {
  const workers = list(status.workers);
  hide(byId("workers"), workers.length === 0);
  const remote = workers.some((worker) => worker.location || Number.isFinite(worker.heartbeat_age));
  const shown = WORKER_COLUMNS.filter((column) => remote || !column.remote);
  byId("workers").classList.toggle("wide", !status.frontier && !status.redis);
  say(byId("workers-lead"), `${counted(workers.length, "worker")}, ${counted(sum(workers.map((worker) => worker.leased)), "URL")} leased.`);
  each(
    byId("worker-head"),
    shown,
    (column) => column.name,
    (column) => {
      const head = element("th", column.numeric ? "numeric" : "", column.name);
      head.scope = "col";
      return head;
    },
    () => {},
  );
  const most = Math.max(1, ...workers.map((worker) => finite(worker.leased)));
  const make = (column) => (column.bar ? element("td", "load", element("span", "track", element("span"))) : element("td", column.numeric ? "numeric" : ""));
  each(
    byId("worker-rows"),
    workers,
    (worker) => plain(worker.id),
    () => element("tr"),
    (row, worker) => each(row, shown, (column) => column.name, make, (cell, column) => column.show(cell, worker, most)),
  );
};

const member = (entry) => (entry ? `${plain(entry.location) || "unknown"}, heartbeat ${age(entry.heartbeat_age)}` : "none");
const health = (flag, good, bad) => (typeof flag === "boolean" ? [flag ? good : bad, flag ? "good" : "bad"] : [null]);

const showCluster = (status) => {
  const { frontier, redis } = status;
  hide(byId("cluster"), !frontier && !redis);
  const standby = frontier ? list(frontier.standby) : [];
  const rows = frontier ? [["Leader", member(frontier.leader), frontier.leader ? "" : "bad"]] : [];
  standby.forEach((entry, index) => rows.push([standby.length > 1 ? `Standby ${index + 1}` : "Standby", member(entry)]));
  if (frontier && standby.length === 0) {
    rows.push(["Standby", "none"]);
  }
  pairs(byId("frontier"), rows);
  const { version, used_memory, max_memory, connected_clients, ops_per_second, aof_ok, last_save_ok, rtt_ms } = redis || {};
  const memory = Number.isFinite(used_memory) ? bytes(used_memory) : null;
  pairs(byId("redis"), [
    ["Redis", version ? plain(version) : redis ? "connected" : null],
    ["Round trip", Number.isFinite(rtt_ms) ? (rtt_ms < 10 ? `${finite(rtt_ms).toFixed(2)} ms` : milliseconds(rtt_ms)) : null],
    ["Memory", memory && max_memory > 0 ? `${memory} of ${bytes(max_memory)}` : memory, max_memory > 0 && used_memory > 0.9 * max_memory ? "bad" : ""],
    ["Commands", Number.isFinite(ops_per_second) ? `${perSecond(ops_per_second)}/s` : null],
    ["Clients", Number.isFinite(connected_clients) ? number(connected_clients) : null],
    ["Append-only file", ...health(aof_ok, "written", "fails")],
    ["Last snapshot", ...health(last_save_ok, "saved", "failed")],
  ]);
};

// The list stays as it is while the user reads it.
const showLatest = (status) => {
  const parent = byId("latest");
  const points = matchMedia("(hover: hover)").matches && parent.matches(":hover");
  const held = parent.children.length > 0 && (points || parent.contains(document.activeElement));
  hide(byId("held"), !held);
  if (held) {
    return;
  }
  const latest = list(status.latest).slice().sort((one, other) => finite(other.at) - finite(one.at)).slice(0, 50);
  each(parent, latest, (entry) => `${entry.at} ${entry.url}`, (entry) => makeLatest(entry, status.mode !== "classic"), () => {});
  say(byId("no-latest"), finite((status.totals || {}).requests) > 0 ? "They are known only while the crawl runs." : "No URL yet.");
  hide(byId("no-latest"), latest.length > 0);
};

// A crawl in classic mode reads no titles: the URL of a page stands alone.
const makeLatest = (entry, hasTitles) => {
  const status = finite(entry.status);
  const outcome = plain(entry.outcome);
  const title = plain(entry.title);
  const isPage = outcome.toLowerCase() === "page";
  const facts = [clock(entry.at), Number.isFinite(entry.ms) ? milliseconds(entry.ms) : "", entry.bytes > 0 ? bytes(entry.bytes) : "",
    Number.isFinite(entry.depth) ? `depth ${number(entry.depth)}` : ""];
  const heading = element("p", "heading", element("span", `status ${STATUS_TONES[Math.floor(status / 100)] || "rest"}`, status > 0 ? String(status) : "–"));
  const where = link(entry.url);
  const parts = [heading];
  if (isPage && !hasTitles) {
    heading.append(where);
    heading.classList.add("where");
  } else {
    heading.append(element("bdi", isPage ? "" : "muted", isPage ? title || "Untitled" : outcome));
    parts.push(element("p", "where", where));
  }
  parts.push(element("p", "aside", facts.filter(Boolean).join(" · ")));
  const why = button("quiet bare", "Why?", `Why? ${plain(entry.url).slice(0, 200)}`, () => inspect("why", String(entry.url)));
  return element("li", "", element("div", "", ...parts), why);
};
