import { describe, expect, it } from 'vitest';
import { share } from './share';

const old = [{ id: 'a', at: 1, tags: ['x'] }, { id: 'b', at: 2, tags: ['y'] }];

describe('a fresh answer', () => {
  it('that is the same is the old one', () => expect(share(old, structuredClone(old))).toBe(old));
  it('keeps the items that did not change, wherever they are now', () => {
    const fresh = [{ id: 'c', at: 3, tags: [] }, { id: 'a', at: 1, tags: ['x'] }, { id: 'b', at: 9, tags: ['y'] }];
    const shared = share(old, structuredClone(fresh));
    expect(shared).toEqual(fresh);
    expect(shared[1]).toBe(old[0]);
    expect(shared[2]).not.toBe(old[1]);
    expect(shared[2]!.tags).toBe(old[1]!.tags);
  });
  it('loses what is gone', () => expect(share({ a: 1, b: 2 }, { a: 1 })).toEqual({ a: 1 }));
  it('takes another kind of value as it is', () => {
    expect(share([1], null)).toBe(null);
    expect(share({ a: 1 }, [1])).toEqual([1]);
    expect(share(undefined, 5)).toBe(5);
  });
});
