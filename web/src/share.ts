// A fresh answer with the old objects wherever they are the same: what shows one of those is not rendered again.

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

// Items of a list are found by what names them, since new ones come in front.
function nameOf(item: unknown): unknown {
  if (!isObject(item)) return undefined;
  return item.id ?? item.seq ?? item.replica ?? item.round;
}

function shareList(old: unknown[], fresh: unknown[]): unknown[] {
  if (!isObject(fresh[0])) return fresh.length === old.length && fresh.every((item, i) => Object.is(item, old[i])) ? old : fresh;
  const named = new Map(old.map((item) => [nameOf(item), item]));
  const list = fresh.map((item, i) => share(nameOf(item) === undefined ? old[i] : named.get(nameOf(item)), item));
  return list.length === old.length && list.every((item, i) => item === old[i]) ? old : list;
}

export function share<T>(old: unknown, fresh: T): T {
  if (Object.is(old, fresh)) return fresh;
  if (Array.isArray(old) && Array.isArray(fresh)) return shareList(old, fresh) as T;
  if (!isObject(old) || !isObject(fresh)) return fresh;
  const keys = Object.keys(fresh);
  const shared = Object.fromEntries(keys.map((key) => [key, share(old[key], fresh[key])]));
  const same = keys.length === Object.keys(old).length && keys.every((key) => shared[key] === old[key]);
  return (same ? old : shared) as T;
}
