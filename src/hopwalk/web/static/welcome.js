// The first view: what this graph is, queries that work, and what a result looks like.
import { element, label, number, percent } from "./dom.js";
import { picture } from "./picture.js";
import { link } from "./state.js";
import { pathLine, sentence } from "./views.js";

export function welcome(run) {
  const { dataset, entities, relations, facts, hops, ranks_by: ranksBy, valid_mrr: mrr, examples } = run;
  const sizes = { entities, relations, facts };
  const counts = Object.entries(sizes).map(([name, count]) => element("div", "", element("dt", "", name), element("dd", "", number(count))));
  const walks = hops ? `It follows paths of at most ${hops}\u00a0hops and ranks by ${ranksBy}.` : `It ranks by ${ranksBy}.`;
  const quality = mrr === null ? "" : ` On held-out queries its mean reciprocal rank is ${(100 * mrr).toFixed(1)}.`;
  const about = element("div", "about", element("h1", "", "Ask a knowledge graph, and see the paths to the answers"));
  about.append(
    element("p", "lead", "This is ", label(dataset), ", a graph of facts. Some are missing: name an entity and a relation, and hopwalk finds them."),
    element("dl", "counts", ...counts),
    element("p", "model", walks + quality),
  );
  if (examples.length) about.append(element("h2", "", "Try one of these"), element("ul", "examples", ...examples.map(exampleItem)));
  const sample = examples.find((example) => example.answer?.paths.length);
  return sample ? [about, sampleOf(sample)] : [about];
}

function exampleItem({ head, name, relation, relation_name: relationName }) {
  return element("li", "", link({ head, relation }, "", ...sentence(name, relationName)));
}

/** The best answer of an example, as the page shows answers. */
function sampleOf({ head, name, relation_name: relationName, answer }) {
  const likely = answer.probability === null ? "" : `${percent(answer.probability)} likely. `;
  return element(
    "section",
    "sample",
    element("h2", "", "A result looks like this"),
    element("p", "claim", ...sentence(name, relationName, answer.entity)),
    element("p", "verdict", element("span", "kind predicted", answer.is_known ? "already known" : "predicted"), ` ${likely}The path is the reason:`),
    picture({ head: name, key: head, paths: answer.paths, name: `Path from ${name} to ${answer.entity}` }),
    pathLine({ key: head, name }, answer.paths[0].edges),
  );
}
