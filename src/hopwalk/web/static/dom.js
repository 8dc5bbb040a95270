// Helpers that create elements. Labels of the data only ever become text.

/** An element with a class, attributes and children; strings become text. */
export function element(name, classes = "", ...children) {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

let keepsUnderscores = false; // whether names of this graph differ only in blanks and underscores

export function keepUnderscores(keeps) {
  keepsUnderscores = keeps;
}

/** A name as people read it: with blanks for underscores, unless the graph has both. */
export function readable(text) {
  return keepsUnderscores ? text : text.replaceAll("_", " ").trim() || text;
}

/** A label of the data, isolated from the writing direction around it. It may break after `_`, `/` and `.`. */
export function label(text, classes = "label", as = "bdi") {
  const shown = readable(text);
  if (shown.length > 300) return element(as, classes, shown);
  const parts = shown.split(/(?<=[_/.])/u);
  return element(as, classes, ...parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
}

/** A sentence of the server, isolated from the writing direction around it: with readable names, and numbers beside their units. */
export function plain(text) {
  const shown = keepsUnderscores ? text : text.replaceAll(/_(?![a-z_]*\))/g, " "); // but names of settings, in brackets, keep theirs
  return element("bdi", "", shown.replace(/(\d) (?=%|hops?\b|facts?\b|layers?\b|entit|other|of \d)|(\bof|\bRank|\blayer|\bhop) (?=\d)/g, "$1$2\u00a0"));
}

/** A step of a path: `—affects→` or `←affects—`. */
export function arrow(relation, isInverse) {
  const short = relation.length > 28 ? "" : " short"; // short labels are not broken
  const [before, after] = isInverse ? ["←", "—"] : ["—", "→"];
  return element("span", `arrow${short}`, before, label(relation, "relation"), after);
}

/** A bar as long as the share, 0 to 1. */
export function bar(share) {
  const fill = element("span", "fill");
  fill.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  const track = element("span", "track", fill);
  track.setAttribute("aria-hidden", "true");
  return track;
}

/** A probability as text: 71 %, 0.08 %, < 0.01 %. */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.01) return `<\u00a00.01\u00a0%`;
  if (value < 100 && value >= 99.95) return `>\u00a099.9\u00a0%`;
  return `${value >= 10 ? value.toFixed(value >= 99 ? 1 : 0) : value >= 1 ? value.toFixed(1) : value.toFixed(2)}\u00a0%`;
}

export function number(value) {
  return value.toLocaleString("en-US");
}

/** `12 facts`, never broken between number and noun. */
export function counted(value, noun) {
  const plural = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${number(value)}\u00a0${value === 1 ? noun : plural}`;
}

export function button(text, classes, act) {
  const made = element("button", classes, text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(
  "svg g defs marker path line polyline polygon rect circle ellipse text tspan title desc textPath clipPath".split(" "),
);

/** The server's drawing as elements; everything that is not plain drawing is removed. */
export function drawing(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (root.namespaceURI !== SVG || root.localName !== "svg") return null;
  for (const part of [root, ...root.querySelectorAll("*")]) {
    if (part.namespaceURI !== SVG || !DRAWN.has(part.localName)) {
      part.remove();
      continue;
    }
    for (const { name } of [...part.attributes]) {
      if (/^on|^style$|href$/i.test(name)) part.removeAttribute(name);
    }
  }
  return document.importNode(root, true);
}
