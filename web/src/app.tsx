// The frame around every page: navigation, theme, what is stale, and which page an address shows.
import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary, useState } from 'preact/hooks';
import { Link, Route, Switch, useLocation } from 'wouter-preact';
import { absolute, duration } from './format';
import { now, outdated, staleSince, version } from './live';
import { kApiLevel } from './api';
import { Glyph } from './parts';
import { AgentPage } from './pages/agent';
import { AgentsPage } from './pages/agents';
import { CheckpointPage } from './pages/checkpoint';
import { CheckpointsPage } from './pages/checkpoints';
import { ComparePage } from './pages/compare';
import { EventsPage } from './pages/events';
import { JoinPage } from './pages/join';
import { JobsPage } from './pages/jobs';
import { AgentLogsPage, JobLogsPage } from './pages/logs';
import { OverviewPage } from './pages/overview';
import { NetworkPage } from './pages/network';
import { NewJobPage } from './pages/new_job';
import { RoundsPage } from './pages/rounds';
import { RunPage } from './pages/run';
import { SpecPage } from './pages/spec';
import { TopologyPage } from './pages/topology';

function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <path class="fish-1" d="M3 9c5-5 11-5 15 0l5-4v8l-5-4c-4 5-10 5-15 0z" />
      <path class="fish-2" d="M9 21c5-5 11-5 15 0l5-4v8l-5-4c-4 5-10 5-15 0z" />
    </svg>
  );
}

const kThemes = ['auto', 'light', 'dark'] as const;

function ThemeButton() {
  const [theme, set] = useState(document.documentElement.dataset.theme ?? 'auto');
  const turn = () => {
    const next = kThemes[(kThemes.indexOf(theme as (typeof kThemes)[number]) + 1) % kThemes.length]!;
    set(next);
    if (next === 'auto') {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem('theme');
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem('theme', next);
    }
  };
  return (
    <button type="button" class="link" onClick={turn} title="Light, dark or as the system has it">
      Theme: {theme}
    </button>
  );
}

function Banners() {
  const since = staleSince.value;
  const level = version.value;
  const foreign = level !== null && (level.min_api_level > kApiLevel || level.api_level < kApiLevel);
  return (
    <div aria-live="polite">
      {since !== null && (
        <p class="banner" title={absolute(new Date(since).toISOString())}>
          <Glyph tone="warn" /> Stale since {duration(Math.max(1, Math.round((now.value - since) / 1000)))}: the
          coordinator does not answer. What is shown was true then; the page catches up by itself.
        </p>
      )}
      {(outdated.value || foreign) && (
        <p class="banner">
          <Glyph tone="warn" /> The coordinator is another version than this page.{' '}
          <button type="button" class="link" onClick={() => location.reload()}>
            Load it again
          </button>
        </p>
      )}
    </div>
  );
}

const kPages: [string, string][] = [
  ['/', 'Overview'],
  ['/jobs', 'Jobs'],
  ['/agents', 'Agents'],
  ['/network', 'Network'],
  ['/checkpoints', 'Checkpoints'],
  ['/events', 'Events'],
];

function Header() {
  const [at] = useLocation();
  const current = (path: string) => (path === '/' ? at === '/' : at === path || at.startsWith(`${path}/`));
  return (
    <header class="top">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Link href="/" class="brand">
        <Logo /> Shoal
      </Link>
      <nav aria-label="Pages">
        {kPages.map(([path, name]) => (
          <Link key={path} href={path} aria-current={current(path) ? 'page' : undefined}>
            {name}
          </Link>
        ))}
      </nav>
      <ThemeButton />
    </header>
  );
}

function Footer() {
  const shown = version.value;
  return (
    <footer>
      {shown && (
        <span>
          shoal {shown.version}, start {shown.boot_epoch}
        </span>
      )}
      <a href="/api/v1/openapi.json">API</a>
      <a href="/metrics">Metrics</a>
      <a href="/readyz?verbose">Readiness</a>
    </footer>
  );
}

// An answer of another version may lack what a page counts on: said, never an empty page.
function Guarded({ children }: { children: ComponentChildren }) {
  const [error, again] = useErrorBoundary();
  if (error === undefined) return <>{children}</>;
  return (
    <section class="card" role="alert">
      <p class="problem">
        <Glyph tone="bad" /> This page cannot show what the coordinator answered: {String((error as Error)?.message ?? error)}
      </p>
      <button type="button" class="button" onClick={again}>
        Try again
      </button>
    </section>
  );
}

export function App() {
  const [at] = useLocation();
  useEffect(() => {
    window.scrollTo(0, 0);
  }, [at]);
  return (
    <>
      <Header />
      <Banners />
      <main id="main" tabIndex={-1}>
        <Guarded key={at}>
        <Switch>
          <Route path="/" component={OverviewPage} />
          <Route path="/jobs" component={JobsPage} />
          <Route path="/jobs/new" component={NewJobPage} />
          <Route path="/jobs/compare" component={ComparePage} />
          <Route path="/jobs/:id">{(params) => <RunPage id={params.id} />}</Route>
          <Route path="/jobs/:id/topology">{(params) => <TopologyPage id={params.id} />}</Route>
          <Route path="/jobs/:id/rounds">{(params) => <RoundsPage id={params.id} />}</Route>
          <Route path="/jobs/:id/checkpoints">{(params) => <CheckpointsPage id={params.id} />}</Route>
          <Route path="/jobs/:id/spec">{(params) => <SpecPage id={params.id} />}</Route>
          <Route path="/jobs/:id/events">{(params) => <EventsPage id={params.id} />}</Route>
          <Route path="/jobs/:id/logs">{(params) => <JobLogsPage id={params.id} />}</Route>
          <Route path="/agents" component={AgentsPage} />
          <Route path="/agents/:id">{(params) => <AgentPage id={params.id} />}</Route>
          <Route path="/agents/:id/logs">{(params) => <AgentLogsPage id={params.id} />}</Route>
          <Route path="/checkpoints/:id">{(params) => <CheckpointPage id={params.id} />}</Route>
          <Route path="/join" component={JoinPage} />
          <Route path="/network" component={NetworkPage} />
          <Route path="/checkpoints">{() => <CheckpointsPage />}</Route>
          <Route path="/events">{() => <EventsPage />}</Route>
          <Route>
            <h1>No such page</h1>
            <p>
              There is nothing at this address. <Link href="/">To the overview</Link>
            </p>
          </Route>
        </Switch>
        </Guarded>
      </main>
      <Footer />
    </>
  );
}
