// Drawings: the server draws paths for the width there is; entities in them become links.
import { post } from "./api.js";
import { drawing, element, readable } from "./dom.js";
import { entityAddress, follow } from "./state.js";

const SVG = "http://www.w3.org/2000/svg";
const PAUSE = 150; // milliseconds after a change of size before it is drawn again

/** A frame that shows paths from an entity, drawn again when its width changes. `onDrawn(svg)` gets each drawing. */
export function picture({ head, key, paths, name }, onDrawn = () => {}) {
  const frame = element("div", "picture");
  let width = 0;
  let timer = null;
  let request = null;
  const body = {
    head: readable(head),
    key,
    paths: paths.map(({ share, edges }) => ({
      share: Math.max(0, share),
      edges: edges.map((edge) => ({ ...edge, relation: readable(edge.relation), entity: readable(edge.entity) })),
    })),
  };
  const draw = async () => {
    request?.abort();
    request = new AbortController();
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // drawings are made for 16 pixels
    try {
      const bounded = Math.max(240, Math.min(2400, Math.floor(width / rem)));
      const drawn = drawing((await post("draw", { ...body, width: bounded }, request.signal)).drawing);
      if (!drawn) return;
      drawn.setAttribute("role", "group");
      drawn.setAttribute("aria-label", name);
      drawn.style.width = `${drawn.getAttribute("width") / 16}rem`;
      drawn.querySelectorAll("g[data-key]").forEach(linked);
      frame.replaceChildren(drawn);
      onDrawn(drawn);
    } catch (error) {
      if (error.name !== "AbortError") frame.replaceChildren(element("p", "none", "The drawing is missing: the server did not draw it."));
    }
  };
  new ResizeObserver(() => {
    const now = frame.clientWidth;
    if (!now || Math.abs(now - width) < 8) return;
    const isFirst = width === 0;
    width = now;
    clearTimeout(timer);
    timer = setTimeout(draw, isFirst ? 0 : PAUSE);
  }).observe(frame);
  return frame;
}

/** Put a box of a drawing into a link to its entity's page. */
function linked(box) {
  let key = null;
  try {
    key = decodeURIComponent(box.dataset.key);
  } catch {
    return; // a label that no address can hold
  }
  const made = document.createElementNS(SVG, "a");
  made.setAttribute("href", entityAddress(key));
  made.addEventListener("click", (event) => follow(event, { entity: key }));
  box.replaceWith(made);
  made.append(box);
}
