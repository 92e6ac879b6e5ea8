"use strict";
// Small helpers. Text goes into the document as text only (textContent), never as markup.
const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text, size = 12, bold = false) {
  ruler.font = `${bold ? "bold " : ""}${size}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}

function toneClass(tone) {
  return tone < 0 ? "unowned" : `tone${tone % 10}`;
}

// 1, 2 or 5 times a power of ten, at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999999);
}

function niceTicks(from, to, count) {
  const step = niceStep(Math.max(to - from, 1e-9) / Math.max(count, 1));
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to * (1 + 1e-12); n++) ticks.push(n * step);
  return { step, ticks };
}

// A time in ns as it stands on an axis: in s where the axis reaches beyond 100 s, else in ms.
function timeLabel(ns, step, inSeconds) {
  const unit = inSeconds ? 1e9 : 1e6;
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const [whole, part] = (ns / unit).toFixed(Math.min(digits, 6)).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return part ? `${grouped}.${part}` : grouped;
}

function circled(number) {
  return number >= 1 && number <= 20 ? String.fromCodePoint(0x245f + number) : `(${number})`;
}

// One explanation at a time, beside what the pointer or the focus is on; Escape takes it away.
const tip = {
  box: document.getElementById("tip"),
  show(lines, place) {
    this.box.replaceChildren(
      ...lines.map((line) => {
        const row = document.createElement("div");
        row.textContent = line;
        return row;
      }),
    );
    this.box.hidden = false;
    const own = this.box.getBoundingClientRect();
    const wide = document.documentElement.clientWidth;
    const left = Math.max(8, Math.min(place.left, wide - own.width - 8));
    const below = place.bottom + 8;
    const top = below + own.height < window.innerHeight ? below : Math.max(8, place.top - own.height - 8);
    this.box.style.left = `${left + window.scrollX}px`;
    this.box.style.top = `${top + window.scrollY}px`;
  },
  hide() {
    this.box.hidden = true;
  },
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hide();
});

// What has an explanation shows it under the pointer and when it has the focus.
function explain(element, lines) {
  const shown = () => tip.show(lines, visibleBox(element));
  element.addEventListener("pointerenter", shown);
  element.addEventListener("focus", shown);
  element.addEventListener("pointerleave", () => tip.hide());
  element.addEventListener("blur", () => tip.hide());
}

// Where an element is on the screen, without what is clipped away beside its picture.
function visibleBox(element) {
  const box = element.getBoundingClientRect();
  const around = element.ownerSVGElement.getBoundingClientRect();
  return { left: Math.max(box.left, around.left), top: box.top, bottom: box.bottom };
}

// Arrow keys lead from one focusable thing of a picture to the next; Tab leaves it.
function roving(elements) {
  elements.forEach((element, at) => element.setAttribute("tabindex", at ? "-1" : "0"));
  return (to) => {
    elements.forEach((element) => element.setAttribute("tabindex", element === to ? "0" : "-1"));
    to.focus();
  };
}
