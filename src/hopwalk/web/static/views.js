// Elements that show the server's answers.
import { arrow, bar, button, counted, element, label, number, percent } from "./dom.js";
import { picture } from "./picture.js";
import { entityLink, link } from "./state.js";

const INVERSE = "⁻¹";
const VARIABLES = "ABCDEFGH";

export function splitRelation(relation) {
  const isInverse = relation.endsWith(INVERSE);
  return { name: isInverse ? relation.slice(0, -INVERSE.length) : relation, isInverse };
}

/** `steroid —interacts with→ ?`; head and tail are elements or names. */
export function sentence(head, relation, tail = null) {
  const { name, isInverse } = splitRelation(relation);
  const shown = (part) => (typeof part === "string" ? label(part) : part);
  return [shown(head), " ", arrow(name, isInverse), " ", tail === null ? element("span", "blank", "?") : shown(tail)];
}

/** A path with links to its entities. */
export function pathLine(head, edges) {
  const steps = edges.flatMap((edge) => [" ", arrow(edge.relation, edge.is_inverse), " ", entityLink(edge.key, edge.entity)]);
  return element("p", "path", entityLink(head.key, head.name), ...(steps.length ? steps : [" (the walk stays there)"]));
}

export function isUnlikely(answer) {
  return Boolean(answer.is_unlikely ?? answer.unlikely ?? answer.kind === "unlikely");
}

/** One answer of the list: a button that explains it, a link to its entity, and its best path. */
export function answerItem(answer, head, choose) {
  const chance = answer.probability ?? null;
  const parts = [element("span", "rank", answer.rank ? `${answer.rank}` : ""), label(answer.entity, "name")];
  if (chance !== null) parts.push(element("span", "chance", bar(chance), element("span", "percent", percent(chance))));
  const chooser = button("", "answer", () => choose(answer));
  chooser.append(...parts);
  chooser.dataset.key = answer.key;
  chooser.setAttribute("aria-pressed", "false");
  const page = link({ entity: answer.key }, "to-entity", "↗");
  page.setAttribute("aria-label", `Page of ${answer.entity}`);
  page.title = "Its page";
  const item = element("li", "", element("div", "line", chooser, page));
  if (answer.paths?.length) item.append(pathLine(head, answer.paths[0].edges));
  else if (answer.paths && !answer.is_known) item.append(element("p", "path", "No path leads there."));
  return item;
}

/** Why this answer, or why not; `query` has the names and labels of head, relation and tail. */
export function explanation(found, query, onDrawn) {
  const head = { key: query.head, name: query.name };
  const title = element("h2", "claim", ...sentence(entityLink(head.key, head.name), query.relation_name, entityLink(query.tail, found.tail)));
  title.id = "claim";
  title.tabIndex = -1;
  const parts = [title, element("p", "verdict", ...verdict(found))];
  if (found.why_not) parts.push(element("p", "why-not", element("strong", "", "Why not: "), `${found.why_not.replace(/\.$/, "")}.`));
  const groups = groupsOf(found);
  const paths = groups.flatMap((group) => group.paths);
  if (paths.length) {
    parts.push(picture({ head: head.name, key: head.key, paths, name: `Paths from ${found.head} to ${found.tail}; listed below` }, onDrawn));
    parts.push(element("h3", "", "Reasons, those that carry most of the score first"));
    parts.push(element("ol", "reasons", ...groups.map((group) => reasonItem(group, head, query.relation_name))));
  }
  return parts;
}

/** Paths by rule: as the server groups them, or those of the same rule together. */
function groupsOf(found) {
  if (found.groups) return found.groups;
  const groups = new Map();
  for (const reason of found.reasons ?? []) {
    if (!groups.has(reason.rule)) groups.set(reason.rule, { ...reason, paths: [] });
    groups.get(reason.rule).paths.push(reason);
  }
  return [...groups.values()];
}

function verdict(found) {
  const [kind, text] = found.is_known
    ? ["known", "already known"]
    : found.rank === null
      ? ["guess", "no path"]
      : isUnlikely(found)
        ? ["guess", "unlikely"]
        : ["predicted", "predicted"];
  const sentences = [];
  if (found.rank === null) sentences.push("No path reaches it.");
  else sentences.push(`Rank\u00a0${number(found.rank)}.`);
  if (found.probability !== null && found.probability !== undefined) sentences.push(`${percent(found.probability)} likely.`);
  if (found.is_known) sentences.push("The graph has this fact; it is hidden from these paths.");
  return [element("span", `kind ${kind}`, text), " ", sentences.join(" ")];
}

/** A rule in words of the graph: `X —affects→ A ←affects— Y`. */
function ruleLine(edges, relation) {
  const variable = (text) => element("var", "", text);
  const { name, isInverse } = splitRelation(relation);
  const claim = [variable("X"), " ", arrow(name, isInverse), " ", variable("Y")];
  const body = edges.flatMap((edge, place) => [" ", arrow(edge.relation, edge.is_inverse), " ", variable(place === edges.length - 1 ? "Y" : VARIABLES[place])]);
  return element("p", "rule", ...claim, element("span", "if", " if "), variable("X"), ...body);
}

function reasonItem(group, head, relation) {
  const rule = group.paths[0]?.edges.length ? ruleLine(group.paths[0].edges, relation) : element("p", "rule", label(String(group.rule)));
  const parts = [rule];
  if (group.confidence !== undefined && group.confidence !== null) {
    const of = group.predictions === undefined ? counted(group.support, "known case") : `${number(group.support)}\u00a0of\u00a0${number(group.predictions)}`;
    const where = group.is_sampled ? ", in a random sample of the graph" : "";
    const text = element("span", "counted", "right ", element("span", "percent", percent(group.confidence)), ` of the time, ${of}${where}`);
    parts.push(element("p", "confidence", bar(group.confidence), text));
  }
  return element("li", "", ...parts, ...group.paths.map((path) => pathLine(head, path.edges)));
}

/** An option of the list of entities. */
export function entityOption({ entity, name }) {
  const parts = [label(name)];
  if (entity !== name) parts.push(label(entity, "detail"));
  return { key: entity, text: name, parts };
}

/** An option of the list of relations. */
export function relationOption({ relation, name, is_inverse, facts }, hasEntity) {
  const count = facts ? counted(facts, "fact") : hasEntity ? "no facts" : "";
  const text = is_inverse ? `${name}${INVERSE}` : name;
  return { key: relation, text, parts: [arrow(name, is_inverse), element("span", "detail", count)] };
}

/** A problem, its remedy, and buttons for suggested names. */
export function problem(error, take) {
  const { message, remedy, suggestions = [] } = error.problem ?? { message: "This page has failed.", remedy: String(error) };
  const plain = (text) => element("bdi", "", text);
  const parts = [element("p", "", element("strong", "", plain(message.charAt(0).toUpperCase() + message.slice(1))))];
  if (suggestions.length) {
    const offered = suggestions.map((name) => {
      const offer = button("", "suggestion", () => take(name));
      offer.append(label(name));
      return offer;
    });
    parts.push(element("p", "suggestions", "Did you mean ", ...offered));
  }
  if (remedy && !(suggestions.length && remedy.startsWith("Did you mean"))) parts.push(element("p", "", plain(remedy)));
  return parts;
}
