// Filters that live in the address, so that a link shows the same to somebody else, and the form that they are set in.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import { words } from './format';

export interface Filters {
  get: (name: string) => string; // empty: not set
  set: (name: string, value: string) => void;
}

export function useFilters(): Filters {
  const [search, setSearch] = useSearchParams();
  const set = (name: string, value: string) =>
    setSearch((before) => {
      const next = new URLSearchParams(before);
      if (value === '') next.delete(name);
      else next.set(name, value);
      return next;
    }, { replace: true });
  return { get: (name) => search.get(name) ?? '', set };
}

// A text once nobody has typed for a moment: what it is used for is more work than a key may take.
export function useSettled(text: string, ms = 150): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), ms);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

export function FilterForm({ children }: { children: ComponentChildren }) {
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      {children}
    </form>
  );
}

interface ChoiceProps {
  filters: Filters;
  name: string; // in the address
  label: string;
  none: string; // what no choice is called
  options: [value: string, text: string][];
}

export function Choice({ filters, name, label, none, options }: ChoiceProps) {
  const value = filters.get(name);
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => filters.set(name, event.currentTarget.value)}>
        <option value="">{none}</option>
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export const wordOptions = (values: string[]): [string, string][] => values.map((value) => [value, words(value)]);

export function SearchBox({ filters, label, name = 'q' }: { filters: Filters; label: string; name?: string }) {
  return (
    <label>
      {label} <input type="search" value={filters.get(name)} onInput={(event) => filters.set(name, event.currentTarget.value)} />
    </label>
  );
}

export function Check({ filters, name, label }: { filters: Filters; name: string; label: string }) {
  return (
    <label class="check">
      <input type="checkbox" checked={filters.get(name) === 'true'} onChange={(event) => filters.set(name, event.currentTarget.checked ? 'true' : '')} />
      {label}
    </label>
  );
}

// One value that a link set, which the form has no field for.
export function Only({ filters, name }: { filters: Filters; name: string }) {
  const value = filters.get(name);
  if (value === '') return null;
  return (
    <button type="button" class="link" onClick={() => filters.set(name, '')}>
      only of {value}: show all
    </button>
  );
}
