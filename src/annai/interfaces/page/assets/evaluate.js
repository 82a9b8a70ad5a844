// Are the answers good? One's own questions, asked with two settings, side by side.

import { attempt, byId, element, say, tell } from "./dom.js";
import { callAll } from "./rpc.js";

const LIMIT = 10;
const BATCH = 20;
const form = byId("evaluation");
const questions = byId("questions");

export function show() {
  document.title = `${say("evaluate")} – annai`;
  questions.value ||= localStorage.getItem("annai_questions") ?? "";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(run);
});

byId("save").addEventListener("click", () => {
  const file = new File([questions.value], "questions.tsv", { type: "text/tab-separated-values" });
  const link = element("a", { href: URL.createObjectURL(file), download: file.name });
  link.click();
  URL.revokeObjectURL(link.href);
});

byId("load").addEventListener("change", (event) => attempt(async () => {
  const [file] = event.target.files;
  if (file) questions.value = await file.text();
  event.target.value = "";
}));

async function run() {
  const asked = parse(questions.value);
  if (!asked) return;
  localStorage.setItem("annai_questions", questions.value);
  const ranks = [await ranksWith(asked, "A"), await ranksWith(asked, "B")];
  byId("ranks").hidden = false;
  byId("ranks").querySelector("tbody").replaceChildren(...asked.map(({ question, path }, at) => {
    const [a, b] = ranks.map((list) => list[at]);
    const show = (rank, other) => element("td", { className: `number ${rank < other ? "better" : ""}` }, rank === Infinity ? say("not_found", { count: LIMIT }) : String(rank));
    return element("tr", {}, element("td", {}, question), element("td", {}, path), show(a, b), show(b, a));
  }));
  byId("evaluation-summary").textContent = ["A", "B"].map((name, at) => `${say("setting", { name })}: ${measure(ranks[at])}`).join(" — ");
}

/** Lines of a question, a tab or an arrow, and a path. */
function parse(text) {
  const found = [];
  for (const [at, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    const [question, path] = line.split(/\t+|\s*→\s*/).map((each) => each.trim());
    if (!question || !path) {
      tell(say("bad_line", { line: at + 1 }));
      return null;
    }
    found.push({ question, path: plain(path) });
  }
  tell("");
  return found;
}

const plain = (path) => path.replace(/^\.\//, "").replace(/\.md$/, "");

async function ranksWith(asked, name) {
  const mode = form.elements[`mode_${name}`].value;
  const depth = form.elements[`depth_${name}`].value;
  const answers = [];
  for (let at = 0; at < asked.length; at += BATCH) {
    answers.push(...await callAll("search", asked.slice(at, at + BATCH).map(({ question }) => ({
      query: question, mode, limit: LIMIT, content: "none", preview_lines: 0, max_tokens: 0, ...(depth && { depths: [Number(depth)] }),
    }))));
  }
  return answers.map(({ results }, at) => {
    const rank = results.findIndex((hit) => [hit.path, hit.file].map(plain).includes(asked[at].path));
    return rank < 0 ? Infinity : rank + 1;
  });
}

function measure(ranks) {
  const mrr = ranks.reduce((sum, each) => sum + 1 / each, 0) / ranks.length;
  return say("found_share", { found: ranks.filter((each) => each <= 5).length, total: ranks.length, mrr: mrr.toFixed(2) });
}
