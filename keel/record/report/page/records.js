// The view state, stored in the URL fragment so that reloads and links restore it:
// #trust-region&run=0&step=391&sign=negative&blocked=1&find=ANS&from=0&to=1&at=2&open=17&token=3&axes=log
const readState = () => {
  const [page, ...rest] = location.hash.slice(1).split('&'), state = {page: page || ''};
  for (const part of rest) {
    const equals = part.indexOf('=');
    if (equals < 1) continue;
    try { state[part.slice(0, equals)] = decodeURIComponent(part.slice(equals + 1)); } catch { /* not a fragment of this page */ }
  }
  return state;
};
let state = readState();
const watchers = [];  // functions, called after changes of the state

/// Changes the state; '' and null remove an entry. A change of the page adds a history entry.
const setState = changes => {
  const pageBefore = state.page;
  state = {...state, ...changes};
  let hash = '#' + encodeURIComponent(state.page);
  for (const [key, value] of Object.entries(state))
    if (key !== 'page' && value !== '' && value !== null && value !== undefined) hash += '&' + key + '=' + encodeURIComponent(value);
  try {
    if (hash !== location.hash) history[state.page === pageBefore ? 'replaceState' : 'pushState'](null, '', hash);
  } catch { /* forbidden in some frames: a reload then resets the state */ }
  watchers.forEach(watch => watch());
};
const restoreState = () => { state = readState(); watchers.forEach(watch => watch()); };
addEventListener('hashchange', restoreState);
addEventListener('popstate', restoreState);

const bytesOf = text => {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
};
const floatsOf = text => new Float32Array(bytesOf(text).buffer);

/// The embedded records of a run: columns by name, completions with their first row.
class Records {
  constructor(json) {
    this.texts = json.texts;
    this.flags = bytesOf(json.flags);
    const text = bytesOf(json.text.data).buffer;
    this.text = json.text.bits === 16 ? new Uint16Array(text) : new Uint32Array(text);
    this.columns = {};
    for (const [name, column] of Object.entries(json.columns))
      this.columns[name] = {perToken: column.each === 'token', values: floatsOf(column.data)};
    this.regions = json.regions;
    this.regionOfStep = json.region_of_step;
    const c = json.completions;
    let first = 0;
    this.completionOf = new Uint32Array(this.text.length);
    this.completions = c.rows.map((rows, i) => {
      const completion = {index: i, step: c.step[i], update: c.update[i], prompt: c.prompt[i], rollout: c.rollout[i],
        promptText: json.prompts[c.prompt_text[i]] ?? '', reward: c.reward[i], tokens: c.tokens[i], first, rows, blocked: 0, outside: 0};
      this.completionOf.fill(i, first, first + rows);
      for (let row = first; row < first + rows; ++row) {
        completion.blocked += this.kept(row) ? 0 : 1;
        completion.outside += this.outside(row) ? 1 : 0;
      }
      first += rows;
      return completion;
    });
    this.steps = [...new Set(c.step)].sort((a, b) => a - b);
  }
  has(name) { return name in this.columns; }
  value(name, row) {
    const column = this.columns[name];
    return column ? column.values[column.perToken ? row : this.completionOf[row]] : NaN;
  }
  kept(row) { return (this.flags[row] & 1) !== 0; }
  outside(row) { return (this.flags[row] & 2) !== 0; }
  textOf(row) { return this.texts[this.text[row]]; }
  mu(row) { return Math.exp(this.value('log_mu', row)); }
  pi(row) { return Math.exp(this.value('log_pi', row)); }
  ratio(row) { return Math.exp(Math.max(-20, Math.min(20, this.value('log_pi', row) - this.value('log_mu', row)))); }
  /// The coefficient with the darkest shade; the 95th percentile, so that outliers do not fade the others.
  get scale() {
    if (this.maxShade === undefined) {
      const magnitudes = this.flags.length ? Float32Array.from(this.flags, (_, row) => Math.abs(this.value('coefficient', row)))
        .filter(v => v > 0 && Number.isFinite(v)).sort() : [];
      this.maxShade = magnitudes.length ? magnitudes[Math.floor((magnitudes.length - 1) * 0.95)] : 0;
    }
    return this.maxShade;
  }
  /// The lower-case text of a completion, joined at the first search.
  searchText(completion) {
    completion.searchText ??= Array.from({length: completion.rows}, (_, i) => this.textOf(completion.first + i)).join('').toLowerCase();
    return completion.searchText;
  }
}

const recordsById = new Map();
/// Decodes records when a page first shows them.
const recordsOf = id => {
  if (!recordsById.has(id)) {
    const element = document.getElementById(id + '-data');
    recordsById.set(id, element ? new Records(JSON.parse(element.textContent)) : null);
  }
  return recordsById.get(id);
};
const isShown = element => element.getClientRects().length > 0;

const option = (value, text) => { const o = make('option', '', text); o.value = value; return o; };
/// A labelled control that shows and changes one entry of the state.
const control = (element, name, key, read = e => e.value) => {
  const label = make('label', '', name + ' ');
  element.dataset.key = key;
  element.addEventListener(element.tagName === 'INPUT' && element.type !== 'checkbox' ? 'input' : 'change',
    () => setState({[key]: read(element), at: null, open: null, token: null}));
  label.append(element);
  return label;
};
const select = (...options) => { const s = make('select'); s.append(...options); return s; };
const stepSelect = records => select(option('', 'all'), ...records.steps.map(step => option(String(step), step.toLocaleString('en'))));
