// The audit trail: who changed what, newest first.
import { useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { askAll, type Audited } from '../api';
import { FilterForm, SearchBox, useFilters, useSettled } from '../filters';
import { number, words } from '../format';
import type { Watch } from '../live';
import { Missing, Time, useWatch } from '../parts';
import { Table, type Column } from '../table';

const kStep = 500, kMost = 5000; // so many at first and more for each asking; the API has all
const kPage = 500; // of one answer

const audit = (most: number): Watch<Audited[]> => ({
  load: () => askAll<Audited>('/audit', { limit: Math.min(most, kPage), order: 'desc' }, Math.ceil(most / kPage)),
  concerns: () => false,
  slowMs: most > kStep ? 60_000 : 10_000,
});

const kPagesOf: Record<string, string> = { job_: '/jobs/', agt_: '/agents/', ckpt_: '/checkpoints/' };

function Object({ id }: { id: string }) {
  const prefix = /^(job_|agt_|ckpt_)\d+$/.exec(id)?.[1];
  return prefix === undefined ? <>{id}</> : <Link href={kPagesOf[prefix] + id}>{id}</Link>;
}

const kColumns: Column<Audited>[] = [
  { name: 'When', show: (one) => <Time at={one.at} />, value: (one) => one.at },
  { name: 'Who', show: (one) => <span class="name">{one.principal}</span>, value: (one) => one.principal },
  { name: 'Token', show: (one) => one.token, value: (one) => one.token },
  { name: 'Action', show: (one) => words(one.action), value: (one) => one.action },
  { name: 'Object', show: (one) => <Object id={one.object} />, value: (one) => one.object },
  { name: 'Before', text: true, show: (one) => one.before ?? '', value: (one) => one.before },
  { name: 'After', text: true, show: (one) => one.after ?? '', value: (one) => one.after },
  { name: 'No.', numeric: true, show: (one) => number(one.id), value: (one) => one.id },
];

export function AuditPage() {
  const filters = useFilters();
  const [most, setMost] = useState(kStep);
  const entries = useWatch(audit(most), [most]);
  const known = entries.value ?? [];
  const text = useSettled(filters.get('q')).toLowerCase();
  const fits = (one: Audited) => `${one.principal} ${one.token} ${one.action} ${words(one.action)} ${one.object}`.toLowerCase().includes(text);
  const shown = useMemo(() => known.filter(fits), [known, text]);
  return (
    <>
      <h1>Audit</h1>
      <FilterForm>
        <SearchBox filters={filters} label="Who, token, action, object" />
      </FilterForm>
      {entries.value === undefined ? (
        <Missing of={entries} what="the audit trail" />
      ) : (
        <Table caption="Changes, newest first" columns={kColumns} rows={shown} rowKey={(one) => one.id} file="audit"
          empty={known.length === 0 ? 'Nobody has changed anything yet.' : 'None of the newest entries matches.'} />
      )}
      <p class="under muted">
        {known.length >= most && most < kMost ? (
          <button type="button" class="link" onClick={() => setMost(most + kStep)}>
            Load {kStep} older ones
          </button>
        ) : (
          known.length >= kMost && `The newest ${number(kMost)}; GET /api/v1/audit has all.`
        )}
      </p>
    </>
  );
}
