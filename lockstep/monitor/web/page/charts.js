// Charts, each with its latest value in words and with a table of the same numbers.

const kMostTableRows = 40;

export function formatNumber(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return Number(value).toLocaleString("en", { maximumSignificantDigits: digits, useGrouping: Math.abs(value) >= 10000 });
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** An element with attributes and children; texts only ever become text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function row(cells, name) {
  return element("tr", {}, ...cells.map((cell, i) => element(i === 0 || name === "th" ? "th" : "td",
    i === 0 && name !== "th" ? { scope: "row" } : name === "th" ? { scope: "col" } : {}, cell)));
}

/** The frame that all charts share: a caption, a canvas, and a table that can be unfolded. */
class Figure {
  constructor(parent, id, title) {
    this.title = title;
    this.now = element("span", { class: "now" });
    this.canvas = element("canvas", { id: `${id}-canvas`, role: "img" });
    this.table = element("table", {}, element("caption", {}, title));
    this.details = element("details", {}, element("summary", {}, `Show ${title.toLowerCase()} as a table`),
      element("div", { class: "scroll", role: "region", "aria-label": `Table of ${title.toLowerCase()}`, tabindex: "0" }, this.table));
    this.root = element("figure", { id }, element("figcaption", {}, `${title} `, this.now),
      element("div", { class: "plot" }, this.canvas), this.details);
    // A table that nobody looks at is not made.
    this.details.addEventListener("toggle", () => this.fillTable());
    this.rows = () => [];
    parent.append(this.root);
  }

  describe(words) {
    this.now.textContent = words;
    this.canvas.setAttribute("aria-label", `${this.title}: ${words}`);
  }

  fillTable() {
    if (!this.details.open) return;
    const [head, ...rows] = this.rows();
    this.table.replaceChildren(this.table.caption, element("thead", {}, row(head, "th")),
      element("tbody", {}, ...rows.map(cells => row(cells, "td"))));
  }
}

function axis(title) {
  return { title: { display: true, text: title, color: colour("quiet") }, ticks: { color: colour("quiet"), maxTicksLimit: 6 },
           grid: { color: colour("line") } };
}

const kCommon = { animation: false, responsive: true, maintainAspectRatio: false };

/** A curve over steps. */
export class Curve {
  constructor(parent, { id, title, column, unit, colourName }) {
    this.column = column;
    this.unit = unit;
    this.colourName = colourName;
    this.figure = new Figure(parent, id, title);
    this.chart = new Chart(this.figure.canvas, {
      type: "line",
      data: { datasets: [{ label: title, data: [], pointRadius: 0, borderWidth: 2, tension: 0 }] },
      options: { ...kCommon, parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
                 plugins: { legend: { display: false } } },
    });
    this.useTheme();
  }

  useTheme() {
    this.chart.data.datasets[0].borderColor = colour(this.colourName);
    this.chart.options.scales = { x: { type: "linear", ...axis("step") }, y: axis(this.unit) };
    this.chart.update();
  }

  /** Each row has a step, and values that may be null. */
  show(rows) {
    const points = rows.map(row => ({ x: row[0], y: row[this.column] })).filter(point => point.y !== null);
    this.figure.root.hidden = points.length === 0;
    if (points.length === 0) return;
    this.chart.data.datasets[0].data = points;
    this.chart.update();
    const last = points[points.length - 1];
    this.figure.describe(`${formatNumber(last.y)}${this.unit === "%" ? " %" : ""} at step ${last.x}`);
    const every = Math.ceil(points.length / kMostTableRows);
    const chosen = points.filter((_, i) => (points.length - 1 - i) % every === 0).reverse();
    this.figure.rows = () => [["Step", this.figure.title], ...chosen.map(point => [`${point.x}`, formatNumber(point.y)])];
    this.figure.fillTable();
  }
}

const kShares = [["data", "waiting for data"], ["compute", "computing"], ["reduce", "reducing"], ["idle", "idle"]];
// Lines are told apart by more than their colours.
const kDashes = { data: [8, 3], compute: [], reduce: [2, 3], idle: [10, 3, 2, 3] };

/** Shares of time in the last seconds, a bar for each instance. */
export class Shares {
  constructor(parent) {
    this.figure = new Figure(parent, "time-shares", "Time shares of each instance now");
    this.chart = new Chart(this.figure.canvas, {
      type: "bar",
      data: { labels: [], datasets: kShares.map(([, label]) => ({ label, data: [] })) },
      options: { ...kCommon, indexAxis: "y", plugins: { legend: { position: "bottom" } } },
    });
    this.useTheme();
  }

  useTheme() {
    kShares.forEach(([name], i) => { this.chart.data.datasets[i].backgroundColor = colour(name); });
    this.chart.options.scales = { x: { stacked: true, max: 100, ...axis("% of the time") }, y: { stacked: true, ...axis("") } };
    this.chart.options.scales.y.ticks = { color: colour("text"), autoSkip: true };
    this.chart.options.plugins.legend.labels = { color: colour("text"), boxWidth: 14 };
    this.chart.update();
  }

  show(instances, slowest) {
    const timed = instances.filter(instance => instance.time);
    this.figure.root.hidden = timed.length === 0;
    if (timed.length === 0) return;
    const percent = (instance, name) => Math.max(0, (instance.time[name] ?? 0) * 100);
    this.chart.data.labels = timed.map(instance => `${instance.index}${instance.index === slowest ? " slowest" : ""}`);
    kShares.forEach(([name], i) => { this.chart.data.datasets[i].data = timed.map(instance => percent(instance, name)); });
    this.chart.canvas.parentNode.style.height = `${Math.min(40, 8 + 2 * timed.length)}rem`;
    this.chart.update();
    this.figure.describe(slowest === null ? `of ${timed.length} instances` : `of ${timed.length} instances; instance ${slowest} is the slowest`);
    this.figure.rows = () => [["Instance", ...kShares.map(([, label]) => `${label}, %`)],
      ...timed.map(instance => [`${instance.index}${instance.index === slowest ? " (slowest)" : ""}`,
        ...kShares.map(([name]) => percent(instance, name).toFixed(0))])];
    this.figure.fillTable();
  }
}

/** Shares of the time of one instance over steps: of the one that is chosen, or of the slowest. */
export class ShareCurves {
  constructor(parent) {
    this.figure = new Figure(parent, "share-curves", "Time shares over steps");
    this.choice = element("select", { id: "share-instance" });
    this.choice.addEventListener("change", () => this.draw());
    this.figure.root.firstElementChild.after(element("label", { for: "share-instance" }, "Instance "), this.choice);
    this.chart = new Chart(this.figure.canvas, {
      type: "line",
      data: { datasets: kShares.map(([name, label]) => ({ label, data: [], pointRadius: 0, borderWidth: 2, borderDash: kDashes[name], tension: 0 })) },
      options: { ...kCommon, parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
                 plugins: { legend: { position: "bottom" } } },
    });
    this.useTheme();
  }

  useTheme() {
    kShares.forEach(([name], i) => { this.chart.data.datasets[i].borderColor = colour(name); });
    this.chart.options.scales = { x: { type: "linear", ...axis("step") }, y: { min: 0, max: 100, ...axis("% of the time") } };
    this.chart.options.plugins.legend.labels = { color: colour("text"), boxWidth: 30, boxHeight: 0 };
    this.chart.update();
  }

  /** Each row has a step, and for each instance whose shares are known then, the four shares in percent. */
  show(rows, slowest) {
    this.rows = rows;
    this.slowest = slowest;
    const indices = Object.keys(Object.assign({}, ...rows.map(([, instances]) => instances)));
    this.figure.root.hidden = indices.length === 0;
    if (indices.length === 0) return;
    if (this.choice.dataset.key !== `${indices}`) {  // an element that is made anew loses the focus
      this.choice.dataset.key = `${indices}`;
      const chosen = this.choice.value;
      this.choice.replaceChildren(element("option", { value: "" }, "the slowest, or the first"), ...indices.map(index => element("option", { value: index }, index)));
      this.choice.value = indices.includes(chosen) ? chosen : "";
    }
    this.draw();
  }

  draw() {
    const isKnown = index => this.rows.some(([, instances]) => index in instances);
    const index = this.choice.value || (isKnown(`${this.slowest}`) ? `${this.slowest}` : this.choice.options[1].value);
    const known = this.rows.filter(([, instances]) => index in instances).map(([step, instances]) => [step, ...instances[index]]);
    kShares.forEach((_, line) => { this.chart.data.datasets[line].data = known.map(row => ({ x: row[0], y: row[line + 1] })); });
    this.chart.update();
    const [step, ...last] = known[known.length - 1];
    this.figure.describe(`of instance ${index}: ${kShares.map(([, label], line) => `${label} ${last[line]} %`).join(", ")} at step ${step}`);
    const every = Math.ceil(known.length / kMostTableRows);
    const rows = known.filter((_, i) => (known.length - 1 - i) % every === 0).reverse();
    this.figure.rows = () => [["Step", ...kShares.map(([, label]) => `${label}, %`)], ...rows.map(row => row.map(value => `${value}`))];
    this.figure.fillTable();
  }
}
