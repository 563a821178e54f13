// Fewer points, smoother lines: what a chart or a spark-line draws of a long series.

// An exponential moving average, corrected for its start; gaps stay gaps.
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let sum = 0, scale = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return null;
    sum = sum * weight + value * (1 - weight);
    scale = scale * weight + (1 - weight);
    return sum / scale;
  });
}

// At most `most` points that keep every peak: the least and the greatest of each bucket, in their order.
export function thin(xs: number[], ys: (number | null)[], most: number): [number[], (number | null)[]] {
  if (xs.length <= most || most < 4) return [xs, ys];
  const outX: number[] = [], outY: (number | null)[] = [];
  const bucket = (2 * xs.length) / most;
  for (let from = 0; from < xs.length; ) {
    const to = Math.min(xs.length, Math.max(from + 1, Math.round((Math.floor(from / bucket + 1e-9) + 1) * bucket)));
    let low = from, high = from;
    for (let i = from; i < to; ++i) {
      if ((ys[i] ?? Infinity) < (ys[low] ?? Infinity)) low = i;
      if ((ys[i] ?? -Infinity) > (ys[high] ?? -Infinity)) high = i;
    }
    for (const i of low === high ? [low] : low < high ? [low, high] : [high, low]) {
      outX.push(xs[i]!);
      outY.push(ys[i]!);
    }
    from = to;
  }
  return [outX, outY];
}

// The same for a line whose positions may be missing.
export function thinLine<T extends { x: (number | null)[]; y: (number | null)[] }>(line: T, most: number): T {
  if (line.x.length <= most) return line;
  const whole = line.x.every((x) => x !== null);
  const kept = whole ? line : { x: line.x.filter((x) => x !== null), y: line.y.filter((_, i) => line.x[i] !== null) };
  const [x, y] = thin(kept.x as number[], kept.y, most);
  return { ...line, x, y };
}

// Several lines over one x axis: the union of their positions, with gaps where a line has none.
export function align(lines: { x: (number | null)[]; y: (number | null)[] }[]): [number[], ...(number | null)[][]] {
  const all = new Set<number>();
  for (const line of lines) for (const x of line.x) if (x !== null && Number.isFinite(x)) all.add(x);
  const xs = [...all].sort((a, b) => a - b);
  const at = new Map(xs.map((x, i) => [x, i]));
  const columns = lines.map((line) => {
    const column = new Array<number | null>(xs.length).fill(null);
    line.x.forEach((x, i) => {
      const index = x === null ? undefined : at.get(x);
      const y = line.y[i];
      if (index !== undefined && y !== null && y !== undefined && Number.isFinite(y)) column[index] = y;
    });
    return column;
  });
  return [xs, ...columns];
}

// Where `value` lies on the line through (from[i], to[i]); both grow. Outside: the nearest end.
export function interpolate(from: (number | null)[], to: (number | null)[], value: number): number | null {
  const count = Math.min(from.length, to.length);
  let low = 0, high = count; // the first that is not below it
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((from[middle] ?? -Infinity) < value) low = middle + 1;
    else high = middle;
  }
  if (low === count) return count > 0 ? (to[count - 1] ?? null) : null;
  const x = from[low], y = to[low];
  const px = low > 0 ? from[low - 1] : null, py = low > 0 ? to[low - 1] : null;
  if (x == null || y == null || px == null || py == null || x === px) return y ?? null;
  return py + ((value - px) / (x - px)) * (y - py);
}

export function csv(header: string[], rows: (string | number | null)[][]): string {
  const cell = (value: string | number | null) => {
    const text = value === null ? '' : String(value);
    // A spreadsheet takes these for a formula.
    const safe = typeof value === 'string' && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [header, ...rows].map((row) => row.map(cell).join(',')).join('\n') + '\n';
}
