// The rounds of a job: who trained, waited, averaged, voted and applied when, as bars over one time axis, and
// below them what each replica contributed to the round that is chosen.
import { useMemo } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import type { Agent, Contribution, Round } from '../api';
import { absolute, bytes, duration, finite, loss, millis, number, short, words } from '../format';
import { Card, Digest, JobLinks, Missing, State, Table, Time, useWatch, type Column } from '../parts';
import { agentName, contributionTone, roundTone } from '../reduce';
import * as sources from '../sources';

interface Piece {
  from: number; // ms
  to: number;
  kind: 'train' | 'wait' | 'reduce' | 'vote' | 'apply' | 'lost';
}

// Phases of one contribution on the clock of the coordinator. The outer step comes after the commit, so it
// reaches into the next round.
export function pieces(round: Round, one: Contribution, nowMs: number): Piece[] {
  const opened = millis(round.opened_at);
  if (opened === null) return [];
  const sealed = millis(round.sealed_at), committed = millis(round.committed_at);
  const { train_s, wait_s, reduce_s, vote_s, apply_s } = one.phases;
  const out: Piece[] = [];
  let at = opened;
  const add = (kind: Piece['kind'], to: number) => {
    if (to > at) out.push({ from: at, to, kind });
    at = Math.max(at, to);
  };
  if (one.state === 'lost') {
    add('lost', committed ?? nowMs);
    return out;
  }
  if (sealed === null) {
    if (train_s === null) add('train', Math.max(opened, nowMs));
    else {
      add('train', opened + train_s * 1000);
      add('wait', Math.max(at, nowMs));
    }
    return out;
  }
  if (train_s !== null) add('train', Math.min(sealed, sealed - (wait_s ?? 0) * 1000));
  add('wait', sealed);
  add('reduce', reduce_s === null ? (committed ?? nowMs) : Math.min(committed ?? Infinity, sealed + reduce_s * 1000));
  if (committed !== null) {
    add('wait', committed - (vote_s ?? 0) * 1000);
    add('vote', committed);
    if (apply_s !== null) add('apply', committed + apply_s * 1000);
  }
  return out;
}

const kLegend: [Piece['kind'], string][] = [
  ['train', 'trains'], ['wait', 'waits'], ['reduce', 'averages'], ['vote', 'votes'], ['apply', 'outer step'], ['lost', 'lost'],
];

function Gantt({ rounds, agents, chosen, choose }: { rounds: Round[]; agents: Agent[]; chosen: number; choose: (round: number) => void }) {
  const nowMs = Date.now();
  const from = Math.min(...rounds.map((round) => millis(round.opened_at) ?? nowMs));
  const ends = rounds.flatMap((round) => round.contributions.flatMap((one) => pieces(round, one, nowMs).map((piece) => piece.to)));
  const to = Math.max(from + 1, ...ends);
  const rows = [...new Set(rounds.flatMap((round) => round.contributions.map((one) => one.replica)))].sort(
    (a, b) => Number(a.slice(4)) - Number(b.slice(4)),
  );
  const x = (ms: number) => ((ms - from) / (to - from)) * 1000;
  const height = rows.length * 26 + 22;
  const at = new Map(rows.map((replica, i) => [replica, i]));
  const owner = new Map(rounds.flatMap((round) => round.contributions.map((one) => [one.replica, one.agent])));
  const name = (replica: string) => `${agentName(owner.get(replica) ?? null, agents)} · ${replica}`;
  return (
    <>
      <div class="gantt">
        <ul class="plain gantt-names" aria-hidden="true">
          {rows.map((replica) => (
            <li key={replica}>{name(replica)}</li>
          ))}
        </ul>
        <svg viewBox={`0 0 1000 ${height}`} preserveAspectRatio="none" height={height} role="img"
          aria-label={`Rounds ${rounds[rounds.length - 1]?.round} to ${rounds[0]?.round}, one row for each replica; the table has the numbers`}>
          {rounds.map((round) => {
            const start = x(millis(round.opened_at) ?? from);
            const end = x(millis(round.committed_at) ?? to);
            return (
              <g key={round.round} class={round.round === chosen ? 'round chosen' : 'round'} onClick={() => choose(round.round)}>
                <title>{`round ${round.round}: ${words(round.state)}, ${duration(round.seconds.total)}`}</title>
                <rect class="back" x={start} y={0} width={Math.max(1, end - start)} height={height} />
                <line x1={start} x2={start} y1={0} y2={height} />
                {round.contributions.flatMap((one) =>
                  pieces(round, one, nowMs).map((piece, i) => (
                    <rect key={`${one.replica}-${i}`} class={`piece ${piece.kind}`} x={x(piece.from)} y={(at.get(one.replica) ?? 0) * 26 + 4}
                      width={Math.max(0.6, x(piece.to) - x(piece.from))} height={18}>
                      <title>{`${name(one.replica)}, round ${round.round}: ${kLegend.find(([kind]) => kind === piece.kind)?.[1]} ${duration((piece.to - piece.from) / 1000)}`}</title>
                    </rect>
                  )),
                )}
              </g>
            );
          })}
        </svg>
      </div>
      <p class="under legend">
        {kLegend.map(([kind, text]) => (
          <span key={kind}>
            <svg width="12" height="12" aria-hidden="true">
              <rect class={`piece ${kind}`} width="12" height="12" />
            </svg>{' '}
            {text}
          </span>
        ))}
        <span class="muted">{duration((to - from) / 1000)} in all</span>
      </p>
    </>
  );
}

