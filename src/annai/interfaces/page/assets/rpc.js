// How does the page speak to its server? Calls over /rpc, and news over /events.

const dialog = document.getElementById("token");
const TABS_MS = 150;
let asking = null;

// Another tab of this page may have the token: it need not be typed again.
const tabs = new BroadcastChannel("annai");
tabs.addEventListener("message", ({ data }) => {
  const token = sessionStorage.getItem("annai_token");
  if (data.wanted && token) tabs.postMessage({ token });
});

export class CallFailed extends Error {}

export async function call(method, params = {}, { signal } = {}) {
  const [answer] = await send([{ jsonrpc: "2.0", id: 1, method, params }], signal);
  return result(answer);
}

/** Several calls of one method in one request; the results in the same order. */
export async function callAll(method, list) {
  const answers = await send(list.map((params, id) => ({ jsonrpc: "2.0", id, method, params })));
  return answers.sort((one, other) => one.id - other.id).map(result);
}

/** Call `onNews` with everything the server tells of its index, for ever; with null while it does not answer. */
export async function watch(onNews) {
  for (let seconds = 1; ; seconds = Math.min(seconds * 2, 30)) {
    try {
      const response = await authorised("/events", {});
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (text + value).split("\n\n");
        text = events.pop();
        for (const event of events) if (event.startsWith("data: ")) onNews(JSON.parse(event.slice(6)));
        seconds = 1;
      }
    } catch (error) {
      if (!(error instanceof TypeError) && !(error instanceof CallFailed)) throw error;
    }
    onNews(null);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
}

async function send(calls, signal) {
  const response = await authorised("/rpc", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(calls),
    signal,
  });
  return response.json();
}

function result(answer) {
  if (answer.error) throw new CallFailed(answer.error.message);
  return answer.result;
}

async function authorised(address, options) {
  for (;;) {
    const token = sessionStorage.getItem("annai_token");
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(address, { ...options, headers });
    if (response.status === 401) await askForToken();
    else if (response.ok) return response;
    else throw new CallFailed((await response.json()).error ?? response.statusText);
  }
}

/** Get in with the ticket behind the page's address, which is good for one use, or with the token of another tab. */
export async function useTicket() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (!ticket) {
    if (!sessionStorage.getItem("annai_token")) await askOtherTabs();
    return;
  }
  history.replaceState(null, "", location.pathname + location.search);
  const token = await redeem(ticket);
  if (token) sessionStorage.setItem("annai_token", token);
}

/** The token that a ticket is for; null if it is none, or not good. */
async function redeem(ticket) {
  if (!/^[\w-]+$/.test(ticket)) return null;
  const response = await fetch("/session", { method: "POST", headers: { "X-Annai-Ticket": ticket } });
  return response.ok ? (await response.json()).token : null;
}

function askOtherTabs() {
  return new Promise((resolve) => {
    setTimeout(resolve, TABS_MS);
    tabs.addEventListener("message", ({ data }) => {
      if (data.token) sessionStorage.setItem("annai_token", data.token);
      if (data.token) resolve();
    });
    tabs.postMessage({ wanted: true });
  });
}

/** Ask once, however many calls wait for it. */
function askForToken() {
  asking ??= new Promise((resolve) => {
    dialog.addEventListener("close", async () => {
      const typed = dialog.querySelector("input").value.trim();
      sessionStorage.setItem("annai_token", (await redeem(typed).catch(() => null)) ?? typed);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
