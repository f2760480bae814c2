// The pipeline as a picture: where URLs wait.

const NARROW = 700;
const MAX_CELLS = 200;

// The mean width of a character of a name, and the height of stages without a drawing: the length has room below the name.
const NAME_CHARACTER = 7.4;
const LOW_STAGE = 78;
const sum = (counts) => counts.reduce((total, count) => total + finite(count), 0);

const stagesOf = (status) => {
  const queues = status.queues || {};
  const priority = list(queues.priority);
  const workers = list(status.workers);
  const hasEnded = status.phase === "ended";
  const waiting = sum(priority.map((queue) => queue.length));
  const leased = Math.max(finite(queues.leased), sum(workers.map((worker) => worker.leased)));
  return {
    priority,
    workers,
    all: [
      { key: "queue", name: "URL queue", count: finite(queues.url_queue) + finite(queues.overflow), where: "in the URL queue",
        note: hasEnded ? (status.can_resume ? "for the next run" : "not reached") : finite(queues.overflow) > 0 ? `${short(queues.overflow)} in the overflow` : "new URLs, in order" },
      { key: "prioritizer", name: "Prioritizer", count: null, note: "assigns priorities" },
      { key: "priority", name: "Priority queues", count: waiting, where: "in the priority queues", note: "best first, by host" },
      { key: "router", name: "Router", count: null, note: "delay, one owner per domain" },
      { key: "workers", name: workers.length === 1 ? "1 worker" : `${number(workers.length)} workers`, count: leased,
        where: "leased to workers", note: hasEnded ? "the crawl has ended" : `${short(queues.in_flight)} in flight` },
    ],
  };
};

const showPipeline = (status) => {
  const stages = stagesOf(status);
  const counts = stages.all.filter((stage) => stage.count !== null);
  const total = sum(counts.map((stage) => stage.count));
  const isUseless = !status.queues || status.mode === "classic" || (status.phase === "ended" && total === 0);
  hide(byId("pipeline"), isUseless);
  byId("budgets").classList.toggle("wide", isUseless);
  if (isUseless) {
    return;
  }
  const most = counts.reduce((best, stage) => (stage.count > best.count ? stage : best));
  const share = percent(most.count, total);
  say(byId("waiting"), total > 0 ? `${counted(total, "URL")} in the pipeline, the largest part (${share}) ${most.where}.` : "No URL waits.");
  const rows = counts.map((stage) => [stage.name, stage.count]);
  rows.push(...stages.priority.map((queue) => [`Priority ${finite(queue.from)} to ${finite(queue.to)}`, finite(queue.length)]));
  each(
    byId("stages"),
    rows,
    (row) => row[0],
    () => {
      const name = element("th");
      name.scope = "row";
      return element("tr", "", name, element("td"));
    },
    (child, [name, count]) => {
      say(child.firstChild, name);
      say(child.lastChild, number(count));
    },
  );
  drawPipeline(stages, total > 0 ? most.key : null);
};

const drawPipeline = (stages, most) => {
  const parent = byId("picture");
  const width = parent.clientWidth;
  const places = width < NARROW ? narrowPlaces(stages, width) : widePlaces(width);
  const picture = shape("svg", {
    viewBox: `0 0 ${width} ${places.height}`, height: places.height, role: "img",
    "aria-label": `URL queue, prioritizer, priority queues, router and workers; the lengths are in the table below`,
  });
  for (const arrow of places.arrows) {
    picture.append(shape("path", { d: arrow.line, class: arrow.back ? "flow back" : "flow" }), shape("path", { d: arrow.head, class: "arrow" }));
  }
  const { loop } = places;
  picture.append(shape("text", { x: loop.x, y: loop.y, class: `tiny ${loop.anchor}` }, "new links"));
  for (const stage of stages.all) {
    drawStage(picture, stage, places[stage.key], stage.key === most);
  }
  drawPriorities(picture, stages.priority, places.priority);
  drawWorkers(picture, stages.workers, places.workers);
  parent.replaceChildren(picture);
};

const drawStage = (picture, stage, { x, y, width, height }, isMost) => {
  picture.append(
    shape("rect", { x: x + 0.5, y: y + 0.5, width: width - 1, height: height - 1, rx: 8, class: isMost ? "stage most" : "stage" }),
    shape("text", { x: x + 12, y: y + 22, class: "name" }, stage.name),
  );
  let top = y + 41;
  if (stage.count !== null) {
    const fits = (text) => (stage.name.length + text.length + 1) * NAME_CHARACTER <= width - 24;
    const beside = [short(stage.count), tiny(stage.count)].find(fits);
    if (beside) {
      picture.append(shape("text", { x: x + width - 12, y: y + 22, class: "number end" }, beside));
    } else if (height <= LOW_STAGE) {
      picture.append(shape("text", { x: x + 12, y: y + 40, class: "number" }, short(stage.count)));
      top = y + 55;
    }
  }
  wrap(stage.note, Math.floor((width - 24) / 6.2)).forEach((line, index) => {
    picture.append(shape("text", { x: x + 12, y: top + 15 * index, class: "tiny" }, line));
  });
};

// Breaks a text into lines of at most `length` characters.
const wrap = (text, length) => {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines[lines.length - 1];
    if (line && line.length + word.length + 1 > length) {
      lines.push(word);
    } else {
      lines[lines.length - 1] = line ? `${line} ${word}` : word;
    }
  }
  return lines;
};

