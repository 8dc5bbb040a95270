// The state of the page, which the address holds whole: a query with its chosen answer, or an entity.
import { element, label } from "./dom.js";

export const FEW = 10;
export const MANY = 50; // after "More answers"
const EMPTY = { run: null, head: "", relation: "", k: FEW, answer: "", entity: "" };

let first = null; // the run that an address without one means
let show = () => {};
export let view = { ...EMPTY };

/** Say which run is the first, and what shows a view. */
export function onView(firstRun, shows) {
  first = firstRun;
  show = shows;
}

export function readAddress() {
  const given = new URLSearchParams(location.search);
  const text = (name) => given.get(name) ?? "";
  view = {
    run: given.get("run"),
    head: text("head"),
    relation: text("relation"),
    k: given.get("k") === String(MANY) ? MANY : FEW,
    answer: text("answer"),
    entity: text("entity"),
  };
}

function addressOf({ run, head, relation, k, answer, entity }) {
  const parameters = new URLSearchParams();
  if (run && run !== first) parameters.set("run", run);
  for (const [name, value] of Object.entries({ head, relation, answer, entity })) if (value) parameters.set(name, value);
  if (k === MANY) parameters.set("k", String(k));
  const query = parameters.toString();
  return location.pathname + (query ? `?${query}` : "");
}

/** Go to a view; what it does not name is as now, or empty if it is another query or entity. */
export function go(next) {
  view = next.answer !== undefined || next.k ? { ...view, ...next } : { ...EMPTY, run: view.run, ...next };
  if (addressOf(view) !== location.pathname + location.search) history.pushState(null, "", addressOf(view));
  return show();
}

/** A link to a view. */
export function link(next, classes, ...children) {
  const made = element("a", classes, ...children);
  made.href = addressOf({ ...EMPTY, run: view.run, ...next });
  made.addEventListener("click", (event) => follow(event, next));
  return made;
}

export function follow(event, next) {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  scrollTo({ top: 0 });
  go(next);
}

/** The address of an entity's page, for links in drawings. */
export function entityAddress(key) {
  return addressOf({ ...EMPTY, run: view.run, entity: key });
}

/** An entity, as a link to its page. */
export function entityLink(key, name) {
  return key ? link({ entity: key }, "label", label(name, "")) : label(name);
}
