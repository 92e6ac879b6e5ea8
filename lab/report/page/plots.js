// The smaller figures: points over time, availability, and the cycle of dependencies.
const PLOT = { left: 64, right: 12, top: 12, bottom: 40, height: 230 };

// Draws again whenever its width changes; `paint` gets the picture and its width.
function figure(root, paint) {
  const draw = () => {
    const width = Math.max(300, root.parentElement.clientWidth);
    root.replaceChildren();
    const height = paint(root, width);
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.setAttribute("height", height);
  };
  new ResizeObserver(draw).observe(root.parentElement);
  draw();
}

function timeAxis(root, x, from, to, width, y) {
  const inSeconds = to >= 1e11;
  const { step, ticks } = niceTicks(Math.max(from, 0), to, (width - PLOT.left - PLOT.right) / 80);
  svg("line", { x1: x(from), x2: x(to), y1: y, y2: y, class: "axis" }, root);
  for (const tick of ticks) {
    svg("line", { x1: x(tick), x2: x(tick), y1: y, y2: y + 4, class: "axis" }, root);
    svg("text", { x: x(tick), y: y + 17, class: "quiet", "text-anchor": "middle" }, root, timeLabel(tick, step, inSeconds));
  }
  const words = inSeconds ? "time (s)" : "time (ms)";
  svg("text", { x: width - PLOT.right, y: y + 33, class: "quiet", "text-anchor": "end" }, root, words);
}

// A shape per kind and a sign per outcome: colour alone carries no information.
function sign(point, x, y, root) {
  const group = svg("g", { class: `mark point ${point.kind} ${point.outcome} ${toneClass(point.tone)}`, role: "img" }, root);
  group.setAttribute("aria-label", point.tip.join(". "));
  svg("rect", { x: x - 7, y: y - 7, width: 14, height: 14, class: "hit-area" }, group);
  if (point.outcome === "fail") {
    svg("path", { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, class: "cross" }, group);
  } else if (point.kind === "write") {
    svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, class: "shape" }, group);
  } else if (point.kind === "read") {
    svg("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7, class: "shape hollow" }, group);
  } else if (point.kind === "release") {
    svg("path", { d: `M${x - 4.5} ${y - 3}h9l-4.5 7z`, class: "shape" }, group);
  } else {
    svg("circle", { cx: x, cy: y, r: 4, class: `shape ${point.kind === "grant" ? "hollow" : ""}` }, group);
  }
  explain(group, point.tip);
  return group;
}

function walkable(root, elements) {
  const focus = roving(elements);
  root.onkeydown = (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = elements.indexOf(document.activeElement);
    if (!by || at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    focus(elements[Math.min(elements.length - 1, Math.max(0, at + by))]);
  };
}

function pointsPlot(root, points, [from, to], { log, name }) {
  figure(root, (own, width) => {
    const values = points.map((point) => point.y);
    let [least, most] = [Math.min(...values), Math.max(...values)];
    if (log) [least, most] = [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most) + 1e-9)];
    else [least, most] = [Math.min(0, least), most * 1.1 + 1];
    if (log && least === most) most = least * 10;
    const scale = (value) => (log ? Math.log10(value / least) / Math.log10(most / least) : (value - least) / (most - least));
    const bottom = PLOT.height - PLOT.bottom;
    const x = (time) => PLOT.left + ((time - from) / (to - from)) * (width - PLOT.left - PLOT.right - 8);
    const y = (value) => bottom - scale(value) * (bottom - PLOT.top);
    const decades = Math.round(Math.log10(most / least));
    const factors = decades > 2 ? [1] : [1, 2, 5];
    const ticks = log
      ? Array.from({ length: decades + 1 }, (_, n) => factors.map((factor) => factor * least * 10 ** n)).flat().filter((tick) => tick <= most * 1.001)
      : niceTicks(least, most, 4).ticks.filter((tick) => Number.isInteger(tick));
    for (const tick of ticks) {
      svg("line", { x1: PLOT.left, x2: width - PLOT.right, y1: y(tick), y2: y(tick), class: "tick" }, own);
      const label = tick >= 1 ? String(Math.round(tick)) : String(Number(tick.toPrecision(1)));
      svg("text", { x: PLOT.left - 6, y: y(tick) + 4, class: "quiet", "text-anchor": "end" }, own, label);
    }
    const place = { transform: `translate(14 ${(bottom + PLOT.top) / 2}) rotate(-90)`, class: "quiet", "text-anchor": "middle" };
    svg("text", place, own, name);
    timeAxis(own, x, from, to, width, bottom);
    walkable(own, points.map((point) => sign(point, x(point.t), y(point.y), own)));
    return PLOT.height;
  });
}

