// The heading of a page about one part of a job: its name, where addresses only have an id.
import { useWatch } from './parts';
import * as sources from './sources';

export function JobTitle({ id, what }: { id: string; what: string }) {
  const job = useWatch(sources.job(id), [id]);
  return <h1 class="breaks">{job.value?.name ?? id}: {what}</h1>;
}
