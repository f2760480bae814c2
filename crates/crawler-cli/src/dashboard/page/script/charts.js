// The charts of rates: differences of cumulative samples, drawn as lines.

// A sample: [seconds, pages, requests, bytes, failures]. The first one after a history has the property `isFirst`.
let samples = [];
// More samples are thinned out: the older half keeps every second one.
const MAX_SAMPLES = 4000;
const MAX_POINTS = 150;
const CHART_HEIGHT = 88;

const charts = [
  { name: "Pages", column: 1, key: "pages", unit: "/s", format: perSecond, total: (totals) => counted(totals.pages, "page") },
  { name: "Requests", column: 2, key: "requests", unit: "/s", format: perSecond, total: (totals) => counted(totals.requests, "request") },
  { name: "Data", column: 3, key: "bytes", unit: "/s", format: bytes, total: (totals) => `${bytes(totals.bytes)} of pages` },
  { name: "Errors", column: 4, key: "failures", unit: "/s", format: perSecond, total: (totals) => `${short(totals.failed)} failed`, tone: "bad" },
];

const makeCharts = () => {
  for (const chart of charts) {
    chart.value = element("span", "value", "–");
    chart.unitText = element("span", "unit", chart.unit);
    chart.note = element("p", "aside", "\u00a0");
    chart.area = shape("path", { class: "area" });
    chart.line = shape("path", { class: "line" });
    chart.grid = shape("path", { class: "grid" });
    chart.top = shape("text", { x: 0, y: 10, class: "tiny" });
    chart.cursor = shape("path", { class: "cursor" });
    chart.svg = shape("svg", { role: "img", height: CHART_HEIGHT }, chart.grid, chart.area, chart.line, chart.cursor, chart.top);
    chart.from = element("span");
    chart.to = element("span");
    const card = element(
      "article",
      `card chart ${chart.tone || ""}`,
      element("h3", "", chart.name),
      element("p", "figure", chart.value, chart.unitText),
      chart.note,
      element("div", "picture", chart.svg),
      element("p", "axis", chart.from, chart.to),
    );
    card.lastChild.setAttribute("aria-hidden", "true");
    chart.svg.addEventListener("pointermove", (event) => point(chart, event));
    chart.svg.addEventListener("pointerleave", () => point(chart, null));
    byId("charts").append(card);
  }
  byId("window").addEventListener("change", () => drawCharts());
};

const addSamples = (status) => {
  const totals = status.totals || {};
  if (Array.isArray(status.history)) {
    samples = status.history
      .filter((sample) => Array.isArray(sample) && sample.length >= 5)
      .map((sample) => sample.map(finite));
  }
  // The last sample of a history may be of the same moment, and its time has no fraction: there is no rate in between.
  const isFirst = Array.isArray(status.history);
  const now = [status.elapsed, totals.pages, totals.requests, totals.bytes, totals.failed].map(finite);
  const latest = samples.length > 0 ? samples[samples.length - 1][0] : -1;
  now.isFirst = isFirst;
  if (now[0] < latest - 1) {
    samples = [now];
  } else if (now[0] > latest) {
    samples.push(now);
  }
  if (samples.length > MAX_SAMPLES) {
    samples = samples.filter((_, index) => index > MAX_SAMPLES / 2 || index % 2 === 0);
  }
};

const chartWindow = () => Number(document.querySelector("#window input:checked").value);

// Rates in the last `span` seconds. The intervals start at multiples of their length, so that a chart moves and does not
// change its shape.
const ratesOf = (column, start, end, most) => {
  let step = 1;
  while ((end - start) / step > most) {
    step *= 2;
  }
  const points = [];
  let previous = null;
  for (const sample of samples) {
    if (sample[0] < start - step) {
      continue;
    }
    if (previous === null || sample.isFirst) {
      previous = sample;
    } else if (Math.floor(sample[0] / step) !== Math.floor(previous[0] / step) || sample === samples[samples.length - 1]) {
      const seconds = sample[0] - previous[0];
      if (seconds >= step / 2) {
        points.push([sample[0], Math.max(0, sample[column] - previous[column]) / seconds]);
        previous = sample;
      }
    }
  }
  return points;
};