const drawPriorities = (picture, queues, { x, y, width, height }) => {
  if (queues.length === 0) {
    return;
  }
  const area = { x: x + 12, y: y + 50, width: width - 24, height: height - 76 };
  columns(picture, queues.map((queue) => finite(queue.length)), area, (index) => `Priority ${finite(queues[index].from)} to ${finite(queues[index].to)}`);
  const below = y + height - 11;
  picture.append(
    shape("text", { x: x + 12, y: below, class: "tiny" }, `${finite(queues[0].from)} best`),
    shape("text", { x: x + width - 12, y: below, class: "tiny end" }, `${finite(queues[queues.length - 1].to)} worst`),
  );
};

const drawWorkers = (picture, workers, { x, y, width, height }) => {
  const most = Math.max(1, ...workers.map((worker) => finite(worker.leased)));
  const area = { x: x + 12, y: y + 54, width: width - 24, height: height - 66 };
  const rows = Math.floor(area.height / 18);
  if (workers.length <= rows) {
    workers.forEach((worker, index) => {
      const top = area.y + index * 18;
      const room = area.width - 74;
      picture.append(
        shape("text", { x: area.x, y: top + 10, class: "tiny" }, plain(worker.id).slice(0, 5)),
        shape("rect", { x: area.x + 34, y: top + 3, width: room, height: 8, rx: 4, class: "track" }),
        shape("rect", { x: area.x + 34, y: top + 3, width: (room * finite(worker.leased)) / most, height: 8, rx: 4, class: "fill" }),
        shape("text", { x: area.x + area.width, y: top + 10, class: "tiny end" }, tiny(worker.leased)),
      );
    });
    return;
  }
  const shown = workers.slice(0, MAX_CELLS);
  let side = 22;
  while (side > 4 && Math.floor(area.width / side) * Math.floor(area.height / side) < shown.length) {
    side -= 1;
  }
  const across = Math.max(1, Math.floor(area.width / side));
  shown.forEach((worker, index) => {
    const cell = shape("rect", {
      x: area.x + (index % across) * side, y: area.y + Math.floor(index / across) * side,
      width: Math.max(2, side - 3), height: Math.max(2, side - 3), rx: 2,
      class: finite(worker.leased) > 0 ? "fill" : "track",
    });
    if (finite(worker.leased) > 0) {
      cell.setAttribute("fill-opacity", (0.25 + (0.75 * finite(worker.leased)) / most).toFixed(2));
    }
    cell.append(shape("title", {}, `Worker ${plain(worker.id)}: ${counted(worker.leased, "URL")}`));
    picture.append(cell);
  });
};

const right = (from, to) => ({
  line: `M${from.x + from.width} ${from.y + 34}H${to.x - 5}`,
  head: `M${to.x - 8} ${from.y + 29}l8 5l-8 5z`,
});

const widePlaces = (width) => {
  const gap = Math.min(40, width * 0.03);
  const room = width - 4 * gap;
  const parts = { queue: 0.18, prioritizer: 0.15, priority: 0.27, router: 0.15, workers: 0.25 };
  const tall = 208;
  const places = { height: tall + 34, arrows: [] };
  let x = 0;
  let previous = null;
  for (const [key, part] of Object.entries(parts)) {
    const place = { x, y: 0, width: Math.floor(room * part), height: key === "priority" || key === "workers" ? tall : LOW_STAGE };
    places[key] = place;
    if (previous) {
      places.arrows.push(right(previous, place));
    }
    previous = place;
    x += place.width + gap;
  }
  const start = places.workers.x + places.workers.width / 2;
  const end = places.queue.x + places.queue.width / 2;
  places.arrows.push({
    back: true,
    line: `M${start} ${tall}V${tall + 16}a8 8 0 0 1 -8 8H${end + 8}a8 8 0 0 1 -8 -8V${places.queue.height + 6}`,
    head: `M${end - 5} ${places.queue.height + 9}l5 -8l5 8z`,
  });
  places.loop = { x: end + 12, y: tall + 16, anchor: "" };
  return places;
};

const narrowPlaces = (stages, width) => {
  const gap = 20;
  const inner = width - 26;
  const workerRows = stages.workers.length <= 6 ? Math.max(1, stages.workers.length) * 18 : 90;
  const heights = { queue: 56, prioritizer: 56, priority: 150, router: 56, workers: 68 + workerRows };
  const places = { arrows: [] };
  let y = 0;
  for (const [key, height] of Object.entries(heights)) {
    places[key] = { x: 0, y, width: inner, height };
    if (y > 0) {
      places.arrows.push({ line: `M${inner / 2} ${y - gap}V${y - 6}`, head: `M${inner / 2 - 5} ${y - 8}l5 8l5 -8z` });
    }
    y += height + gap;
  }
  places.height = y - gap + 18;
  const low = places.workers.y + 34;
  places.arrows.push({
    back: true,
    line: `M${inner} ${low}h8a8 8 0 0 0 8 -8V36a8 8 0 0 0 -8 -8H${inner + 6}`,
    head: `M${inner + 9} 23l-8 5l8 5z`,
  });
  places.loop = { x: width, y: places.height - 4, anchor: "end" };
  return places;
};
