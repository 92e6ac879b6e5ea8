// The timeline: marks on lanes, over a piecewise axis that leaves out what is empty; zoomable.
const HEIGHT = { node: 28, client: 78, store: 58 };
const BAR = { top: 20, height: 18 };
const USE = { top: 44, height: 9 };
const FAULT = 19;
const MOST_FAULT_ROWS = 8;
// What covers what: later ones are drawn above.
const LAYERS = [
  "band", "link", "down", "ghost", "life", "belief", "sure", "pause", "stall", "claim", "jump", "promotion", "loss",
  "attempt", "reply", "release", "read", "write", "crash", "between", "announced", "accepted", "rejected", "flag", "fault",
];
const INSIDE = new Set(["life", "sure", "link", "pause", "stall", "belief"]);

class Timeline {
  constructor(root, scene) {
    this.root = root;
    this.scene = scene;
    this.laneAt = new Map(scene.lanes.map((lane, at) => [lane.id, at]));
    this.broken = scene.panels.map(([t0, t1, u0, u1]) => ({ t0, t1, u0, u1 }));
    const last = this.broken[this.broken.length - 1].t1;
    this.whole = [{ t0: Math.min(0, this.broken[0].t0), t1: last, u0: 0, u1: 1 }];
    this.panels = this.broken;
    this.view = [0, 1];
    this.current = 0;
    this.order = scene.marks
      .map((mark, at) => at)
      .sort((a, b) => LAYERS.indexOf(scene.marks[a].kind) - LAYERS.indexOf(scene.marks[b].kind));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(root.parentElement);
    this.draw();
  }

  // -- time --------------------------------------------------------------------------------------------

  warp(time) {
    let before = null;
    for (const panel of this.panels) {
      if (time < panel.t0) {
        if (!before) return panel.u0;
        return before.u1 + ((time - before.t1) / (panel.t0 - before.t1)) * (panel.u0 - before.u1);
      }
      if (time <= panel.t1) {
        return panel.u0 + ((time - panel.t0) / (panel.t1 - panel.t0)) * (panel.u1 - panel.u0);
      }
      before = panel;
    }
    return before.u1;
  }

  x(time) {
    if (time === null) return this.right + 8;
    return this.left + ((this.warp(time) - this.view[0]) / (this.view[1] - this.view[0])) * this.room;
  }

  get room() {
    return this.right - this.left;
  }

  zoom(factor, at = 0.5) {
    const [a, b] = this.view;
    const width = Math.min(1, Math.max((b - a) / factor, 1e-6));
    const fixed = a + (b - a) * at;
    this.look(fixed - width * at, fixed + width * (1 - at));
  }

  pan(share) {
    const by = (this.view[1] - this.view[0]) * share;
    this.look(this.view[0] + by, this.view[1] + by);
  }

  look(a, b) {
    const width = Math.min(1, b - a);
    const from = Math.min(Math.max(0, a), 1 - width);
    this.view = [from, from + width];
    this.draw();
  }

  // Show everything from one time to another, with some air around it.
  lookAt(t0, t1) {
    const [a, b] = [this.warp(t0), this.warp(t1 === null ? this.scene.last : t1)];
    const air = Math.max((b - a) * 0.25, 0.02);
    this.look(a - air, b + air);
  }

  // -- drawing -----------------------------------------------------------------------------------------

  draw() {
    const hadFocus = this.root.contains(document.activeElement);
    tip.hide();
    const width = Math.max(320, this.root.parentElement.clientWidth);
    const names = this.scene.lanes.map((lane) => textWidth(lane.name, 13, true));
    this.left = Math.min(Math.max(64, ...names) + 14, width * 0.28);
    this.right = width - 8;
    this.taken = new Map();
    this.placeLanes();
    this.storeX = placeStored(this.scene.marks, (time) => this.x(time), this.left, this.right);
    this.root.replaceChildren();
    this.root.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.root.setAttribute("height", this.height);
    this.patterns();
    this.layer = {};
    for (const name of ["lanes", "grid", "marks", "arrows", "breaks", "labels", "names"]) {
      const clipped = ["marks", "arrows", "breaks", "labels", "grid"].includes(name);
      this.layer[name] = svg("g", clipped ? { "clip-path": "url(#plot)" } : {}, this.root);
    }
    this.drawLanes();
    this.drawAxis();
    this.elements = new Map();
    for (const at of this.order) this.elements.set(at, this.drawMark(this.scene.marks[at], at));
    this.scene.arrows.forEach((arrow) => this.drawArrow(arrow));
    this.drawLabels();
    this.setFocus(this.current, hadFocus);
    this.state();
  }

