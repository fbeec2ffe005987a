// Shows one page of the report, and one of several runs, at a time. Without scripts all are visible.
const pages = [...document.querySelectorAll('.page')], tabs = [...document.querySelectorAll('.pages a')];
const ofRuns = [...document.querySelectorAll('.of-run')];
const runNames = new Map(ofRuns.map(block => [block.dataset.run, block.querySelector('h2').textContent]));

for (const tab of tabs) tab.addEventListener('click', event => {
  event.preventDefault();
  setState({page: tab.hash.slice(1)});
  scrollTo({top: 0});
});
if (runNames.size > 1) {
  for (const page of pages) {
    const first = page.querySelector('.of-run');
    if (!first) continue;
    const runs = select(...[...runNames].map(([index, name]) => option(index, name)));
    first.before(make('div', 'filters of-runs', '', control(runs, 'Run', 'run')));
  }
}
const showPage = () => {
  const page = pages.find(p => p.id === state.page) || pages[0];
  for (const p of pages) p.hidden = p !== page;
  for (const tab of tabs) {
    if (tab.hash === '#' + page.id) tab.setAttribute('aria-current', 'page');
    else tab.removeAttribute('aria-current');
  }
  const run = runNames.has(state.run) ? state.run : [...runNames.keys()][0];
  for (const block of ofRuns) block.hidden = block.dataset.run !== run;
  for (const choice of document.querySelectorAll('.of-runs select')) choice.value = run;
};
watchers.unshift(showPage);
watchers.forEach(watch => watch());
document.documentElement.dataset.ready = Math.round(performance.now());  // milliseconds since the request of the page
