// A button for what cannot be taken back lightly: it opens a form in its place that wants the name typed, and
// says what will happen. Escape and "Keep it" close it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from './api';
import { Glyph } from './parts';

export function Confirmed(props: { label: string; what: string; word: string; act: () => Promise<unknown> }) {
  const [open, setOpen] = useState(false);
  const [typed, type] = useState('');
  const [refused, refuse] = useState('');
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), [open]);
  const close = () => (setOpen(false), type(''), refuse(''));
  const act = async (event: Event) => {
    event.preventDefault();
    if (typed !== props.word) return;
    try {
      await props.act();
      close();
    } catch (error) {
      refuse(error instanceof ApiError ? error.message : String(error));
    }
  };
  if (!open) {
    return (
      <button type="button" class="button risky" onClick={() => setOpen(true)}>
        {props.label}…
      </button>
    );
  }
  return (
    <form class="confirm" onSubmit={(event) => void act(event)} onKeyDown={(event) => event.key === 'Escape' && close()}>
      <p>{props.what}</p>
      <label>
        Type <code>{props.word}</code> to continue{' '}
        <input ref={input} type="text" autocomplete="off" spellcheck={false} value={typed} onInput={(event) => type(event.currentTarget.value)} />
      </label>
      <button type="submit" class="button risky" disabled={typed !== props.word}>
        {props.label}
      </button>
      <button type="button" class="button" onClick={close}>
        Keep it
      </button>
      {refused !== '' && (
        <p class="problem" role="alert">
          <Glyph tone="bad" /> {refused}
        </p>
      )}
    </form>
  );
}