// Rows of windows: full if the lock was acquired in it, hollow if only requested, a dot without a request.
function availabilityPlot(root, view, tones, [from, to]) {
  const words = { "#": "got it", ".": "asked, and did not get it", "-": "did not ask" };
  figure(root, (own, width) => {
    const names = view.rows.map(([name]) => textWidth(name, 12, true));
    const left = Math.min(Math.max(52, ...names) + 12, width * 0.3);
    const until = Math.max(to, ...view.rows.map(([, signs]) => view.t0 + signs.length * view.window));
    const x = (time) => left + ((time - from) / (until - from)) * (width - left - PLOT.right - 8);
    const elements = [];
    let y = 8;
    for (const fault of view.faults.slice(0, 12)) {
      const [x0, x1] = [x(fault.t0), x(Math.min(fault.t1 ?? until, until))];
      const group = svg("g", { class: "mark fault", role: "img" }, own);
      svg("rect", { x: x0, y, width: Math.max(3, x1 - x0), height: 10, class: "shape" }, group);
      const text = textWidth(fault.words, 11);
      const fits = x0 + text + 6 < width;
      svg("text", { x: fits ? x0 + 3 : x0 - 3, y: y + 9, class: "label plain", "font-size": 11, "text-anchor": fits ? "start" : "end" }, own, fault.words);
      group.setAttribute("aria-label", `fault: ${fault.words}`);
      explain(group, [`fault: ${fault.words}`]);
      elements.push(group);
      y += 15;
    }
    view.rows.forEach(([name, signs], row) => {
      const tone = row ? toneClass(tones.get(name) ?? -1) : "unowned";
      y += row === 1 ? 10 : 2;
      svg("text", { x: left - 8, y: y + 13, class: `name ${tone}`, "text-anchor": "end", "font-size": 12 }, own, name);
      [...signs].forEach((one, at) => {
        const start = view.t0 + at * view.window;
        const [x0, x1] = [x(start), x(start + view.window)];
        const kind = { "#": "got", ".": "asked", "-": "idle" }[one];
        const group = svg("g", { class: `mark window ${kind} ${tone}`, role: "img" }, own);
        const tall = one === "-" ? 2 : 16;
        svg("rect", { x: x0 + 0.5, y: y + 8 - tall / 2, width: Math.max(1, x1 - x0 - 1), height: tall, class: "shape" }, group);
        if (one === ".") svg("line", { x1: x0 + 1, x2: x1 - 1, y1: y + 16, y2: y, class: "cross" }, group);
        const lines = [`${name} ${words[one]}`, `from ${timeLabel(start, 1e6, false)} ms, in ${timeLabel(view.window, 1e6, false)} ms`];
        group.setAttribute("aria-label", lines.join(" "));
        explain(group, lines);
        elements.push(group);
      });
      y += 20;
    });
    timeAxis(own, x, from, until, width, y + 6);
    walkable(own, elements);
    return y + 46;
  });
}

const EDGES = { ww: "overwrote (ww)", wr: "was read by (wr)", rw: "did not see (rw)", "real-time": "ended before (time)" };

