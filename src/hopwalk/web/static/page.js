// The page: a query in, answers out. The address always holds the whole view.
import { ApiError, get, post, setToken, takeToken } from "./api.js";
import { Combobox } from "./combobox.js";
import { button, counted, element, keepUnderscores, label, readable } from "./dom.js";
import { csv, downloads, json, png, svg } from "./download.js";
import { entityPage } from "./entity.js";
import { picture } from "./picture.js";
import { FEW, MANY, follow, go, link, onView, readAddress, view } from "./state.js";
import { answerItem, entityOption, explanation, isUnlikely, problem, relationOption, sentence } from "./views.js";
import { welcome } from "./welcome.js";

const KNOWN = 10; // known answers that are listed; the page of the head has all
const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const narrow = matchMedia("(max-width: 60rem)"); // as in style.css
let runs = [];
let shownQuery = null; // the query whose answers are shown, as JSON
let shown = null; // its answers, and the explanation of one of them
let underWay = null; // the request for answers or an entity
let explaining = null; // the request for an explanation

const searchEntities = async (text, signal) => (await get("entities", { q: text, run: view.run }, signal)).entities.map(entityOption);
const head = new Combobox($("head"), { search: searchEntities, choose: () => $("relation").focus() });
const relation = new Combobox($("relation"), { search: searchRelations, choose: () => submit(), opensEmpty: true });
const other = new Combobox($("other"), { search: searchEntities, choose: () => explainOther() });

async function searchRelations(text, signal) {
  const entity = head.value;
  const find = (own) => get("relations", { q: text, entity: own, run: view.run, limit: 60 }, signal);
  const found = await find(entity).catch((error) => {
    if (error instanceof ApiError && error.status === 404) return find(""); // a half-typed entity has no relations of its own
    throw error;
  });
  return found.relations.map((one) => relationOption(one, Boolean(entity)));
}

function submit() {
  if (!head.value) return void $("head").focus();
  if (!relation.value) return go({ entity: head.value });
  return go({ head: head.value, relation: relation.value });
}

/** Show the view of the address. */
async function show() {
  const run = runs.find((one) => one.run === view.run) ?? runs[0];
  view.run = $("run").value = run.run;
  keepUnderscores(run.keeps_underscores);
  const about = [counted(run.facts, "fact"), counted(run.entities, "entity"), counted(run.relations, "relation")].join(" · ");
  $("card").replaceChildren(label(run.run, "name"), ` · ${about}${run.hops ? ` · paths of at most ${run.hops}\u00a0hops` : ""}`);
  clearProblem();
  underWay?.abort();
  explaining?.abort();
  const isQuery = Boolean(view.head && view.relation);
  const isEntity = !isQuery && Boolean(view.entity || view.head);
  if (head.value !== (view.head || view.entity)) head.set(view.head || view.entity, readable(view.head || view.entity));
  if (relation.value !== view.relation) relation.set(view.relation, readable(view.relation));
  $("welcome").hidden = isQuery || isEntity;
  $("entity").hidden = !isEntity;
  if (!isQuery) {
    $("result").hidden = true;
    shownQuery = null;
  }
  status("");
  if (isQuery) return (await ask()) && explain();
  if (isEntity) return showEntity(view.entity || view.head);
  document.title = "hopwalk";
  $("welcome").replaceChildren(...welcome(run));
}

/** Do a request that a later one replaces; nothing if it failed or was replaced. */
async function latest(name, work) {
  const request = (underWay = new AbortController());
  busy($("question"), true);
  if (name) status(name);
  try {
    const done = await work(request.signal);
    status("");
    return request.signal.aborted ? null : done;
  } catch (error) {
    if (error.name !== "AbortError") {
      status("");
      fail(error);
    }
    return null;
  } finally {
    if (underWay === request) busy($("question"), false);
  }
}

async function showEntity(key) {
  const parts = await latest("Searching…", (signal) => entityPage(key, signal));
  if (!parts) return void $("entity").replaceChildren();
  $("entity").replaceChildren(...parts);
  const name = parts[0].textContent;
  head.set(key, name);
  document.title = `${clipped(name)} · hopwalk`;
  speak(`Page of ${clipped(name)}.`);
}

