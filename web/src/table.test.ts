import { describe, expect, it } from 'vitest';
import { toward } from './table';

const span = (first: number, last: number) => ({ first, last });

describe('toward', () => {
  it('first lets go what is not wanted, then takes a few at a time, down before up', () => {
    expect(toward(span(0, 40), span(12, 52), 6)).toEqual(span(12, 40));
    expect(toward(span(12, 40), span(12, 52), 6)).toEqual(span(12, 46));
    expect(toward(span(20, 50), span(12, 52), 6)).toEqual(span(16, 52));
    expect(toward(span(12, 52), span(12, 52), 6)).toEqual(span(12, 52));
  });

  it('after a jump begins with the rows in sight and ends with all that are wanted', () => {
    const wanted = span(500, 540);
    let shown = toward(span(0, 40), wanted, 6);
    expect(shown).toEqual(span(503, 509));
    for (let i = 0; i < 10; ++i) shown = toward(shown, wanted, 6);
    expect(shown).toEqual(wanted);
  });

  it('takes all of a few', () => {
    expect(toward(span(90, 100), span(0, 3), 6)).toEqual(span(0, 3));
  });
});
