// Searching as one types: results as they are, one request at a time, nothing for half-typed Japanese.

import { attempt, byId, element, marked, number, say } from "./dom.js";
import { call } from "./rpc.js";

// While a search runs, further keys wait for one another; the first key of a question waits for nothing.
const WAIT_MS = 30;
const LIMIT = 8;
const FILTERS = ["collection", "path", "where", "since", "depth", "mode"];
// What is still being typed is no condition yet.
const CONDITION = /[^=<>!]\s*(=|!=|<|>|≤|≥|≠|＝|＜|＞)=?\s*[^\s=]/;

const form = byId("question-form");
const question = byId("question");
const results = byId("results");
const summary = byId("summary");

let timer = 0;
let running = null;
let shown = "";
let isSearching = false;
let isComposing = false;

export function show(state) {
  document.title = "annai";
  question.value = state.get("q") ?? "";
  for (const name of FILTERS) {
    const field = form.elements[name];
    const value = state.get(name) ?? "";
    // A collection that is not listed yet is kept all the same.
    if (name === "collection" && value && ![...field.options].some((each) => each.value === value)) field.append(new Option(value, value));
    field.value = value;
  }
  byId("filters").open = FILTERS.some((name) => form.elements[name].value);
  attempt(listCollections);
  if (address() !== shown) search();
}

/** The address of what is being searched. */
export function address() {
  const state = new URLSearchParams();
  if (question.value) state.set("q", question.value);
  for (const name of FILTERS) if (form.elements[name].value) state.set(name, form.elements[name].value);
  const text = state.toString();
  return text ? `/?${text}` : "/";
}

export function focus() {
  question.focus();
  question.select();
}

/** Answers may have changed while nobody looked: search again when one comes back. */
export function forget() {
  shown = "";
}

export function onChange() {
  attempt(listCollections);
  search();
}

export function onKey(event) {
  const links = [...results.querySelectorAll("a.open")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "ArrowDown" && (at >= 0 || event.target === question)) links[at + 1]?.focus();
  else if (event.key === "ArrowUp" && at >= 0) (links[at - 1] ?? question).focus();
  else if (event.key === "Escape") {
    question.value = "";
    changed();
    question.focus();
  } else return;
  event.preventDefault();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (isComposing) return;
  const first = results.querySelector("a.open");
  if (address() === shown) first?.focus();
  else changed();
});
question.addEventListener("compositionstart", () => { isComposing = true; });
question.addEventListener("compositionend", () => { isComposing = false; changed(); });
form.addEventListener("input", () => {
  if (isComposing) return;
  clearTimeout(timer);
  timer = setTimeout(changed, isSearching ? WAIT_MS : 0);
});

function changed() {
  clearTimeout(timer);
  history.replaceState(null, "", address());
  search();
}

async function listCollections() {
  const field = form.elements.collection;
  const value = field.value;
  const names = (await call("list_collections")).filter((each) => each.enabled).map((each) => each.name);
  field.replaceChildren(field.options[0], ...names.map((name) => new Option(name, name)));
  if (value && !names.includes(value)) field.append(new Option(value, value));
  field.value = value;
}

function search() {
  running?.abort();
  running = new AbortController();
  isSearching = false;
  shown = address();
  const query = question.value.trim();
  byId("question-hint").hidden = Boolean(query);
  if (!query) {
    results.replaceChildren();
    summary.textContent = "";
    return;
  }
  const { signal } = running;
  isSearching = true;
  attempt(async () => {
    const answer = await call("search", { query, limit: LIMIT, content: "none", max_tokens: 0, marks: true, explain: true, ...filters() }, { signal });
    if (signal.aborted) return;
    const at = [...results.querySelectorAll("a.open")].indexOf(document.activeElement);
    draw(answer);
    if (at >= 0) results.querySelectorAll("a.open")[at]?.focus();
  }).finally(() => {
    if (!signal.aborted) isSearching = false;
  });
}

function filters() {
  const { collection, path, where, since, depth, mode } = form.elements;
  const conditions = where.value.split(/[,;、]/).filter((each) => CONDITION.test(each));
  return {
    ...(collection.value && { collections: [collection.value] }),
    ...(path.value && { paths: [path.value] }),
    ...(conditions.length && { where: conditions }),
    ...(since.value && { since: since.value }),
    ...(depth.value && { depths: [Number(depth.value)] }),
    ...(mode.value && { mode: mode.value }),
  };
}

function draw(answer) {
  results.replaceChildren(...answer.results.map(drawResult));
  const lines = Object.entries(answer.corrected ?? {}).map(([typed, meant]) => say("corrected", { typed, meant }));
  lines.push(...Object.keys(answer.unmet ?? {}).map((condition) => say("unmet", { condition })));
  if (answer.empty) lines.push(answer.empty);
  else if (!answer.results.length) lines.push(...(answer.unmet ? [] : [say("nothing")]));
  else if (!answer.confident) lines.push(say("no_good_match"));
  else {
    const count = answer.results.length;
    const found = answer.total > count ? "results_of" : count === 1 ? "result_one" : "results_all";
    lines.push(say(found, { count, total: answer.total, ms: Math.round(answer.took_ms) }));
  }
  summary.textContent = lines.join(" ");
  results.dataset.for = answer.query;
}

function drawResult(hit) {
  const item = byId("result").content.cloneNode(true);
  const find = (selector) => item.querySelector(selector);
  const link = find("a.open");
  link.href = opening(hit.id, hit.preview_line);
  link.append(...marked(hit.breadcrumbs, hit.marks.breadcrumbs));
  const status = find(".status");
  status.textContent = hit.index_status === "latest" ? "" : say(`status_${hit.index_status}`);
  status.classList.add(hit.index_status);
  find(".file").append(...marked(hit.file, hit.marks.file), hit.place);
  find(".preview").append(...marked(hit.preview, hit.marks.preview));
  const percent = say("score", { percent: Math.round(hit.score * 100) });
  const meter = find("meter");
  Object.assign(meter, { value: hit.score, title: percent });
  meter.setAttribute("aria-label", percent);
  find(".verdict").textContent = say(`verdict_${hit.verdict.replaceAll(" ", "_")}`);
  find(".why dl").append(
    ...Object.entries(hit.reasons.parts)
      .filter(([, value]) => Math.abs(value) >= 0.005)
      .flatMap(([name, value]) => [element("dt", {}, name.replaceAll("_", " ")), element("dd", {}, value.toFixed(2))]),
  );
  if (hit.more?.length) {
    const list = find(".more");
    list.hidden = false;
    list.append(...hit.more.map((each) => element("li", {}, element("a", { href: opening(each.id, each.line) }, each.heading || hit.title), ` :${number(each.line)}`)));
  }
  return item;
}

function opening(id, line) {
  const state = new URLSearchParams(address().slice(2));
  state.set("open", id);
  state.set("line", line);
  return `/?${state}`;
}
