// What the pages watch: for each answer of the API, how to request it and which events make it stale.
import {
  ask, askAll, askSome, askText, query,
  ApiError, type Agent, type Checkpoint, type ClusterEvent, type DeviceHistory, type Job, type NetworkLink, type Placement, type Replica, type Round, type Series,
  type Topology,
} from './api';
import type { Watch } from './live';
import { hasGap, isOver, mergeEvents, mergeRounds } from './status';
import { fromReplicas, withStages } from './topology';

const path = (job: string) => `/jobs/${encodeURIComponent(job)}`;
const ofJob = (event: ClusterEvent, job: string) => event.job === null || event.job === job || !job.startsWith('job_');

export const jobs = (): Watch<Job[]> => ({
  load: () => askAll<Job>('/jobs'),
  concerns: (event) => event.kind.startsWith('job_') || event.kind === 'round_committed',
  everyMs: 1500,
});

export const job = (id: string): Watch<Job> => ({
  load: () => ask<Job>(path(id)),
  concerns: (event) => ofJob(event, id),
});

// Null where the coordinator has no such thing, or is older than its route.
async function unlessOlder<T>(load: () => Promise<T>): Promise<T | null> {
  try {
    return await load();
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

// The text that a job was submitted as; null: the coordinator has not kept it. It never changes.
export const submitted = (id: string): Watch<string | null> => ({
  load: () => unlessOlder(() => askText(`${path(id)}/spec`)),
  concerns: () => false,
  slowMs: 600_000,
});

export const agents = (gone = false): Watch<Agent[]> => ({
  load: () => askAll<Agent>('/agents', gone ? { gone: 'true' } : {}),
  concerns: (event) => event.kind.startsWith('agent_'),
});

export const replicas = (id: string): Watch<Replica[]> => ({
  load: () => replicaList(id),
  concerns: (event) => ofJob(event, id) && !event.kind.startsWith('checkpoint_'),
  slowMs: 2000,
});

export const agent = (id: string): Watch<Agent> => ({
  load: () => ask<Agent>(`/agents/${encodeURIComponent(id)}`),
  concerns: (event) => event.agent === null || event.agent === id,
});

// What its devices did in the last day; null: the coordinator is older and keeps no history.
export const deviceHistory = (id: string): Watch<DeviceHistory[] | null> => ({
  load: () => unlessOlder(async () => (await ask<{ items: DeviceHistory[] }>(`/agents/${encodeURIComponent(id)}/devices/history?hours=24`)).items),
  concerns: (event) => event.agent === id && event.kind.startsWith('device_'),
  slowMs: 30_000,
});

const replicaList = (id: string) => askSome<Replica>(`${path(id)}/replicas`, { limit: 200, order: 'desc' });

// The API has no list over all jobs, so this asks for the list of each unfinished one.
export const replicasOfAgent = (id: string, mostJobs = 16): Watch<Replica[]> => ({
  load: async () => {
    const open = (await askAll<Job>('/jobs')).filter((one) => !isOver(one.status.phase)).slice(0, mostJobs);
    const lists = await Promise.all(open.map((one) => replicaList(one.id)));
    return lists.flat().filter((one) => one.agent === id && one.state !== 'released');
  },
  concerns: (event) => event.agent === id || event.kind.startsWith('job_'),
  slowMs: 5000,
});

// An older coordinator has no such route: the topology then follows from its replicas.
export const topology = (id: string): Watch<Topology> => ({
  load: async () => {
    const found = await unlessOlder(() => ask<Topology>(`${path(id)}/topology`));
    if (found !== null) return withStages(found);
    const [job, replicas] = await Promise.all([ask<Job>(path(id)), replicaList(id)]);
    return fromReplicas(job, replicas);
  },
  concerns: (event) => ofJob(event, id) && (event.kind.startsWith('replica_') || event.kind.startsWith('agent_')),
  slowMs: 2000,
});

// Why it is placed as it is; null: the coordinator is older and does not say.
export const placement = (id: string): Watch<Placement | null> => ({
  load: () => unlessOlder(() => ask<Placement>(`${path(id)}/placement`)),
  concerns: (event) => ofJob(event, id) && (event.kind.startsWith('replica_') || ['move_refused', 'plan_changed', 'device_left_out'].includes(event.kind)),
  slowMs: 10_000,
});

// The topology of the running pipelines.
export const topologies = (most = 8): Watch<Topology[]> => ({
  load: async () => {
    const piped = (await askAll<Job>('/jobs')).filter((one) => !isOver(one.status.phase) && one.spec.swarm.stages !== 1);
    return Promise.all(piped.slice(0, most).map((one) => topology(one.id).load(undefined, false)));
  },
  concerns: (event) => event.kind.startsWith('replica_'),
  slowMs: 3000,
});

// Changes with the reports of rounds.
export const network = (): Watch<NetworkLink[]> => ({
  load: async () => (await ask<{ items: NetworkLink[] }>('/network')).items,
  concerns: (event) => event.kind.startsWith('agent_'),
  slowMs: 5000,
});

// The newest rounds: a few at first, so that a page with many replicas shows something soon, then all; later only
// the last few are asked for again.
const kFirstRounds = 8, kFreshRounds = 4;

export const rounds = (id: string, most = 60): Watch<Round[]> => {
  let filled = false;
  const newest = (limit: number) => askSome<Round>(`${path(id)}/rounds`, { limit, order: 'desc' });
  return {
    load: async (known, whole) => {
      if (known === undefined) return mergeRounds([], await newest(Math.min(most, kFirstRounds)), most);
      const fresh = await newest(whole || !filled ? most : kFreshRounds);
      if (!filled || whole) return (filled = true), mergeRounds([], fresh, most);
      return hasGap(known, fresh) ? mergeRounds([], await newest(most), most) : mergeRounds(known, fresh, most);
    },
    concerns: (event) => ofJob(event, id) && !event.kind.startsWith('checkpoint_'),
    everyMs: 500,
    slowMs: 3000,
  };
};

// One round by its number; null without a number.
export const round = (id: string, number: string): Watch<Round | null> => ({
  load: async () => (number === '' ? null : ask<Round>(`${path(id)}/rounds/${number}`)),
  concerns: (event) => number !== '' && ofJob(event, id) && event.round === Number(number),
  slowMs: 30_000,
});

export interface Lines {
  [name: string]: { x: (number | null)[]; y: (number | null)[]; time?: (number | null)[] };
}

// The answer for a series without points has no lines.
export const series = (id: string, names: string[], x: string, points = 800): Watch<Lines> => ({
  load: async () => {
    const lines: Lines = {};
    await Promise.all(
      names.map(async (name) => {
        const answer = await ask<Series>(`${path(id)}/series/query${query({ name, x, max_points: points })}`);
        const [line] = answer.series;
        lines[name] = { x: line?.x ?? [], y: line?.y ?? [], time: line?.time };
      }),
    );
    return lines;
  },
  concerns: (event) => ofJob(event, id) && (event.kind === 'round_committed' || event.kind === 'evaluation'),
  everyMs: 2000,
  slowMs: 10_000,
});

// What the program of a job logs: the first dozen names. None for other jobs.
const kLoggedMost = 12;

export const logged = (id: string): Watch<Lines> => ({
  load: async () => {
    const all = await ask<{ items: { name: string }[] }>(`${path(id)}/series`);
    const names = all.items.map((one) => one.name).filter((name) => name.startsWith('log.'));
    return names.length === 0 ? {} : series(id, names.slice(0, kLoggedMost), 'tokens').load(undefined, false);
  },
  concerns: (event) => ofJob(event, id) && event.kind === 'round_committed',
  everyMs: 5000,
  slowMs: 10_000,
});

// One measure of several jobs, by job.
export const seriesOfJobs = (ids: string[], name: string): Watch<Lines> => ({
  load: async () => {
    const answers = await Promise.all(ids.map((id) => series(id, [name], 'tokens').load(undefined, false)));
    return Object.fromEntries(ids.map((id, i) => [id, answers[i]![name]!]));
  },
  concerns: (event) => event.kind === 'round_committed' && ids.includes(event.job ?? ''),
  everyMs: 2000,
  slowMs: 10_000,
});

export const checkpoint = (id: string): Watch<Checkpoint> => ({
  load: () => ask<Checkpoint>(`/checkpoints/${encodeURIComponent(id)}`),
  concerns: (event) => event.kind.startsWith('checkpoint_'),
});

export const checkpoints = (id: string): Watch<Checkpoint[]> => ({
  load: () => askSome<Checkpoint>(`${path(id)}/checkpoints`, { limit: 200, order: 'desc' }),
  concerns: (event) => ofJob(event, id) && event.kind.startsWith('checkpoint_'),
});

// History, newest first, without gaps: the newest page, or more when that does not reach what is known.
export const events = (
  filter: { job?: string; agent?: string; severity?: string },
  most: number,
): Watch<ClusterEvent[]> => ({
  load: async (known, whole) => {
    const newest = (limit: number) => askAll<ClusterEvent>('/events', { ...filter, limit: Math.min(limit, 500), order: 'desc' }, Math.ceil(limit / 500));
    if (whole || known === undefined || known.length === 0) return newest(most);
    const fresh = await newest(Math.min(most, 30));
    const oldest = fresh[fresh.length - 1]?.seq ?? 0;
    if (fresh.length >= 30 && oldest > (known[0]?.seq ?? 0)) return newest(most);
    return mergeEvents(known, fresh, most);
  },
  concerns: () => true,
  slowMs: 8000,
});

// The newest warnings and errors of the cluster.
export const failures = (): Watch<ClusterEvent[]> => events({ severity: 'warning' }, 100);
