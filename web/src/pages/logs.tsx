// The output of one agent and its trainers, or of the replicas of one job on all hosts. The lines stay on their hosts;
// the page asks for the newest ones and then for new ones, and keeps at most so many that it stays fast.
import { useMemo, useRef, useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { Choice, FilterForm, SearchBox, useFilters, useSettled, wordOptions } from '../filters';
import { absolute, number } from '../format';
import { JobTitle } from '../job_title';
import type { LogLine } from '../api_types';
import { kLinesMost, readLog, type Log, type LogFilter } from '../logs';
import type { Watch } from '../live';
import { Glyph, JobLinks, Missing, saveFile, useWatch } from '../parts';
import * as sourceOf from '../sources';
import type { Tone } from '../status';

const kFollowMs = 2000;
const kLevels = ['debug', 'info', 'warning', 'error'];
const kTones: Record<string, Tone> = { error: 'bad', warning: 'warn' };

const logOf = (path: string, filter: LogFilter): Watch<Log> => ({
  load: (known) => readLog(path, filter, known),
  concerns: () => false,
  slowMs: kFollowMs,
});

const clock = (at: string) => at.slice(11, 23);
const written = (line: LogLine) => `${line.at} ${line.level} ${line.agent_name} ${line.source} ${line.replica ?? '-'} ${line.text}`;

function Line({ line, of }: { line: LogLine; of: 'job' | 'agent' }) {
  return (
    <li class={line.level}>
      <time dateTime={line.at} title={absolute(line.at)}>{clock(line.at)}</time>
      <span class="level">
        <Glyph tone={kTones[line.level] ?? 'off'} />
        <span class="unseen">{line.level}</span>
      </span>
      <span class="from" title={`${line.agent_name}, ${line.source}${line.replica === null ? '' : `, ${line.replica}`}`}>
        {of === 'job' ? line.agent_name : line.source} {line.replica ?? ''}
      </span>
      <span class="said" title={line.text}>{line.text}</span>
    </li>
  );
}

const kRowPx = 24, kBeyond = 10; // of .log li; rows kept above and below
const kRowsLeast = 6, kBarPx = 18; // shown even when there are fewer; room for the bar that scrolls sideways

// Only the rows that are seen exist. It stays at the end while it is scrolled there.
function Lines({ lines, of }: { lines: LogLine[]; of: 'job' | 'agent' }) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(700);
  useEffect(() => {
    const observer = new ResizeObserver(() => setHeight(box.current?.clientHeight ?? 700));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, height]);
  const scrolled = (event: { currentTarget: HTMLDivElement }) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    atEnd.current = scrollTop + clientHeight >= scrollHeight - kRowPx;
    setTop(Math.floor(scrollTop / (kRowPx * 4)) * kRowPx * 4);
  };
  const first = Math.max(0, Math.floor(top / kRowPx) - kBeyond);
  const last = Math.min(lines.length, Math.ceil((top + height) / kRowPx) + kBeyond);
  return (
    <div class="log" ref={box} style={{ height: `min(70vh, ${Math.max(kRowsLeast, lines.length) * kRowPx + kBarPx}px)` }} tabIndex={0} role="log" aria-live="off" aria-label="Lines, oldest first" onScroll={scrolled}>
      <ol class="plain" style={{ height: `${lines.length * kRowPx}px`, paddingTop: `${first * kRowPx}px` }}>
        {lines.slice(first, last).map((line) => (
          <Line key={line.id} line={line} of={of} />
        ))}
      </ol>
    </div>
  );
}

// Names the agents that were asked and have not answered: no lines does not mean that all is well.
function Silent({ missing }: { missing: Log['missing'] }) {
  if (missing.length === 0) return null;
  return (
    <p class="problem">
      <Glyph tone="bad" /> No lines from{' '}
      {missing.slice(0, 8).map((one, i) => (
        <>{i > 0 && ', '}<Link href={`/agents/${one.agent}`}>{one.agent_name}</Link> ({one.problem})</>
      ))}
      {missing.length > 8 && ` and ${missing.length - 8} others`}
    </p>
  );
}

function LogView({ of, path, name }: { of: 'job' | 'agent'; path: string; name: string }) {
  const filters = useFilters();
  const [held, hold] = useState<Log | null>(null);
  const asked = useSettled(filters.get('q'), 300); // the hosts are asked
  const filter: LogFilter = { level: filters.get('level'), source: filters.get('source'), replica: filters.get('replica'), q: asked };
  const log = useWatch(logOf(path, filter), [path, filter.level, filter.source, filter.replica, asked]);
  const shown = held ?? log.value;
  const lines = shown?.lines ?? [];
  const known = log.value?.lines ?? [];
  const sources = useMemo(() => [...new Set([...known.map((one) => one.source), filters.get('source')])].filter((one) => one !== '').sort(), [known]);
  const replicas = useMemo(() => [...new Set([...known.map((one) => one.replica ?? ''), filters.get('replica')])].filter((one) => one !== '').sort(), [known]);
  return (
    <>
      <FilterForm>
        <Choice filters={filters} name="level" label="Level" none="all" options={kLevels.slice(1).map((one) => [one, one === 'error' ? 'errors' : `${one} and above`])} />
        <Choice filters={filters} name="source" label="Source" none="any" options={wordOptions(sources)} />
        <Choice filters={filters} name="replica" label="Replica" none="any" options={replicas.map((one) => [one, one])} />
        <SearchBox filters={filters} label="Text" />
        <label class="check">
          <input type="checkbox" checked={held === null} onChange={(event) => hold(event.currentTarget.checked ? null : (log.value ?? null))} />
          follow{held !== null && known.length + (log.value?.dropped ?? 0) > lines.length + held.dropped && (
            <b> ({number(known.length + (log.value?.dropped ?? 0) - lines.length - held.dropped)} newer)</b>
          )}
        </label>
      </FilterForm>
      {log.error !== null && <Missing of={log} what="the lines" />}
      {shown === undefined ? log.error === null && <Missing of={log} what="the lines" /> : (
        <>
          <Silent missing={log.value?.missing ?? []} />
          {lines.length === 0 ? <p class="empty">No line matches yet.</p> : <Lines lines={lines} of={of} />}
          <p class="under muted">
            {number(lines.length)} lines{shown.dropped > 0 && `, the newest ${number(kLinesMost)} of them`}, by the clocks of their hosts{' '}
            <button type="button" class="link" onClick={() => saveFile(`${name}.log`, lines.map(written).join('\n') + '\n', 'text/plain')}>
              Download
            </button>
          </p>
        </>
      )}
    </>
  );
}

export function JobLogsPage({ id }: { id: string }) {
  return (
    <>
      <JobTitle id={id} what="logs" />
      <JobLinks job={id} at="/logs" />
      <LogView of="job" path={`/jobs/${encodeURIComponent(id)}`} name={id} />
    </>
  );
}

export function AgentLogsPage({ id }: { id: string }) {
  const agent = useWatch(sourceOf.agent(id), [id]);
  return (
    <>
      <h1 class="breaks">{agent.value?.name ?? id}: logs</h1>
      <p class="muted"><Link href={`/agents/${encodeURIComponent(id)}`}>The agent</Link></p>
      <LogView of="agent" path={`/agents/${encodeURIComponent(id)}`} name={id} />
    </>
  );
}
