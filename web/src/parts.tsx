// The small pieces that every page is made of: states, times, cards, tiles, spark-lines, downloads.
import { Component, type ComponentChildren, type JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Agent } from './api';
import { absolute, ago, words } from './format';
import { now, staleSince, watch, type Resource, type Watch } from './live';
import type { Tone } from './status';
import { csv, thin } from './sample';

// Color, glyph and text together: each says the same.
const kGlyphs: Record<Tone, JSX.Element> = {
  good: <path d="M3 8.5l3.2 3.2L13 4.8" fill="none" stroke="currentColor" stroke-width="2.4" />,
  busy: <path d="M8 2.5v5.7l4 2.3M14 8A6 6 0 1 1 8 2" fill="none" stroke="currentColor" stroke-width="2" />,
  warn: <path d="M8 1.5L15 14H1zM8 6v4M8 11.3v1.2" fill="none" stroke="currentColor" stroke-width="1.8" />,
  bad: <path d="M3.5 3.5l9 9m0-9l-9 9" fill="none" stroke="currentColor" stroke-width="2.6" />,
  off: <path d="M3 8h10" fill="none" stroke="currentColor" stroke-width="2.4" />,
};

export function Glyph({ tone }: { tone: Tone }) {
  return (
    <svg class={`glyph ${tone}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      {kGlyphs[tone]}
    </svg>
  );
}

// While the page is stale nothing is shown as good: it was, when last heard.
export const orStale = (tone: Tone): Tone => (staleSince.value !== null && (tone === 'good' || tone === 'busy') ? 'off' : tone);

export function State({ tone, text }: { tone: Tone; text: string }) {
  const shown = orStale(tone);
  return (
    <span class={`state ${shown}`}>
      <Glyph tone={shown} />
      {words(text)}
    </span>
  );
}

// A verdict that is a sentence.
export function Sentence({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <p class="under"><Glyph tone={orStale(tone)} /> {children}</p>;
}

export function Time({ at }: { at: string | null | undefined }) {
  const text = ago(at, now.value);
  return at ? (
    <time dateTime={at} title={absolute(at)}>
      {text}
    </time>
  ) : (
    <span>{text}</span>
  );
}

export function Card(props: { title: string; class?: string; tools?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class={`card ${props.class ?? ''}`} aria-label={props.title}>
      <header>
        <h2>{props.title}</h2>
        {props.tools && <div class="tools">{props.tools}</div>}
      </header>
      {props.children}
    </section>
  );
}

export function Tile(props: { label: string; value: ComponentChildren; note?: ComponentChildren; tone?: Tone }) {
  return (
    <div class={`tile ${props.tone ?? ''}`}>
      <span class="label">{props.label}</span>
      <span class="value">{props.value}</span>
      {props.note !== undefined && <span class="note">{props.note}</span>}
    </div>
  );
}

export function Bar({ share, tone = 'good', label }: { share: number | null; tone?: Tone; label: string }) {
  const width = share === null ? 0 : Math.min(1, Math.max(0, share)) * 100;
  return (
    <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
      <title>{label}</title>
      <rect class="rail" width="100" height="6" />
      <rect class={`fill ${tone}`} width={width} height="6" />
    </svg>
  );
}

export function useWatch<T>(spec: Watch<T>, inputs: unknown[]): Resource<T> {
  const [resource, show] = useState<Resource<T>>({ value: undefined, error: null });
  useEffect(() => {
    show({ value: undefined, error: null });
    return watch(spec, show);
  }, inputs);
  return resource;
}

// The agents as last given, as long as none has joined or changed its name: what shows names is not rendered again
// at each answer.
export function useNames(agents: Agent[] | undefined): Agent[] {
  const last = useRef<{ agents: Agent[]; key: string }>({ agents: [], key: '' });
  const key = useMemo(() => (agents ?? []).map((one) => `${one.id} ${one.name}`).join('\n'), [agents]);
  if (agents !== undefined && key !== last.current.key) last.current = { agents, key };
  return last.current.agents;
}

// A component that is rendered again only for other properties; their identity counts.
export function memo<P extends object>(Of: (props: P) => JSX.Element | null): new () => Component<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P) {
      const names = Object.keys({ ...next, ...this.props }) as (keyof P)[];
      return names.some((name) => next[name] !== (this.props as P)[name]);
    }
    render(props: P) {
      return <Of {...props} />;
    }
  };
}

// Instead of what could not be loaded, or as long as it is not there: never an empty place.
export function Missing({ of, what }: { of: Resource<unknown>; what: string }) {
  if (of.error === null) return <p class="empty">Loading {what}…</p>;
  return (
    <p class="empty problem" role="alert">
      <Glyph tone="bad" /> {what}: {of.error.message}
      {of.error.hint !== '' && <span class="hint"> {of.error.hint}</span>}
    </p>
  );
}

// Instead of what the person may not do: the reason, never a button that is refused.
export function Denied({ why }: { why: string }) {
  return (
    <span class="muted denied">
      <Glyph tone="off" /> {why}
    </span>
  );
}

export function saveCsv(file: string, header: string[], rows: (string | number | null)[][]): void {
  saveFile(`${file}.csv`, csv(header, rows), 'text/csv');
}

export function saveFile(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// `rounds` are those that have been committed: their points may come a little later.
export function Spark({ values, rounds, label }: { values: (number | null)[]; rounds: number; label: string }) {
  const points = values.filter((value): value is number => value !== null && Number.isFinite(value));
  if (points.length < 2) return <span class="muted">{rounds === 0 ? 'no rounds yet' : rounds === 1 ? 'one round so far' : 'no curve yet'}</span>;
  const [xs, ys] = thin(points.map((_, i) => i), points, 120);
  const kept = ys.filter((value): value is number => value !== null);
  const low = Math.min(...kept), high = Math.max(...kept);
  const line = xs
    .map((x, i) => {
      const px = (x / (points.length - 1)) * 160;
      const py = 34 - (((ys[i] ?? low) - low) / (high - low || 1)) * 30;
      return `${px.toFixed(1)},${py.toFixed(1)}`;
    })
    .join(' ');
  return (
    <svg class="spark" viewBox="0 0 160 36" preserveAspectRatio="none" role="img" aria-label={label}>
      <title>{label}</title>
      <polyline points={line} />
    </svg>
  );
}

export function Copy({ text }: { text: string }) {
  const [said, say] = useState('Copy');
  useEffect(() => say('Copy'), [text]);
  const copy = () => navigator.clipboard.writeText(text).then(() => say('Copied'), () => say('The browser refused'));
  return (
    <button type="button" class="link" onClick={() => void copy()}>
      {said}
    </button>
  );
}

export function Digest({ of }: { of: string | null }) {
  return of === null ? <span>–</span> : <code title={of}>{of.slice(0, 8)}</code>;
}

// Text that a model wrote: shown as it is, line by line, whatever is in it.
export function Sample({ text }: { text: string }) {
  return (
    <blockquote class="sample" tabIndex={0}>
      {text}
    </blockquote>
  );
}

export function JobLinks({ job, at }: { job: string; at: string }) {
  const base = `/jobs/${encodeURIComponent(job)}`;
  const pages: [string, string][] = [
    ['', 'Run'],
    ['/topology', 'Topology'],
    ['/rounds', 'Rounds'],
    ['/checkpoints', 'Checkpoints'],
    ['/events', 'Events'],
    ['/logs', 'Logs'],
    ['/spec', 'Spec'],
  ];
  return (
    <nav class="sub" aria-label="Pages of this job">
      {pages.map(([path, name]) => (
        <Link key={path} href={base + path} aria-current={at === path ? 'page' : undefined}>
          {name}
        </Link>
      ))}
    </nav>
  );
}