// The next round number: 1, 2 or 5 times a power of ten.
const roundUp = (value) => {
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 5, 10].find((factor) => factor * power >= value * 0.9999) || 10;
  return factor * power;
};

const drawCharts = () => {
  const end = samples.length > 0 ? samples[samples.length - 1][0] : 0;
  const first = samples.length > 0 ? samples[0][0] : 0;
  const span = Math.min(chartWindow() || Infinity, Math.max(20, end - first));
  const start = end - span;
  for (const chart of charts) {
    const width = chart.svg.parentNode.clientWidth;
    chart.points = ratesOf(chart.column, start, end, Math.min(MAX_POINTS, width / 2));
    const values = chart.points.map((entry) => entry[1]);
    const highest = Math.max(0, ...values);
    const scale = highest > 0 ? roundUp(highest) : 1;
    const xOf = (time) => ((time - start) / span) * width;
    const yOf = (value) => CHART_HEIGHT - 1 - (value / scale) * (CHART_HEIGHT - 16);
    chart.place = { start, span, width, xOf, yOf };
    const path = chart.points.map(([time, value], index) => `${index ? "L" : "M"}${xOf(time).toFixed(1)} ${yOf(value).toFixed(1)}`).join("");
    chart.svg.setAttribute("viewBox", `0 0 ${width} ${CHART_HEIGHT}`);
    chart.line.setAttribute("d", path);
    const ends = chart.points.length > 1 ? [xOf(chart.points[0][0]), xOf(chart.points[chart.points.length - 1][0])] : null;
    const base = CHART_HEIGHT - 1;
    chart.area.setAttribute("d", ends ? `${path}L${ends[1].toFixed(1)} ${base}L${ends[0].toFixed(1)} ${base}Z` : "");
    const lines = [0, 0.5, 1].map((part) => `M0 ${yOf(part * scale).toFixed(1)}H${width}`);
    chart.grid.setAttribute("d", lines.join(""));
    say(chart.top, highest > 0 ? chart.format(scale) : "");
    say(chart.from, `−${span < 90 ? `${Math.round(span)} s` : about(span)}`);
    const mean = values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : 0;
    chart.svg.setAttribute(
      "aria-label",
      `${chart.name} per second in the last ${about(span)}${chart.to.textContent === "end" ? " of the crawl" : ""}: mean ${chart.format(mean)}, highest ${chart.format(highest)}`,
    );
  }
};

// Shows the value under the pointer.
const point = (chart, event) => {
  chart.pointed = null;
  const { place, points } = chart;
  if (event && place && points.length > 0) {
    const time = place.start + (event.offsetX / Math.max(1, place.width)) * place.span;
    chart.pointed = points.reduce((best, entry) => (Math.abs(entry[0] - time) < Math.abs(best[0] - time) ? entry : best));
  }
  showNote(chart);
};

const showNote = (chart) => {
  if (chart.pointed && chart.pointed[0] >= chart.place.start) {
    const [time, value] = chart.pointed;
    const x = chart.place.xOf(time).toFixed(1);
    chart.cursor.setAttribute("d", `M${x} 14V${CHART_HEIGHT}`);
    say(chart.note, `${chart.format(value)}${chart.unit} after ${duration(time)}`);
  } else {
    chart.cursor.setAttribute("d", "");
    say(chart.note, chart.noteText || "\u00a0");
  }
};

const showCharts = (status) => {
  const rates = status.rates || {};
  for (const chart of charts) {
    say(chart.value, chart.format(rates[chart.key]));
    chart.noteText = chart.total(status.totals || {});
    say(chart.to, status.phase === "ended" ? "end" : "now");
    showNote(chart);
  }
  drawCharts();
};
