// What the browser tests share: checks that are counted, waiting with a limit, pages that
// remember their complaints, axe, and the end of the program.
import { chromium } from 'playwright-core';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let failures = 0;
export function check(what, good, more = '') {
  console.log(`${good ? 'ok    ' : 'FAILED'} ${what}${good || more === '' ? '' : `: ${more}`}`);
  if (!good) failures += 1;
}

export async function until(what, limitMs, condition) {
  const started = Date.now();
  let last = '';
  while (Date.now() - started < limitMs) {
    try {
      if (await condition()) return check(`${what} (${((Date.now() - started) / 1000).toFixed(1)} s)`, true);
    } catch (error) {
      last = String(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  check(what, false, `not within ${limitMs / 1000} s ${last}`);
}

// Errors of the page, and what its content security policy stopped, go to `errors`.
export function listen(page, errors) {
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => /Content Security Policy/.test(message.text()) && errors.push(message.text()));
  return page;
}

export async function open(browser, errors, width = 1280, options = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, ...options });
  return listen(await context.newPage(), errors);
}

export const text = (page) => page.locator('body').innerText();

export async function checkAxe(page, where) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'] });
    return violations
      .filter((one) => one.impact === 'serious' || one.impact === 'critical')
      .map((one) => `${one.id} at ${one.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`);
  });
  check(`${where}: axe`, found.length === 0, found.join('; '));
}

export async function checkWidth(page, where) {
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(`${where}: no sideways scrolling`, overflow <= 0, `${overflow} px`);
}

export async function withBrowser(run) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  try {
    await run(browser);
  } finally {
    await browser.close();
  }
}

export async function runAll(tests) {
  await withBrowser(async (browser) => {
    for (const test of tests) await test(browser);
  });
  finish();
}

// Ends the program with what the checks came to.
export function finish() {
  console.log(failures === 0 ? 'all good' : `${failures} failed`);
  process.exit(failures === 0 ? 0 : 1);
}
