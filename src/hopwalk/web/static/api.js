// Requests to the server, and the token it may require.

const KEY = "hopwalk-token";
let token = null;

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
  }
}

/** Take the token out of the address (`#token=…`), so that it is neither bookmarked nor copied with the link. */
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    setToken(given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  token ??= stored();
}

export function setToken(value) {
  token = value;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // storage is off: the token lasts as long as the page
  }
}

function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return request(query ? `${path}?${query}` : path, { signal });
}

export function post(path, body, signal = undefined) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function request(path, options) {
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(`api/v1/${path}`, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "unreachable", message: "The server cannot be reached.", remedy: "Is it still running?" });
  }
  const content = await response.json().catch(() => null);
  if (response.ok && content) return content;
  throw new ApiError(response.status, content?.error ?? { code: "unreadable", message: `The server answered ${response.status}.` });
}
