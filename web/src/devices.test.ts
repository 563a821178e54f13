import { describe, expect, it } from 'vitest';
import type { Agent } from './api';
import { busyText, curve, endOf, memoryText, ofLimit, readings, rowsText, throttleText, withGaps, xidText, type DeviceSample } from './devices';
import { agentTone, problems } from './status';

const kErrors = {
  ecc_corrected: 0, ecc_uncorrected: 0, rows_remapped: 2, remap_pending: false, remap_failed: false, pcie_replays: 0, nvlink_errors: 0,
  recovery: 'none' as const, xids: [],
};
const sample = (change: Partial<DeviceSample> = {}): DeviceSample => ({
  uuid: 'GPU-1', answer: 'whole', age_s: 0, error: '', use: { busy: 0.5, stolen: 0, used_here_bytes: 60e9, used_elsewhere_bytes: 2e9 },
  climate: { celsius: 71, watts: 350, watts_limit: 700, mhz: 1200, mhz_max: 1980, throttled: [] }, errors: kErrors, ...change,
});
const agent = (samples: DeviceSample[], change: Partial<Agent> = {}) => ({
  state: 'active', health: 'green', last_seen_at: '2026-01-01T00:01:00Z', device_samples: samples,
  devices: [{ index: 0, kind: 'cuda', name: 'NVIDIA H200', memory_bytes: 140e9, total_bytes: 141e9, gflops: 1, bf16: true, uuid: 'GPU-1' }], ...change,
}) as unknown as Agent;
const verdict = (change: Partial<DeviceSample>) => {
  const [one] = readings(agent([sample(change)]));
  return [one!.tone, one!.text];
};

describe('what a driver says', () => {
  it('is good only when it answers every question and nothing is amiss', () => {
    expect(verdict({})).toEqual(['good', 'answers']);
    expect(verdict({ answer: 'partial', error: 'no power' })).toEqual(['warn', 'answers in part']);
    expect(verdict({ answer: 'silent', age_s: 40 })).toEqual(['bad', 'silent']);
    expect(verdict({ answer: 'lost', use: null, climate: null, errors: null })).toEqual(['bad', 'lost: its UUID is gone']);
    expect(verdict({ answer: 'unknown', use: null })).toEqual(['off', 'not asked yet']);
    expect(verdict({ answer: 'of a newer agent' as 'whole' })[0]).toBe('off');
  });
  it('names every fault, and the gravest colors it', () => {
    const errors = { ...kErrors, remap_pending: true, recovery: 'reset_gpu' as const, xids: [{ xid: 79, count: 2, ago_s: 180 }, { xid: 31, count: 9, ago_s: 5 }, { xid: 48, count: 1, ago_s: 90_000 }] };
    expect(verdict({ errors })).toEqual(['bad', 'needs: reset gpu; a row of memory is remapped at the next reset; XID 79, 3 min ago']);
    expect(verdict({ climate: { ...sample().climate!, throttled: ['sw_power_cap', 'hw_thermal_slowdown'] } })).toEqual(['warn', 'throttled: hw thermal slowdown']);
    expect(verdict({ climate: { ...sample().climate!, throttled: ['sw_power_cap'] } })[0]).toBe('good');
  });
  it('is unknown when the agent is not heard from', () => {
    for (const change of [{ state: 'gone' }, { health: 'red' }, { health: 'yellow' }] as Partial<Agent>[]) expect(readings(agent([sample()], change))[0]!.tone).toBe('off');
    expect(readings(agent([sample()], { health: 'yellow', slow_replicas: 1 }))[0]!.tone).toBe('good'); // heard from, slow
  });
  it('belongs to the card, not to its number, and is shown of a card that is not there any more', () => {
    expect(readings(agent([sample({ uuid: 'GPU-2', answer: 'lost' })])).map((one) => [one.name, one.tone, one.device === null])).toEqual([
      ['0 NVIDIA H200', 'off', false], ['GPU-2', 'bad', true]]);
    const older = agent([]);
    older.devices[0]!.uuid = undefined;
    expect(readings(older)).toMatchObject([{ tone: 'off', text: 'its driver is not asked', at: null }]);
  });
  it('is as old as the driver has been silent, counted from the heartbeat', () => {
    expect(readings(agent([sample({ answer: 'silent', age_s: 40 })]))[0]!.at).toBe('2026-01-01T00:00:20.000Z');
  });
  it('makes its agent look unwell in every list', () => {
    expect(agentTone(agent([sample()]))).toBe('good');
    const troubles = (['cordoned', 'silent'] as const).map((trouble) => ({ device: 0, uuid: 'GPU-1', trouble, reason: '' }));
    const cordoned = agent([], { id: 'agt_1', name: 'a', health: 'yellow', late: false, device_troubles: troubles });
    expect(agentTone(cordoned)).toBe('warn');
    expect(problems([], [cordoned, agent([sample()])], 0).map((one) => `${one.title}: ${one.detail}`)).toEqual(['a has devices out of order: device cordoned, device silent']);
  });
});

