// The hash of the address: a path and a query, so that every view has a link.

export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

export function write(path, query = {}) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = new URLSearchParams(pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined));
  const text = kept.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Changes a value in the address, such as the open node, without a new entry in the history. */
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
