// What the tests of pages share in the browser: a page that is watched, and checks that are sentences.
//
//   import {checks, withBrowser} from './browser.mjs';
//   await withBrowser(async browser => {
//     const page = await browser.open('file:///...');       // or http://127.0.0.1:...
//     checks.that(await page.locator('h1').count() === 1, 'the page has a title');
//     browser.expectQuiet('file:///...');                    // no console error, no request that leaves the address
//   });
//   checks.end();

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {createRequire} from 'node:module';

const HANG = 300000;  // milliseconds; limits every wait, so only a hang takes so long, even on a busy machine
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/// Counts what holds and what does not; `end` leaves with 1 where something does not.
export const checks = {
  held: 0,
  failed: [],
  that(condition, sentence, ...seen) {
    if (condition) { ++this.held; return; }
    this.failed.push(sentence);
    console.log(`FAILED: ${sentence}${seen.length ? `\n  seen: ${seen.map(show).join(' | ')}` : ''}`);
  },
  equal(got, wanted, sentence) {
    this.that(JSON.stringify(got) === JSON.stringify(wanted), sentence, got, wanted);
  },
  near(got, wanted, tolerance, sentence) {
    this.that(Math.abs(got - wanted) <= tolerance, sentence, got, wanted);
  },
  end() {
    console.log(`${this.held} checks held, ${this.failed.length} failed`);
    process.exit(this.failed.length ? 1 : 0);
  },
};

const show = value => (typeof value === 'string' ? value : JSON.stringify(value) ?? String(value)).slice(0, 2000);

/// A browser with a profile of its own, closed and removed at the end. `open` gives a page of playwright's; what its console
/// says and what it asks for is written down.
export async function withBrowser(work) {
  const {chromium} = createRequire(import.meta.url)(process.env.KEEL_BROWSER_DRIVER);
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'keel_browser_'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.KEEL_BROWSER, headless: true, args: FLAGS, viewport: {width: 1200, height: 900}, timeout: HANG});
  const said = [], asked = [];
  const browser = {
    context, said, asked,
    async open(address, options = {}) {
      const page = await context.newPage();
      page.setDefaultTimeout(HANG);
      page.on('console', message => { if (['error', 'warning'].includes(message.type())) said.push(message.text()); });
      page.on('pageerror', error => said.push(`uncaught: ${error.message}`));
      page.on('request', request => asked.push(request.url()));
      if (options.viewport) await page.setViewportSize(options.viewport);
      if (options.dark !== undefined) await page.emulateMedia({colorScheme: options.dark ? 'dark' : 'light'});
      await page.goto(address, {waitUntil: 'load'});
      return page;
    },
    /// Since the last time: nothing was complained of, and nothing asked for but what begins with one of the addresses.
    expectQuiet(...addresses) {
      const outside = asked.filter(url => !addresses.some(address => url.startsWith(address)) && !url.startsWith('blob:'));
      checks.equal(said.splice(0), [], 'the console has neither errors nor warnings');
      checks.equal([...new Set(outside)], [], 'nothing is asked for elsewhere');
      asked.length = 0;
    },
  };
  try {
    await work(browser);
  } catch (error) {
    checks.that(false, `the script came to its end: ${error.stack}`);
  } finally {
    await context.close();
    fs.rmSync(profile, {recursive: true, force: true, maxRetries: 5, retryDelay: 200});
  }
}