describe('a cordon', () => {
  it('says what ends it, also of an older coordinator', () => {
    const named = { name: 'far' } as Agent, cordon = { device: 0, at: '', job: 'job_1', code: '', reasons: [] };
    expect(endOf({ ...cordon, ends: 'replace the card' }, named)).toBe('Replace the card.');
    expect(endOf(cordon, named)).toBe('Run shoal agent uncordon far.');
  });
});

describe('the figures of a device', () => {
  it('are a dash where the driver has not said', () => {
    expect([busyText(null), throttleText(sample({ climate: null })), rowsText(null), ofLimit(0, 700, 'W'), ofLimit(undefined, undefined, 'W')]).toEqual(['–', '–', '–', '–', '–']);
    expect(xidText(null)).toBe('–');
  });
  it('have their limits', () => {
    expect(ofLimit(350, 700, 'W')).toBe('350 of 700 W');
    expect(ofLimit(350, 0, 'W')).toBe('350 W');
    expect(memoryText(readings(agent([sample()]))[0]!)).toBe('60 GB here, 2 GB by others of 141 GB');
    expect(busyText(sample({ use: { ...sample().use!, busy: 0.9, stolen: 0.25 } }))).toBe('90 %, 25 % stolen');
    expect(busyText(sample({ use: { ...sample().use!, busy: 0.9, busy_elsewhere: 0.5 } }))).toBe('90 %, 50 % by others');
  });
  it('count errors', () => {
    expect(xidText(sample({ errors: { ...kErrors, xids: [{ xid: 79, count: 2, ago_s: 180 }] } }))).toBe('79: 2 times, last 3 min ago');
    expect(xidText(sample())).toBe('none');
    expect(rowsText(sample({ errors: { ...kErrors, remap_pending: true } }))).toBe('2, one pending');
  });
});

describe('curves', () => {
  it('are not joined over what nobody heard', () => {
    expect(withGaps([600, 660, 720, 960, 1020], [1, 2, 3, 4, 5])).toEqual({ x: [600, 660, 720, 780, 960, 1020], y: [1, 2, 3, null, 4, 5] });
    expect(withGaps([0, 600, 1200, 3600], [1, 2, 3, 4])).toEqual({ x: [0, 600, 1200, 1800, 3600], y: [1, 2, 3, null, 4] });
    expect(withGaps([600, 1200, 1260], [1, 2, 3]).x).toEqual([600, 1200, 1260]); // from ten minutes to one
  });
  it('have no point where the driver never says it', () => {
    const point = (second: number, celsius: number) => ({ at: new Date(second * 1000).toISOString(), busy: 0, used_here_bytes: 1, used_elsewhere_bytes: 0, celsius, watts: 0, mhz: 0, throttled: 0 });
    expect(curve([point(60, 50), point(120, 0)], 'celsius')).toEqual({ x: [60, 120], y: [50, null] });
    expect(curve([point(60, 50)], 'watts')).toEqual({ x: [], y: [] });
    expect(curve([point(60, 50)], 'busy')).toEqual({ x: [60], y: [0] });
  });
});