/** Show the answers of the query; returns whether it succeeded. */
async function ask() {
  const question = { run: view.run, head: view.head, relation: view.relation, only_new: true, k: view.k, paths: 1 };
  const same = JSON.stringify(question);
  if (shownQuery === same) return true;
  const found = await latest("Searching…", async (signal) => {
    const known = { entity: view.head, relation: view.relation, run: view.run, limit: KNOWN };
    const [answered, facts] = await Promise.all([post("ask", question, signal), get("facts", known, signal)]);
    return { ...answered, known: facts };
  });
  if (!found) {
    shownQuery = null;
    $("result").hidden = true;
    return false;
  }
  shownQuery = same;
  shown = { found, explanation: null, drawn: null };
  showAnswers(found);
  return true;
}

function showAnswers(found) {
  const { answers, name, known } = found;
  const from = { key: found.head, name };
  if (head.value === found.head) head.set(found.head, readable(name));
  if (relation.value === found.relation) relation.set(found.relation, readable(found.relation_name));
  $("asked").replaceChildren(...sentence(name, found.relation_name));
  document.title = `${clipped(readable(name))} · ${clipped(readable(found.relation_name))} · hopwalk`;
  const choose = (answer) => go({ answer: answer.key });
  const items = (some) => some.map((answer) => answerItem(answer, from, choose));
  const facts = known.entities.map((one) => ({ entity: one.name, key: one.entity, is_known: true }));
  const groups = [group("Predicted", "predicted", items(answers.filter((answer) => !isUnlikely(answer))), answers.some((answer) => answer.probability !== null) ? `Bars show how likely a new fact is to be true. ${basis()}`.trim() : "")];
  const unlikely = items(answers.filter(isUnlikely));
  if (unlikely.length) groups.push(group("Unlikely", "unlikely", unlikely, "Below the probability at which a prediction is worth showing."));
  const rest = known.total - facts.length;
  if (facts.length) groups.push(group("Already known", "known", items(facts), rest > 0 ? allKnown(from, facts.length, known.total) : ""));
  if (view.k < MANY && answers.length >= view.k) groups[0].append(button("More answers", "link more", () => go({ k: MANY, answer: "" })));
  $("reason").replaceChildren();
  document.querySelector(".result").append($("reason")); // before the list that may contain it is replaced
  $("answers").replaceChildren(...groups);
  showOverview(found, from);
  $("result").hidden = false;
  const { hops } = runs.find((run) => run.run === view.run);
  if (!hops) status("An embedding model ranked these: it gives no paths.");
  else if (!answers.length) status(`No path of at most ${hops} hops reaches a new answer.`);
  speak(`${counted(answers.length, "predicted answer")}, ${counted(known.total, "known one")}.`);
}

function allKnown(from, few, total) {
  return element("span", "", `The first ${few} of ${counted(total, "fact")}; `, link({ entity: from.key }, "", "all of them"), ".");
}

function group(title, kind, items, note) {
  const parts = [element("h2", "", title), note ? element("p", "measure", note) : ""];
  parts.push(items.length ? element("ol", "", ...items) : element("p", "none", "None."));
  return element("section", `group ${kind}`, ...parts);
}

/** The best paths of all answers in one drawing, and files of what is shown. */
function showOverview(found, from) {
  const best = found.answers.filter((answer) => answer.paths.length);
  $("overview").hidden = best.length < 2;
  const paths = best.map((answer) => ({ ...answer.paths[0], share: answer.probability ?? 1 }));
  const drawn = best.length > 1 ? [picture({ ...from, head: from.name, paths, name: "The best path of each answer" }, (made) => (shown.overview = made))] : [];
  $("overview-picture").replaceChildren(...drawn);
  const columns = ["rank", "key", "entity", "is_known", "probability", "score"];
  const rows = () => [[...columns, "path"], ...found.answers.map((one) => [...columns.map((name) => one[name]), one.paths[0]?.text ?? ""])];
  const files = {
    csv: () => csv([...rows(), ...found.known.entities.map((one) => ["", one.entity, one.name, true, "", "", ""])]),
    json: () => json({ ...found, explanation: shown.explanation }),
    svg: () => svg(shown.drawn ?? shown.overview),
    png: () => png(shown.drawn ?? shown.overview),
  };
  const made = downloads(`${found.name} ${found.relation_name}`, files);
  made.append(linkButton());
  $("downloads").replaceChildren(made);
}

/** What percentages of this run assume. */
function basis() {
  return runs.find((one) => one.run === view.run)?.basis ?? "";
}

