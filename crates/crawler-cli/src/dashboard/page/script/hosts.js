// The table of hosts: which are shown, in which order, and the state of each.

const robotsOf = (host) => {
  const state = host.robots === "unknown" ? "not read yet" : plain(host.robots) || "–";
  return Number.isFinite(host.crawl_delay) ? `${state}, delay ${setting(host.crawl_delay)}` : state;
};

// Exact numbers are known of the hosts of which the most URLs wait.
const waitingOf = (host) => {
  if (Number.isFinite(host.waiting)) {
    return short(host.waiting);
  }
  const most = host.waiting_at_most;
  return Number.isFinite(most) ? (most > 0 ? `≤ ${short(most)}` : "0") : "–";
};

const HOST_COLUMNS = [
  { key: "host", name: "Host", text: true },
  { key: "requests", name: "Requests", show: (host) => short(host.requests) },
  { key: "pages", name: "Pages", extra: true, show: (host) => short(host.pages) },
  { key: "bytes", name: "Data", extra: true, show: (host) => bytes(host.bytes) },
  { key: "failures", name: "Failed requests", show: (host) => short(host.failures), tone: (host) => (host.failures > 0 ? "bad" : "") },
  { key: "mean_ms", name: "Mean response", show: (host) => (host.requests > 0 ? milliseconds(host.mean_ms) : "–") },
  { key: "max_ms", name: "Longest", extra: true, rare: true, show: (host) => (host.requests > 0 ? milliseconds(host.max_ms) : "–") },
  { key: "delay", name: "Delay", show: (host) => (Number.isFinite(host.delay) ? setting(host.delay) : "–") },
  { key: "smallest_gap", name: "Smallest gap", extra: true, rare: true, show: (host) => (Number.isFinite(host.smallest_gap) ? setting(host.smallest_gap) : "–") },
  { key: "robots", name: "robots.txt", text: true, show: robotsOf },
  { key: "waiting", name: "Waiting", show: waitingOf },
];

const VIEWS = {
  busiest: { key: "requests", includes: () => true, none: "No host yet." },
  slowest: { key: "mean_ms", includes: (host) => host.requests > 0, none: "No host yet." },
  failing: { key: "failures", includes: (host) => host.failures > 0 || isFailing(host), none: "No host fails." },
  waiting: { key: "waiting", includes: (host) => host.waiting > 0, none: "No URL waits for a host." },
};

// So many are shown until all are wanted.
const FEW_HOSTS = 8;
const MAX_HOSTS = 30;
let allHosts = false;
let hostOrder = { key: "requests", descending: true };

const hostView = () => VIEWS[document.querySelector("#host-view input:checked").value];

// The classes of a column's cells: those that narrow screens leave out have one of their own.
const classOf = (column) => [column.text || "numeric", column.extra && "extra", column.rare && "rare"].filter((name) => typeof name === "string").join(" ");

const makeHosts = () => {
  const head = document.querySelector("#hosts thead tr");
  for (const column of HOST_COLUMNS) {
    const cell = element("th", classOf(column));
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    cell.append(button("sort", column.name, "", () => {
      const descending = hostOrder.key === column.key ? !hostOrder.descending : !column.text;
      hostOrder = { key: column.key, descending };
      showHosts(latestStatus);
    }));
    column.head = cell;
    head.append(cell);
  }
  const last = element("th", "extra", element("span", "hidden", "Actions"));
  last.scope = "col";
  last.setAttribute("role", "columnheader");
  head.append(last);
  byId("all-hosts").addEventListener("click", () => {
    allHosts = !allHosts;
    showHosts(latestStatus);
  });
  byId("host-view").addEventListener("change", () => {
    hostOrder = { key: hostView().key, descending: true };
    showHosts(latestStatus);
  });
};

const compareHosts = (one, other) => {
  const { key, descending } = hostOrder;
  const text = key === "host" || key === "robots";
  const [a, b] = [one[key], other[key]];
  const order = text ? plain(a).localeCompare(plain(b)) : finite(a) - finite(b);
  return (descending ? -order : order) || plain(one.host).localeCompare(plain(other.host));
};

const isFailing = (host) => Number.isFinite(host.back_off) || host.keeps_failing === true;

// Why its URLs wait, and what failed last if it keeps failing, unless that is why they wait.
const stateOf = (host) => {
  const why = plain(host.why);
  const last = plain(host.last_failure);
  const failure = host.keeps_failing === true && last && !why.includes(last) ? `last failure: ${last}` : "";
  return [why, failure].filter(Boolean).join(" · ");
};

const showHosts = (status) => {
  if (!status) {
    return;
  }
  const view = hostView();
  const found = list(status.hosts).filter(view.includes).sort(compareHosts).slice(0, MAX_HOSTS);
  const hosts = allHosts ? found : found.slice(0, FEW_HOSTS);
  hide(byId("all-hosts"), found.length <= FEW_HOSTS);
  say(byId("all-hosts"), allHosts ? `Show ${FEW_HOSTS} hosts` : `Show all ${found.length} hosts`);
  for (const column of HOST_COLUMNS) {
    const sorted = column.key === hostOrder.key;
    column.head.setAttribute("aria-sort", sorted ? (hostOrder.descending ? "descending" : "ascending") : "none");
  }
  each(document.querySelector("#hosts tbody"), hosts, (host) => plain(host.host), makeHost, showHost);
  say(byId("no-hosts"), view.none);
  hide(byId("no-hosts"), hosts.length > 0);
  const blocked = list(status.blocked).map(plain);
  say(byId("blocked"), blocked.length > 0 ? `Blocked: ${blocked.slice(0, 20).join(", ")}${blocked.length > 20 ? ` and ${number(blocked.length - 20)} more` : ""}` : "");
};

const makeHost = (host) => {
  const name = element("th", "", element("bdi", "host"), element("span", "state"));
  name.scope = "row";
  name.setAttribute("role", "rowheader");
  const row = element("tr", "", name);
  row.setAttribute("role", "row");
  for (const column of HOST_COLUMNS.slice(1)) {
    const cell = element("td", classOf(column));
    cell.dataset.name = column.name;
    row.append(cell);
  }
  const block = button("quiet bare", "Block…", `Block ${plain(host.host)}`, () => blockDialog(String(host.host)));
  row.append(element("td", "end extra", block));
  for (const cell of row.querySelectorAll("td")) {
    cell.setAttribute("role", "cell");
  }
  return row;
};

const showHost = (row, host) => {
  const [name, state] = row.firstChild.children;
  say(name, plain(host.host));
  name.title = plain(host.host);
  say(state, stateOf(host));
  state.classList.toggle("bad", isFailing(host));
  HOST_COLUMNS.slice(1).forEach((column, index) => {
    const cell = row.children[index + 1];
    say(cell, column.show(host));
    if (column.tone) {
      cell.className = `${classOf(column)} ${column.tone(host)}`;
    }
  });
  hide(row.lastChild.firstChild, !canAct);
};
