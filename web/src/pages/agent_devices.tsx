// The devices of an agent: what they are, why one is out of service, what their drivers say now, and what they did in
// the last day.
import { useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Agent, DeviceHistory } from '../api';
import { Chart, type Line } from '../chart';
import { busyText, cordons, curve, endOf, memoryText, ofLimit, readings, rowsText, throttleText, xidText, type Reading } from '../devices';
import { bytes, kNone, number, percent, short, words } from '../format';
import { Card, Glyph, Missing, State, Time, useWatch } from '../parts';
import * as sources from '../sources';
import { Table, type Column } from '../table';

type Device = Agent['devices'][number];

// What a device could not hold: nothing of the built-in trainer that needs as much, and none of these programs, is
// tried there again. An older coordinator names no programs.
function refused(agent: Agent, device: Device): string {
  const found = agent.memory_refusals?.filter((one) => one.device === device.index) ?? [];
  const texts = found.map((one) => ((one.code ?? '') === '' ? `${bytes(one.needed_bytes)} or more` : `${one.code}`));
  return texts.length === 0 ? kNone : texts.join(', ');
}

const kColumns = (agent: Agent): Column<Device>[] => [
  { name: 'No.', numeric: true, show: (one) => number(one.index), value: (one) => one.index },
  { name: 'Kind', show: (one) => one.kind, value: (one) => one.kind },
  { name: 'Name', text: true, show: (one) => <span title={one.uuid}>{one.name}</span>, value: (one) => one.name },
  { name: 'Memory', numeric: true, show: (one) => bytes(one.memory_bytes), value: (one) => one.memory_bytes },
  { name: 'Measured', numeric: true, show: (one) => (one.gflops === null ? 'not yet' : `${short(one.gflops * 1e9)}FLOP/s`), value: (one) => one.gflops },
  { name: 'bf16', show: (one) => (one.bf16 ? 'yes' : 'no'), value: (one) => (one.bf16 ? 'yes' : 'no') },
  { name: 'Out of memory at', show: (one) => refused(agent, one), value: (one) => refused(agent, one) },
];

// Devices whose trainers do not start; an older coordinator does not say.
function Failures({ agent }: { agent: Agent }) {
  return (
    <>
      {(agent.device_failures ?? []).map((one) => (
        <p key={one.device} class="problem-row breaks"><Glyph tone="warn" /><span>Device {one.device} trains nothing: its trainer {one.reason}</span></p>
      ))}
    </>
  );
}

// Devices that the coordinator took out of service; an older coordinator takes none.
function Cordons({ agent }: { agent: Agent }) {
  return (
    <>
      {cordons(agent).map((one) => (
        <p key={`${one.device} ${one.code} ${one.at}`} class="problem-row breaks"><Glyph tone="warn" /><span>
          {one.device < 0 ? `The device ${one.uuid}, which is not there now,` : `Device ${one.device}`} is cordoned{one.code !== '' && ` for the program ${one.code}`} since <Time at={one.at} />,
          because {one.job ? <>replicas of <Link href={`/jobs/${one.job}`}>{one.job}</Link> failed there</> : 'its driver reports a fault'}: {one.reasons.join('; ')}.
          {' '}{endOf(one, agent)}
        </span></p>
      ))}
    </>
  );
}

const kSaid: Column<Reading>[] = [
  { name: 'Device', text: true, show: (one) => one.name, value: (one) => one.name },
  {
    name: 'Its driver', text: true, value: (one) => [one.text, one.sample?.error ?? ''].filter((part) => part !== '').join(': '),
    show: (one) => <><State tone={one.tone} text={one.text} />{(one.sample?.error ?? '') !== '' && <div class="muted">{one.sample!.error}</div>}</>,
  },
  { name: 'Busy', numeric: true, show: (one) => busyText(one.sample), value: (one) => one.sample?.use?.busy ?? null },
  { name: 'Memory in use', text: true, show: memoryText, value: memoryText },
  { name: 'Temperature', numeric: true, show: (one) => ofLimit(one.sample?.climate?.celsius, 0, '°C'), value: (one) => one.sample?.climate?.celsius ?? null },
  { name: 'Power', numeric: true, show: ({ sample }) => ofLimit(sample?.climate?.watts, sample?.climate?.watts_limit, 'W'), value: (one) => one.sample?.climate?.watts ?? null },
  { name: 'Clock', numeric: true, show: ({ sample }) => ofLimit(sample?.climate?.mhz, sample?.climate?.mhz_max, 'MHz'), value: (one) => one.sample?.climate?.mhz ?? null },
  { name: 'Throttled', show: (one) => throttleText(one.sample), value: (one) => throttleText(one.sample) },
  { name: 'Measured', show: (one) => <Time at={one.at} />, value: (one) => one.at },
];