function graphPlot(root, graph, tones) {
  figure(root, (own, width) => {
    const height = graph.vertices.length > 2 ? 320 : 190;
    const [cx, cy, rx, ry] = [width / 2, height / 2, Math.min(width / 2 - 90, 240), height / 2 - 56];
    const at = new Map(graph.vertices.map((one) => [one.id, [cx + one.x * rx, cy - one.y * ry]]));
    const defs = svg("defs", {}, own);
    const marker = svg("marker", { id: "edge", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, orient: "auto" }, defs);
    svg("path", { d: "M0 0L8 4L0 8z", class: "head-guilty" }, marker);
    const elements = [];
    for (const edge of graph.edges) {
      const [[x0, y0], [x1, y1]] = [at.get(edge.source), at.get(edge.target)];
      const length = Math.hypot(x1 - x0, y1 - y0) || 1;
      const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
      const bend = graph.vertices.length > 2 ? 26 : 58;
      const [mx, my] = [(x0 + x1) / 2 + uy * bend, (y0 + y1) / 2 - ux * bend];
      const cut = (px, py) => {
        // where the way from (px, py) meets the box of the vertex, so that the head stays outside of it
        return ([x, y]) => {
          const [dx, dy] = [px - x, py - y];
          const share = Math.min(64 / Math.abs(dx || 1e-9), 22 / Math.abs(dy || 1e-9), 1);
          return `${x + dx * share} ${y + dy * share}`;
        };
      };
      const ends = cut(mx, my);
      const group = svg("g", { class: `mark edge ${edge.kind}`, role: "img" }, own);
      svg("path", { d: `M${ends([x0, y0])}Q${mx} ${my} ${ends([x1, y1])}`, class: "line", "marker-end": "url(#edge)" }, group);
      const words = EDGES[edge.kind] || edge.kind;
      const [lx, ly] = [(x0 + x1) / 4 + mx / 2, (y0 + y1) / 4 + my / 2];
      svg("rect", { x: lx - textWidth(words, 12) / 2 - 4, y: ly - 10, width: textWidth(words, 12) + 8, height: 19, class: "paper" }, group);
      svg("text", { x: lx, y: ly + 4, class: "label bad", "text-anchor": "middle", "font-size": 12 }, group, words);
      group.setAttribute("aria-label", edge.why);
      explain(group, [edge.why]);
      elements.push(group);
    }
    for (const one of graph.vertices) {
      const [x, y] = at.get(one.id);
      const tone = toneClass(tones.get(one.client) ?? -1);
      const group = svg("g", { class: `mark vertex ${tone}`, role: "img" }, own);
      svg("rect", { x: x - 62, y: y - 20, width: 124, height: 40, rx: 8, class: "shape" }, group);
      svg("text", { x, y: y - 3, class: `label bold ${tone}`, "text-anchor": "middle", "font-size": 13 }, group, one.client);
      svg("text", { x, y: y + 13, class: "label plain", "text-anchor": "middle", "font-size": 12 }, group, one.words);
      const lines = [`${one.client}: ${one.words}`, `event ${one.id} of the history`];
      group.setAttribute("aria-label", lines.join(", "));
      explain(group, lines);
      elements.push(group);
    }
    walkable(own, elements);
    return height;
  });
}

function toned(points, tones) {
  return points.map((point) => ({ ...point, tone: tones.get(point.client) ?? -1 }));
}

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { scene, views } = data;
  const tones = new Map(views.clients.map((name, at) => [name, at]));
  for (const lane of scene.lanes) if (lane.kind === "client") tones.set(lane.id, lane.tone);
  const timeline = document.getElementById("timeline");
  if (scene.lanes.length) new Timeline(timeline, scene);
  const times = [...views.fencing.points, ...views.latency.points].map((point) => point.t);
  times.push(...views.availability.faults.map((fault) => fault.t0));
  const [least, most] = times.length ? [Math.min(...times), Math.max(...times)] : [0, 1];
  const air = Math.max((most - least) * 0.03, 1e6);
  const range = [Math.max(0, least - air), most + air];
  const root = (id) => document.querySelector(`#${id} svg`);
  if (views.fencing.points.length) pointsPlot(root("fencing"), toned(views.fencing.points, tones), range, { name: "fence" });
  if (views.latency.points.length) pointsPlot(root("latency"), toned(views.latency.points, tones), range, { log: true, name: "ms" });
  if (views.availability.rows.length) availabilityPlot(root("availability"), views.availability, tones, range);
  if (views.graph.edges.length) graphPlot(root("graph"), views.graph, tones);
  const copy = document.getElementById("copy");
  copy.addEventListener("click", async () => {
    const words = document.getElementById("repeat").textContent;
    try {
      await navigator.clipboard.writeText(words);
      copy.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(document.getElementById("repeat"));
    }
  });
  document.documentElement.dataset.ready = "yes";
})();
