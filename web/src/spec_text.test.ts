import { describe, expect, it } from 'vitest';
import type { JobSpec } from './api';
import { compareSpecs, lineOfField, placeProblems, relocated, renamed, toToml } from './spec_text';

const spec = (change: Record<string, unknown> = {}) =>
  ({ name: 'a "b"\n', model: { family: 'llama', tie: null }, sync: { every: 50, outer: { lr: 0.7 } }, train: { betas: [0.9, 0.99] }, ...change }) as unknown as JobSpec;
const kText = 'name = "x"\n\n[train]\nlr = 99\n[sync]\nevery = 5\n[ sync . outer ]\nmomentum=3 # lr = 1';

describe('toToml', () => {
  it('writes each table once and escapes text', () => {
    expect(toToml(spec())).toBe('name = "a \\"b\\"\\u000a"\n\n[model]\nfamily = "llama"\n\n[sync]\nevery = 50\n\n[sync.outer]\nlr = 0.7\n\n[train]\nbetas = [0.9, 0.99]\n');
  });
});

describe('compareSpecs', () => {
  it('marks what differs, and what only one has', () => {
    const found = compareSpecs([spec(), spec({ sync: { every: 60 } })]);
    expect(found.filter((one) => !one.same)).toEqual([
      { pointer: '/sync/every', values: ['50', '60'], same: false },
      { pointer: '/sync/outer/lr', values: ['0.7', null], same: false },
    ]);
  });
});

describe('lineOfField', () => {
  it('finds keys in their own table only', () => {
    expect(lineOfField(kText, '/name')).toBe(0);
    expect(lineOfField(kText, '/train/lr')).toBe(3);
    expect(lineOfField(kText, '/sync/outer/momentum')).toBe(7);
  });
  it('falls back to the nearest table, then to nothing', () => {
    expect(lineOfField(kText, '/sync/outer/lr')).toBe(6);
    expect(lineOfField(kText, '/train/steps')).toBe(2);
    expect(lineOfField(kText, '/data/train')).toBeNull();
  });
});

describe('placeProblems', () => {
  it('believes the line that the server names', () => {
    expect(placeProblems(kText, [{ pointer: '/train/lr', detail: 'too large (line 4, column 6)' }], '')).toEqual([{ line: 3, pointer: '/train/lr', text: 'too large' }]);
  });
  it('places what is missing at its table, and a syntax error where it is', () => {
    expect(placeProblems(kText, [{ pointer: '/train/steps', detail: 'is required' }], '')[0]!.line).toBe(2);
    expect(placeProblems(kText, [], 'not valid TOML at line 2, column 1: x')[0]!.line).toBe(1);
    expect(placeProblems(kText, [], 'the coordinator cannot be reached')[0]!.line).toBeNull();
  });
});

describe('renamed', () => {
  it('changes the name of the job and nothing else', () =>
    expect(renamed('# first\nname = "old" # mine\n[model]\nname = "inner"\n', 'new')).toBe('# first\nname = "new" # mine\n[model]\nname = "inner"\n'));
  it('is not fooled by a name in a table', () => expect(renamed('[model]\nname = "inner"\n', 'new')).toBe(null));
  it('takes no JSON', () => expect(renamed('{"name": "old"}', 'new')).toBe(null));
});

describe('relocated', () => {
  it('changes the path of the data and nothing else', () => {
    expect(relocated('[train]\nx = 1\n[data]\ntrain = "a.txt" # mine\n', '/home/$1/a.txt')).toBe('[train]\nx = 1\n[data]\ntrain = "/home/$1/a.txt" # mine\n');
    expect(relocated("data.train = 'a.txt'", '/a.txt')).toBe('data.train = "/a.txt"');
  });
  it('is not fooled by a table of that name', () => expect(relocated('[data]\n[train]\nsteps = 1\n', '/a.txt')).toBe(null));
});
