// What somebody sees and does in report.html; report_test.py makes the pages and says what is in them.
import {checks, withBrowser} from './browser.mjs';

const pages = JSON.parse(process.argv[2]);
const tab = (page, id) => page.locator(`.pages a[href="#${id}"]`).click();
const shown = page => page.locator('.page:not([hidden])').evaluateAll(all => all.map(p => p.id));
const texts = locator => locator.allTextContents();

/// Names and values of the panel.
const panelOf = page => page.locator('.reader .panel').evaluate(panel => {
  const names = [...panel.querySelectorAll('dt')].map(e => e.textContent), values = [...panel.querySelectorAll('dd')].map(e => e.textContent);
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
});

/// Pixels of a canvas that have the colour of a variable of the page's style, nearly.
const pixelsOf = (page, place, variable) => page.locator('.plane canvas').nth(place).evaluate((canvas, name) => {
  const probe = document.createElement('canvas').getContext('2d');
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data, copy = document.createElement('canvas');  // the page's own is left as it is
  Object.assign(copy, {width: canvas.width, height: canvas.height});
  const pen = copy.getContext('2d', {willReadFrequently: true});
  pen.drawImage(canvas, 0, 0);
  const pixels = pen.getImageData(0, 0, copy.width, copy.height).data;
  let count = 0;
  for (let i = 0; i < pixels.length; i += 4)
    count += Math.abs(pixels[i] - r) + Math.abs(pixels[i + 1] - g) + Math.abs(pixels[i + 2] - b) < 60 && pixels[i + 3] > 150;
  return count;
}, variable);

async function pagesAndAddress(browser) {
  const page = await browser.open(pages.small);
  checks.equal(await shown(page), ['overview'], 'the page opens with the overview alone');
  for (const id of ['trust-region', 'mismatch', 'health', 'samples', 'numbers', 'overview']) {
    await tab(page, id);
    checks.equal(await shown(page), [id], `the link leads to ${id}`);
  }
  await page.goBack();
  checks.equal(await shown(page), ['numbers'], 'Back goes to the page before');
  await page.close();
  const inside = await browser.open(pages.small + '#trust-region&step=31&sign=negative');
  checks.equal(await inside.locator('.reader .filters select').nth(0).inputValue(), '31', 'the address brings the step back');
  checks.equal(await inside.locator('.reader .completions article').count(), 2, 'and what it lets through');
  await inside.reload();
  checks.equal(await inside.locator('.reader .completions article').count(), 2, 'a reload shows the same');
  await inside.close();
  browser.expectQuiet(pages.small);
}

async function readerOfCompletions(browser) {
  const page = await browser.open(pages.small + '#trust-region'), reader = page.locator('.reader'), count = reader.locator('p[role=status]');
  checks.equal(await count.textContent(), '12 of 12 completions', 'all completions are there');
  const filters = reader.locator('.filters');
  await filters.locator('input[type=checkbox]').check();
  checks.equal(await count.textContent(), '4 of 12 completions', 'those with a blocked token: both of prompt 1 in the second update');
  await filters.locator('select').nth(1).selectOption('negative');
  checks.equal(await count.textContent(), '2 of 12 completions', 'and of a negative advantage');
  await filters.locator('input[type=checkbox]').uncheck();
  await filters.locator('select').nth(1).selectOption('');
  await filters.locator('input[type=number]').nth(0).fill('0.5');
  checks.equal(await count.textContent(), '8 of 12 completions', 'rewards from 0.5 on');
  await filters.locator('input[type=number]').nth(1).fill('0.9');
  checks.equal(await count.textContent(), '4 of 12 completions', 'and up to 0.9');
  for (const place of [0, 1]) await filters.locator('input[type=number]').nth(place).fill('');
  await filters.locator('input[type=search]').fill('NEEDLE');
  checks.equal(await count.textContent(), '4 of 12 completions', 'a text is found, whatever its case');
  await filters.locator('input[type=search]').fill('nobody wrote this');
  checks.equal(await count.textContent(), '0 of 12 completions', 'or not');
  await filters.locator('input[type=search]').fill('');

  await filters.locator('select').nth(0).selectOption('31');
  checks.equal(await reader.locator('.prompt').count(), 0, 'a record without prompts shows none');
  await filters.locator('select').nth(0).selectOption('11');
  const prompts = await texts(reader.locator('.prompt'));
  checks.equal([prompts.length, ...prompts.slice(0, 2)], [6, '1 + 1 =\n', '1 + 1 =\n'], 'every completion has its prompt above it');
  const blocked = reader.locator('article').nth(3).locator('.t').nth(0);  // the first completion in its second update
  checks.that((await blocked.getAttribute('class')).includes('x'), 'a blocked token is marked');
  await blocked.click();
  const panel = await panelOf(page);
  checks.near(Number(panel['μ, when sampled']), 0.5, 1e-5, 'mu of the token');
  checks.near(Number(panel['π, at the update']), 0.8, 1e-5, 'pi of the token');
  checks.near(Number(panel['log μ'].replace('−', '-')), Math.log(0.5), 1e-5, 'log mu');
  checks.near(Number(panel['log π'].replace('−', '-')), Math.log(0.8), 1e-5, 'log pi');
  checks.near(Number(panel['ratio π/μ']), 1.6, 1e-5, 'the ratio');
  checks.near(Number(panel.divergence), 0.3, 1e-5, 'the divergence');
  checks.near(Number(panel.threshold), 0.2, 1e-5, 'the threshold');
  checks.equal([panel.advantage, panel.coefficient, panel.weight, panel.kept, panel['entropy, nats'], panel.reward],
    ['1', '0', '0.03125', 'no: blocked', '0.5', '1'], 'advantage, coefficient, weight, kept, entropy and reward');
  await page.keyboard.press('ArrowRight');
  checks.near(Number((await panelOf(page))['μ, when sampled']), 0.9, 1e-5, 'the next token by a key');
  const address = page.url();
  await page.keyboard.press('Escape');
  checks.that(!await reader.locator('.panel').isVisible(), 'Escape closes the panel');
  const again = await browser.open(address);
  checks.near(Number((await panelOf(again))['μ, when sampled']), 0.9, 1e-5, 'the address has the token, too');
  await again.close();

  const held = page.locator('.affected[data-sign=negative]');
  checks.equal(await texts(held.locator('tbody tr td')), ['2', '50.0 %', '0.5', '0.5'], 'so: 2 of 4 of its tokens, mean mu 0.5, entropy 0.5');
  await held.locator('button.find').click();
  checks.equal(await count.textContent(), '1 of 12 completions', 'a token of the table finds its completions, of the step that is chosen');
  await page.close();
  browser.expectQuiet(pages.small);
}

