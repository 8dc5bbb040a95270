// Helpers that create elements. Labels of the data only ever become text.

/** An element with a class, attributes and children; strings become text. */
export function element(name, classes = "", ...children) {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** A label of the data, isolated from the writing direction around it. It may break after `_`, `/` and `.`. */
export function label(text, classes = "label") {
  if (text.length > 300) return element("bdi", classes, text);
  const parts = text.split(/(?<=[_/.])/u);
  return element("bdi", classes, ...parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
}

/** A step of a path: `—affects→` or `←affects—`. */
export function arrow(relation, isInverse) {
  const short = relation.length > 40 ? "" : " short"; // short labels are not broken
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
  if (value > 0 && value < 0.01) return "< 0.01 %";
  if (value < 100 && value >= 99.95) return "> 99.9 %";
  return `${value >= 10 ? value.toFixed(value >= 99 ? 1 : 0) : value >= 1 ? value.toFixed(1) : value.toFixed(2)} %`;
}

export function number(value) {
  return value.toLocaleString("en-US");
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
