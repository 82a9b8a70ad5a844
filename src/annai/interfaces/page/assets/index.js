// Watching the index: collections, what waits, what was left out, and a map of it all.

import { attempt, byId, bytes, element, number, say } from "./dom.js";
import { call } from "./rpc.js";
import { go } from "./page.js";
import { rectangles } from "./treemap.js";

const SVG = "http://www.w3.org/2000/svg";
const MAP = { width: 960, height: 320, most: 150 };
const QUEUE_LINES = 10;
const MOST_LINES = 200;

let most = 0;
let waiting = 0;
let mapped = { collection: "", path: "" };
let again = 0;

export function show() {
  document.title = `${say("index")} – annai`;
  attempt(load);
}

/** How far the indexing has come: the most that waited at once is all there is to do. */
export function onNews(news) {
  waiting = news.waiting;
  most = waiting ? Math.max(most, waiting) : 0;
  const progress = byId("progress");
  progress.max = most || 1;
  progress.value = most ? most - waiting : 1;
  byId("progress-text").textContent = waiting
    ? `${say("reindexing", { done: most - waiting, total: most })} ${news.indexing[0] ?? ""}`
    : say("up_to_date");
}

export function onChange() {
  // While much is indexed, news come several times a second.
  clearTimeout(again);
  again = setTimeout(() => attempt(load), 300);
}

byId("reindex").addEventListener("click", () => attempt(async () => {
  const { collections } = await call("get_status");
  for (const { collection } of collections.filter((each) => each.collection.enabled)) {
    await call("index_document", { path: `${collection.name}:.`, force: true });
  }
}));

byId("add-collection").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    await call("add_collection", Object.fromEntries(new FormData(event.target)));
    event.target.reset();
    await load();
  });
});

async function load() {
  const [project, status, queue] = await Promise.all([call("get_project"), call("get_status"), call("get_requests", { limit: QUEUE_LINES })]);
  // Only what the token allows is offered.
  byId("reindex").hidden = project.read_only;
  byId("adding").hidden = !project.can_add;
  drawCollections(status.collections, project.read_only);
  drawTrouble(status.collections);
  drawQueue(queue);
  drawAbout(status);
  const names = status.collections.map((each) => each.collection.name);
  if (!names.includes(mapped.collection)) mapped = { collection: names[0], path: "" };
  await drawMap(names);
}

function fill(table, rows) {
  byId(table).querySelector("tbody").replaceChildren(...rows);
  byId(table).hidden = !rows.length;
  const none = byId(`${table}-none`) ?? byId(`${table}-empty`);
  if (none) none.hidden = Boolean(rows.length);
}

const cell = (text, className = "") => element("td", { className }, text);

function drawCollections(collections, isReadOnly) {
  fill("collections", collections.map(({ collection, statistics }) => {
    const box = element("input", { type: "checkbox", checked: collection.enabled, disabled: isReadOnly, "aria-label": say("enable", { name: collection.name }) });
    box.addEventListener("change", () => attempt(async () => {
      await call(box.checked ? "enable_collection" : "disable_collection", { name: collection.name });
    }));
    return element("tr", {}, element("td", {}, box), element("th", { scope: "row" }, collection.name), cell(number(statistics.documents), "number"),
      cell(number(statistics.sections), "number"), cell(collection.source), cell(collection.description));
  }));
}

function drawTrouble(collections) {
  const problems = collections.flatMap((each) => each.problems);
  const rows = problems.slice(0, MOST_LINES).map(({ path, problem }) =>
    element("tr", {}, cell(say(`state_${problem.kind}`), problem.kind), cell(path), cell(problem.reason)));
  if (problems.length > MOST_LINES) rows.push(element("tr", {}, cell(""), cell(say("and_more", { count: problems.length - MOST_LINES })), cell("")));
  fill("left-out", rows);
}

function drawQueue(requests) {
  fill("queue", requests.map(({ status, path, error }) =>
    element("tr", {}, cell(say(`state_${status}`), status), cell(path), cell(error))));
}

function drawAbout({ root, database, size_on_disk, embedder, server }) {
  const lines = { root, database, disk: bytes(size_on_disk), embedder };
  if (server) Object.assign(lines, { address: server.url, memory: bytes(server.memory), version: server.version });
  byId("about").replaceChildren(...Object.entries(lines).flatMap(([name, value]) => [element("dt", {}, say(name)), element("dd", {}, value)]));
}

async function drawMap(names) {
  const entries = await call("list_folder", { name: mapped.collection, path: mapped.path });
  const shown = entries.slice(0, MAP.most).filter((each) => each.size);
  const places = rectangles(shown.map((each) => each.size), MAP.width, MAP.height);
  byId("map").replaceChildren(...shown.map((entry, at) => drawEntry(entry, places[at])));
  const crumbs = names.map((name) => step(name, { collection: name, path: "" }));
  const parts = mapped.path ? mapped.path.split("/") : [];
  const trail = parts.map((part, at) => step(part, { ...mapped, path: parts.slice(0, at + 1).join("/") }));
  byId("map-place").replaceChildren(...crumbs, ...trail.flatMap((each) => [" / ", each]));
}

function step(label, target) {
  const isHere = target.collection === mapped.collection && target.path === mapped.path;
  const button = element("button", { type: "button", ...(isHere && { "aria-current": "true" }) }, label);
  button.addEventListener("click", () => {
    mapped = target;
    attempt(load);
  });
  return button;
}

function drawEntry(entry, { x, y, width, height }) {
  const condition = ["failed", "waiting", "skipped", "latest"].find((each) => entry.states[each] && (each !== "skipped" || entry.states[each] === entry.files)) ?? "latest";
  const name = entry.path.split("/").at(-1);
  const label = `${entry.path}${entry.is_folder ? "/" : ""}: ${bytes(entry.size)}, ${say("files", { count: entry.files })}, ${say(`condition_${condition}`)}`;
  const link = svg("a", { href: entry.is_folder ? "#map" : `/?open=${encodeURIComponent(`${mapped.collection}:${entry.path}`)}`, "aria-label": label, class: `${condition} ${entry.is_folder ? "folder" : "file"}` },
    svg("title", {}, label), svg("rect", { x, y, width, height }));
  if (width > 60 && height > 18) {
    const letters = Math.floor(width / 8);
    link.append(svg("text", { x: x + 5, y: y + 14 }, name.length > letters ? `${name.slice(0, letters - 1)}…` : name));
    if (width > 110 && height > 36) link.append(svg("text", { x: x + 5, y: y + 30, class: "size" }, `${bytes(entry.size)} · ${say("files", { count: entry.files })}`));
  }
  link.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (entry.is_folder) {
      mapped = { ...mapped, path: entry.path };
      attempt(load);
    } else {
      go(link.getAttribute("href"));
    }
  });
  return link;
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