  placeLanes() {
    const rows = [];
    this.faultRow = new Map();
    for (const mark of this.scene.marks.filter((one) => one.kind === "fault")) {
      const x0 = this.x(mark.t0);
      const end = Math.max(this.x(mark.t1), x0 + textWidth(mark.label, 11) + 8);
      let row = rows.findIndex((until) => until < x0);
      if (row < 0) row = Math.min(rows.length, MOST_FAULT_ROWS - 1);
      rows[row] = end + 4;
      this.faultRow.set(mark.fault, row);
    }
    let y = rows.length ? rows.length * FAULT + 10 : 6;
    this.top = y;
    this.tops = [];
    let before = null;
    for (const lane of this.scene.lanes) {
      if (before && before !== lane.kind) y += 14;
      else if (lane.kind === "client" && before) y += 22;
      this.tops.push(y);
      y += HEIGHT[lane.kind];
      before = lane.kind;
    }
    this.bottom = y;
    this.height = y + 44;
  }

  // Where a mark of the store's lane is drawn.
  xStored(time, tone) {
    return this.storeX.get(storedKey(time, tone)) ?? this.x(time);
  }

  patterns() {
    const defs = svg("defs", {}, this.root);
    const clip = svg("clipPath", { id: "plot" }, defs);
    svg("rect", { x: this.left, y: 0, width: this.room, height: this.height }, clip);
    for (const [id, path, size] of [
      ["hatch-link", "M0 8L8 0", 8], ["hatch-pause", "M0 0L7 7", 7], ["hatch-down", "M0 0L6 6M0 6L6 0", 6],
    ]) {
      const pattern = svg("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse" }, defs);
      svg("path", { d: path, class: "hatching" }, pattern);
    }
    for (const id of ["head", "head-guilty"]) {
      const shape = { id, viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6 };
      const marker = svg("marker", { ...shape, orient: "auto" }, defs);
      svg("path", { d: "M0 0L6 3L0 6z", class: id }, marker);
    }
  }

  drawLanes() {
    this.scene.lanes.forEach((lane, at) => {
      const y = this.tops[at];
      const box = { x: this.left, y, width: this.room, height: HEIGHT[lane.kind] };
      svg("rect", { ...box, class: `lane ${lane.kind}` }, this.layer.lanes);
      const middle = lane.kind === "client" ? y + BAR.top + BAR.height / 2 : this.middle(at);
      const line = { x1: this.left, x2: this.right, y1: middle, y2: middle };
      svg("line", { ...line, class: `rule ${lane.kind}` }, this.layer.lanes);
      const place = { x: this.left - 10, y: middle + 4, class: `name ${lane.kind} ${toneClass(lane.tone)}` };
      svg("text", { ...place, "text-anchor": "end" }, this.layer.names, lane.name);
    });
  }

  middle(at) {
    return this.tops[at] + (this.scene.lanes[at].kind === "store" ? 18 : HEIGHT.node / 2);
  }

  drawAxis() {
    const y = this.bottom + 4;
    const inSeconds = this.panels[this.panels.length - 1].t1 >= 1e11;
    let before = null;
    for (const panel of this.panels) {
      const from = Math.max(panel.u0, this.view[0]);
      const to = Math.min(panel.u1, this.view[1]);
      if (before) this.drawBreak(before, panel);
      before = panel;
      if (from >= to) continue;
      const time = (u) => panel.t0 + ((u - panel.u0) / (panel.u1 - panel.u0)) * (panel.t1 - panel.t0);
      const [x0, x1] = [this.x(time(from)), this.x(time(to))];
      svg("line", { x1: x0, x2: x1, y1: y, y2: y, class: "axis" }, this.layer.grid);
      const { step, ticks } = niceTicks(Math.max(time(from), 0), time(to), (x1 - x0) / 76);
      for (const tick of ticks) {
        const x = this.x(tick);
        svg("line", { x1: x, x2: x, y1: this.top, y2: y, class: "tick" }, this.layer.grid);
        const label = timeLabel(tick, step, inSeconds);
        this.label("axis", x, y + 16, label, { size: 11, reach: 0, kind: "quiet", layer: "grid" });
      }
    }
    const unit = { x: this.left - 10, y: y + 16, class: "quiet", "text-anchor": "end" };
    svg("text", unit, this.layer.names, inSeconds ? "time (s)" : "time (ms)");
  }

  drawBreak(before, after) {
    const [x0, x1] = [this.x(before.t1) + 1, this.x(after.t0) - 1];
    if (x1 < this.left || x0 > this.right) return;
    const tear = (x, back) => {
      const points = [];
      for (let y = this.top - 4, n = 0; y < this.bottom + 10; y += 6, n++) points.push([x + (n % 2 ? 2 : -2), y]);
      return (back ? points.reverse() : points).map(([a, b]) => `${a} ${b}`).join("L");
    };
    svg("path", { d: `M${tear(x0, false)}L${tear(x1, true)}z`, class: "gap" }, this.layer.breaks);
    for (const x of [x0, x1]) svg("path", { d: `M${tear(x, false)}`, class: "tear" }, this.layer.breaks);
    const left = (after.t0 - before.t1) / 1e6;
    const words = left >= 1000 ? `${(left / 1000).toFixed(1)} s left out` : `${left.toFixed(0)} ms left out`;
    this.label("breaks", (x0 + x1) / 2, this.bottom + 36, words, { size: 11, reach: 80, kind: "quiet" });
  }

  // Where a mark is: [x0, y0, x1, y1], at least 4 wide.
  box(mark) {
    let [x0, x1] = [this.x(mark.t0), this.x(mark.kind === "jump" ? mark.t0 : mark.t1)];
    if (STORED.has(mark.kind)) x0 = x1 = this.xStored(mark.t0, mark.tone) - 2;
    if (x1 - x0 < 4) x1 = x0 + 4;
    if (mark.kind === "fault") {
      const y = this.faultRow.get(mark.fault) * FAULT + 4;
      return [x0, y, x1, y + FAULT - 4];
    }
    const lanes = mark.lane.split("\n").map((lane) => this.laneAt.get(lane));
    const y = this.tops[lanes[0]];
    if (mark.kind === "band") {
      const end = lanes[lanes.length - 1];
      return [x0, y, x1, this.tops[end] + HEIGHT.client];
    }
    const kind = this.scene.lanes[lanes[0]].kind;
    if (kind === "client") {
      if (mark.kind === "reply") return [x0, y - 4, x1, y + 4];
      if (mark.kind === "read" || mark.kind === "write") return [x0, y + USE.top, x1, y + USE.top + USE.height];
      const by = { sure: 4, attempt: 2, release: 2, pause: -2, stall: -2, claim: -3, flag: -3 }[mark.kind] || 0;
      return [x0, y + BAR.top + by, x1, y + BAR.top + BAR.height - by];
    }
    if (kind === "store" && mark.kind === "between") return [x0, y + 16, x1, y + 20];
    if (kind === "store") return [x0, y + 5, x1, y + 31];
    const inset = { link: 1, down: 1, jump: 0, pause: 2, stall: 2, ghost: 7 }[mark.kind] ?? 5;
    return [x0, y + inset, x1, y + HEIGHT.node - inset];
  }

  drawMark(mark, at) {
    const [x0, y0, x1, y1] = this.box(mark);
    const classes = ["mark", mark.kind, toneClass(mark.tone), mark.outcome, mark.findings.length ? "guilty" : "", mark.cause ? "cause" : ""];
    const group = svg("g", { class: classes.join(" "), role: "img", tabindex: "-1" }, this.layer.marks);
    group.setAttribute("aria-label", mark.tip.join(". "));
    group.dataset.at = at;
    group.dataset.findings = [...mark.findings, ...mark.warnings].join(" ");
    if (mark.fault) group.dataset.fault = mark.fault;
    if (x1 < this.left || x0 > this.right) {
      group.setAttribute("visibility", "hidden");
      return group;
    }
    this.shape(mark, group, x0, y0, x1, y1);
    if (x1 - x0 < 12) {
      const middle = (x0 + x1) / 2;
      const hit = { x: middle - 6, y: y0 - 1, width: 12, height: y1 - y0 + 2, class: "hit-area" };
      svg("rect", hit, group);
    }
    explain(group, mark.tip);
    group.addEventListener("click", () => this.follow(at));
    return group;
  }

  shape(mark, group, x0, y0, x1, y1) {
    const [middle, center] = [(x0 + x1) / 2, (y0 + y1) / 2];
    const cross = (x, y, r) => svg("path", { d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}`, class: "cross" }, group);
    switch (mark.kind) {
      case "jump":
        svg("path", { d: `M${x0 + 2} ${y0}l-5 ${(y1 - y0) * 0.55}h4l-3 ${(y1 - y0) * 0.45}l7 ${(y0 - y1) * 0.58}h-4z`, class: "bolt" }, group);
        break;
      case "promotion":
        svg("path", { d: `M${x0 - 6} ${y1 - 2}L${x0} ${y0 + 1}L${x0 + 6} ${y1 - 2}z`, class: "bolt" }, group);
        break;
      case "flag":
        svg("path", { d: `M${x0} ${y0 + 4}l-5 -9h10z`, class: "shape" }, group);
        break;
      case "claim":
        svg("line", { x1: x0, x2: x0, y1: y0, y2: y1, class: "shape" }, group);
        break;
      case "reply":
        svg("line", { x1: x0, x2: x1, y1: center, y2: center, class: "shape" }, group);
        break;
      case "loss":
      case "crash":
        cross(x0, center, 7);
        break;
      case "accepted":
      case "announced":
      case "rejected":
        storedShape(mark, group, middle, y0, center, cross);
        break;
      default:
        svg("rect", { x: x0, y: y0, width: x1 - x0, height: y1 - y0, class: "shape" }, group);
        if (mark.kind === "pause" || mark.kind === "stall") svg("rect", { x: x0, y: y0, width: x1 - x0, height: y1 - y0, class: "over" }, group);
        if (mark.outcome === "fail") cross(mark.kind === "attempt" ? Math.max(x1 - 6, middle) : middle, center, 4);
    }
  }

  drawArrow(arrow) {
    const [from, to] = [this.laneAt.get(arrow.lane0), this.laneAt.get(arrow.lane1)];
    if (from === undefined || to === undefined) return;
    const down = to > from;
    const y0 = arrow.held ? this.middle(from) : this.tops[from] + (down ? USE.top + USE.height : BAR.top + 2);
    const y1 = arrow.held ? this.tops[to] + BAR.top + 2 : down ? this.tops[to] + 7 : this.middle(to) + 8;
    const end = arrow.lane1 === "store" ? this.xStored(arrow.t1, arrow.tone) : this.x(arrow.t1) + (down ? 0 : 2);
    const [x0, x1] = [this.x(arrow.t0) + 2, end];
    const classes = `arrow ${toneClass(arrow.tone)} ${arrow.lost ? "lost" : ""} ${arrow.held ? "held" : ""} ${arrow.guilty ? "guilty" : ""}`;
    const head = arrow.lost ? {} : { "marker-end": `url(#${arrow.guilty ? "head-guilty" : "head"})` };
    const shift = arrow.lost ? 8 : 0;
    svg("line", { x1: x0 + shift, y1: y0, x2: x1 + shift, y2: y1, class: classes, ...head }, this.layer.arrows);
    if (arrow.lost) {
      const [x, y] = [x1 + shift, this.middle(to)];
      for (const kind of ["halo", "end"]) {
        svg("path", { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, class: `${classes} ${kind}` }, this.layer.arrows);
      }
    }
  }

  // -- words -------------------------------------------------------------------------------------------

  drawLabels() {
    const marks = this.scene.marks.filter((mark) => mark.label && mark.kind !== "accepted");
    const rank = (mark) => (mark.kind === "band" || mark.cause ? 0 : mark.findings.length ? 1 : mark.kind === "belief" ? 3 : 2);
    for (const mark of [...marks].sort((a, b) => rank(a) - rank(b))) this.drawLabel(mark);
    const written = this.scene.marks.filter((mark) => mark.kind === "accepted");
    for (const mark of written.sort((a, b) => b.findings.length - a.findings.length)) {
      const y = this.box(mark)[1] + 40;
      if (mark.note) this.label("store", this.xStored(mark.t0, mark.tone), y, mark.note, { bold: true, reach: 400, kind: "bad" });
    }
  }

  drawLabel(mark) {
    const [x0, y0, x1, y1] = this.box(mark);
    const tone = toneClass(mark.tone);
    const bad = mark.findings.length > 0;
    const kind = bad ? "bad" : tone;
    const from = Math.max(x0, this.left);
    const to = Math.min(x1, this.right);
    if (mark.kind === "band") {
      const y = y1 - HEIGHT.client - 7;
      this.label("band" + mark.lane, (from + to) / 2, y, mark.label, { size: 14, bold: true, reach: 400, kind: "bad" });
    } else if (mark.kind === "fault") {
      const room = mark.t1 === null ? this.right - from : 400;
      const look = { size: 11, bold: mark.cause, reach: 0, kind: mark.cause ? "bad" : "plain", wide: room };
      this.label(`fault${this.faultRow.get(mark.fault)}`, from + textWidth(mark.label, 11, mark.cause) / 2 + 5, y1 - 3, mark.label, look);
    } else if (INSIDE.has(mark.kind)) {
      const sureEnd = mark.kind === "belief" ? this.sureEnd(mark) : 0;
      const words = mark.kind !== "belief" ? mark.label : sureEnd > 0 ? "still believes" : "believes it holds";
      const start = Math.max(from, sureEnd);
      const width = textWidth(words, 11) + 14;
      const solid = mark.kind === "life" || mark.kind === "sure";
      if (to - start > width) this.label(mark.lane, start + width / 2, (y0 + y1) / 2 + 4, words, { size: 11, reach: Math.max(0, to - start - width), kind: solid ? `on-solid ${tone}` : mark.cause ? "bad" : "plain", backed: mark.kind !== "belief" && !solid });
      else if (mark.kind === "pause") this.label(`${mark.lane}above`, (from + to) / 2, y0 - 4, mark.label, { size: 11, bold: mark.cause, reach: 60, kind: mark.cause ? "bad" : "plain" });
    } else if (mark.kind === "jump" || mark.kind === "promotion" || mark.kind === "down" || mark.kind === "loss") {
      this.labelBeside(mark, x0, y0, mark.kind === "down" ? x1 : x0, y1);
    } else if (mark.kind === "reply") {
      this.label(`${mark.lane}replies`, (from + to) / 2, y0 - 2, mark.label, { size: 11, bold: true, reach: 400, kind });
    } else if (mark.kind === "read" || mark.kind === "write") {
      this.label(`${mark.lane}below`, (x0 + x1) / 2, y1 + 13, mark.label, { size: 11, bold: bad, reach: bad ? 70 : 28, kind });
    } else if (STORED.has(mark.kind)) {
      const place = { size: 11, bold: mark.kind === "rejected", reach: 60, kind: tone };
      if (!this.label("store", x0, y1 + 14, mark.label, place)) this.label("store2", x0, y1 + 26, mark.label, place);
    } else {
      const y = this.tops[this.laneAt.get(mark.lane)] + 14;
      this.label(`${mark.lane}above`, (x0 + x1) / 2, y, mark.label, { size: 11, bold: bad, reach: bad ? 120 : 26, kind });
    }
  }

  // Words right or left of a mark, in the longest form that fits; those of a cause stand over a key if they must.
  labelBeside(mark, x0, y0, x1, y1) {
    if (x1 < this.left || x0 > this.right) return;
    const above = this.scene.lanes[this.laneAt.get(mark.lane)].kind === "client";
    const [row, y] = above ? [`${mark.lane}above`, y0 - 4] : [mark.lane, (y0 + y1) / 2 + 4];
    const look = { size: 11, bold: true, kind: mark.cause ? "bad" : "plain", backed: true };
    const short = mark.label.split(" ").slice(-2).join(" ");
    for (const words of [mark.label, short]) {
      const half = textWidth(words, 11, true) / 2 + 8;
      for (const x of [x1 + half, x0 - half]) {
        const room = x - half >= this.left - 8 && x + half <= this.right + 8;
        if (room && this.label(row, x, y, words, { ...look, reach: 12 })) return;
      }
    }
    if (mark.cause) this.label(row, (x0 + x1) / 2, y, short, { ...look, reach: this.room });
  }

  // Where the guarantee within a belief ends: from there on the client merely believes.
  sureEnd(belief) {
    const ends = this.scene.marks
      .filter((mark) => mark.kind === "sure" && mark.lane === belief.lane && mark.t0 < (belief.t1 ?? Infinity) && mark.t0 >= belief.t0 - 1e7)
      .map((mark) => this.x(mark.t1));
    return Math.max(0, ...ends);
  }

  // Write words into a row where there is room, at most `reach` away from where they should be.
  label(row, x, y, words, { size = 12, bold = false, reach = 30, kind = "", backed = false, layer = "labels", wide = 1e9 }) {
    const width = textWidth(words, size, bold) + 6;
    if (width > wide + 6) return false;
    const taken = this.taken.get(row) || [];
    this.taken.set(row, taken);
    const wish = Math.min(Math.max(x - width / 2, this.left), this.right - width);
    if (Math.abs(wish - (x - width / 2)) > Math.max(reach, width)) return false;
    for (let step = 0; step <= reach; step += 4) {
      for (const at of step ? [wish + step, wish - step] : [wish]) {
        if (at < this.left - 1 || at + width > this.right + 1) continue;
        if (taken.some(([a, b]) => at < b && at + width > a)) continue;
        taken.push([at, at + width]);
        if (backed) svg("rect", { x: at, y: y - size, width, height: size + 4, class: "paper" }, this.layer[layer]);
        const place = { x: at + width / 2, y, "font-size": size, class: `label ${kind} ${bold ? "bold" : ""}` };
        svg("text", { ...place, "text-anchor": "middle" }, this.layer[layer], words);
        return true;
      }
    }
    return false;
  }
}
