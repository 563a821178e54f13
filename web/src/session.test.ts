import { describe, expect, it } from 'vitest';
import { ApiError } from './api';
import { afterAsking, personOf, proofIn, ticketIn, whyNot, type Principal, type Session } from './session';

const who = (scope: string, grants: Principal['grants']): Principal => ({ name: 'ana', scope, token_id: 'tok_2', expires_at_ms: 0, grants });
const viewer: Session = { state: 'in', who: who('viewer', { view_cluster: 'any' }) };
const submitter: Session = { state: 'in', who: who('submitter,metrics', { submit_job: 'any', control_job: 'own' }) };
const asking: Session = { state: 'asking', problem: null };

describe('the answer to the question who this is', () => {
  const refused = new ApiError('the login has expired', 401), silent = new ApiError('no answer within 8 s', 0);
  it('is a person, nobody, or everybody where there are no logins', () => {
    expect(afterAsking(asking, who('viewer', {}))).toEqual({ state: 'in', who: who('viewer', {}) });
    expect(afterAsking(asking, refused)).toEqual({ state: 'out', why: '' });
    expect(afterAsking(asking, new ApiError('there is nothing here', 404))).toEqual({ state: 'open' });
  });
  it('ends a login with its reason, and keeps the reason', () => {
    const out = afterAsking(viewer, refused);
    expect(out).toEqual({ state: 'out', why: 'Your login has ended: the login has expired.' });
    expect(afterAsking(out, new ApiError('no token was shown', 401))).toEqual(out);
    expect(afterAsking({ state: 'open' }, refused)).toEqual({ state: 'out', why: '' });
  });
  it('does not end a login when there is none', () => {
    expect(afterAsking(viewer, silent)).toBe(viewer);
    expect(afterAsking(viewer, new ApiError('full', 503))).toBe(viewer);
    expect(afterAsking(asking, silent)).toEqual({ state: 'asking', problem: silent });
  });
});

it('pages stay those of the person whose login ended, until another one comes', () => {
  expect(personOf('', viewer)).toBe('ana');
  expect(personOf('ana', { state: 'out', why: '' })).toBe('ana');
  expect(personOf('ben', viewer)).toBe('ana');
  expect(personOf('', { state: 'open' })).not.toBe('');
});

it('a pasted text is a token, a link, or a sentence that says why not', () => {
  expect(proofIn('  shoalapi1.tok_3.abc\n')).toEqual({ token: 'shoalapi1.tok_3.abc' });
  expect(proofIn('http://127.0.0.1:7070/login#ticket=xyz')).toEqual({ ticket: 'xyz' });
  for (const [pasted, why] of [['', 'Paste'], ['shoaljoin1.a.join_1.b', 'join token'], ['hunter2', 'no API token'], ['shoalapi1.a b', 'blanks']] as const)
    expect(proofIn(pasted)).toContain(why);
});

it('a ticket is in the fragment only', () => {
  expect(ticketIn('#ticket=a-b_c')).toBe('a-b_c');
  expect(ticketIn('#ticket=')).toBe('');
  expect(ticketIn('?ticket=a')).toBe('');
});

describe('what somebody may not do', () => {
  it('is said with the scope', () => {
    expect(whyNot(viewer, 'submit_job')).toBe('The scope viewer does not let you submit jobs.');
    expect(whyNot(viewer, 'view_cluster')).toBe('');
  });
  it('may depend on whose job it is', () => {
    expect(whyNot(submitter, 'control_job', 'ana')).toBe('');
    expect(whyNot(submitter, 'control_job', 'ben')).toBe('The scope submitter, metrics lets you control jobs and their checkpoints of your own only; this is ben’s.');
    expect(whyNot(submitter, 'control_job', '')).toContain('nobody’s');
  });
  it('is nothing where nobody logs in', () => {
    expect(whyNot({ state: 'open' }, 'manage_tokens')).toBe('');
  });
});
