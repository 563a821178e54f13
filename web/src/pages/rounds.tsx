// The rounds of a job: who trained, waited, averaged, voted and applied when, as bars over one time axis, and
// below them what each replica contributed to the round that is chosen, beside another round where one is named.
import { useMemo } from 'preact/hooks';
import type { Agent, Contribution, Round } from '../api';
import { useFilters, type Filters } from '../filters';
import { absolute, bytes, duration, finite, loss, number, short, words } from '../format';
import { Gantt } from '../gantt';
import { GroupList } from '../group_list';
import { inGroups, topologyTexts } from '../groups';
import { JobTitle } from '../job_title';
import type { Resource } from '../live';
import { Card, Digest, JobLinks, Missing, State, Time, useNames, useWatch } from '../parts';
import { agentName, contributionText, contributionTone, roundTone, skippedSteps } from '../status';
import * as sources from '../sources';
import { RoundsBeside } from './rounds_beside';
import { Table, type Column } from '../table';

// Columns of what most rounds do not have; without them the table fits a screen of 1280 pixels.
interface Rare {
  staged: boolean;
  grouped: boolean;
  skipped: boolean;
  nonfinite: boolean;
  clipped: boolean;
  weighted: boolean;
}

function rareIn(round: Round): Rare {
  const some = (is: (one: Contribution) => boolean) => round.contributions.some(is);
  return {
    staged: some((one) => (one.stage ?? 0) > 0),
    grouped: inGroups(round),
    skipped: some((one) => (one.skipped ?? 0) > 0),
    nonfinite: some((one) => (one.nonfinite ?? 0) > 0),
    clipped: some((one) => one.clip_factor !== null && one.clip_factor !== 1),
    weighted: some((one) => one.weight !== null && one.weight !== one.tokens),
  };
}

function contributionColumns(agents: Agent[], rare: Rare): Column<Contribution>[] {
  const stage: Column<Contribution> = { name: 'Stage', numeric: true, show: (one) => number(one.stage ?? null), value: (one) => one.stage ?? null };
  const group: Column<Contribution> = { name: 'Group', numeric: true, show: (one) => number(one.group ?? null), value: (one) => one.group ?? null };
  const skipped: Column<Contribution> = { name: 'Skipped', numeric: true, show: (one) => number(one.skipped ?? null), value: (one) => one.skipped ?? null };
  const nonfinite: Column<Contribution> = { name: 'Not finite', numeric: true, show: (one) => number(one.nonfinite), value: (one) => one.nonfinite };
  const weight: Column<Contribution> = { name: 'Weight', numeric: true, show: (one) => number(one.weight), value: (one) => one.weight };
  const clip: Column<Contribution> = { name: 'Clip', numeric: true, show: (one) => number(one.clip_factor, 3), value: (one) => one.clip_factor };
  return [
    { name: 'Replica', show: (one) => one.replica, value: (one) => one.replica },
    { name: 'Agent', show: (one) => agentName(one.agent, agents), value: (one) => agentName(one.agent, agents) },
    ...(rare.staged ? [stage] : []),
    ...(rare.grouped ? [group] : []),
    {
      name: 'State',
      show: (one) => (
        <State tone={contributionTone(one.state)} text={contributionText(one)} />
      ),
      value: (one) => one.reject_reason ?? one.state,
    },
    { name: 'Steps', numeric: true, show: (one) => number(one.steps), value: (one) => one.steps },
    ...(rare.skipped ? [skipped] : []),
    { name: 'Tokens', numeric: true, show: (one) => number(one.tokens), value: (one) => one.tokens },
    ...(rare.weighted ? [weight] : []),
    { name: 'Loss', numeric: true, show: (one) => loss(one.train_loss), value: (one) => one.train_loss },
    { name: 'Norm', numeric: true, show: (one) => number(one.norm, 4), value: (one) => one.norm },
    { name: 'Largest', numeric: true, show: (one) => (finite(one.max_abs) ? one.max_abs.toPrecision(3) : '–'), value: (one) => one.max_abs },
    ...(rare.nonfinite ? [nonfinite] : []),
    ...(rare.clipped ? [clip] : []),
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
    { name: 'Skipped', numeric: true, show: (one) => number(skippedSteps([one])?.skipped ?? 0), value: (one) => skippedSteps([one])?.skipped ?? 0 },
    { name: 'Tokens', numeric: true, show: (one) => short(one.tokens), value: (one) => one.tokens },
    { name: 'Train loss', numeric: true, show: (one) => loss(one.train_loss), value: (one) => one.train_loss },
    { name: 'Validation', numeric: true, show: (one) => loss(one.validation_loss), value: (one) => one.validation_loss },
    { name: 'Sent', numeric: true, show: (one) => bytes(one.bytes_sent), value: (one) => one.bytes_sent },
    { name: 'Attempts', numeric: true, show: (one) => number(one.attempt), value: (one) => one.attempt },
    { name: 'Parameters', show: (one) => <Digest of={one.anchor_digest} />, value: (one) => one.anchor_digest },
    { name: 'Committed', show: (one) => <Time at={one.committed_at} />, value: (one) => one.committed_at },
  ];
}

