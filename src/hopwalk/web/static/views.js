// Elements that show the server's answers.
import { arrow, bar, button, counted, element, label, number, percent, plain } from "./dom.js";
import { picture } from "./picture.js";
import { FEW, entityLink, link } from "./state.js";

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
  if (isLost(found)) parts.push(whyNot(found));
  const holding = found.reasons.filter((group) => group.support > 0);
  const groups = holding.length ? holding : found.reasons; // rules that never hold are no reasons while there are others
  const paths = groups.flatMap((group) => group.paths);
  if (paths.length) {
    parts.push(picture({ head: head.name, key: head.key, paths, name: `Paths from ${found.head} to ${found.tail}; listed below` }, onDrawn));
    parts.push(element("h3", "", holding.length ? "Reasons, those that carry most of the score first" : "No rule behind these paths ever holds in the graph"));
    parts.push(element("ol", "reasons", ...groups.map((group) => reasonItem(group, head, query.relation_name))));
    const rest = found.reasons.filter((group) => !groups.includes(group)).reduce((sum, group) => sum + group.share, 0);
    if (rest >= 0.005) parts.push(element("p", "rest", shareText(rest), " by paths whose rules never hold in the graph"));
  }
  return parts;
}

/** Whether it is not among the first answers, so that people ask why. */
function isLost(found) {
  return Boolean(found.why_not) && (found.rank === null || found.rank > FEW || Boolean(found.missing_fact));
}

/** Why it is not the first answer, and the fact with which it would be further ahead. */
function whyNot({ why_not: sentences, missing_fact: missing }) {
  const parts = [element("strong", "", "Why not? "), plain(sentences)];
  if (missing) {
    const [from, to] = [entityLink(missing.head_key, missing.head), entityLink(missing.tail_key, missing.tail)];
    parts.push(" With the fact ", ...sentence(from, missing.relation, to), ` it would have rank\u00a0${number(missing.rank)}.`);
  }
  return element("p", "why-not", ...parts);
}

/** The part that paths have in a score: not a probability, so without a per cent sign. */
function shareText(share) {
  return share > 0 && share < 0.005 ? "share\u00a0<\u00a00.01" : `share\u00a0${Math.max(0, share).toFixed(2)}`;
}

function verdict(found) {
  const [kind, text] = found.is_known
    ? ["known", "already known"]
    : found.rank === null
      ? ["guess", "not reached"]
      : isUnlikely(found)
        ? ["guess", "unlikely"]
        : ["predicted", "predicted"];
  const rank = found.rank === null ? "Not reached." : `Rank\u00a0${number(found.rank)}.`;
  const sentences = [isLost(found) ? rank : found.why_not || rank];
  if (found.probability !== null && found.probability !== undefined) sentences.push(`${percent(found.probability)} likely.`);
  if (found.is_known) sentences.push("The graph has this fact; it is hidden from these paths.");
  return [element("span", `kind ${kind}`, text), " ", plain(sentences.join(" "))];
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
  const paths = group.paths.map((path) => {
    const line = pathLine(head, path.edges);
    line.prepend(element("span", "share", shareText(path.share)), " ");
    return line;
  });
  return element("li", "", rule, element("p", "confidence", bar(group.confidence), confidence(group)), ...paths);
}

/** How often a rule is right. */
function confidence({ confidence: rate, support, predictions, is_sampled: isSampled }) {
  if (!predictions) return element("span", "counted", "connects nothing else in the graph");
  const of = `${number(support)}\u00a0of\u00a0${number(predictions)}`;
  const where = isSampled ? ", in a random part of the graph" : "";
  if (!support) return element("span", "counted", `never right, ${of}${where}`);
  return element("span", "counted", "right ", element("span", "percent", percent(rate)), ` of the time, ${of}${where}`);
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
