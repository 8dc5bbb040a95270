// The page: a query in, answers out. The address always holds the whole view.
import { ApiError, get, post, setToken, takeToken } from "./api.js";
import { Combobox } from "./combobox.js";
import { element, label, number } from "./dom.js";
import { answerItem, entityOption, explanation, problem, relationOption, sentence, splitRelation } from "./views.js";

const FEW = 10;
const MANY = 50; // after "More answers"
const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const narrow = matchMedia("(max-width: 52rem)"); // as in style.css
let runs = [];
let view = { run: null, head: "", relation: "", new: false, k: FEW, answer: "" }; // the state in the address
let shownQuery = null; // the query whose answers are shown, as JSON
let underWay = null; // the request for answers
let explaining = null; // the request for an explanation

const head = new Combobox($("head"), {
  search: async (text, signal) => (await get("entities", { q: text, run: view.run }, signal)).entities.map(entityOption),
  choose: () => $("relation").focus(),
});
const relation = new Combobox($("relation"), {
  search: searchRelations,
  choose: () => submit(),
  opensEmpty: true,
});
const other = new Combobox($("other"), {
  search: async (text, signal) => (await get("entities", { q: text, run: view.run }, signal)).entities.map(entityOption),
  choose: () => explainOther(),
});

async function searchRelations(text, signal) {
  const entity = head.value;
  const find = (own) => get("relations", { q: text, entity: own, run: view.run, limit: 60 }, signal);
  const found = await find(entity).catch((error) => {
    if (error instanceof ApiError && error.status === 404) return find(""); // a half-typed entity has no relations of its own
    throw error;
  });
  return found.relations.map((one) => relationOption(one, Boolean(entity)));
}

// The address

function viewOf(search) {
  const given = new URLSearchParams(search);
  return {
    run: given.get("run"),
    head: given.get("head") ?? "",
    relation: given.get("relation") ?? "",
    new: given.get("new") === "1",
    k: given.get("k") === String(MANY) ? MANY : FEW,
    answer: given.get("answer") ?? "",
  };
}

function addressOf({ run, head, relation, new: onlyNew, k, answer }) {
  const parameters = new URLSearchParams();
  if (run && runs.length && run !== runs[0].run) parameters.set("run", run);
  if (head) parameters.set("head", head);
  if (relation) parameters.set("relation", relation);
  if (onlyNew) parameters.set("new", "1");
  if (k === MANY) parameters.set("k", String(k));
  if (answer) parameters.set("answer", answer);
  const query = parameters.toString();
  return location.pathname + (query ? `?${query}` : "");
}

function go(next) {
  view = { ...view, ...next };
  if (addressOf(view) !== location.pathname + location.search) history.pushState(null, "", addressOf(view));
  return show();
}

// Asking

function submit() {
  if (!head.value) return void $("head").focus();
  if (!relation.value) return void $("relation").focus();
  return go({ head: head.value, relation: relation.value, new: $("new").checked, k: FEW, answer: "" });
}

/** Show the view of the address. */
async function show() {
  const run = runs.find((one) => one.run === view.run) ?? runs[0];
  view.run = run.run;
  $("run").value = run.run;
  $("new").checked = view.new;
  if (head.value !== view.head) head.set(view.head, view.head);
  if (relation.value !== view.relation) relation.set(view.relation, view.relation);
  showCard(run);
  clearProblem();
  const hasQuestion = Boolean(view.head && view.relation);
  $("welcome").hidden = hasQuestion;
  if (!hasQuestion) {
    underWay?.abort();
    explaining?.abort();
    $("result").hidden = true;
    shownQuery = null;
    status("");
    document.title = "hopwalk";
    return;
  }
  if (await ask()) await explain();
}

/** Show the answers of the query; returns whether it succeeded. */
async function ask() {
  const question = { run: view.run, head: view.head, relation: view.relation, only_new: view.new, k: view.k, paths: 1 };
  const same = JSON.stringify(question);
  if (shownQuery === same) return true;
  underWay?.abort();
  explaining?.abort();
  const request = (underWay = new AbortController());
  busy($("question"), true);
  status("Searching…");
  try {
    const found = await post("ask", question, request.signal);
    if (request.signal.aborted) return false;
    shownQuery = same;
    $("result").append($("reason")); // before the list that may contain it is replaced
    showAnswers(found);
    return true;
  } catch (error) {
    if (error.name === "AbortError") return false;
    shownQuery = null;
    $("result").hidden = true;
    status("");
    fail(error);
    return false;
  } finally {
    if (underWay === request) busy($("question"), false);
  }
}

function showAnswers(found) {
  const { answers, name } = found;
  if (head.value === found.head) head.set(found.head, name);
  if (relation.value === found.relation) relation.set(found.relation, found.relation_name);
  $("asked").replaceChildren(...sentence(name, found.relation_name));
  Object.assign($("asked").dataset, { head: name, relation: found.relation_name });
  const hasChances = answers.some((answer) => answer.probability !== null);
  $("measure").textContent = hasChances ? "Bars show how likely a new fact is to be true." : "";
  $("answers").replaceChildren(...answers.map((answer) => answerItem(answer, name)));
  [...$("answers").querySelectorAll("button")].forEach((button, place) => {
    button.addEventListener("click", () => go({ answer: answers[place].key }));
    button.dataset.key = answers[place].key;
  });
  $("result").hidden = false;
  const { name: asks } = splitRelation(found.relation_name);
  document.title = `${clipped(name)} · ${clipped(asks)} · hopwalk`;
  const { hops } = runs.find((run) => run.run === view.run);
  if (!hops) status("An embedding model ranked these: it gives no paths.");
  else status(answers.length ? "" : `No path of at most ${hops} hops reaches an answer.`);
  $("more").hidden = view.k === MANY || answers.length < view.k;
  speak(`${answers.length} answer${answers.length === 1 ? "" : "s"}.`);
}

