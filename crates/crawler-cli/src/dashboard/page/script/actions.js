// What the page asks of the server: changes of the crawl, each behind a confirmation, and answers about a URL.

let session = null;
let canAct = false;

const getSession = async () => {
  const response = await fetch("api/session", { cache: "no-store" });
  if (!response.ok) {
    throw new Error(await problem(response));
  }
  session = await response.json();
};

// What an answer with an error says.
const problem = async (response) => {
  const text = (await response.text()).slice(0, 2000);
  try {
    return plain(JSON.parse(text).message);
  } catch {
    return plain(text.trim()) || `the server answers with status ${response.status}`;
  }
};

// Sends a change. A server that was restarted has another session: then once more.
const act = async (action) => {
  for (let attempt = 0; ; attempt += 1) {
    if (!session) {
      await getSession();
    }
    const response = await fetch("api/action", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": session.csrf },
      body: JSON.stringify(action),
    });
    if (response.ok) {
      const { done, message } = await response.json();
      if (!done) {
        throw new Error(plain(message));
      }
      return plain(message);
    }
    if (response.status !== 403 || attempt > 0) {
      throw new Error(await problem(response));
    }
    session = null;
  }
};

let toastTimer = 0;

const toast = (text) => {
  const box = byId("toast");
  say(box, text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => say(box, ""), 8000);
};

// The open question: what its confirmation does.
let confirmed = null;

// Asks for a confirmation. `run` gets the form, and returns the sentences to show, or throws what is wrong.
const ask = ({ title, text, fields = [], confirm, danger = false, run }) => {
  say(byId("dialog-title"), title);
  say(byId("dialog-text"), text);
  byId("dialog-fields").replaceChildren(...fields);
  const submit = byId("dialog-confirm");
  say(submit, confirm);
  submit.className = danger ? "primary danger" : "primary";
  submit.disabled = false;
  hide(byId("dialog-error"), true);
  confirmed = run;
  byId("dialog").showModal();
  const first = byId("dialog-fields").querySelector("input:not([type=radio])");
  (first || (danger ? byId("dialog-cancel") : submit)).focus();
};

const submitDialog = async (event) => {
  event.preventDefault();
  const [dialog, submit, error] = [byId("dialog"), byId("dialog-confirm"), byId("dialog-error")];
  submit.disabled = true;
  hide(error, true);
  try {
    const answers = await confirmed(byId("dialog-form"));
    dialog.close();
    toast(answers.join(" "));
  } catch (cause) {
    say(error, `${cause instanceof TypeError ? "cannot reach the crawler: the connection failed; try again" : cause.message}`);
    hide(error, false);
    submit.disabled = false;
    submit.focus();
  }
};

let fieldCount = 0;

// A labelled input, with a unit or a choice of units behind it.
const field = (name, label, { value = "", type = "text", unit = "", units = null, hint = "" }) => {
  fieldCount += 1;
  const input = element("input");
  Object.assign(input, { name, id: `field-${fieldCount}`, type, value, autocomplete: "off", spellcheck: false });
  if (type === "number") {
    Object.assign(input, { min: "0", step: "any", inputMode: "decimal" });
  }
  const caption = element("label", "", label);
  caption.htmlFor = input.id;
  const row = element("div", "inputs", input);
  if (units) {
    const select = element("select");
    select.name = `${name}-unit`;
    select.setAttribute("aria-label", `${label}: unit`);
    for (const [text, scale, selected] of units) {
      const option = element("option", "", text);
      option.value = String(scale);
      option.selected = selected;
      select.append(option);
    }
    row.append(select);
  } else if (unit) {
    row.append(element("span", "unit", unit));
  }
  const made = element("div", "field", caption, row);
  if (hint) {
    made.append(element("p", "aside", hint));
    made.lastChild.id = `${input.id}-hint`;
    input.setAttribute("aria-describedby", made.lastChild.id);
  }
  return made;
};

