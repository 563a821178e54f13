// Everything of one's own origin, as files: the coordinator's content security policy permits no inline
// script, style or data address. `npm run dev` passes API calls on to a coordinator on this machine.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  server: { proxy: { '/api': process.env.SHOAL_ADDR ?? 'http://127.0.0.1:7070' } },
  test: { include: ['src/**/*.test.ts'] },
});
