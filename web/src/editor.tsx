// A plain text area with line numbers, and what is wrong with a line beside it. The area keeps every habit of the
// browser (undo, spelling off, keyboard); the numbers and remarks are layers that scroll with it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Glyph } from './parts';
import type { LineProblem } from './spec_text';

const kLinePx = 22; // line-height of .editor

export function Editor(props: {
  label: string;
  text: string;
  problems: LineProblem[];
  describedBy: string;
  goTo: number | null; // a line to put the cursor on
  onText: (text: string) => void;
}) {
  const [top, setTop] = useState(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = props.text.split('\n');
  const wrong = new Map(props.problems.flatMap((one) => (one.line === null ? [] : [[one.line, one] as const])));
  useEffect(() => {
    const node = area.current;
    if (node === null || props.goTo === null) return;
    const from = lines.slice(0, props.goTo).join('\n').length + (props.goTo > 0 ? 1 : 0);
    node.focus();
    node.setSelectionRange(from, from + (lines[props.goTo]?.length ?? 0));
    node.scrollTop = Math.max(0, (props.goTo - 4) * kLinePx);
  }, [props.goTo]);
  return (
    <div class="editor">
      <div class="numbers" aria-hidden="true">
        <div style={{ transform: `translateY(${-top}px)` }}>
          {lines.map((_, i) => (
            <span key={i} class={wrong.has(i) ? 'wrong' : ''}>
              {i + 1}
            </span>
          ))}
        </div>
      </div>
      <div class="paper">
        <textarea ref={area} aria-label={props.label} aria-describedby={props.describedBy} aria-invalid={props.problems.length > 0}
          spellcheck={false} autocapitalize="off" autocomplete="off" wrap="off" value={props.text}
          onInput={(event) => props.onText(event.currentTarget.value)} onScroll={(event) => setTop(event.currentTarget.scrollTop)} />
        <div class="remarks" aria-hidden="true">
          <div style={{ transform: `translateY(${-top}px)` }}>
            {[...wrong].map(([line, problem]) => (
              <span key={line} style={{ top: `${line * kLinePx}px`, left: `calc(${Math.min(60, lines[line]?.length ?? 0) + 3}ch)` }}>
                <Glyph tone="bad" /> {problem.text}
              </span>
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}