const pauseDialog = () => {
  const paused = latestStatus && latestStatus.phase === "paused";
  ask({
    title: paused ? "Unpause the crawl?" : "Pause the crawl?",
    text: paused ? "Workers send requests again, within the delays of the hosts." : "No new request starts. Requests in flight finish, and no URL is lost.",
    confirm: paused ? "Unpause" : "Pause",
    run: async () => [await act({ action: paused ? "unpause" : "pause" })],
  });
};

const stopDialog = () =>
  ask({
    title: "Stop the crawl?",
    text: "Requests in flight finish, outputs are written, and the crawl ends. If it has a state, the command line can resume it.",
    confirm: "Stop the crawl",
    danger: true,
    run: async () => [await act({ action: "stop" })],
  });

const seedDialog = () =>
  ask({
    title: "Add a seed",
    text: "The URL is fetched like a seed of the command line, and the scope is extended by it.",
    fields: [field("url", "URL", { value: "", hint: "For example https://example.org/" })],
    confirm: "Add the seed",
    run: async (form) => [await act({ action: "add-seed", value: filled(form.elements.url, "URL") })],
  });

const filled = (input, name) => {
  const value = input.value.trim();
  if (!value) {
    input.focus();
    throw new Error(`cannot continue: the ${name} is empty`);
  }
  return value;
};

const choice = (name, value, label, checked) => {
  const input = element("input");
  Object.assign(input, { type: "radio", name, value, checked });
  return element("label", "choice", input, element("span", "", label));
};

const blockDialog = (host) =>
  ask({
    title: "Block a host or URLs",
    text: "Waiting URLs that match are skipped, and links to them are not followed. This lasts until the crawl ends.",
    fields: [
      element("div", "choices", choice("kind", "block-host", "Host", true), choice("kind", "block-pattern", "Regular expression of URLs", false)),
      field("what", "Host or expression", { value: host || "" }),
    ],
    confirm: "Block",
    danger: true,
    run: async (form) => [await act({ action: form.elements.kind.value, value: filled(form.elements.what, "host or expression") })],
  });

const SIZES = [["KB", 1e3], ["MB", 1e6], ["GB", 1e9]];
const TIMES = [["seconds", 1], ["minutes", 60], ["hours", 3600]];

// The largest unit in which a value is a short number.
const inUnits = (value, units) => {
  const fitting = units.filter(([, scale]) => value >= scale && Number.isInteger(Math.round((value / scale) * 1e6) / 1e4));
  const [, scale] = fitting[fitting.length - 1] || units[0];
  return { value: String(value / scale), units: units.map(([name, size]) => [name, size, size === scale]) };
};

const changeDialog = () => {
  const limits = (latestStatus && latestStatus.limits) || {};
  const none = (units, index) => ({ value: "", units: units.map(([name, scale], place) => [name, scale, place === index]) });
  const fields = [
    field("pages", "Maximum pages", { type: "number", value: limited(limits.max_pages) ? String(limits.max_pages) : "" }),
    field("bytes", "Maximum data", { type: "number", ...(limited(limits.max_bytes) ? inUnits(limits.max_bytes, SIZES) : none(SIZES, 1)) }),
    field("time", "Maximum time", { type: "number", hint: "Empty: no limit", ...(limited(limits.max_time) ? inUnits(limits.max_time, TIMES) : none(TIMES, 1)) }),
    field("delay", "Delay per host", { type: "number", unit: "seconds", hint: "A longer Crawl-delay of a host still applies", value: Number.isFinite(limits.delay) ? String(limits.delay) : "" }),
  ];
  ask({
    title: "Change limits and delay",
    text: "Only what you change is sent. A limit below what is used ends the crawl.",
    fields,
    confirm: "Change",
    run: changeLimits(limits),
  });
};