function contributionColumns(agents: Agent[]): Column<Contribution>[] {
  return [
    { name: 'Replica', show: (one) => one.replica, value: (one) => one.replica },
    { name: 'Agent', show: (one) => agentName(one.agent, agents), value: (one) => agentName(one.agent, agents) },
    {
      name: 'State',
      show: (one) => (
        <State tone={contributionTone(one.state)} text={one.reject_reason === null ? one.state : `${one.state}: ${one.reject_reason}`} />
      ),
      value: (one) => one.reject_reason ?? one.state,
    },
    { name: 'Tokens', numeric: true, show: (one) => number(one.tokens), value: (one) => one.tokens },
    { name: 'Weight', numeric: true, show: (one) => number(one.weight), value: (one) => one.weight },
    { name: 'Loss', numeric: true, show: (one) => loss(one.train_loss), value: (one) => one.train_loss },
    { name: 'Norm', numeric: true, show: (one) => number(one.norm, 4), value: (one) => one.norm },
    { name: 'Largest', numeric: true, show: (one) => (finite(one.max_abs) ? one.max_abs.toPrecision(3) : '–'), value: (one) => one.max_abs },
    { name: 'Not finite', numeric: true, show: (one) => number(one.nonfinite), value: (one) => one.nonfinite },
    { name: 'Clip factor', numeric: true, show: (one) => number(one.clip_factor, 3), value: (one) => one.clip_factor },
    { name: 'Trains', numeric: true, show: (one) => duration(one.phases.train_s), value: (one) => one.phases.train_s },
    { name: 'Waits', numeric: true, show: (one) => duration(one.phases.wait_s), value: (one) => one.phases.wait_s },
    { name: 'Averages', numeric: true, show: (one) => duration(one.phases.reduce_s), value: (one) => one.phases.reduce_s },
    { name: 'Sent', numeric: true, show: (one) => bytes(one.bytes_sent), value: (one) => one.bytes_sent },
    { name: 'Received', numeric: true, show: (one) => bytes(one.bytes_received), value: (one) => one.bytes_received },
    { name: 'Average', show: (one) => <Digest of={one.digest} />, value: (one) => one.digest },
    { name: 'Parameters', show: (one) => <Digest of={one.anchor_digest} />, value: (one) => one.anchor_digest },
  ];
}

