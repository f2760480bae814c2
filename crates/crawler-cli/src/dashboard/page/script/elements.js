// Makes and updates elements. Texts become text nodes: no string is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

// Sets a text if it changed, so that selections survive.
const say = (element, text) => {
  if (element.textContent !== text) {
    element.textContent = text;
  }
};

const hide = (element, hidden) => {
  if (element.hidden !== hidden) {
    element.hidden = hidden;
  }
};

const element = (tag, className, ...children) => {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  node.append(...children);
  return node;
};

const shape = (tag, attributes, ...children) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};

const button = (className, text, label, action) => {
  const node = element("button", className, text);
  node.type = "button";
  if (label) {
    node.setAttribute("aria-label", label);
  }
  node.addEventListener("click", action);
  return node;
};

// The children that `each` has made, by parent and key.
const made = new WeakMap();

// Makes the children of `parent` those of `items`, one each. Reuses the children of items with the same key, and leaves
// the order alone while one of them has the focus, because a moved element loses it.
const each = (parent, items, keyOf, make, update) => {
  const children = made.get(parent) || new Map();
  const fresh = new Map();
  const focused = parent.contains(document.activeElement);
  let place = parent.firstChild;
  for (const item of items) {
    let key = keyOf(item);
    while (fresh.has(key)) {
      key += "\u0000";
    }
    const child = children.get(key) || make(item);
    fresh.set(key, child);
    update(child, item);
    if (child.parentNode !== parent || !focused) {
      if (child === place) {
        place = place.nextSibling;
      } else {
        parent.insertBefore(child, place);
      }
    }
  }
  for (const [key, child] of children) {
    if (!fresh.has(key)) {
      child.remove();
    }
  }
  made.set(parent, fresh);
};

// A link to a page of the web, only if its URL is one of HTTP; otherwise the text.
const link = (url) => {
  const shown = plain(url);
  try {
    const { protocol } = new URL(url);
    if (protocol === "http:" || protocol === "https:") {
      const node = element("a", "url", shown);
      node.href = url;
      node.target = "_blank";
      node.rel = "noopener noreferrer";
      node.dir = "ltr";
      return node;
    }
  } catch {
    // Not a URL.
  }
  return element("bdi", "url", shown);
};

// A list of names and values.
const pairs = (parent, rows) => {
  each(
    parent,
    rows.filter((row) => row[1] !== null && row[1] !== undefined),
    (row) => row[0],
    () => element("div", "", element("dt"), element("dd")),
    (child, [name, value, tone]) => {
      say(child.firstChild, name);
      say(child.lastChild, value);
      child.lastChild.className = tone || "";
    },
  );
};

// Rows of a label, a bar and a count.
const bars = (parent, rows, most) => {
  const largest = Math.max(1, ...rows.map((row) => row.count));
  const shown = rows.slice(0, most);
  const rest = rows.slice(most);
  if (rest.length > 0) {
    const count = rest.reduce((sum, row) => sum + row.count, 0);
    shown.push({ label: `${number(rest.length)} more`, count, tone: "rest" });
  }
  if (rows.length === 0) {
    shown.push({ label: "None yet", none: true });
  }
  each(
    parent,
    shown,
    (row) => row.label,
    () => element("li", "", element("bdi"), element("span", "track", element("span")), element("span", "count")),
    (child, row) => {
      const [label, track, count] = child.children;
      say(label, row.label);
      label.title = row.label.length > 24 ? row.label : "";
      say(count, row.none ? "" : short(row.count));
      child.className = row.none ? "empty" : row.tone || "";
      track.firstChild.style.width = row.none ? "0" : `${Math.max(1, (100 * Math.min(row.count, largest)) / largest)}%`;
    },
  );
};

// Columns of a histogram, drawn into `parent` of an SVG, in the given rectangle; their counts above them if they fit.
const columns = (parent, counts, { x, y, width, height }, labelOf) => {
  const largest = Math.max(1, ...counts);
  const step = width / counts.length;
  const gap = step > 8 ? 3 : step > 3 ? 1 : 0;
  const texts = step >= 27;
  const room = height - (texts ? 14 : 0);
  counts.forEach((count, index) => {
    const tall = count > 0 ? Math.max(2, (room * count) / largest) : 1;
    const left = x + index * step + gap / 2;
    const column = shape("rect", {
      x: left.toFixed(1), y: (y + height - tall).toFixed(1), width: Math.max(0.5, step - gap).toFixed(1),
      height: tall.toFixed(1), rx: step > 8 ? 2 : 0, class: count > 0 ? "fill" : "track",
    });
    column.append(shape("title", {}, `${labelOf(index)}: ${number(count)}`));
    parent.append(column);
    if (texts && count > 0) {
      const middle = (left + (step - gap) / 2).toFixed(1);
      parent.append(shape("text", { x: middle, y: (y + height - tall - 4).toFixed(1), class: "tiny middle" }, tiny(count)));
    }
  });
};