// Sends the fields that differ from what was in force when the dialog was opened.
const changeLimits = (limits) => async (form) => {
  const valueOf = (name) => {
    const input = form.elements[name];
    const unit = form.elements[`${name}-unit`];
    const value = input.value.trim() === "" ? null : Number(input.value) * (unit ? Number(unit.value) : 1);
    if (input.validity.badInput || (value !== null && !(value >= 0 && value < NO_LIMIT))) {
      input.focus();
      throw new Error("cannot change this: it is not a number that can be used; write one, such as 1000");
    }
    return value;
  };
  const current = (limit) => (limited(limit) ? limit : null);
  const changes = [
    ["set-max-pages", valueOf("pages"), current(limits.max_pages), Math.round],
    ["set-max-bytes", valueOf("bytes"), current(limits.max_bytes), Math.round],
    ["set-max-time", valueOf("time"), current(limits.max_time), Number],
    ["set-delay", valueOf("delay"), Number.isFinite(limits.delay) ? limits.delay : null, Number],
  ].filter(([, value, before]) => (value === null || before === null ? value !== before : Math.abs(value - before) > before * 1e-9));
  const missing = changes.find(([action, value]) => value === null && action !== "set-max-time");
  if (missing) {
    throw new Error("cannot remove this limit: only the maximum time can be empty; write a number");
  }
  if (changes.length === 0) {
    throw new Error("nothing is changed: the numbers are those in force");
  }
  const answers = [];
  for (const [action, value, , round] of changes) {
    answers.push(await act({ action, value: value === null ? "unlimited" : round(value) }));
  }
  return answers;
};

// The number of the last question, so that a late answer does not replace a newer one.
let questions = 0;

// Shows why a URL has its outcome, or its stored page as text.
const inspect = async (kind, url) => {
  questions += 1;
  const question = questions;
  const [input, about, answer] = [byId("inspect-url"), byId("answer-about"), byId("answer")];
  input.value = url;
  say(about, "Asking…");
  hide(answer, true);
  byId("inspect").scrollIntoView({ block: "nearest" });
  let [summary, text] = ["", ""];
  try {
    const response = await fetch(`api/${kind}?url=${encodeURIComponent(url)}`, { cache: "no-store" });
    if (response.ok) {
      text = await response.text();
      summary = kind === "show" ? `Stored page, ${bytes(new TextEncoder().encode(text).length)}, shown as text` : "";
    } else {
      summary = await problem(response);
    }
  } catch {
    summary = "cannot reach the crawler: the connection failed; try again";
  }
  if (question === questions) {
    say(about, summary || "Answered.");
    answer.setAttribute("aria-label", kind === "show" ? "Stored page" : "Answer");
    say(answer, text.split("\n").map((line) => line.replace(CONTROLS, (control) => (control === "\t" ? control : "\ufffd"))).join("\n"));
    hide(answer, !text);
    (text ? answer : about).scrollIntoView({ block: "nearest" });
  }
};

const makeActions = () => {
  byId("pause").addEventListener("click", pauseDialog);
  byId("stop").addEventListener("click", stopDialog);
  byId("change").addEventListener("click", changeDialog);
  byId("seed").addEventListener("click", seedDialog);
  byId("block").addEventListener("click", () => blockDialog(""));
  byId("dialog-cancel").addEventListener("click", () => byId("dialog").close());
  byId("dialog-form").addEventListener("submit", submitDialog);
  byId("inspect").addEventListener("submit", (event) => {
    event.preventDefault();
    const url = byId("inspect-url").value.trim();
    if (url) {
      inspect(event.submitter && event.submitter.value === "show" ? "show" : "why", url);
    }
  });
};

const showActions = (status) => {
  canAct = status.can_act === true && (status.phase === "running" || status.phase === "paused");
  for (const id of ["pause", "stop", "change", "seed", "block"]) {
    hide(byId(id), !canAct);
  }
  say(byId("pause"), status.phase === "paused" ? "Unpause" : "Pause");
};