// Counted by the driver, since it was loaded or for the life of the card; XIDs since the agent began.
const kErrors: Column<Reading>[] = [
  { name: 'Device', text: true, show: (one) => one.name, value: (one) => one.name },
  { name: 'XIDs', text: true, show: (one) => xidText(one.sample), value: (one) => xidText(one.sample) },
  { name: 'Needs', show: ({ sample }) => words(sample?.errors?.recovery ?? kNone), value: (one) => one.sample?.errors?.recovery ?? null },
  { name: 'ECC uncorrected', numeric: true, show: (one) => number(one.sample?.errors?.ecc_uncorrected), value: (one) => one.sample?.errors?.ecc_uncorrected ?? null },
  { name: 'corrected', numeric: true, show: (one) => number(one.sample?.errors?.ecc_corrected), value: (one) => one.sample?.errors?.ecc_corrected ?? null },
  { name: 'Rows remapped', numeric: true, show: (one) => rowsText(one.sample), value: (one) => rowsText(one.sample) },
  { name: 'PCIe replays', numeric: true, show: (one) => number(one.sample?.errors?.pcie_replays), value: (one) => one.sample?.errors?.pcie_replays ?? null },
  { name: 'NVLink errors', numeric: true, show: (one) => number(one.sample?.errors?.nvlink_errors), value: (one) => one.sample?.errors?.nvlink_errors ?? null },
];

function Drivers({ agent }: { agent: Agent }) {
  const said = readings(agent);
  if ((agent.device_samples ?? []).length === 0) return <p class="empty">Nothing is known of what their drivers say.</p>;
  const counted = said.filter((one) => one.sample?.errors);
  return (
    <>
      <h3>What their drivers say</h3>
      <Table caption="What the drivers say" columns={kSaid} rows={said} rowKey={(one) => one.key} file="device-samples" />
      {counted.length > 0 && (
        <>
          <h3>Errors</h3>
          <Table caption="Errors of devices" columns={kErrors} rows={counted} rowKey={(one) => one.key} file="device-errors" />
        </>
      )}
    </>
  );
}

export function DevicesCard({ agent }: { agent: Agent }) {
  return (
    <Card title="Devices">
      <Cordons agent={agent} />
      <Failures agent={agent} />
      <Table caption="Devices" columns={kColumns(agent)} rows={agent.devices} rowKey={(one) => one.index} empty="It has reported no device." file="devices" />
      <Drivers agent={agent} />
    </Card>
  );
}

const inUnit = (unit: string) => (value: number | null | undefined) => (value == null ? kNone : `${number(value)} ${unit}`);

const kCurves: { title: string; file: string; unit: (value: number | null | undefined) => string; lines: [string, keyof DeviceHistory['points'][number], Line['color']][] }[] = [
  { title: 'Busy', file: 'busy', unit: percent, lines: [['Busy', 'busy', 1]] },
  { title: 'Memory in use', file: 'memory', unit: bytes, lines: [['By Shoal', 'used_here_bytes', 1], ['By others', 'used_elsewhere_bytes', 2]] },
  { title: 'Temperature', file: 'temperature', unit: inUnit('°C'), lines: [['Highest', 'celsius', 3]] },
  { title: 'Power', file: 'power', unit: inUnit('W'), lines: [['Mean', 'watts', 4]] },
];

// One device at a time: its curves can be told apart.
function Curves({ devices }: { devices: DeviceHistory[] }) {
  const [chosen, choose] = useState(0);
  const shown = devices[chosen] ?? devices[0]!;
  const lines = useMemo(
    () => kCurves.map((one) => one.lines.map(([name, field, color]): Line => ({ name, color, ...curve(shown.points, field) }))),
    [shown],
  );
  return (
    <Card title="The last 24 hours" tools={devices.length > 1 && (
      <label>
        device{' '}
        <select value={chosen} onChange={(event) => choose(Number(event.currentTarget.value))}>
          {devices.map((one, i) => <option key={one.uuid} value={i}>{one.index} {one.name}</option>)}
        </select>
      </label>
    )}>
      <div class="columns even" data-testid="device-curves">
        {kCurves.map(({ title, file, unit }, i) => (
          <Chart key={title} title={title} file={`device-${shown.index}-${file}`} xName="Time" lines={lines[i]!} unit={unit} sync="devices" height={170} time fromZero
            empty="Its driver has not said." />
        ))}
      </div>
      <p class="under muted">Means of a minute, or of ten where it is older; memory and temperature are the highest of each. A gap: nothing was heard.</p>
    </Card>
  );
}

export function CurvesCard({ agent }: { agent: string }) {
  const found = useWatch(sources.deviceHistory(agent), [agent]);
  if (found.value?.length) return <Curves devices={found.value} />;
  return (
    <Card title="The last 24 hours">
      {found.value === undefined ? <Missing of={found} what="curves" /> : (
        <p class="empty">{found.value === null ? 'This coordinator keeps no history of devices.' : 'Nothing was heard of its devices in the last 24 hours.'}</p>
      )}
    </Card>
  );
}
