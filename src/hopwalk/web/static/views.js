// Elements that show the server's answers.
import { arrow, bar, drawing, element, label, number, percent } from "./dom.js";

const INVERSE = "⁻¹";
const KINDS = {
  known: ["known", "A fact of the graph"],
  predicted: ["predicted", "Not in the graph; a path leads to it"],
  guess: ["no path", "No path leads to it"],
};

export function kindOf(answer) {
  if (answer.is_known) return "known";
  return answer.paths.length ? "predicted" : "guess";
}

export function splitRelation(relation) {
  const isInverse = relation.endsWith(INVERSE);
  return { name: isInverse ? relation.slice(0, -INVERSE.length) : relation, isInverse };
}

/** `steroid —interacts_with→ ?`, with the answer in place of the question mark if there is one. */
export function sentence(head, relation, tail = null) {
  const { name, isInverse } = splitRelation(relation);
  return [label(head), " ", arrow(name, isInverse), " ", tail === null ? element("span", "blank", "?") : label(tail)];
}

function pathLine(head, edges) {
  const steps = edges.flatMap((edge) => [" ", arrow(edge.relation, edge.is_inverse), " ", label(edge.entity)]);
  return element("span", "path", label(head), ...(steps.length ? steps : [" (the walk stays there)"]));
}

/** One answer of the list; a button that explains it. */
export function answerItem(answer, head) {
  const chance = answer.probability;
  const [text, meaning] = KINDS[kindOf(answer)];
  const kind = element("span", `kind ${kindOf(answer)}`, text);
  kind.title = meaning;
  const button = element(
    "button",
    "answer",
    element("span", "rank", `${answer.rank}`),
    element("span", "who", label(answer.entity), kind),
    element("span", "chance", chance === null ? "" : bar(chance), element("span", "percent", chance === null ? "" : percent(chance))),
    answer.paths.length ? pathLine(head, answer.paths[0].edges) : element("span", "path", answer.is_known ? "A fact of the graph, without another path." : "No path leads there."),
  );
  button.type = "button";
  button.setAttribute("aria-pressed", "false");
  return element("li", "", button);
}

/** Why this answer, or why not; `query` has the names of head and relation. */
export function explanation(found, query) {
  const title = element("h2", "claim", ...sentence(query.head, query.relation, found.tail));
  title.id = "claim";
  title.tabIndex = -1;
  const parts = [title, element("p", "verdict", ...verdict(found))];
  if (found.why_not) parts.push(element("p", "why-not", element("strong", "", "Why not: "), `${found.why_not}.`));
  const picture = found.drawing ? drawing(found.drawing) : null;
  if (picture) parts.push(pictureFrame(picture, found));
  if (found.reasons.length) {
    parts.push(element("h3", "", "Paths, those that carry most of the score first"));
    parts.push(element("ol", "reasons", ...found.reasons.map((reason) => reasonItem(reason, query.head))));
  }
  return parts;
}

function verdict(found) {
  const kind = found.is_known ? "known" : found.rank === null ? "guess" : "predicted";
  const mark = element("span", `kind ${kind}`, KINDS[kind][0]);
  const sentences = [];
  if (found.rank === null) sentences.push("No path reaches it.");
  else sentences.push(`Rank ${number(found.rank)}.`);
  if (found.probability !== null) sentences.push(`${percent(found.probability)} likely.`);
  if (found.is_known) sentences.push("The graph has this fact; it is hidden from these paths.");
  return [mark, " ", sentences.join(" ")];
}

function pictureFrame(picture, found) {
  picture.setAttribute("role", "img");
  picture.style.setProperty("--width", `${picture.getAttribute("width")}px`);
  picture.setAttribute("aria-label", `Paths from ${found.head} to ${found.tail}; listed below`);
  const frame = element("div", "picture", picture);
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "Drawing; arrow keys scroll it");
  return frame;
}

function reasonItem(reason, headName) {
  const counted = `holds ${number(reason.support)} of ${number(reason.predictions)} times`;
  const where = reason.is_sampled ? ", in a random sample of the graph" : "";
  const line = element("p", "confidence", bar(reason.confidence), element("span", "percent", percent(reason.confidence)), element("span", "counted", counted + where));
  return element("li", "", pathLine(headName, reason.edges), element("code", "rule", element("bdi", "", reason.rule)), line);
}

/** An option of the list of entities. */
export function entityOption({ entity, name }) {
  const parts = [label(name)];
  if (entity !== name) parts.push(label(entity, "detail"));
  return { key: entity, text: name, parts };
}

/** An option of the list of relations. */
export function relationOption({ relation, name, is_inverse, facts }, hasEntity) {
  const count = facts ? `${number(facts)} ${facts === 1 ? "fact" : "facts"}` : hasEntity ? "no facts" : "";
  const text = is_inverse ? `${name}${INVERSE}` : name;
  return { key: relation, text, parts: [arrow(name, is_inverse), element("span", "detail", count)] };
}

/** A problem, its remedy, and buttons for suggested names. */
export function problem(error, take) {
  const { message, remedy, suggestions = [] } = error.problem ?? { message: "This page has failed.", remedy: String(error) };
  const parts = [element("p", "", element("strong", "", label(sentenceCase(message), "")))];
  if (suggestions.length) {
    const offered = suggestions.map((name) => {
      const button = element("button", "suggestion", label(name));
      button.type = "button";
      button.addEventListener("click", () => take(name));
      return button;
    });
    parts.push(element("p", "suggestions", "Did you mean ", ...offered));
  }
  if (remedy && !(suggestions.length && remedy.startsWith("Did you mean"))) {
    parts.push(element("p", "", label(remedy, "")));
  }
  return parts;
}

function sentenceCase(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
