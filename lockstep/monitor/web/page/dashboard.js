// What the page does: it follows the jobs of the server and shows the job that is chosen. Texts of jobs
// only ever become text, never markup.

import { Curve, ShareCurves, Shares, element, formatNumber } from "./charts.js";
import { drawTopology } from "./topology.js";

const kThemes = ["system", "light", "dark"];
const kThemeWords = { system: "as the system", light: "light", dark: "dark" };

const byId = id => document.getElementById(id);
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

let state = { jobs: [] };
let chosen = jobInAddress();
let charts = null;

/** What a stranger's link has behind its # need not be anything. */
function jobInAddress() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

// Themes.

function storedTheme() {
  try { return localStorage.getItem("lockstep-theme") ?? "system"; } catch { return "system"; }
}

function applyTheme(theme) {
  const isDark = theme === "dark" || (theme !== "light" && systemIsDark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  byId("theme").textContent = `Theme: ${kThemeWords[theme]}`;
  charts?.all.forEach(chart => chart.useTheme());
}

function nextTheme() {
  const theme = kThemes[(kThemes.indexOf(storedTheme()) + 1) % kThemes.length];
  try { localStorage.setItem("lockstep-theme", theme); } catch { /* then it lasts as long as the page */ }
  applyTheme(theme);
}

// What is said of a job.

function factsOf(job) {
  return [["State", job.state], ["Epoch", job.epoch && formatNumber(job.epoch, 8)], ["Step", job.step !== undefined && formatNumber(job.step, 8)],
    ["Loss", job.loss !== undefined && formatNumber(job.loss)], ["Accuracy", job.accuracy !== undefined && `${formatNumber(job.accuracy, 3)} %`],
    ["Samples/s", job.samples_per_second !== undefined && formatNumber(job.samples_per_second)],
    ["Restarts", job.restarts !== undefined && `${job.restarts}`], ["User", job.user]].filter(([, value]) => value);
}

/** How the job has ended. The text is set only when it changes, so that a screen reader reads it once. */
function showEnd(job) {
  const line = byId("end");
  const words = job.state === "ended" ? `This job has ended: ${job.end?.text ?? "the exit code is unknown"}.` : "";
  line.hidden = words === "";
  line.dataset.result = job.end?.exit_code === undefined ? "unknown" : job.end.exit_code === 0 ? "good" : "bad";
  if (line.textContent !== words) line.textContent = words;
}

function showFacts(job) {
  byId("job-name").textContent = job.name ?? job.id;
  showEnd(job);
  byId("bottleneck").textContent = job.bottleneck ?? "";
  byId("facts").replaceChildren(...factsOf(job).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function instanceRow(instance, slowest, isRunning) {
  const name = element("th", { scope: "row" }, `${instance.index}`);
  if (instance.index === slowest) name.append(element("span", { class: "mark" }, "slowest"));
  if (isRunning && instance.alive === false) name.append(element("span", { class: "mark dead" }, "gone"));
  const cells = [instance.host, instance.replicas.map(replica => replica.index).join(", "), instance.replicas[0]?.stages.length || "–",
    instance.phase ?? "–", formatNumber(instance.step, 8), formatNumber(instance.samples_per_second),
    instance.cpu_percent === undefined ? "–" : `${formatNumber(instance.cpu_percent, 3)} %`,
    instance.memory_mib === undefined ? "–" : `${formatNumber(instance.memory_mib)} MiB`, `${instance.pid ?? "–"}`];
  return element("tr", instance.index === slowest ? { class: "slowest" } : {}, name, ...cells.map(cell => element("td", {}, `${cell}`)));
}

function eventWords(event) {
  const { time, unix, event: kind, instance, step, ...more } = event;
  const parts = [instance === undefined ? "" : `instance ${instance}`, step === undefined ? "" : `after step ${step}`,
    ...Object.entries(more).map(([name, value]) => `${name.replaceAll("_", " ")}: ${typeof value === "object" ? JSON.stringify(value) : value}`)];
  return parts.filter(part => part).join(", ");
}

/** Appends what is new, so that a screen reader reads that alone. */
function showEvents(job) {
  const list = byId("events");
  const events = (job.events ?? []).map(event => JSON.stringify(event));
  const shown = [...list.children].map(item => item.dataset.key);
  const overlap = shown.length > 0 && list.dataset.job === job.id ? events.lastIndexOf(shown[shown.length - 1]) : -1;
  if (overlap < 0) list.replaceChildren();
  list.dataset.job = job.id;
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  for (const key of events.slice(overlap + 1)) {
    const event = JSON.parse(key);
    const item = element("li", { class: `${event.event}`.replace(/[^a-z_-]/g, "") },
      element("time", {}, `${event.time ?? ""}`.slice(11, 19)), " ", element("strong", {}, `${event.event}`), ` ${eventWords(event)}`);
    item.dataset.key = key;
    list.append(item);
  }
  while (list.children.length > 100) list.firstElementChild.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
  byId("no-events").hidden = list.children.length > 0;
  list.hidden = list.children.length === 0;
}

// The page.

function makeCharts() {
  const curves = byId("curves");
  const loss = new Curve(curves, { id: "loss", title: "Loss", column: 1, unit: "", colourName: "accent" });
  const accuracy = new Curve(curves, { id: "accuracy", title: "Accuracy", column: 2, unit: "%", colourName: "good" });
  const speed = new Curve(curves, { id: "speed", title: "Samples per second", column: 3, unit: "samples/s", colourName: "reduce" });
  const shares = new Shares(byId("shares"));
  const shareCurves = new ShareCurves(byId("shares"));
  return { curves: [loss, accuracy, speed], shares, shareCurves, all: [loss, accuracy, speed, shares, shareCurves] };
}

/** "running", "ended" or, where the exit code is known, "ended with exit code 1". */
function stateOf(job) {
  return job.end?.exit_code ? `ended with exit code ${job.end.exit_code}` : job.state ?? "unknown";
}

function showJobs() {
  const list = byId("jobs");
  const key = JSON.stringify([chosen, state.jobs.map(job => [job.id, job.name, stateOf(job)])]);
  if (list.dataset.key === key) return;  // a button that is made anew loses the focus
  list.dataset.key = key;
  const focused = document.activeElement?.dataset?.job;
  list.replaceChildren(...state.jobs.map(job => {
    const button = element("button", { type: "button", "aria-current": `${job.id === chosen}` }, job.name ?? job.id, " ",
      element("span", { class: "state" }, `(${stateOf(job)})`));
    button.dataset.job = job.id;
    button.addEventListener("click", () => choose(job.id));
    return element("li", {}, button);
  }));
  if (focused) [...list.querySelectorAll("button")].find(button => button.dataset.job === focused)?.focus();
}

function choose(id) {
  chosen = id;
  history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  show();
}

function showJob(job) {
  const slowest = job.slowest ?? null;  // the instance that the others wait for
  const instances = job.instances;
  showFacts(job);
  const picture = byId("topology");
  drawTopology(picture, job, slowest, picture.parentNode.clientWidth);
  charts ??= makeCharts();
  charts.curves.forEach(curve => curve.show(job.curves));
  charts.shares.show(instances, slowest);
  charts.shareCurves.show(job.share_curves, slowest);
  byId("instances").tBodies[0].replaceChildren(...instances.map(instance => instanceRow(instance, slowest, job.state !== "ended")));
  showEvents(job);
}

function show() {
  const job = state.jobs.find(candidate => candidate.id === chosen) ?? state.jobs[0];
  chosen = job?.id ?? chosen;
  byId("problem").hidden = !state.problem;
  if (state.problem && byId("problem").textContent !== state.problem) byId("problem").textContent = state.problem;
  byId("nothing").hidden = state.jobs.length > 0;
  byId("content").hidden = !job;
  document.title = job ? `${job.name ?? job.id} – lockstep` : "lockstep";
  showJobs();
  if (job) showJob(job);
}

function say(connection, words) {
  const line = byId("connection");
  if (line.dataset.state === connection) return;
  line.dataset.state = connection;
  line.textContent = words;
}

/** A dashboard that was started for a job ends with that job. The page then keeps the last state. */
function sayLost() {
  const hasEnded = state.jobs.length > 0 && state.jobs.every(job => job.state === "ended");
  if (hasEnded) say("ended", "The dashboard has ended; this is the last state");
  else say("lost", "No connection; trying again …");
}

/** Asks for the jobs again and again. The server holds an answer back until the jobs have changed, for seconds at most. */
async function follow() {
  const ready = { cache: "no-store", headers: {} };
  while (true) {
    try {
      const answer = await fetch("/api/jobs", ready);
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(answer.statusText);
        state = await answer.json();
        const tag = answer.headers.get("ETag");
        ready.headers = tag ? { "If-None-Match": tag, Prefer: "wait" } : {};
        if (!tag) await new Promise(wake => setTimeout(wake, 1000));  // a proxy has removed the tag
        if (!document.hidden) setTimeout(show);  // after the next request, so that no change is missed
      }
      say("live", "Live");
    } catch {
      sayLost();
      ready.headers = {};
      await new Promise(wake => setTimeout(wake, 3000));
    }
  }
}

byId("theme").addEventListener("click", nextTheme);
systemIsDark.addEventListener("change", () => applyTheme(storedTheme()));
document.addEventListener("visibilitychange", () => { if (!document.hidden) show(); });
addEventListener("resize", () => show());
applyTheme(storedTheme());
follow();
