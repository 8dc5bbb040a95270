// What is shown, as a file: tables as CSV, answers of the server as JSON, drawings as SVG and PNG.
import { button, element } from "./dom.js";

const INK = "#1d1f21";
const SCALE = 2; // pixels of a PNG for each of the drawing

/** Buttons for files. `files` has a function for each kind, which gives the content, or nothing where there is none. */
export function downloads(name, files) {
  const made = Object.entries(files).map(([kind, content]) =>
    button(kind.toUpperCase(), "link", async () => {
      const blob = await content();
      if (blob) save(blob, `${name.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 80)}.${kind}`);
    }),
  );
  return element("p", "downloads", element("span", "", "Download"), ...made);
}

function save(blob, name) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Rows of values, the first of which are the titles. A cell that a spreadsheet would compute gets an apostrophe. */
export function csv(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return new Blob([rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n"], { type: "text/csv" });
}

export function json(content) {
  return new Blob([JSON.stringify(content, null, 2)], { type: "application/json" });
}

/** A drawing as a file of its own, dark on white, without the links of this page. */
export function svg(drawn) {
  if (!drawn) return null;
  const copy = drawn.cloneNode(true);
  copy.querySelectorAll("a").forEach((link) => link.replaceWith(...link.childNodes));
  copy.removeAttribute("style");
  copy.setAttribute("color", INK);
  const ground = document.createElementNS(copy.namespaceURI, "rect");
  for (const [key, value] of Object.entries({ width: "100%", height: "100%", fill: "#fff" })) ground.setAttribute(key, value);
  copy.prepend(ground);
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

/** A drawing as pixels. It is drawn shape by shape: the page's policy lets no image but the server's be loaded. */
export function png(drawn) {
  if (!drawn) return null;
  const canvas = element("canvas");
  canvas.width = SCALE * drawn.getAttribute("width");
  canvas.height = SCALE * drawn.getAttribute("height");
  const pen = canvas.getContext("2d");
  pen.scale(SCALE, SCALE);
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (const part of drawn.querySelectorAll("rect, path, text")) drawPart(pen, part);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function drawPart(pen, part) {
  const value = (name, other) => part.getAttribute(name) ?? other;
  const colour = (name, other) => (value(name, other) === "currentColor" ? INK : value(name, other));
  if (part.localName === "text") {
    pen.globalAlpha = 1;
    pen.fillStyle = INK;
    pen.textAlign = "center";
    pen.font = `${value("font-weight", "400")} ${value("font-size", "16")}px ${getComputedStyle(part).fontFamily}`;
    return pen.fillText(part.textContent, value("x", 0), value("y", 0));
  }
  const shape = new Path2D(part.localName === "path" ? value("d", "") : undefined);
  if (part.localName === "rect") shape.roundRect(...["x", "y", "width", "height", "rx"].map((name) => Number(value(name, 0))));
  if (value("fill", "currentColor") !== "none") {
    pen.globalAlpha = Number(value("fill-opacity", 1));
    pen.fillStyle = colour("fill", "currentColor");
    pen.fill(shape);
  }
  if (value("stroke", "none") !== "none") {
    pen.globalAlpha = Number(value("stroke-opacity", 1));
    pen.strokeStyle = colour("stroke", "none");
    pen.lineWidth = Number(value("stroke-width", 1));
    pen.stroke(shape);
  }
}