function roundColumns(choose: (round: number) => void, chosen: number): Column<Round>[] {
  return [
    {
      name: 'Round',
      numeric: true,
      show: (one) => (
        <button type="button" class="link" aria-pressed={one.round === chosen} onClick={() => choose(one.round)}>
          {number(one.round)}
        </button>
      ),
      value: (one) => one.round,
    },
    { name: 'State', show: (one) => <State tone={roundTone(one.state)} text={one.state} />, value: (one) => one.state },
    { name: 'Took', numeric: true, show: (one) => duration(one.seconds.total), value: (one) => one.seconds.total },
    { name: 'Average', numeric: true, show: (one) => duration(one.seconds.reduce), value: (one) => one.seconds.reduce },
    { name: 'Replicas', numeric: true, show: (one) => number(one.contributions.length), value: (one) => one.contributions.length },
    { name: 'Tokens', numeric: true, show: (one) => short(one.tokens), value: (one) => one.tokens },
    { name: 'Train loss', numeric: true, show: (one) => loss(one.train_loss), value: (one) => one.train_loss },
    { name: 'Validation', numeric: true, show: (one) => loss(one.validation_loss), value: (one) => one.validation_loss },
    { name: 'Sent', numeric: true, show: (one) => bytes(one.bytes_sent), value: (one) => one.bytes_sent },
    { name: 'Attempts', numeric: true, show: (one) => number(one.attempt), value: (one) => one.attempt },
    { name: 'Parameters', show: (one) => <Digest of={one.anchor_digest} />, value: (one) => one.anchor_digest },
    { name: 'Committed', show: (one) => <Time at={one.committed_at} />, value: (one) => one.committed_at },
  ];
}

export function RoundsPage({ id }: { id: string }) {
  const rounds = useWatch(sources.rounds(id, 60), [id]);
  const agents = useWatch(sources.agents(true), []);
  const [search, setSearch] = useSearchParams();
  const asked = Number(search.get('round') ?? 'NaN');
  const known = rounds.value ?? [];
  const newest = known.find((round) => round.state === 'committed') ?? known[0];
  const chosen = known.find((round) => round.round === asked) ?? newest;
  const choose = (round: number) => setSearch({ round: String(round) }, { replace: true });
  const end = known.findIndex((round) => round.round === chosen?.round);
  const span = useMemo(() => known.slice(Math.max(0, end - 3), Math.max(0, end - 3) + 8), [known, end]);
  const gantt = useMemo(
    () => chosen && <Gantt rounds={span} agents={agents.value ?? []} chosen={chosen.round} choose={choose} />,
    [span, agents.value === undefined, chosen?.round],
  );
  const roundTable = useMemo(() => roundColumns(choose, chosen?.round ?? 0), [chosen?.round]);
  const contributionTable = useMemo(() => contributionColumns(agents.value ?? []), [agents.value === undefined]);
  return (
    <>
      <h1>Rounds of {id}</h1>
      <JobLinks job={id} at="/rounds" />
      {rounds.value === undefined ? (
        <Missing of={rounds} what="rounds" />
      ) : chosen === undefined ? (
        <p class="empty">No round yet: the first opens when enough replicas are ready.</p>
      ) : (
        <>
          <Card title="Who did what, when">
            {gantt}
          </Card>
          <Card title={`Contributions to round ${number(chosen.round)}`} tools={<State tone={roundTone(chosen.state)} text={chosen.state} />}>
            <p class="under muted" title={absolute(chosen.opened_at)}>
              Steps {number(chosen.from_step)} to {number(chosen.to_step)}, opened <Time at={chosen.opened_at} />
              {chosen.abort_reason !== null && chosen.aborts > 0 && ` · aborted before: ${words(chosen.abort_reason)}`}
              {chosen.digest !== null && <> · average <Digest of={chosen.digest} />: one for all members</>}
            </p>
            <Table caption="Contributions" columns={contributionTable} rows={chosen.contributions} rowKey={(one) => one.replica}
              file={`round-${chosen.round}`} empty="Nobody takes part." />
          </Card>
          <Card title="The last rounds">
            <Table caption="Rounds, newest first" columns={roundTable} rows={known} rowKey={(one) => one.round} file="rounds" />
          </Card>
        </>
      )}
    </>
  );
}
