// What happened, where a chart over tokens shows it.
import type { Checkpoint, ClusterEvent } from './api';
import type { Mark } from './chart';
import { millis } from './format';
import { interpolate } from './sample';
import type { Lines } from './sources';

const kMost = 60;

// Events have a time, the charts go by tokens: each point of the loss has both.
export function marksOf(events: ClusterEvent[], checkpoints: Checkpoint[], loss: Lines[string] | undefined): Mark[] {
  const marks: Mark[] = [];
  for (const event of events) {
    const at = millis(event.at);
    const x = at === null || loss?.time === undefined ? null : interpolate(loss.time, loss.x, at / 1000);
    if (x !== null) marks.push({ x, text: event.message, tone: event.severity === 'error' ? 'bad' : 'warn' });
  }
  for (const one of checkpoints)
    if (one.state === 'stored' && one.tokens > 0) marks.push({ x: one.tokens, text: one.id, tone: 'good' });
  return marks.slice(0, kMost);
}
