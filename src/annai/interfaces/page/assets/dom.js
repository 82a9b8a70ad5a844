// What every view needs: the words of the page, elements, and a line that tells what happened.

const WORDS = JSON.parse(document.getElementById("words").textContent);
const notice = document.getElementById("notice");
const numbers = new Intl.NumberFormat(document.documentElement.lang);

export const byId = (id) => document.getElementById(id);

/** A word or sentence of the page, with values in place of its {names}. */
export function say(name, values = {}) {
  return WORDS[name].replace(/\{(\w+)\}/g, (_, key) => (typeof values[key] === "number" ? numbers.format(values[key]) : values[key]));
}

/** An element with properties and children; a text is only ever text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "scope") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** A text with some spans of it marked; positions count characters, not UTF-16 units. */
export function marked(text, spans) {
  const letters = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of spans) {
    parts.push(letters.slice(at, start).join(""), element("mark", {}, letters.slice(start, end).join("")));
    at = end;
  }
  return [...parts, letters.slice(at).join("")];
}

export function number(value) {
  return numbers.format(value);
}

export function bytes(value) {
  const unit = value >= 1e9 ? ["GB", 1e9] : value >= 1e6 ? ["MB", 1e6] : ["kB", 1e3];
  return `${new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 }).format(value / unit[1])} ${unit[0]}`;
}

export function tell(text) {
  notice.textContent = text;
  notice.hidden = !text;
}

/** Do something that may fail, and say so if it does. */
export async function attempt(work) {
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    tell(say("problem", { message: error.message }));
  }
}
