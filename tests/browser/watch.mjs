// A training that goes on, as `keel watch` shows it: node watch.mjs ADDRESS PROCESS ROWS. The process is stopped while things are compared;
// ROWS is the file that gets a row per step.

import fs from 'node:fs';
import process from 'node:process';
import {setTimeout as pause} from 'node:timers/promises';
import {checks, withBrowser} from './browser.mjs';

const [address, training, rows] = process.argv.slice(2);
const goOn = () => process.kill(Number(training), 'SIGCONT');
const version = page => page.locator('.watch').getAttribute('data-version');
const stateOf = page => page.locator('.watch .state').textContent();
const sizeOfRows = () => fs.existsSync(rows) ? fs.statSync(rows).size : 0;

/** Lets the training write another row, and stops it long before its end. */
async function advance() {
  const before = sizeOfRows();
  goOn();
  while (sizeOfRows() === before) await pause(5);
  process.kill(Number(training), 'SIGSTOP');
}

/** The same, and waits until the page has noticed. */
async function advanceUntil(noticed) {
  await advance();
  while (!await noticed()) await pause(50);
}

await withBrowser(async browser => {
  const list = await browser.open(address);
  await advance();  // it begins while the list is open
  await list.locator('a', {hasText: /^live$/}).waitFor();
  checks.equal(await list.locator('.list tbody tr').count(), 2, 'the list has the run that begins, and the other');
  await list.locator('tr', {hasText: 'live'}).locator('.state.live').waitFor();
  const reward = list.locator('tr', {hasText: 'live'}).locator('.reward');
  while (await reward.textContent() === '') await advance();
  checks.that(/^[\d.]+$/.test(await reward.textContent()), 'the open list gets the first reward');
  await list.getByLabel('live', {exact: true}).check();
  await list.locator('button', {hasText: 'side by side'}).click();
  await list.waitForURL(/\?run=live$/);

  const page = list;
  checks.equal(await page.locator('h1').textContent(), 'live', 'the chosen run is shown');
  await page.locator('.pages a', {hasText: 'Numbers'}).click();
  await page.locator('details.config summary').click();
  await page.evaluate(() => { document.body.style.minHeight = '3000px'; scrollTo(0, 250); });
  const before = await version(page);
  await advanceUntil(async () => await version(page) !== before);
  await page.waitForLoadState('load');
  checks.that(await page.locator('details.config').getAttribute('open') !== null, 'what was unfolded is unfolded after the page was loaded again');
  checks.equal(await page.evaluate(() => scrollY), 250, 'what was scrolled to is still there');
  checks.that(/^live, .*step \d+, last write \d+ s ago$/.test(await stateOf(page)), 'the bar says that the run goes on', await stateOf(page));

  await page.locator('.follow').uncheck();
  const kept = await version(page);
  await advanceUntil(() => page.locator('.newer').isVisible());
  checks.equal(await version(page), kept, 'a page that does not follow is not loaded again, and says that there is more');
  await page.locator('.newer').click();
  await page.waitForFunction(old => document.querySelector('.watch').dataset.version !== old, kept);
  await page.waitForLoadState('load');
  checks.that(!await page.locator('.follow').isChecked(), 'it does not follow after that either');
  await page.locator('.follow').check();
  goOn();

  await page.locator('.watch .state.ended').waitFor();
  checks.that(/^ended, /.test(await stateOf(page)), 'the bar says that the run has ended', await stateOf(page));
  await page.waitForFunction(() => /\b300\b/.test(document.querySelector('main').textContent));
  checks.that(true, 'the page has the last step');
  await page.locator('.pages a', {hasText: 'Trust region'}).click();
  await page.locator('.reader article .t').first().click();
  checks.that(await page.locator('.reader .panel').isVisible(), 'its token records are shown, and each of their tokens');
  browser.expectQuiet(address);

  const hostile = await browser.open(`${address}`), row = hostile.locator('tr', {hasText: /^live/});
  checks.that(/^[\d.]+$/.test(await row.locator('.reward').textContent()), 'the list has the last reward');
  checks.that((await row.locator('polyline').getAttribute('points')).includes(' 120,'), 'the list has the curve');
  await hostile.locator('.list a').first().click();
  await hostile.waitForURL(/\?run=/);
  checks.equal(await hostile.evaluate(() => window.hacked), undefined, 'nothing that a model or a folder says is obeyed');
  checks.that((await hostile.locator('main').textContent()).includes('<script>window.hacked=1</script>'), 'it is shown as text');
  browser.expectQuiet(address);
});
checks.end();