/** Explain the answer of the view, or the first one. */
async function explain() {
  const buttons = [...$("answers").querySelectorAll("button.answer")];
  const tail = view.answer || buttons[0]?.dataset.key;
  for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.key === tail));
  place();
  if (!tail) return void $("reason").replaceChildren(element("p", "hint", "There is no answer to explain."));
  const request = (explaining = new AbortController());
  busy($("reason"), true);
  try {
    const { found } = shown;
    const query = { run: view.run, head: found.head, relation: found.relation, tail };
    const explained = await post("explain", { ...query, paths: 5, k: view.k }, request.signal);
    if (request.signal.aborted) return;
    shown.explanation = explained;
    shown.drawn = null;
    $("reason").replaceChildren(...explanation(explained, { ...found, tail }, (made) => (shown.drawn = made)));
    if (view.answer) {
      speak(`Explained: ${clipped(explained.tail)}.`);
      reveal($("reason"));
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    $("reason").replaceChildren();
    fail(error);
  } finally {
    if (explaining === request) busy($("reason"), false);
  }
}

function explainOther() {
  if (other.value) return go({ answer: other.value });
  return void $("other").focus();
}

function linkButton() {
  const copy = button("Copy link", "link", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy link"), 2000);
    } catch {
      const field = element("input", "link"); // the clipboard needs a secure connection: select the link for copying
      field.readOnly = true;
      field.value = location.href;
      field.setAttribute("aria-label", "Link to this view");
      copy.replaceWith(field);
      field.select();
    }
  });
  return copy;
}

/** Put the explanation beside the answers on a wide screen, below its answer on a narrow one. */
function place() {
  const chosen = $("answers").querySelector("[aria-pressed=true]");
  const target = narrow.matches && chosen ? chosen.closest("li") : document.querySelector(".result");
  if ($("reason").parentElement !== target) target.append($("reason"));
}

/** Scroll to a part that is out of view. */
function reveal(part) {
  const { top } = part.getBoundingClientRect();
  if (top > innerHeight * 0.7 || top < 0) part.scrollIntoView({ behavior: still.matches ? "auto" : "smooth", block: "start" });
}

function busy(part, isBusy) {
  part.classList.toggle("busy", isBusy);
  part.setAttribute("aria-busy", String(isBusy));
}

function status(text) {
  $("status").textContent = text;
}

/** Announce a text to screen readers. */
function speak(text) {
  $("spoken").textContent = text;
}

function clipped(text) {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function clearProblem() {
  $("problem").hidden = true;
  $("problem").replaceChildren();
}

function fail(error) {
  if (error instanceof ApiError && error.status === 401) {
    if (!$("token").open) $("token").showModal();
    return $("token-value").focus();
  }
  const { field } = error.problem ?? {};
  const take = (name) => {
    if (field === "tail") return go({ answer: name });
    if (!view.relation) return go({ entity: name });
    return go({ head: view.head, relation: view.relation, [field === "relation" ? "relation" : "head"]: name });
  };
  $("problem").replaceChildren(...problem(error, take));
  $("problem").hidden = false;
}

async function start() {
  busy($("question"), true);
  try {
    ({ runs } = await get("runs"));
  } catch (error) {
    return fail(error);
  } finally {
    busy($("question"), false);
  }
  $("run").replaceChildren(...runs.map((run) => Object.assign(element("option", "", run.run), { value: run.run })));
  $("run-field").hidden = runs.length < 2;
  onView(runs[0].run, show);
  readAddress();
  const isUnknown = view.run && !runs.some((run) => run.run === view.run);
  if (isUnknown) view.run = null;
  const typed = head.value; // while the runs were loading
  await show();
  if (isUnknown) fail(new ApiError(404, { message: "This server has no run of that name.", remedy: "The first run is shown." }));
  if (!view.head && !view.entity) {
    $("head").focus({ preventScroll: true });
    if (typed) head.type(typed);
  }
}

const on = (part, name, act) => part.addEventListener(name, act);
const onSubmit = (id, act) =>
  on($(id), "submit", (event) => {
    event.preventDefault();
    act();
  });
onSubmit("question", submit);
onSubmit("why", explainOther);
onSubmit("token-form", () => {
  setToken($("token-value").value.trim());
  $("token-value").value = "";
  $("token").close();
  clearProblem();
  start();
});
on(narrow, "change", place);
on($("run"), "change", () => {
  other.set("", "");
  go({ run: $("run").value });
});
on($("answers"), "keydown", (event) => {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const buttons = [...$("answers").querySelectorAll("button.answer")];
  const next = buttons[buttons.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
  if (next) {
    event.preventDefault();
    next.focus();
  }
});
on(document.querySelector(".home"), "click", (event) => {
  if (!runs.length) return;
  follow(event, {});
  $("head").focus();
});
addEventListener("popstate", () => {
  if (!runs.length) return;
  readAddress();
  show();
});

takeToken();
start();
