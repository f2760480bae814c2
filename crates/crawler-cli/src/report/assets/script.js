// Sorts and filters the tables of a report. Without it, the tables are complete, in the order of the file.
"use strict";
(() => {
  // This many rows are laid out at first, and more on request: thousands of rows would make every change slow.
  const FIRST = 25;
  const STEP = 200;
  // More would take a second or longer to lay out.
  const MOST_AT_ONCE = 1000;
  // Printed tables have this many rows, unless the reader wants more.
  const PRINTED = 50;
  const MAX_CHOICES = 50;

  const counted = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) {
      made.className = className;
    }
    if (text !== undefined) {
      made.textContent = text;
    }
    return made;
  };

  const keyOf = (cell) => {
    const text = cell.dataset.v ?? cell.textContent;
    const number = Number(text);
    return text !== "" && Number.isFinite(number) ? number : text;
  };

  // Numbers before texts; texts in the order of their characters, digits as numbers.
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (one, other) => {
    if (typeof one === "number" && typeof other === "number") {
      return one - other;
    }
    if (typeof one !== typeof other) {
      return typeof one === "number" ? -1 : 1;
    }
    return collator.compare(one, other);
  };

  const enhance = (table) => {
    const body = table.tBodies[0];
    const box = table.parentNode;
    const noun = table.dataset.noun;
    const rows = Array.from(body.rows, (row, index) => ({ row, index, keys: [], text: null }));
    let shown = rows;
    let most = FIRST;
    let order = { column: -1, descending: false };
    const state = { words: [], choice: null };
    const column = table.dataset.choice === undefined ? -1 : Number(table.dataset.choice);
    const output = element("output", "");
    const paging = element("div", "paging");
    const more = element("button", "", "Show more");
    const all = element("button", "", "Show all");
    more.type = "button";
    all.type = "button";

    const show = () => {
      body.replaceChildren(...shown.slice(0, most).map((entry) => entry.row));
      const visible = Math.min(most, shown.length);
      const of = shown.length === rows.length ? "" : ` of ${rows.length.toLocaleString("en-US")}`;
      const part = visible < shown.length ? `, the first ${visible.toLocaleString("en-US")} are shown` : "";
      output.textContent = `${counted(shown.length, noun)}${of}${part}`;
      paging.hidden = visible >= shown.length;
      all.hidden = shown.length > MOST_AT_ONCE;
    };

    const filter = () => {
      shown = rows.filter((entry) => {
        entry.text ??= entry.row.textContent.toLowerCase();
        return state.words.every((word) => entry.text.includes(word))
          && (state.choice === null || entry.row.cells[column].textContent === state.choice);
      });
      sort();
    };

    const sort = () => {
      const { column: by, descending } = order;
      if (by < 0) {
        shown.sort((one, other) => one.index - other.index);
      } else {
        for (const entry of shown) {
          entry.keys[by] ??= keyOf(entry.row.cells[by]);
        }
        shown.sort((one, other) => {
          const difference = compare(one.keys[by], other.keys[by]);
          return (descending ? -difference : difference) || one.index - other.index;
        });
      }
      show();
    };

    for (const [index, head] of Array.from(table.tHead.rows[0].cells).entries()) {
      const button = element("button", "sort", head.textContent);
      button.type = "button";
      head.setAttribute("aria-sort", "none");
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("n");
        order = { column: index, descending: order.column === index ? !order.descending : first };
        for (const other of table.tHead.rows[0].cells) {
          other.setAttribute("aria-sort", "none");
        }
        head.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
        sort();
      });
    }
    if (table.dataset.filter === undefined) {
      return;
    }

    const tools = element("div", "tools");
    const search = element("input", "");
    search.type = "search";
    search.autocomplete = "off";
    const label = element("label", "", "Filter by words");
    label.append(search);
    tools.append(label);
    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        state.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
        most = FIRST;
        filter();
      }, rows.length > 1000 ? 120 : 0);
    });
    if (column >= 0) {
      const counts = new Map();
      for (const { row } of rows) {
        const value = row.cells[column].textContent;
        counts.set(value, (counts.get(value) || 0) + 1);
      }
      if (counts.size > 1) {
        const select = element("select", "");
        select.append(new Option("all", ""));
        const sorted = Array.from(counts).sort((one, other) => other[1] - one[1]).slice(0, MAX_CHOICES);
        const values = sorted.map(([value]) => value);
        sorted.forEach(([value, count], index) => {
          select.append(new Option(`${value.slice(0, 60)} (${count.toLocaleString("en-US")})`, String(index)));
        });
        const name = table.tHead.rows[0].cells[column].textContent;
        const choice = element("label", "", name);
        choice.append(select);
        tools.append(choice);
        select.addEventListener("change", () => {
          state.choice = select.value === "" ? null : values[Number(select.value)];
          most = FIRST;
          filter();
        });
      }
    }
    output.setAttribute("role", "status");
    tools.append(output);
    box.before(tools);

    more.addEventListener("click", () => {
      most += STEP;
      show();
    });
    all.addEventListener("click", () => {
      most = Infinity;
      show();
    });
    paging.append(more, all);
    box.after(paging);
    show();

    let before = most;
    addEventListener("beforeprint", () => {
      before = most;
      most = Math.max(most, PRINTED);
      show();
    });
    addEventListener("afterprint", () => {
      most = before;
      show();
    });
  };

  document.querySelectorAll("table").forEach(enhance);
})();
