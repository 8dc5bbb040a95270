// The page of an entity: what is predicted for it, its facts by relation, and similar entities.
import { get, post } from "./api.js";
import { arrow, bar, button, counted, element, label, number, percent } from "./dom.js";
import { csv, downloads, json } from "./download.js";
import { entityLink, link, view } from "./state.js";
import { isUnlikely, pathLine } from "./views.js";

const MOST_ASKED = 6; // relations for which predictions are asked
const MOST_PREDICTED = 8;
const PAGE = 50; // facts that "More" adds

export async function entityPage(key, signal) {
  const found = await get("profile", { entity: key, run: view.run }, signal);
  const title = element("h1", "asked", label(found.name));
  title.tabIndex = -1;
  const about = element("p", "verdict", counted(found.facts, "known fact"), found.name === found.entity ? "" : ", in the data ", found.name === found.entity ? "" : label(found.entity));
  const predicted = element("section", "predictions", element("h2", "", "Predicted"), element("p", "none", "Searching…"));
  const similar = found.similar.map((one) =>
    element("li", "", entityLink(one.entity, one.name), " ", element("span", "detail", `shares ${number(one.shared)}\u00a0of its ${counted(one.facts, "fact")}`)),
  );
  const facts = element("section", "facts", element("h2", "", "Known facts"), ...found.relations.map((one) => factsOf(found, one)));
  const side = element("div", "", predicted);
  if (similar.length) side.append(element("section", "similar", element("h2", "", "Similar: the same relations to the same neighbours"), element("ul", "", ...similar)));
  const rows = () => [["head", "relation", "tail"], ...found.relations.flatMap((one) => one.entities.map((other) => rowOf(found, one, other)))];
  const files = { csv: () => csv(rows()), json: () => json(found) };
  fillPredictions(predicted, found, signal);
  return [title, about, element("div", "columns", facts, side), downloads(found.name, files)];
}

function rowOf(found, { relation, is_inverse: isInverse }, other) {
  const name = relation.replace(/⁻¹$/, "");
  return isInverse ? [other.entity, name, found.entity] : [found.entity, name, other.entity];
}

/** The facts of one relation; "More" adds a page to them. */
function factsOf(found, group) {
  const list = element("ul", "neighbours");
  const add = (entities) => list.append(...entities.map((one) => element("li", "", entityLink(one.entity, one.name))));
  add(group.entities);
  const title = element("h3", "", link({ head: found.entity, relation: group.relation }, "", arrow(group.name, group.is_inverse)), " ", element("span", "detail", counted(group.total, "fact")));
  const part = element("div", "group", title, list);
  const more = button("More", "link", async () => {
    const offset = group.entities.length;
    const next = await get("facts", { entity: found.entity, relation: group.relation, run: view.run, offset, limit: PAGE }).catch(() => null);
    if (!next) return void (more.textContent = "The server cannot be reached.");
    group.entities.push(...next.entities);
    add(next.entities);
    more.hidden = group.entities.length >= next.total;
    list.children[offset]?.querySelector("a")?.focus();
  });
  more.hidden = group.entities.length >= group.total;
  more.setAttribute("aria-label", `More facts: ${group.name}`);
  part.append(more);
  return part;
}

/** The likeliest new facts of the entity, over the relations it has most of. */
async function fillPredictions(part, found, signal) {
  const asked = found.relations.slice(0, MOST_ASKED).map(async ({ relation, name, is_inverse: isInverse }) => {
    const query = { run: view.run, head: found.entity, relation, only_new: true, k: 3, paths: 1 };
    const { answers } = await post("ask", query, signal);
    return answers.filter((answer) => !isUnlikely(answer)).map((answer) => ({ ...answer, relation, name, isInverse }));
  });
  const settled = await Promise.allSettled(asked);
  const answers = settled.flatMap((one) => one.value ?? []);
  answers.sort((one, other) => (other.probability ?? 0) - (one.probability ?? 0));
  const items = answers.slice(0, MOST_PREDICTED).map((answer) => {
    const { relation, name, isInverse, probability } = answer;
    const line = element("p", "", link({ head: found.entity, relation, answer: answer.key }, "", arrow(name, isInverse)), " ", entityLink(answer.key, answer.entity));
    const chance = probability === null ? "" : element("span", "chance", bar(probability), element("span", "percent", percent(probability)));
    return element("li", "", line, chance, answer.paths.length ? pathLine({ key: found.entity, name: found.name }, answer.paths[0].edges) : "");
  });
  part.replaceChildren(part.firstElementChild, items.length ? element("ul", "", ...items) : element("p", "none", "Nothing new for its most frequent relations."));
}
