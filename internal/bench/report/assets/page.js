// Draws the plots of a report and lets its reader choose targets. The page's template defines `report`:
// the targets with their colours, and the plots.

const root = document.documentElement;
const hidden = new Set(); // indexes of targets that are not shown
const drawn = new Map(); // plot element -> uPlot
const byID = new Map(report.plots.map((p) => [p.id, p]));
const darkWanted = matchMedia("(prefers-color-scheme: dark)");
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const hue = (target) => css("--h" + report.targets[target].hue);
const dash = (target) => dashes[report.targets[target].dash % dashes.length];

// short prints three significant digits.
function short(v) {
  if (v === 0) return "0";
  const a = Math.abs(v);
  if (a >= 999.5e6) return short(v / 1e9) + "G";
  if (a >= 999.5e3) return short(v / 1e6) + "M";
  if (a >= 9995) return short(v / 1e3) + "k";
  return String(Number(v.toPrecision(a >= 1000 ? 4 : 3)));
}

// axis is what both axes of all plots share.
function axis(more) {
  return {
    stroke: css("--soft"),
    font: "12px " + css("--sans"),
    labelFont: "12px " + css("--sans"),
    grid: { stroke: css("--line"), width: 1 },
    ticks: { stroke: css("--line"), width: 1, size: 4 },
    labelSize: 18,
    labelGap: 0,
    gap: 4,
    ...more,
  };
}

// powers are the ticks of a logarithmic axis: 1, 10, 100; with 2 and 5 between where there are few.
function powers(low, high) {
  const out = [];
  const steps = Math.log10(high / low) > 2.6 ? [1] : [1, 2, 5];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const s of steps) {
      const v = s * 10 ** e;
      if (v >= low * 0.999 && v <= high * 1.001) out.push(v);
    }
  }
  return out.length > 1 ? out : [low, high];
}

// yRange leaves some room, and starts at zero where the axis is linear.
function yRange(p) {
  if (!p.yLog) return [0, p.yMax > 0 ? p.yMax * 1.06 : 1];
  const low = p.yMin * 0.85, high = p.yMax * 1.15;
  return high > low ? [low, high] : [low, low * 10];
}

function xRange(p) {
  const low = p.x[0], high = p.x[p.x.length - 1];
  if (p.kind === "curve") return [1, high * 1.25];
  if (p.xLog) return [low / 1.08, high * 1.08];
  const room = (high - low) * 0.04 || 1;
  return [low - room, high + room];
}

// spaced drops ticks whose labels would meet.
function spaced(u, ticks, width) {
  const out = [];
  let last = -Infinity;
  for (const t of ticks) {
    const at = u.valToPos(t.at, "x");
    if (at - last >= width) {
      out.push(t);
      last = at;
    }
  }
  return out;
}

// tooltip shows the values under the cursor.
function tooltip(p) {
  const box = document.createElement("div");
  box.className = "tip";
  return {
    hooks: {
      ready: (u) => u.over.appendChild(box),
      setCursor: (u) => {
        const i = u.cursor.idx;
        const rows = [];
        for (const [n, s] of p.series.entries()) {
          if (i != null && s.y[i] != null && !hidden.has(s.target)) rows.push([s, n]);
        }
        if (!rows.length || u.cursor.left < 0) {
          box.style.display = "none";
          return;
        }
        rows.sort((a, b) => b[0].y[i] - a[0].y[i]);
        const tick = p.ticks.find((t) => t.at === p.x[i]);
        const head = document.createElement("p");
        head.textContent = p.kind === "curve" ? percentileAt(p.x[i]) : p.xLabel + " " + (tick ? tick.label : short(p.x[i]));
        box.replaceChildren(head, ...rows.map(([s]) => {
          const row = document.createElement("div");
          const name = document.createElement("span");
          const mark = document.createElement("span");
          mark.className = "swatch h" + report.targets[s.target].hue;
          const value = document.createElement("span");
          const range = s.low && s.low[i] !== s.high[i] ? " (" + short(s.low[i]) + "–" + short(s.high[i]) + ")" : "";
          name.append(mark, report.targets[s.target].name);
          value.textContent = short(s.y[i]) + " " + p.yLabel + range;
          row.append(name, value);
          return row;
        }));
        box.style.display = "block";
        const w = box.offsetWidth, h = box.offsetHeight, left = u.cursor.left, wide = u.over.clientWidth;
        box.style.left = Math.max(-40, left + w + 16 > wide ? left - w - 12 : left + 12) + "px";
        box.style.top = Math.max(0, Math.min(u.cursor.top, u.over.clientHeight - h)) + "px";
      },
    },
  };
}

