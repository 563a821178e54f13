// Two rounds beside each other: their bars on one scale, every measure with its change, and for each replica what
// it contributed to either.
import { useMemo } from 'preact/hooks';
import type { Agent, Contribution, Round } from '../api';
import { bytes, duration, kNone, loss, number, percent } from '../format';
import { extent, Gantt } from '../gantt';
import { Card, State } from '../parts';
import { agentName, contributionText, contributionTone } from '../status';
import { measures, pairs, weightShare, type Measure, type Pair } from '../round_pairs';
import { Table, type Column } from '../table';

function measureColumns(first: Round, second: Round): Column<Measure>[] {
  return [
    { name: 'Measure', show: (one) => one.name, value: (one) => one.name },
    ...[first, second].map((round, i): Column<Measure> => ({
      name: `Round ${number(round.round)}`, numeric: true, show: (one) => one.values[i], value: (one) => one.values[i] ?? null,
    })),
    { name: 'Change', numeric: true, show: (one) => one.change, value: (one) => one.change },
  ];
}

type Show = (one: Contribution, round: Round) => string;

const kFields: [string, Show][] = [
  ['Weight', (one, round) => percent(weightShare(one, round), 1)],
  ['Tokens', (one) => number(one.tokens)],
  ['Loss', (one) => loss(one.train_loss)],
  ['Norm', (one) => number(one.norm, 4)],
  ['Clip factor', (one) => number(one.clip_factor, 3)],
  ['Trains', (one) => duration(one.phases.train_s)],
  ['Waits', (one) => duration(one.phases.wait_s)],
  ['Averages', (one) => duration(one.phases.reduce_s)],
  ['Sent', (one) => bytes(one.bytes_sent)],
  ['Received', (one) => bytes(one.bytes_received)],
];

function StateOf({ one }: { one: Contribution | undefined }) {
  if (one === undefined) return <span class="muted">not a member</span>;
  return <State tone={contributionTone(one.state)} text={contributionText(one)} />;
}

const stateText = (one: Contribution | undefined) => one?.reject_reason ?? one?.state ?? 'not a member';

// One cell holds both, the older round above: a pair is compared by looking down, not across.
function pairColumns(first: Round, second: Round, agents: Agent[]): Column<Pair>[] {
  const both = [first, second];
  const texts = (pair: Pair, show: Show) => pair.both.map((one, i) => (one === undefined ? kNone : show(one, both[i]!)));
  return [
    { name: 'Replica', show: (pair) => pair.replica, value: (pair) => pair.replica },
    { name: 'Agent', show: (pair) => agentName(pair.agent, agents), value: (pair) => agentName(pair.agent, agents) },
    { name: 'Round', numeric: true, show: () => <>{both.map((round) => <div key={round.round}>{number(round.round)}</div>)}</> },
    {
      name: 'State',
      show: (pair) => <>{pair.both.map((one, i) => <div key={i}><StateOf one={one} /></div>)}</>,
      value: (pair) => pair.both.map(stateText).join(' / '),
    },
    ...kFields.map(([name, show]): Column<Pair> => ({
      name, numeric: true, show: (pair) => <Two of={texts(pair, show)} />, value: (pair) => texts(pair, show).join(' / '),
    })),
  ];
}

function Two({ of: [first, second] }: { of: string[] }) {
  return (
    <>
      <div>{first}</div>
      <div class={first === second ? '' : 'differs'}>{second}</div>
    </>
  );
}

export function RoundsBeside({ first, second, agents }: { first: Round; second: Round; agents: Agent[] }) {
  const rows = useMemo(() => measures(first, second), [first, second]);
  const paired = useMemo(() => pairs(first, second), [first, second]);
  const columns = useMemo(() => measureColumns(first, second), [first.round, second.round]);
  const replicas = useMemo(() => pairColumns(first, second, agents), [first, second, agents]);
  const spanMs = Math.max(...[first, second].map((round) => extent([round], Date.now())).map(([from, to]) => to - from));
  const title = `Round ${number(first.round)} beside round ${number(second.round)}`;
  return (
    <Card title={title} class="beside">
      <div class="columns even">
        {[first, second].map((round) => (
          <section key={round.round} aria-label={`Round ${round.round}`}>
            <h3>Round {number(round.round)}</h3>
            <Gantt rounds={[round]} agents={agents} spanMs={spanMs} />
          </section>
        ))}
      </div>
      <Table caption={title} columns={columns} rows={rows} rowKey={(one) => one.name} file={`rounds-${first.round}-${second.round}`} />
      <h3>By replica, round {number(first.round)} above round {number(second.round)}</h3>
      <Table caption="Contributions to both" columns={replicas} rows={paired} rowKey={(one) => one.replica} tall
        file={`contributions-${first.round}-${second.round}`} empty="No replica took part in either round." />
    </Card>
  );
}
