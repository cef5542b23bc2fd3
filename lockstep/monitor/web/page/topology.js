// Image of the topology: hosts, instances, replicas and stages. A box is as large as its contents. Hosts
// are side by side if the page is wide enough.

const kSvg = "http://www.w3.org/2000/svg";
const kStage = { width: 34, height: 24 };
const kGap = 8;
const kTitle = 20;
const kMostReplicasInARow = 4;

function add(parent, name, attributes, text) {
  const element = document.createElementNS(kSvg, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

/** Places boxes within their parent, from left to right, in rows no wider than `most`; returns the room that they take. */
function placeInRows(boxes, most, x, y) {
  let left = x, top = y, rowHeight = 0, width = 0;
  for (const box of boxes) {
    if (left > x && left + box.width > x + most) {
      left = x;
      top += rowHeight + kGap;
      rowHeight = 0;
    }
    box.x = left;
    box.y = top;
    left += box.width + kGap;
    rowHeight = Math.max(rowHeight, box.height);
    width = Math.max(width, box.x + box.width - x);
  }
  return { width, height: top + rowHeight - y };
}

function boxAround(kind, label, children, most, fewest) {
  const inner = placeInRows(children, most, kGap, kTitle + kGap);
  return { kind, label, children, x: 0, y: 0,
           width: Math.max(inner.width, fewest) + 2 * kGap, height: inner.height + kTitle + 2 * kGap };
}

function stageBox(device, index) {
  return { kind: "stage", label: `${index}`, hint: `stage ${index}${device ? ` on ${device}` : ""}`,
           x: 0, y: 0, ...kStage, children: [] };
}

function replicaBox(replica) {
  return boxAround("replica", `replica ${replica.index}`, replica.stages.map(stageBox), 8 * (kStage.width + kGap), 58);
}

function instanceBox(instance, slowest, isRunning) {
  const replicas = instance.replicas.map(replicaBox);
  const widest = Math.max(58, ...replicas.map(replica => replica.width));
  const isSlowest = instance.index === slowest;
  // In a job that has ended all instances are gone; only in a running job this is a warning.
  const isGone = isRunning && instance.alive === false;
  const state = isGone ? " (gone)" : isSlowest ? " (slowest)" : "";
  const box = boxAround("instance", `instance ${instance.index}${state}`, replicas,
                        kMostReplicasInARow * (widest + kGap), 130);
  box.extra = `${isSlowest ? " slowest" : ""}${isGone ? " dead" : ""}`;
  return box;
}

function draw(parent, box) {
  const group = add(parent, "g", { transform: `translate(${box.x} ${box.y})` });
  add(group, "rect", { class: box.kind + (box.extra ?? ""), width: box.width, height: box.height, rx: 4 });
  if (box.kind === "stage") {
    add(group, "text", { class: "in-stage", x: box.width / 2, y: 16 }, box.label);
    add(group, "title", {}, box.hint);
  } else {
    add(group, "text", { class: box.kind === "replica" ? "" : "strong", x: kGap, y: 17 }, box.label);
  }
  for (const child of box.children) draw(group, child);
}

/** The hosts in the order of their first instances, each with its instances. */
function hostsOf(job) {
  const hosts = new Map();
  for (const instance of job.instances) hosts.set(instance.host, [...(hosts.get(instance.host) ?? []), instance]);
  return [...hosts];
}

function describe(hosts, slowest) {
  const instances = hosts.flatMap(([, instances]) => instances);
  const replicas = instances.flatMap(instance => instance.replicas);
  const stages = replicas[0]?.stages.length ?? 0;
  const marked = slowest === null ? "" : ` Instance ${slowest} is the slowest.`;
  return `${hosts.length} hosts, ${instances.length} instances, ${replicas.length} replicas of ${stages} stages.${marked}` +
         " The table of instances has the same in words.";
}

/** Draws the topology of a job into an SVG element, no wider than `width` where it can be. */
export function drawTopology(svg, job, slowest, width) {
  // Drawn anew only where something in it has changed: it would lose a screen reader's place.
  const isRunning = job.state !== "ended";
  const key = JSON.stringify([job.id, isRunning, slowest, width,
    job.instances.map(instance => [instance.host, instance.index, instance.alive, instance.replicas])]);
  if (svg.dataset.key === key) return;
  svg.dataset.key = key;
  const hosts = hostsOf(job);
  const boxes = hosts.map(([name, instances]) => boxAround(
    "host", name, instances.map(instance => instanceBox(instance, slowest, isRunning)), Math.max(width - 2 * kGap, 1), 100));
  const room = placeInRows(boxes, width, 0, 0);
  const title = svg.querySelector("title");
  svg.replaceChildren(title);
  title.textContent = describe(hosts, slowest);
  svg.setAttribute("width", Math.max(room.width, 1));
  svg.setAttribute("height", Math.max(room.height, 1));
  svg.setAttribute("viewBox", `0 0 ${Math.max(room.width, 1)} ${Math.max(room.height, 1)}`);
  for (const box of boxes) draw(svg, box);
}