function percentileAt(x) {
  if (x >= 100000) return "maximum";
  return "p" + Number((100 - 100 / x).toFixed(4));
}

// lines are the options of curve and scale plots.
function lines(p, width, height) {
  const options = {
    width, height,
    padding: [8, p.kind === "scale" ? 24 : 12, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 7 } },
    scales: {
      x: { time: false, distr: p.xLog ? 3 : 1, log: 10, range: () => xRange(p) },
      y: { distr: p.yLog ? 3 : 1, log: 10, range: () => yRange(p) },
    },
    axes: [
      axis({
        label: p.xLabel,
        size: 26,
        splits: (u) => spaced(u, p.ticks, p.kind === "curve" ? 30 : 26).map((t) => t.at),
        filter: (u, splits) => splits,
        values: (u, splits) => splits.map((v) => (p.ticks.find((t) => t.at === v) || { label: "" }).label),
      }),
      axis({
        label: p.yLabel,
        size: 48,
        ...(p.yLog ? { splits: (u, i, low, high) => powers(low, high), filter: (u, splits) => splits } : {}),
        values: (u, splits) => splits.map(short),
      }),
    ],
    series: [{}],
    bands: [],
    plugins: [tooltip(p)],
  };
  const data = [p.x];
  for (const s of p.series) {
    const color = hue(s.target), n = data.length, show = !hidden.has(s.target);
    options.series.push({ stroke: color, width: 2, dash: dash(s.target), show, points: { show: p.kind === "scale", size: 6, fill: color, stroke: color }, spanGaps: false });
    options.series.push({ stroke: "transparent", width: 0, show, points: { show: false } }, { stroke: "transparent", width: 0, show, points: { show: false } });
    options.bands.push({ series: [n + 2, n + 1], fill: color + "22" });
    data.push(s.y, s.low, s.high);
  }
  return [options, data];
}

// overlap says whether two boxes [x, y, w, h] meet.
const overlap = (a, b) => a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3];

// within shortens a text to a width.
function within(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && c.measureText(text.slice(0, n) + "…").width > width) n--;
  return text.slice(0, n) + "…";
}

// labelled draws the points of the two axes with their names, where there is room for these without hiding others; the colours
// say the rest.
function labelled(p) {
  return (u) => {
    const c = u.ctx, k = devicePixelRatio, taken = [], points = [];
    c.save();
    for (const [n, s] of p.series.entries()) {
      if (hidden.has(s.target)) continue;
      const i = s.y.findIndex((v) => v != null);
      const at = { x: u.valToPos(p.x[i], "x", true), y: u.valToPos(s.y[i], "y", true), n, s };
      points.push(at);
      taken.push([at.x - 9 * k, at.y - 9 * k, 18 * k, 18 * k]);
    }
    for (const { x, y, n, s } of points) {
      c.beginPath();
      c.arc(x, y, 9 * k, 0, 2 * Math.PI);
      c.fillStyle = css("--card");
      c.fill();
      c.lineWidth = 2 * k;
      c.strokeStyle = hue(s.target);
      c.stroke();
      c.fillStyle = hue(s.target);
      c.font = 600 + " " + 12 * k + "px " + css("--sans");
      c.textAlign = "center";
      c.textBaseline = "middle";
      grade(c, p.marks[n].symbol, x, y, 9 * k);
    }
    c.font = 600 + " " + 13 * k + "px " + css("--sans");
    c.textAlign = "left";
    for (const { x, y, n, s } of points) {
      const text = within(c, p.marks[n].label, u.bbox.width * 0.35), w = c.measureText(text).width, h = 16 * k, far = 14 * k;
      const places = [[x + far, y - h / 2], [x - far - w, y - h / 2]];
      for (let step = 1; step < 8; step++) {
        for (const way of [-1, 1]) {
          const ly = y - h / 2 + way * (10 + 9 * step) * k;
          places.push([x - w / 2, ly], [x + far, ly], [x - far - w, ly]);
        }
      }
      const inside = ([lx, ly]) => lx >= u.bbox.left && lx + w <= u.bbox.left + u.bbox.width && ly >= u.bbox.top && ly + h <= u.bbox.top + u.bbox.height;
      const place = places.find((q) => inside(q) && !taken.some((t) => overlap(t, [q[0], q[1], w, h])));
      if (!place) continue;
      taken.push([...place, w, h]);
      c.fillStyle = hue(s.target);
      c.fillText(text, place[0], place[1] + h / 2);
    }
    c.restore();
  };
}

