import { describe, expect, it } from 'vitest';
import { enrolment, reachable } from './pages/join';

describe('reachable', () => {
  it('is what was bound, or the host of the page when everything was', () => {
    expect(reachable('127.0.0.1:7071', 'x')).toEqual({ address: '127.0.0.1:7071', local: true });
    expect(reachable('0.0.0.0:7071', 'gpu.example')).toEqual({ address: 'gpu.example:7071', local: false });
    expect(reachable('[::]:7071', '[fe80::1]')).toEqual({ address: '[fe80::1]:7071', local: false });
    expect(reachable('10.1.2.3:9', 'x')).toEqual({ address: '10.1.2.3:9', local: false });
  });
});

describe('enrolment', () => {
  it('is named where agents would not find it by themselves', () => {
    expect(enrolment('gpu.example:7071', '7070')).toBe('');
    expect(enrolment('gpu.example:7071', '')).toBe('');
    expect(enrolment('127.0.0.1:7392', '7391')).toBe('127.0.0.1:7391');
    expect(enrolment('[fe80::1]:7071', '8080')).toBe('[fe80::1]:8080');
  });
});
