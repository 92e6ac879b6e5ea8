// How a reader moves in the timeline: pointer, keys, buttons, and links from the text and back to it.
Object.assign(Timeline.prototype, {
  listen() {
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.root.addEventListener("dblclick", (event) => this.zoom(2, this.share(event)));
    this.root.addEventListener("pointerdown", (event) => this.drag(event));
    // On the element around it: an svg element that listens for the focus could itself be reached by Tab.
    this.root.parentElement.addEventListener("focusin", (event) => {
      const mark = event.target.closest("[data-at]");
      if (mark) this.setFocus(Number(mark.dataset.at), false);
    });
    const act = {
      in: () => this.zoom(2), out: () => this.zoom(0.5), left: () => this.pan(-0.25), right: () => this.pan(0.25),
      all: () => this.look(0, 1),
      scale: (button) => {
        const broken = this.panels === this.whole;
        this.panels = broken ? this.broken : this.whole;
        button.setAttribute("aria-pressed", String(!broken));
        this.look(0, 1);
      },
    };
    for (const button of document.querySelectorAll("[data-act]")) {
      button.addEventListener("click", () => act[button.dataset.act](button));
    }
    for (const link of document.querySelectorAll("[data-show-finding], [data-show-fault]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.show(link.dataset.showFinding, link.dataset.showFault);
      });
    }
  },

  share(event) {
    const box = this.root.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left - this.left) / this.room));
  },

  // A plain wheel scrolls the page, as everywhere; with Ctrl (or a pinch) it zooms, sideways it moves.
  wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 200), this.share(event));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan(event.deltaX / this.room);
    }
  },

  drag(event) {
    if (event.button !== 0 || (event.pointerType === "mouse" && event.target.closest("[data-at]"))) return;
    const [startX, [a, b]] = [event.clientX, this.view];
    const move = (now) => {
      const by = ((startX - now.clientX) / this.room) * (b - a);
      this.look(a + by, b + by);
    };
    const end = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  },

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const act = {
      "+": () => this.zoom(2, this.focusShare()), "=": () => this.zoom(2, this.focusShare()),
      "-": () => this.zoom(0.5, this.focusShare()), 0: () => this.look(0, 1),
      ArrowRight: () => (event.shiftKey ? this.pan(0.25) : this.step(1)),
      ArrowLeft: () => (event.shiftKey ? this.pan(-0.25) : this.step(-1)),
      ArrowDown: () => this.change(1), ArrowUp: () => this.change(-1),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
      Enter: () => this.follow(this.current), " ": () => this.follow(this.current),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  },

  // Where the focused mark stands in the view, from 0 to 1.
  focusShare() {
    const mark = this.scene.marks[this.current];
    return mark ? Math.min(1, Math.max(0, (this.x(mark.t0) - this.left) / this.room)) : 0.5;
  },

  lane(mark) {
    return mark.kind === "fault" ? -1 : this.laneAt.get(mark.lane.split("\n")[0]);
  },

  inLane(lane) {
    const { marks } = this.scene;
    return marks.map((mark, at) => at).filter((at) => this.lane(marks[at]) === lane)
      .sort((a, b) => marks[a].t0 - marks[b].t0 || a - b);
  },

  step(by) {
    const mark = this.scene.marks[this.current];
    if (!mark) return;
    const row = this.inLane(this.lane(mark));
    const to = Math.min(row.length - 1, Math.max(0, row.indexOf(this.current) + by));
    this.reveal(row[to]);
  },

  change(by) {
    const { marks, lanes } = this.scene;
    if (!marks[this.current]) return;
    for (let lane = this.lane(marks[this.current]) + by; lane >= -1 && lane < lanes.length; lane += by) {
      const row = this.inLane(lane);
      if (!row.length) continue;
      const away = (at) => Math.abs(marks[at].t0 - marks[this.current].t0);
      this.reveal(row.reduce((best, at) => (away(at) < away(best) ? at : best)));
      return;
    }
  },

  // Move the view, if need be, until a mark is in it, and give it the focus.
  reveal(at) {
    const u = this.warp(this.scene.marks[at].t0);
    const [a, b] = this.view;
    if (u < a || u > b) this.look(u - (b - a) / 2, u + (b - a) / 2);
    this.setFocus(at, true);
  },

  setFocus(at, take) {
    if (!this.elements.size) return;
    for (const before of this.root.querySelectorAll('[tabindex="0"]')) before.setAttribute("tabindex", "-1");
    this.current = this.elements.has(at) ? at : 0;
    const element = this.elements.get(this.current);
    element.setAttribute("tabindex", "0");
    if (take) element.focus({ preventScroll: true });
  },

  // From the picture to the text: to the finding, or to the fault, that a mark belongs to.
  follow(at) {
    const mark = this.scene.marks[at];
    const ids = [...[...mark.findings, ...mark.warnings].map((name) => `finding-${name}`), ...(mark.fault ? [`fault-${mark.fault}`] : [])];
    const target = ids.map((id) => document.getElementById(id)).find(Boolean);
    if (!target) {
      if (mark.t1 !== mark.t0) this.lookAt(mark.t0, mark.t1);
      return;
    }
    target.scrollIntoView({ block: "center" });
    target.focus({ preventScroll: true });
  },

  // From the text to the picture: show what a finding, or a fault, is about.
  show(finding, fault) {
    const { marks } = this.scene;
    const hits = marks.map((mark, at) => at).filter((at) =>
      finding ? [...marks[at].findings, ...marks[at].warnings].includes(finding) : marks[at].fault === Number(fault));
    if (!hits.length) return;
    this.hits = new Set(hits);
    const ends = hits.flatMap((at) => [marks[at].t0, ...(marks[at].t1 === null ? [] : [marks[at].t1])]);
    this.lookAt(Math.min(...ends), Math.max(...ends));
    document.getElementById("picture").scrollIntoView({ block: "start" });
    this.setFocus(hits[0], true);
  },

  // What the view is now, for the buttons, for those who listen, and the marks that a link led to.
  state() {
    const [a, b] = this.view;
    document.querySelector('[data-act="out"]').disabled = b - a >= 1;
    document.querySelector('[data-act="all"]').disabled = b - a >= 1;
    this.root.dataset.zoom = (1 / (b - a)).toFixed(2);
    for (const at of this.hits || []) this.elements.get(at).classList.add("shown");
  },
});