// grade draws the sign of a durability inside a point, since fonts differ in what they have.
function grade(c, symbol, x, y, r) {
  c.beginPath();
  if (symbol === "●") {
    c.arc(x, y, r * 0.62, 0, 2 * Math.PI);
    c.fill();
  } else if (symbol === "◐") {
    c.arc(x, y, r * 0.62, Math.PI / 2, 1.5 * Math.PI);
    c.fill();
  } else if (symbol === "∅") {
    c.moveTo(x - r * 0.5, y + r * 0.5);
    c.lineTo(x + r * 0.5, y - r * 0.5);
    c.stroke();
  } else if (symbol !== "○") {
    c.fillText(symbol, x, y + r * 0.06);
  }
}

// scatter are the options of the two axes.
function scatter(p, width, height) {
  const low = Math.min(0.8, p.x[0] / 1.35), high = Math.max(1.25, p.x[p.x.length - 1] * 1.35);
  const options = {
    width, height,
    padding: [14, 14, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, distr: 3, log: 10, range: () => [low, high] },
      y: { range: () => [-0.06, 1.06] },
    },
    axes: [
      axis({
        label: p.xLabel,
        size: 26,
        splits: () => powers(low, high),
        filter: (u, splits) => splits,
        values: (u, splits) => splits.map((v) => short(v) + "×"),
      }),
      axis({ label: p.yLabel, size: 56, splits: () => [0, 0.25, 0.5, 0.75, 1], values: (u, splits) => splits.map((v) => Math.round(v * 100) + " %") }),
    ],
    series: [{}, ...p.series.map(() => ({ stroke: "transparent", points: { show: false } }))],
    hooks: { draw: [labelled(p)] },
  };
  return [options, [p.x, ...p.series.map((s) => s.y)]];
}

// draw makes or remakes one plot.
function draw(figure) {
  const box = figure.querySelector(".canvas"), p = byID.get(figure.dataset.plot);
  if (!p || !box.clientWidth) return;
  drawn.get(figure)?.destroy();
  const make = p.kind === "axes" ? scatter : lines;
  const [options, data] = make(p, box.clientWidth, box.clientHeight);
  drawn.set(figure, new uPlot(options, data, box));
}

const figures = [...document.querySelectorAll("figure.plot")];
const drawAll = () => figures.forEach(draw);

function theme(name) {
  root.dataset.theme = name;
  drawAll();
}

theme(darkWanted.matches ? "dark" : "light");
darkWanted.addEventListener("change", (e) => theme(e.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));

// Paper is white.
let before = "light";
addEventListener("beforeprint", () => { before = root.dataset.theme; theme("light"); });
addEventListener("afterprint", () => theme(before));

const sizes = new ResizeObserver((entries) => entries.forEach((e) => {
  const figure = e.target.closest("figure"), u = drawn.get(figure), w = e.target.clientWidth;
  if (!w) return;
  if (!u) draw(figure);
  else if (Math.abs(u.width - w) > 1 || Math.abs(u.height - e.target.clientHeight) > 1) u.setSize({ width: w, height: e.target.clientHeight });
}));
figures.forEach((f) => sizes.observe(f.querySelector(".canvas")));

for (const b of document.querySelectorAll("[data-toggle]")) {
  b.addEventListener("click", () => {
    const target = Number(b.dataset.toggle);
    if (!hidden.delete(target)) hidden.add(target);
    b.setAttribute("aria-pressed", String(!hidden.has(target)));
    for (const e of document.querySelectorAll(`[data-target="${target}"]`)) e.classList.toggle("off", hidden.has(target));
    drawAll();
  });
}

document.getElementById("save").addEventListener("click", () => {
  const text = JSON.stringify(JSON.parse(document.getElementById("run").textContent), null, 1) + "\n";
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  a.download = "godwit-bench.json";
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
});
