// Reading one document: its text, its outline, and the lines that were found.

import { attempt, byId, element, say, tell } from "./dom.js";
import { call } from "./rpc.js";
import { go } from "./page.js";

const REMOTE = "remote:";
const text = byId("text");

let reference = "";
let line = 0;
let file = "";
let place = "";
let canEdit = null;

export function show(state) {
  reference = state.get("open");
  line = Number(state.get("line")) || 0;
  const back = new URLSearchParams(state);
  back.delete("open");
  back.delete("line");
  byId("back").href = `/?${back}`;
  attempt(() => load(true));
}

/** The document changed on disk: show it as it is now, where one was reading. */
export function onChange() {
  attempt(() => load(false));
}

export function onKey(event) {
  if (event.key !== "Escape") return;
  event.preventDefault();
  go(byId("back").href);
}

byId("copy").addEventListener("click", () => attempt(async () => {
  await navigator.clipboard.writeText(place);
  tell(say("copied"));
}));

byId("edit").addEventListener("click", () => attempt(async () => {
  await call("open_in_editor", { reference: `${file}:${line || 1}` });
  tell(say("edit_done"));
}));

async function load(scrolls) {
  const wanted = reference;
  const document_ = await call("read_document", { reference });
  if (wanted !== reference) return;
  line ||= document_.line;
  file = `${document_.collection}:${document_.path}`;
  place = `${document_.file}:${line}`;
  document.title = `${document_.title} – annai`;
  byId("reader-title").textContent = document_.breadcrumbs || document_.path;
  byId("reader-file").textContent = place;
  byId("copy").textContent = say("copy", { place });
  canEdit ??= (await call("get_project")).can_edit;
  byId("edit").hidden = !canEdit;
  drawOutline(document_);
  drawNeighbours(document_);
  drawText(document_);
  if (document_.is_excerpt) tell(say("excerpt"));
  if (scrolls) scrollTo(line);
}

function drawOutline({ headings, collection, path }) {
  const here = headings.findLast((each) => each.line <= line);
  const links = headings.map((each) => {
    const link = element("a", { href: linkTo({ id: `${collection}:${path}:${each.line}`, line: each.line }) }, each.heading);
    if (each === here) link.setAttribute("aria-current", "location");
    return element("li", { className: `depth-${each.depth}` }, link);
  });
  byId("outline").querySelector("ol").replaceChildren(...links);
  byId("outline").hidden = !links.length;
}

function drawNeighbours({ parent, children }) {
  const up = byId("parent");
  up.hidden = !parent;
  if (parent) Object.assign(up, { href: linkTo(parent), textContent: say("parent", parent) });
  byId("children").hidden = !children.length;
  byId("children-links").replaceChildren(...children.flatMap((each, at) => [at ? " · " : "", element("a", { href: linkTo(each) }, each.heading)]));
}

function linkTo({ id, line: at }) {
  const state = new URLSearchParams(new URL(byId("back").href).search);
  state.set("open", id);
  state.set("line", at);
  return `/?${state}`;
}

/** The server made the HTML harmless; here it is only arranged, in a document in which nothing loads or runs. */
function drawText({ html, start_line: first, end_line: last }) {
  const body = new DOMParser().parseFromString(html, "text/html").body;
  for (const image of body.querySelectorAll("img")) {
    const source = image.getAttribute("src") ?? "";
    if (source.startsWith(REMOTE)) image.replaceWith(remoteImage(image, source.slice(REMOTE.length)));
    else if (!source) image.replaceWith(image.alt);
    else image.loading = "lazy";
  }
  for (const link of body.querySelectorAll("a")) {
    if (!/^(https?|mailto):/.test(link.getAttribute("href") ?? "")) link.removeAttribute("target");
  }
  for (const mark of body.querySelectorAll("[data-line]")) {
    const at = Number(mark.dataset.line);
    const block = blockOf(mark);
    if (at >= first && at <= last) block?.classList.add("in-section");
  }
  for (const table of body.querySelectorAll("table")) {
    const wrapper = element("div", { className: "scroll", tabIndex: 0 });
    table.replaceWith(wrapper);
    wrapper.append(table);
  }
  for (const code of body.querySelectorAll("pre")) code.tabIndex = 0;
  text.replaceChildren(...[...body.childNodes].map((each) => document.adoptNode(each)));
}

/** What a mark stands before or in: a block, a list item, a row, or a line of plain text. */
function blockOf(mark) {
  return mark.matches("span") ? mark : mark.matches("i") ? mark.closest("li, tr") : mark.nextElementSibling;
}

function remoteImage(image, address) {
  if (!URL.canParse(address)) return image.alt;
  const label = image.alt || say("remote_image", { host: new URL(address).host });
  const isInLink = image.closest("a");
  return isInLink ? element("span", {}, label) : element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, `🖼 ${label}`);
}

/** Scroll to the last mark that is not behind a line, and show which lines were found. */
function scrollTo(at) {
  const before = [...text.querySelectorAll("[data-line]")].filter((each) => Number(each.dataset.line) <= at);
  const block = before.length ? blockOf(before.at(-1)) : null;
  text.focus({ preventScroll: true });
  if (!block || at <= 1) {
    scroll(0, 0);
    return;
  }
  block.classList.add("hit");
  block.scrollIntoView({ block: "center" });
}
