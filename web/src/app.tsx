// The frame around every page: navigation, who is logged in, theme, what is stale, and which page an address shows.
// While nobody is logged in the login page is in front; the page behind it stays, hidden, for the same person.
import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary, useState } from 'preact/hooks';
import { Link, Redirect, Route, Switch, useLocation } from 'wouter-preact';
import { absolute, duration } from './format';
import { now, outdated, staleSince, version } from './live';
import { ApiError, kApiLevel } from './api';
import { Glyph } from './parts';
import { remember } from './remember';
import { isIn, logOut, person, scopeText, session, whyNot, type Action } from './session';
import { AgentPage } from './pages/agent';
import { AgentsPage } from './pages/agents';
import { AuditPage } from './pages/audit';
import { CheckpointPage } from './pages/checkpoint';
import { CheckpointsPage } from './pages/checkpoints';
import { ComparePage } from './pages/compare';
import { EventsPage } from './pages/events';
import { JoinPage } from './pages/join';
import { JobsPage } from './pages/jobs';
import { AgentLogsPage, JobLogsPage } from './pages/logs';
import { LoginPage } from './pages/login';
import { OverviewPage } from './pages/overview';
import { NetworkPage } from './pages/network';
import { NewJobPage } from './pages/new_job';
import { RoundsPage } from './pages/rounds';
import { RunPage } from './pages/run';
import { SpecPage } from './pages/spec';
import { TokensPage } from './pages/tokens';
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
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    remember('theme', next === 'auto' ? null : next);
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

const kPages: [path: string, name: string, needs?: Action][] = [
  ['/', 'Overview'],
  ['/jobs', 'Jobs'],
  ['/agents', 'Agents'],
  ['/network', 'Network'],
  ['/checkpoints', 'Checkpoints'],
  ['/events', 'Events'],
  ['/tokens', 'Tokens', 'manage_tokens'],
  ['/audit', 'Audit', 'read_audit'],
];

// Pages for a few are shown to those whom the coordinator has told that they may.
const isShown = (needs?: Action) => needs === undefined || (session.value.state === 'in' && whyNot(session.value, needs) === '');

function Account() {
  const [refused, refuse] = useState('');
  const now = session.value;
  if (now.state !== 'in') return null;
  const leave = () => logOut().then(() => refuse(''), (error: ApiError) => refuse(error.message));
  return (
    <span class="account">
      <span class="who" title={`Logged in as ${now.who.name} until ${absolute(new Date(now.who.expires_at_ms).toISOString())}`}>
        {now.who.name} <span class="muted">{scopeText(now.who)}</span>
      </span>
      <button type="button" class="link" onClick={() => void leave()}>
        Log out
      </button>
      {refused !== '' && <span class="problem" role="alert">Still logged in: {refused}</span>}
    </span>
  );
}

function Header() {
  const [at] = useLocation();
  const known = isIn(session.value);
  const current = (path: string) => (path === '/' ? at === '/' : at === path || at.startsWith(`${path}/`));
  return (
    <header class="top">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Link href="/" class="brand">
        <Logo /> Shoal
      </Link>
      {known && (
        <nav aria-label="Pages">
          {kPages.filter(([, , needs]) => isShown(needs)).map(([path, name]) => (
            <Link key={path} href={path} aria-current={current(path) ? 'page' : undefined}>
              {name}
            </Link>
          ))}
        </nav>
      )}
      <Account />
      <ThemeButton />
    </header>
  );
}

function Footer() {
  const shown = version.value, known = isIn(session.value);
  return (
    <footer>
      {known && shown && (
        <span>
          shoal {shown.version}, start {shown.boot_epoch}
        </span>
      )}
      {known && <a href="/api/v1/openapi.json">API</a>}
      {known && whyNot(session.value, 'read_metrics') === '' && <a href="/metrics">Metrics</a>}
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

function Pages() {
  return (
    <Switch>
      <Route path="/" component={OverviewPage} />
      <Route path="/login">
        <Redirect to="/" replace />
      </Route>
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
      <Route path="/tokens" component={TokensPage} />
      <Route path="/audit" component={AuditPage} />
      <Route>
        <h1>No such page</h1>
        <p>
          There is nothing at this address. <Link href="/">To the overview</Link>
        </p>
      </Route>
    </Switch>
  );
}

export function App() {
  const [at] = useLocation();
  const known = isIn(session.value), whose = person.value;
  useEffect(() => {
    window.scrollTo(0, 0);
  }, [at]);
  return (
    <>
      <Header />
      {known && <Banners />}
      <main id="main" tabIndex={-1}>
        {!known && <LoginPage />}
        {whose !== '' && (
          <div key={whose} hidden={!known}>
            <Guarded key={at}>
              <Pages />
            </Guarded>
          </div>
        )}
      </main>
      <Footer />
    </>
  );
}