// A round of the address that is older than the last ones is asked for by its number.
function useRound(id: string, known: Round[], asked: string): Resource<Round | null> {
  const at = known.find((round) => String(round.round) === asked);
  const older = useWatch(sources.round(id, at === undefined && /^\d+$/.test(asked) ? asked : ''), [id, asked, at === undefined]);
  return at === undefined ? older : { value: at, error: null };
}

function With({ filters, chosen }: { filters: Filters; chosen: Round }) {
  return (
    <label>
      beside round{' '}
      <input type="number" min="1" class="brief" value={filters.get('with')} placeholder={String(Math.max(1, chosen.round - 1))}
        onChange={(event) => filters.set('with', event.currentTarget.value)} />
    </label>
  );
}

function Chosen({ round, agents, filters }: { round: Round; agents: Agent[]; filters: Filters }) {
  const rare = rareIn(round), { grouped, staged } = rare;
  const columns = useMemo(() => contributionColumns(agents, rare), [agents, ...Object.values(rare)]);
  const average = grouped ? 'a digest of the averages of the groups' : staged ? 'a digest of the averages of the stages' : 'the same for all members';
  return (
    <Card title={`Contributions to round ${number(round.round)}`}
      tools={<><With filters={filters} chosen={round} /> <State tone={roundTone(round.state)} text={round.state} /></>}>
      <p class="under muted" title={absolute(round.opened_at)}>
        Steps {number(round.from_step)} to {number(round.to_step)}, opened <Time at={round.opened_at} />
        {round.abort_reason !== null && round.aborts > 0 && ` · aborted before: ${words(round.abort_reason)}`}
        {topologyTexts(round).map((text) => ` · sent by ${text}`)}
        {round.digest !== null && <> · average <Digest of={round.digest} />, {average}</>}
      </p>
      {grouped && <GroupList round={round} agents={agents} />}
      <Table caption="Contributions" columns={columns} rows={round.contributions} rowKey={(one) => one.replica}
        file={`round-${round.round}`} empty="No replica takes part." />
    </Card>
  );
}

export function RoundsPage({ id }: { id: string }) {
  const rounds = useWatch(sources.rounds(id, 60), [id]);
  const agents = useWatch(sources.agents(true), []);
  const named = useNames(agents.value);
  const filters = useFilters();
  const known = rounds.value ?? kNone;
  const asked = useRound(id, known, filters.get('round')), beside = useRound(id, known, filters.get('with'));
  const chosen = asked.value ?? known.find((round) => round.state === 'committed') ?? known[0];
  const choose = (round: number) => filters.set('round', String(round));
  const end = known.findIndex((round) => round.round === chosen?.round);
  const span = useMemo(
    () => (end < 0 && chosen !== undefined ? [chosen] : known.slice(Math.max(0, end - 3), Math.max(0, end - 3) + 8)),
    [known, end, chosen],
  );
  const gantt = useMemo(
    () => chosen && <Gantt rounds={span} agents={named} chosen={chosen.round} choose={choose} />,
    [span, named, chosen?.round],
  );
  const contributions = useMemo(() => chosen && <Chosen round={chosen} agents={named} filters={filters} />, [chosen, named, filters.get('with')]);
  const roundTable = useMemo(() => roundColumns(choose, chosen?.round ?? 0), [chosen?.round]);
  return (
    <>
      <JobTitle id={id} what="rounds" />
      <JobLinks job={id} at="/rounds" />
      {rounds.value === undefined ? (
        <Missing of={rounds} what="rounds" />
      ) : chosen === undefined ? (
        <p class="empty">No round yet: the first opens when enough replicas are ready.</p>
      ) : (
        <>
          <Card title="Timeline">
            {gantt}
          </Card>
          {asked.error !== null && <Missing of={asked} what={`round ${filters.get('round')}`} />}
          {contributions}
          {beside.error !== null && <Missing of={beside} what={`round ${filters.get('with')}`} />}
          {beside.value && beside.value.round !== chosen.round && <RoundsBeside first={beside.value} second={chosen} agents={named} />}
          <Card title="The last rounds">
            <Table caption="Rounds, newest first" columns={roundTable} rows={known} rowKey={(one) => one.round} file="rounds" />
          </Card>
        </>
      )}
    </>
  );
}

const kNone: Round[] = [];
