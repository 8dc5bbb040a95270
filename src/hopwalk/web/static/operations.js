// List the operations of openapi.json.
import { element } from "./dom.js";

const place = document.getElementById("operations");

async function list() {
  const api = await (await fetch("openapi.json")).json();
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const [verb, operation] of Object.entries(operations)) place.append(shown(api, path, verb, operation));
  }
  place.setAttribute("aria-busy", "false");
}

function shown(api, path, verb, operation) {
  const verbShown = element("span", "verb", verb.toUpperCase());
  const summary = element("summary", "", verbShown, element("code", "", path), element("span", "description", (operation.description ?? "").replaceAll("`", "")));
  const body = schemaOf(api, operation.requestBody?.content?.["application/json"]?.schema);
  const answer = schemaOf(api, (operation.responses["200"] ?? operation.responses["202"])?.content?.["application/json"]?.schema);
  const parameters = (operation.parameters ?? []).map((one) => row(one.name, one.schema, one.required, one.description));
  return element(
    "details",
    "operation",
    summary,
    ...section("Parameters", parameters),
    ...section("Body", body ? fields(body) : []),
    ...section("Response", answer ? fields(answer) : []),
    element("h3", "", "Example"),
    element("pre", "", example(api, path, verb, body)),
    element("h3", "", "Errors"),
    table(errors(operation)),
  );
}

function section(title, rows) {
  return rows.length ? [element("h3", "", title), table(rows)] : [];
}

function table(rows) {
  return element("div", "scroll", element("table", "", element("tbody", "", ...rows)));
}

function errors(operation) {
  const others = Object.entries(operation.responses).filter(([status]) => Number(status) >= 400);
  return others.map(([status, { description }]) => element("tr", "", element("th", "", status), element("td", "", description)));
}

function schemaOf(api, schema) {
  const name = schema?.$ref?.split("/").pop();
  return name ? api.components.schemas[name] : schema;
}

function fields(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, value]) => row(name, value, required.has(name), value.description));
}

function row(name, schema, isRequired, description = "") {
  const kind = [typeOf(schema), bounds(schema), isRequired || schema.default === undefined || schema.default === null ? "" : `default ${schema.default}`];
  const cells = [kind.filter(Boolean).join(", "), (description || schema.description || "").replaceAll("`", "")];
  return element("tr", "", element("th", "", element("code", "", name)), ...cells.map((cell) => element("td", "", cell)));
}

function typeOf(schema) {
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.$ref) return schema.$ref.split("/").pop().replace(/Body$/, "");
  return schema.type === "array" ? `list of ${typeOf(schema.items)}` : schema.type ?? "any";
}

function bounds(schema) {
  const { minimum, maximum } = schema;
  return minimum === undefined || maximum === undefined ? "" : `${minimum} to ${maximum}`;
}

function example(api, path, verb, body) {
  const url = new URL(path.slice(1), new URL(".", location.href));
  if (verb !== "post") return `curl ${verb === "get" ? "" : `-X ${verb.toUpperCase()} `}${url}`;
  const query = { head: "HEAD", relation: "RELATION" };
  const request = body.properties.queries ? { queries: [query] } : body.properties.relations ? { relations: ["RELATION"] } : { ...query, ...(body.properties.tail ? { tail: "TAIL" } : {}) };
  return `curl ${url} -H 'Content-Type: application/json' -d '${JSON.stringify(request)}'`;
}

list().catch(() => {
  place.setAttribute("aria-busy", "false");
  place.append(element("p", "problem", "openapi.json cannot be loaded. Is the server still running?"));
});