// Explaining

async function explain() {
  explaining?.abort();
  for (const button of $("answers").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.key === view.answer));
  }
  place();
  $("hint").hidden = Boolean(view.answer);
  if (!view.answer) {
    $("explanation").hidden = true;
    $("explanation").replaceChildren();
    return;
  }
  const request = (explaining = new AbortController());
  busy($("reason"), true);
  try {
    const question = { run: view.run, head: view.head, relation: view.relation, tail: view.answer, paths: 5 };
    const found = await post("explain", question, request.signal);
    if (request.signal.aborted) return;
    $("explanation").replaceChildren(...explanation(found, $("asked").dataset), linkButton());
    $("explanation").hidden = false;
    speak(`Explained: ${clipped(found.tail)}.`);
    reveal($("reason"));
  } catch (error) {
    if (error.name === "AbortError") return;
    $("explanation").replaceChildren();
    $("explanation").hidden = true;
    $("hint").hidden = false;
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
  const button = element("button", "link", "Copy link to this view");
  button.type = "button";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy link to this view"), 2000);
    } catch {
      const field = element("input", "link"); // the clipboard needs a secure connection: select the link for copying
      field.readOnly = true;
      field.value = location.href;
      field.setAttribute("aria-label", "Link to this view");
      button.replaceWith(field);
      field.select();
    }
  });
  return button;
}

/** Put the explanation beside the answers on a wide screen, below its answer on a narrow one. */
function place() {
  const chosen = $("answers").querySelector("[aria-pressed=true]");
  if (narrow.matches && chosen) chosen.parentElement.append($("reason"));
  else if ($("reason").parentElement !== $("result")) $("result").append($("reason"));
}

/** Scroll to a part that is out of view. */
function reveal(part) {
  if (part.getBoundingClientRect().top > innerHeight * 0.7) {
    part.scrollIntoView({ behavior: still.matches ? "auto" : "smooth", block: "start" });
  }
}

// States

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
  if (error instanceof ApiError && error.status === 401) return askForToken();
  const { field } = error.problem ?? {};
  const take = (name) => {
    if (field === "tail") return go({ answer: name });
    return go({ [field ?? "head"]: name });
  };
  $("problem").replaceChildren(...problem(error, take));
  $("problem").hidden = false;
}

function showCard(run) {
  const mrr = run.valid_mrr === null ? "" : `; dev MRR ${(100 * run.valid_mrr).toFixed(1)}`;
  const facts = `${number(run.facts)} facts about ${number(run.entities)} entities and ${number(run.relations)} relations`;
  $("card").replaceChildren(label(run.run, "name"), ` · ${facts} · paths of at most ${run.hops} hops${mrr}`);
  $("about").replaceChildren(
    label(run.dataset),
    ` has ${facts}. Ask for a missing fact: hopwalk follows paths of at most ${run.hops} hops to find it.`,
  );
  $("examples").replaceChildren(
    ...run.examples.map((example) => {
      const link = element("a", "", ...sentence(example.name, example.relation_name));
      link.href = addressOf({ ...view, run: run.run, head: example.head, relation: example.relation, k: FEW, answer: "" });
      link.addEventListener("click", (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go({ head: example.head, relation: example.relation, k: FEW, answer: "" });
      });
      return element("li", "", link);
    }),
  );
}

function askForToken() {
    if (!$("token").open) $("token").showModal();
  $("token-value").focus();
}

// Beginning

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
  view = viewOf(location.search);
  if (view.run && !runs.some((run) => run.run === view.run)) {
    const problem = { message: "This server has no run of that name.", remedy: "The first run is shown." };
    view.run = null;
    await show();
    return fail(new ApiError(404, problem));
  }
  await show();
  if (!view.head) $("head").focus({ preventScroll: true });
}

$("question").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
narrow.addEventListener("change", place);
$("more").addEventListener("click", () => go({ k: MANY }));
$("why").addEventListener("submit", (event) => {
  event.preventDefault();
  explainOther();
});
$("new").addEventListener("change", () => head.value && relation.value && submit());
$("run").addEventListener("change", () => {
  shownQuery = null;
  head.set("", "");
  relation.set("", "");
  other.set("", "");
  go({ run: $("run").value, head: "", relation: "", k: FEW, answer: "" });
});
$("answers").addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const buttons = [...$("answers").querySelectorAll("button")];
  const next = buttons[buttons.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
  if (next) {
    event.preventDefault();
    next.focus();
  }
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken($("token-value").value.trim());
  $("token-value").value = "";
  $("token").close();
  clearProblem();
  start();
});
document.querySelector(".home").addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || !runs.length) return;
  event.preventDefault();
  head.set("", "");
  relation.set("", "");
  go({ head: "", relation: "", k: FEW, answer: "" });
  $("head").focus();
});
addEventListener("popstate", () => {
  if (!runs.length) return;
  const run = view.run;
  view = viewOf(location.search);
  if ((view.run ?? runs[0].run) !== run) shownQuery = null;
  show();
});

takeToken();
start();
