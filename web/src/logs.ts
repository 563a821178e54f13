// Lines of logs as a page keeps them: the last ones first, then what came since, each once and in order, at most
// so many that a browser stays quick.
import { ask, query } from './api';
import type { LogLine, LogPage } from './api_types';

export interface LogFilter {
  level?: string;
  source?: string;
  replica?: string;
  q?: string;
}

export interface Log {
  lines: LogLine[];
  cursor: string;
  missing: LogPage['missing'];
  dropped: number; // older lines that are no longer kept here
}

export const kLinesMost = 20_000;
const kTail = 1000; // asked for at a time
const kPagesMost = 10; // asked for at once when many lines came

// The page after what is known. Lines of several hosts may arrive late: they are put in their place.
export function grow(known: Log | undefined, page: LogPage, most = kLinesMost): Log {
  const { next_cursor: cursor, missing } = page;
  if (known !== undefined && page.items.length === 0) return { ...known, cursor, missing };
  const before = known?.lines ?? [];
  const last = before[before.length - 1]?.at ?? '';
  const inOrder = page.items.every((line) => line.at >= last);
  const all = inOrder ? [...before, ...page.items] : [...before, ...page.items].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const over = Math.max(0, all.length - most);
  return { lines: over > 0 ? all.slice(over) : all, cursor, missing, dropped: (known?.dropped ?? 0) + over };
}

// `of` is a path: /jobs/{job} or /agents/{agent}.
export async function readLog(of: string, filter: LogFilter, known: Log | undefined): Promise<Log> {
  let log = known;
  for (let i = 0; i < kPagesMost; ++i) {
    const page = await ask<LogPage>(`${of}/logs${query({ ...filter, tail: kTail, cursor: log?.cursor })}`);
    const first = log === undefined;
    log = grow(log, page);
    if (first || page.items.length < kTail) break;
  }
  return log!;
}
