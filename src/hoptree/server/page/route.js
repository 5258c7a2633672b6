// What stands behind # in the address: a path and what was asked for, so that every view can be linked to.

export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

export function write(path, query = {}) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = new URLSearchParams(pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined));
  const told = kept.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${told ? `?${told}` : ""}`;
}

/** Another value in the address without a step in the history: which node is open, say. */
export function note(name, value) {
  const { path, query } = read();
  if (value === "" || value === null) query.delete(name);
  else query.set(name, value);
  history.replaceState(history.state, "", write(path, query));
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
