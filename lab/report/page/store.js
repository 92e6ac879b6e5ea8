// The store's lane: what it carried out, in the order of time, no mark over another.
const STORED = new Set(["accepted", "rejected", "announced"]);

// How wide a mark is.
function storedWidth(mark) {
  return mark.kind === "accepted" ? Math.max(18, textWidth(mark.label, 11, true) + 8) : 14;
}

function storedKey(time, tone) {
  return `${time} ${tone}`;
}

// Where each mark goes, by `storedKey`: as near as can be to its time, side by side where they would overlap.
function placeStored(marks, x, left, right) {
  const stored = marks.filter((mark) => STORED.has(mark.kind) && x(mark.t0) >= left && x(mark.t0) <= right);
  const edge = ({ edges, wide }) => {
    const mean = edges.reduce((a, b) => a + b) / edges.length;
    return Math.max(Math.min(mean, right - wide), left);
  };
  const blocks = [];
  for (const mark of stored.sort((a, b) => a.t0 - b.t0)) {
    const wide = storedWidth(mark) + 3;
    let block = { edges: [x(mark.t0) - wide / 2], wide, marks: [mark] };
    while (blocks.length && edge(blocks.at(-1)) + blocks.at(-1).wide > edge(block)) {
      const before = blocks.pop();
      const edges = [...before.edges, ...block.edges.map((at) => at - before.wide)];
      block = { edges, wide: before.wide + block.wide, marks: [...before.marks, ...block.marks] };
    }
    blocks.push(block);
  }
  const places = new Map();
  for (const block of blocks) {
    let at = edge(block);
    for (const mark of block.marks) {
      const wide = storedWidth(mark) + 3;
      places.set(storedKey(mark.t0, mark.tone), at + wide / 2);
      at += wide;
    }
  }
  return places;
}

// A version in a box, a diamond for a token that was announced, a cross for what was rejected.
function storedShape(mark, group, middle, top, center, cross) {
  if (mark.kind === "rejected") return cross(middle, center, 6);
  if (mark.kind === "announced") {
    return svg("path", { d: `M${middle} ${center - 7}l7 7l-7 7l-7 -7z`, class: "shape" }, group);
  }
  const half = storedWidth(mark) / 2;
  svg("rect", { x: middle - half, y: top + 3, width: 2 * half, height: 20, rx: 2, class: "shape" }, group);
  const place = { x: middle, y: center + 4, class: "version", "text-anchor": "middle" };
  return svg("text", place, group, mark.label);
}
