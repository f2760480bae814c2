// Formats numbers, sizes, durations and texts from the web, in the words of the command.

const number = (value) => {
  const rounded = Math.round(finite(value));
  return rounded.toLocaleString("en-US");
};

// A count that fits next to others: 9,999,999, then 12.3 million.
const short = (value) => {
  const count = finite(value);
  const scale = [[1e15, null], [1e12, "trillion"], [1e9, "billion"], [1e7, "million"]];
  for (const [from, name] of scale) {
    if (count >= from) {
      return name === null ? count.toExponential(1) : `${trim(count / (from === 1e7 ? 1e6 : from))} ${name}`;
    }
  }
  return number(count);
};

// A count in a few characters: 999, 1.2k, 35k, 1.4M.
const tiny = (value) => {
  const count = finite(value);
  for (const [from, unit] of [[1e15, null], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (count >= from) {
      return unit === null ? count.toExponential(0) : trim(count / from) + unit;
    }
  }
  return String(Math.round(count));
};

const trim = (value) => (value < 9.95 ? value.toFixed(1) : number(value));

const counted = (count, noun) => `${short(count)} ${noun}${Math.round(finite(count)) === 1 ? "" : "s"}`;

const bytes = (value) => {
  const count = finite(value);
  if (count < 1000) {
    return `${Math.round(count)} ${Math.round(count) === 1 ? "byte" : "bytes"}`;
  }
  for (const [to, unit, scale] of [[999950, "KB", 1e3], [999950e3, "MB", 1e6], [999950e6, "GB", 1e9], [999950e9, "TB", 1e12]]) {
    if (count < to) {
      return `${(count / scale).toFixed(1)} ${unit}`;
    }
  }
  return `${short(count / 1e15)} PB`;
};

const perSecond = (value) => {
  const rate = finite(value);
  return rate < 9.95 ? rate.toFixed(1) : short(rate);
};

// A measured duration: 5.1 s, 2 m 03 s, 1 h 04 m, 3 d 02 h.
const duration = (value) => {
  const seconds = finite(value);
  if (seconds < 59.95) {
    return `${seconds.toFixed(1)} s`;
  }
  return longTime(Math.round(seconds));
};

const longTime = (seconds) => {
  const pad = (part) => String(Math.floor(part)).padStart(2, "0");
  if (seconds < 3600) {
    return `${Math.floor(seconds / 60)} m ${pad(seconds % 60)} s`;
  }
  if (seconds < 86400 * 2) {
    return `${Math.floor(seconds / 3600)} h ${pad((seconds / 60) % 60)} m`;
  }
  return `${short(Math.floor(seconds / 86400))} d ${pad((seconds / 3600) % 24)} h`;
};

// A duration that is a setting: 250 ms, 1.5 s, 2 m 00 s.
const setting = (value) => {
  const seconds = Math.round(finite(value) * 1000) / 1000;
  if (seconds < 1) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  return seconds < 60 ? `${seconds} s` : longTime(seconds);
};

// About how long something takes: 12 s, 3 m, 1 h 04 m.
const about = (seconds) => {
  if (seconds < 90) {
    return `${Math.max(1, Math.round(seconds))} s`;
  }
  return seconds < 3600 ? `${Math.round(seconds / 60)} m` : longTime(seconds);
};

const milliseconds = (value) => {
  const time = finite(value);
  return time < 999.5 ? `${Math.round(time)} ms` : duration(time / 1000);
};

const percent = (part, whole) => {
  const share = whole > 0 ? (100 * part) / whole : 0;
  if (share > 0 && share < 1) {
    return "<1 %";
  }
  return `${Math.min(100, Math.floor(share))} %`;
};

const clock = (time) => {
  const date = new Date(finite(time) * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toTimeString().slice(0, 8);
};

// Any value as a number that can be calculated with.
const finite = (value) => (Number.isFinite(value) ? value : 0);

// Any value as a list.
const list = (value) => (Array.isArray(value) ? value : []);

// Control characters, and those that change the direction of other text, are shown as such.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

const MAX_TEXT = 4096;

const plain = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const cut = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
  return cut.replace(CONTROLS, "\ufffd");
};