async function hostileTexts(browser) {
  const page = await browser.open(pages.small + '#trust-region&step=11&from=0.5&to=0.5'), tokens = page.locator('.reader article').nth(0).locator('.t');
  const seen = await texts(tokens);
  checks.equal(seen.slice(0, 5), ['<script>window.hacked = 1</script>', '<img src=x onerror="window.hacked=1">', '</script><b>bold</b>',
    'a\\u202eb\\u2066c', 'nul\\x00l'], 'tags, bidi controls and NULs are texts');
  checks.that(seen[5].startsWith('xxxx') && seen[5].length < 400, 'a text of a million characters is cut', seen[5].length);
  checks.equal(seen.slice(6), ['\\x1b[31mred', '\\u2028line', 'é', ']]>&amp;"\''], 'other controls and marks, too');
  checks.equal(await texts(page.locator('.reader article').nth(0).locator('.prompt')),
    ['<script>window.hacked = 1</script><img src=x onerror="window.hacked=1"></script><b>bold</b>a\\u202eb\\u2066cnul\\x00l\\x1b[31mred\\u2028lineé]]>&amp;"\''],
    'the same of a prompt');
  checks.equal(await page.evaluate(() => [window.hacked, document.querySelectorAll('.reader b b, .reader img').length]), [null, 0],
    'none of them became a part of the page');
  checks.that(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is not wider than the window');
  await page.close();
  browser.expectQuiet(pages.small);
}

async function planeOfTokens(browser) {
  const page = await browser.open(pages.small + '#trust-region');
  // 2 steps x 2 updates of 4 + 10 and of 2 tokens; in the second update "so" moves by 0.3, beyond both thresholds.
  checks.equal(await texts(page.locator('.square .note')), ['56 tokens, 2 blocked', '8 tokens, 2 blocked'], 'tokens of either sign are counted');
  checks.that(await pixelsOf(page, 0, '--block') > 100, 'the boundary and what is blocked are drawn');
  checks.that(await pixelsOf(page, 0, '--s0') > 10, 'so are the tokens that are kept');
  await page.locator('.plane select').nth(1).selectOption('log');
  checks.that(page.url().includes('axes=log'), 'the axes can be logarithmic');
  await page.locator('.plane select').nth(1).selectOption('');
  // mu 0.5, pi 0.8 lies at 44 + 0.5 side, 10 + 0.2 side of the drawing.
  const canvas = page.locator('.plane canvas').nth(0), box = await canvas.boundingBox(), side = box.width - 54;
  await canvas.click({position: {x: 44 + 0.5 * side, y: 10 + 0.2 * side}});
  checks.equal(await page.locator('.reader article').count(), 1, 'a click opens the completion of the token');
  checks.near(Number((await panelOf(page))['π, at the update']), 0.8, 1e-5, 'and its numbers');
  await page.locator('.reader .pager button').click();
  checks.equal(await page.locator('.reader article').count(), 10, 'from there back to all, ten at a time');
  await page.locator('.reader .pager button', {hasText: 'Next'}).click();
  checks.equal(await page.locator('.reader article').count(), 2, 'and on to the next');
  await page.close();
  browser.expectQuiet(pages.small);
}

async function mismatchAndHealth(browser) {
  const page = await browser.open(pages.small + '#health');
  const verdict = await page.locator('#health .verdict').textContent();
  checks.that(/^Gradient norm left its band first, at step 31: 50, band at most 1\.5\./.test(verdict), 'the first metric that left its band', verdict);
  checks.that((await page.locator('#health .samples').textContent()).includes('two at 31'), 'among them those of the step');
  await page.locator('#health a', {hasText: 'All recorded completions of step 31'}).click();
  checks.equal(await shown(page), ['trust-region'], 'a link leads to the records of the step');
  checks.equal(await page.locator('.reader p[role=status]').textContent(), '6 of 12 completions', 'which are chosen');
  await tab(page, 'mismatch');
  checks.that((await page.locator('#mismatch').textContent()).includes('first update'), 'the mismatch is that of the first update');
  await page.close();
  browser.expectQuiet(pages.small);
}

async function withoutRecords(browser) {
  const page = await browser.open(pages.plain + '#trust-region');
  checks.that((await page.locator('#trust-region .missing').textContent()).includes('record.tokens=sample'), 'a page without records says how to get some');
  checks.equal(await page.locator('.reader').count(), 0, 'and has no reader');
  await page.close();
  const damaged = await browser.open(pages.damaged + '#trust-region');
  checks.that((await damaged.locator('#trust-region .damaged').textContent()).includes('step-00000021.parquet'), 'damaged records are named');
  checks.equal(await texts(damaged.locator('.reader .completions .t')), ['kept'], 'the others are read');
  await damaged.close();
  browser.expectQuiet(pages.plain, pages.damaged);
}

async function severalRuns(browser) {
  const page = await browser.open(pages.seeds);
  checks.that(await page.locator('path.band').count() > 0, 'seeds are a band');
  checks.that((await page.locator('#overview').textContent()).includes('plain (2 seeds)'), 'of one name');
  await page.close();
  const several = await browser.open(pages.several + '#trust-region');
  checks.equal(await several.locator('#trust-region .of-run:not([hidden]) > h2').allTextContents(), ['small'], 'one run at a time');
  await several.locator('#trust-region .of-runs select').selectOption('2');
  checks.equal(await several.locator('#trust-region .of-run:not([hidden]) > h2').allTextContents(), ['large'], 'another one');
  checks.that((await several.locator('#trust-region .of-run:not([hidden])').textContent()).includes('selected by their ids'), 'which is thinned, and says so');
  await tab(several, 'mismatch');
  checks.equal(await several.locator('#mismatch .of-run:not([hidden]) > h2').allTextContents(), ['large'], 'on every page');
  await several.close();
  browser.expectQuiet(pages.seeds, pages.several);
}

/// Seconds from the call to the page's own word that it is ready, its records decoded and drawn.
async function largePage(browser) {
  for (const address of [pages.large, pages.large + '#trust-region']) {
    const page = await browser.open(address);
    await page.waitForFunction(() => document.documentElement.dataset.ready);
    const seconds = await page.evaluate(() => document.documentElement.dataset.ready / 1000);
    console.log(`1,000 steps and 100,000 tokens open in ${seconds.toFixed(2)} s${address.includes('#') ? ', the trust region shown' : ''}`);
    if (address.includes('#')) {
      checks.equal(await page.locator('.reader p[role=status]').textContent(), '2,000 of 2,000 completions', 'with all that was recorded');
      await page.locator('.reader input[type=search]').fill('word1999');
      await page.waitForFunction(() => !document.querySelector('.reader p[role=status]').textContent.startsWith('2,000 of'));
      checks.that((await texts(page.locator('.reader article').nth(0).locator('.t'))).includes(' word1999'), 'and the text is found');
    }
    await page.close();
  }
  browser.expectQuiet(pages.large);
}

async function narrowAndDark(browser) {
  for (const dark of [false, true]) {
    const page = await browser.open(pages.small + '#trust-region', {viewport: {width: 390, height: 800}, dark});
    checks.that(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'a narrow page does not scroll sideways');
    await page.locator('.reader article .t').nth(0).click();
    checks.that(await page.locator('.reader .panel').isVisible(), 'its panel is there');
    await page.close();
  }
  browser.expectQuiet(pages.small);
}

await withBrowser(async browser => {
  for (const part of [pagesAndAddress, readerOfCompletions, hostileTexts, planeOfTokens, mismatchAndHealth, withoutRecords, severalRuns,
    largePage, narrowAndDark]) await part(browser);
});
checks.end();
