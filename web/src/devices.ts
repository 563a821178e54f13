// What the drivers of an agent's devices say, for its page: pure functions from what the API answers to a verdict on each
// device, texts, and curves with gaps where nothing was measured.
import type { Agent, DeviceHistory } from './api';
import { bytes, duration, finite, kNone, millis, number, percent, plural, words } from './format';
import { isUnheard, worst, type Tone } from './status';

type Device = Agent['devices'][number];
export type DeviceSample = NonNullable<Agent['device_samples']>[number];

// An older coordinator cordons only for failures of a job's replicas, and an operator ends that.
export type Cordon = NonNullable<Agent['cordoned_devices']>[number];
export const cordons = (agent: Agent): Cordon[] => agent.cordoned_devices ?? [];
export function endOf(one: Cordon, agent: Agent): string {
  const text = one.ends || `run shoal agent uncordon ${agent.name}`;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

export interface Reading {
  key: string;
  name: string; // "0 NVIDIA H200"; the UUID of one that the agent does not list
  device: Device | null;
  sample: DeviceSample | null; // null: nobody has asked its driver
  tone: Tone;
  text: string;
  at: string | null; // when its values were measured
}

const kOfPrograms = [13, 31, 43, 45]; // XIDs that programs cause, not GPUs
const kRecentS = 86_400;
const kSlowed = /thermal|^hw_/; // throttle reasons that are no choice of the operator

// What is wrong with a device whose agent is heard from, the worst first.
function faultsOf(sample: DeviceSample): { tone: Tone; text: string }[] {
  const found: { tone: Tone; text: string }[] = [];
  const add = (tone: Tone, text: string) => found.push({ tone, text });
  const { answer, errors, climate } = sample;
  if (answer === 'lost') add('bad', 'lost: its UUID is gone');
  if (answer === 'silent') add('bad', 'silent');
  if (errors && errors.recovery !== 'none') add('bad', `needs: ${words(errors.recovery)}`);
  if (errors?.remap_failed) add('bad', 'a row of memory could not be remapped');
  if (answer === 'partial') add('warn', 'answers in part');
  if (answer !== 'whole' && !['lost', 'silent', 'partial'].includes(answer)) add('off', 'not asked yet');
  if (errors?.remap_pending) add('warn', 'a row of memory is remapped at the next reset');
  for (const one of errors?.xids ?? [])
    if (one.ago_s < kRecentS && !kOfPrograms.includes(one.xid)) add('warn', `XID ${one.xid}, ${duration(one.ago_s)} ago`);
  const slowed = (climate?.throttled ?? []).filter((reason) => kSlowed.test(reason));
  if (slowed.length > 0) add('warn', `throttled: ${slowed.map(words).join(', ')}`);
  return found;
}

function verdictOn(agent: Agent, sample: DeviceSample | null): { tone: Tone; text: string } {
  if (agent.state === 'gone') return { tone: 'off', text: 'unknown: the agent is gone' };
  if (isUnheard(agent)) return { tone: 'off', text: 'unknown: the agent is not heard from' };
  if (sample === null) return { tone: 'off', text: 'its driver is not asked' };
  const faults = faultsOf(sample);
  if (faults.length === 0) return { tone: 'good', text: 'answers' };
  return { tone: worst(faults.map((one) => one.tone)), text: faults.map((one) => one.text).join('; ') };
}

// Each device with what its driver said last, and each UUID that is no device of the agent any more.
export function readings(agent: Agent): Reading[] {
  const samples = agent.device_samples ?? [];
  const heard = millis(agent.last_seen_at);
  const reading = (device: Device | null, sample: DeviceSample | null): Reading => ({
    key: device === null ? sample!.uuid : String(device.index),
    name: device === null ? sample!.uuid : `${device.index} ${device.name}`,
    device, sample, ...verdictOn(agent, sample),
    at: sample === null || sample.answer === 'unknown' || heard === null ? null : new Date(heard - 1000 * sample.age_s).toISOString(),
  });
  const known = agent.devices.filter((one) => one.kind !== 'reducer').map((device) =>
    reading(device, samples.find((one) => (device.uuid ?? '') !== '' && one.uuid === device.uuid) ?? null));
  const strays = samples.filter((one) => !known.some((other) => other.sample === one));
  return [...known, ...strays.map((one) => reading(null, one))];
}

// "71 of 90": 0 means that the driver did not say.
export function ofLimit(value: number | undefined, limit: number | undefined, unit: string): string {
  if (!finite(value) || value <= 0) return kNone;
  return `${number(value)}${finite(limit) && limit > 0 ? ` of ${number(limit)}` : ''} ${unit}`;
}

export const busyText = (sample: DeviceSample | null): string =>
  percent(sample?.use?.busy) + ((sample?.use?.busy_elsewhere ?? 0) >= 0.005 ? `, ${percent(sample?.use?.busy_elsewhere)} by others` : '') +
  (sample?.use && sample.use.stolen >= 0.005 ? `, ${percent(sample.use.stolen)} stolen` : '');

export function memoryText({ sample, device }: Reading): string {
  if (!sample?.use) return kNone;
  const whole = (device?.total_bytes ?? 0) > 0 ? ` of ${bytes(device!.total_bytes)}` : '';
  return `${bytes(sample.use.used_here_bytes)} here, ${bytes(sample.use.used_elsewhere_bytes)} by others${whole}`;
}

export const xidText = (sample: DeviceSample | null): string =>
  sample?.errors ? sample.errors.xids.map((one) => `${one.xid}: ${plural(one.count, 'time')}, last ${duration(one.ago_s)} ago`).join('; ') || 'none' : kNone;

export function rowsText(sample: DeviceSample | null): string {
  const errors = sample?.errors;
  if (!errors) return kNone;
  const more = [errors.remap_pending ? 'one pending' : '', errors.remap_failed ? 'one failed' : ''].filter((part) => part !== '');
  return [number(errors.rows_remapped), ...more].join(', ');
}

export function throttleText(sample: DeviceSample | null): string {
  if (!sample?.climate) return kNone;
  return sample.climate.throttled.map(words).join(', ') || 'no';
}

const kMinuteS = 60, kTenMinutesS = 600;

type Point = DeviceHistory['points'][number];

const kNotSaid: (keyof Point)[] = ['celsius', 'watts']; // where they are 0

// Without any value it has no point.
export function curve(points: Point[], field: keyof Point): { x: number[]; y: (number | null)[] } {
  const values = points.map((one) => (one[field] === 0 && kNotSaid.includes(field) ? null : (one[field] as number)));
  if (values.every((one) => one === null)) return { x: [], y: [] };
  return withGaps(points.map((one) => (millis(one.at) ?? NaN) / 1000), values);
}

// Times are multiples of their spans: a minute, or ten for what is older. Points that are further apart are not joined,
// because nothing was measured between them.
export function withGaps(x: number[], y: (number | null)[]): { x: number[]; y: (number | null)[] } {
  const xs: number[] = [], ys: (number | null)[] = [];
  x.forEach((at, i) => {
    const before = x[i - 1];
    const span = before !== undefined && at % kTenMinutesS === 0 && before % kTenMinutesS === 0 ? kTenMinutesS : kMinuteS;
    if (before !== undefined && at - before > 2.5 * span) {
      xs.push(before + span);
      ys.push(null);
    }
    xs.push(at);
    ys.push(y[i] ?? null);
  });
  return { x: xs, y: ys };
}
