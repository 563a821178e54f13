// Where a job would be placed now, from the answer of a dry run: whether it can start, the cut, who gets which
// stage, and what the planner expects of them.
import type { Plan, StageView } from './api';
import { bytes, duration, lineRate, number, percent, plural, short, words } from './format';
import { Glyph, Sentence, State, Tile } from './parts';
import { limitOf, speedsText } from './reasons';
import { Table, type Column } from './table';

type Row = StageView & { who: string[] };

const kColumns: Column<Row>[] = [
  { name: 'Stage', numeric: true, show: (one) => number(one.stage), value: (one) => one.stage },
  { name: 'Layers', numeric: true, show: (one) => number(one.layers), value: (one) => one.layers },
  { name: 'Parameters', numeric: true, show: (one) => short(one.parameters), value: (one) => one.parameters },
  { name: 'Memory', numeric: true, show: (one) => bytes(one.memory_bytes), value: (one) => one.memory_bytes },
  { name: 'Replicas', text: true, show: (one) => (one.who.length === 0 ? 'none' : `${one.who.length}: ${one.who.join(', ')}`), value: (one) => one.who.join(' ') },
];

export type Reasoned = Pick<Plan, 'forecast' | 'left_out' | 'used_by_others'>;

// What limits a placement, who stands aside, which free devices others use, and what was assumed.
export function Reasons({ of: { forecast, left_out = [], used_by_others = [] } }: { of: Reasoned }) {
  const limit = limitOf(forecast);
  return (
    <>
      {limit !== null && <Sentence tone={limit.tone}>{limit.text}</Sentence>}
      {left_out.map((left) => (
        <Sentence key={`${left.agent}/${left.device}`} tone="warn">
          Device {left.device} of {left.agent_name} stands aside: {short(left.tokens_per_second_with)} tokens/s with it, {short(left.tokens_per_second_without)} without{left.line_bytes_per_second !== null && <>; its line carries {lineRate(left.line_bytes_per_second)}</>}.
        </Sentence>
      ))}
      {used_by_others.map((used) => (
        <p key={`${used.agent}/${used.device}`} class="under muted">Others use device {used.device} of {used.agent_name} for {percent(used.share)} of its time: plans count it with the rest.</p>
      ))}
      {(forecast.lines_assumed ?? 0) > 0 && <p class="under muted">Nobody has measured the lines of {plural(forecast.lines_assumed ?? 0, 'agent')}: 100 Mbit/s are assumed.</p>}
      {(forecast.lines_to_coordinator ?? 0) > 0 && <p class="under muted">The lines of {plural(forecast.lines_to_coordinator ?? 0, 'agent')} are measured to the coordinator only, whose own line may be the slower one.</p>}
    </>
  );
}

export function PlanView({ plan }: { plan: Plan }) {
  const { forecast, devices } = plan;
  const rows = plan.stages.map((stage): Row => ({ ...stage, who: plan.placement.filter((one) => one.stage === stage.stage).map((one) => one.agent_name) }));
  return (
    <>
      <p>
        <State tone={plan.placeable ? 'good' : 'warn'} text={plan.placeable ? `it would start now on ${plural(plan.placement.length, 'device')}` : `it would wait: ${words(plan.reason)}`} />
        {plan.detail !== '' && <span class="muted"> {plan.detail}</span>}
      </p>
      <div class="tiles small tight">
        <Tile label="Tokens per second" value={short(forecast.tokens_per_second)} note={speedsText(forecast)} />
        <Tile label="Inner step" value={duration(forecast.step_s)} note={forecast.bubble === null ? '' : `${percent(forecast.bubble)} of it idle`} />
        <Tile label="Round" value={duration(forecast.round_s)} note={forecast.average_s == null ? '' : `of which ${duration(forecast.average_s)} averaging`} />
      </div>
      <Reasons of={plan} />
      <Table caption="Stages of the plan" columns={kColumns} rows={rows} rowKey={(one) => one.stage} empty="No cut was found." file="plan" />
      <p class="under muted">
        {plural(devices.free, 'free device')}, {number(devices.fitting)} with the memory that it takes ({bytes(plan.memory_needed_bytes)} a replica; the largest has {bytes(plan.memory_largest_bytes)})
        {devices.missing > 0 && <>; <Glyph tone="warn" /> {number(devices.missing)} missing for the minimum</>}.
      </p>
    </>
  );
}
