// Which view is shown? The address says so, and every view keeps its state there.

import { attempt, byId, say, tell } from "./dom.js";
import { call, useTicket, watch } from "./rpc.js";
import * as evaluate from "./evaluate.js";
import * as index from "./index.js";
import * as reader from "./reader.js";
import * as search from "./search.js";

const VIEWS = { search, reader, index, evaluate };
let current = "";
let version = "";

function show() {
  const state = new URL(location).searchParams;
  const name = state.has("open") ? "reader" : ["index", "evaluate"].includes(state.get("view")) ? state.get("view") : "search";
  for (const section of document.querySelectorAll("[data-view-of]")) section.hidden = section.dataset.viewOf !== name;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  tell("");
  current = name;
  VIEWS[name].show(state);
}

/** Go to an address of the page without loading it again. */
export function go(address) {
  history.pushState(null, "", address);
  show();
}

// Links to the page's own views: the browser need not load anything for them.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || !URL.canParse(link.href) || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const address = new URL(link.href);
  if (address.origin !== location.origin || address.pathname !== "/" || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(address);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input, textarea, select");
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    if (current !== "search") go(search.address());
    search.focus();
  } else {
    VIEWS[current].onKey?.(event);
  }
});

byId("language").addEventListener("change", (event) => {
  document.cookie = `annai_language=${event.target.value}; path=/; max-age=31536000; samesite=strict`;
  location.reload();
});

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("annai_theme", root.dataset.theme);
});

await useTicket();
addEventListener("popstate", show);
show();
attempt(async () => { byId("project").textContent = (await call("get_project")).name; });

watch((news) => {
  if (!news || news.problem) {
    tell(news?.problem ?? say("offline"));
    return;
  }
  tell("");
  byId("busy").hidden = !news.waiting;
  index.onNews(news);
  const next = JSON.stringify(news.version);
  if (version && next !== version) {
    VIEWS[current].onChange?.();
    if (current !== "search") search.forget();
  }
  version = next;
});
