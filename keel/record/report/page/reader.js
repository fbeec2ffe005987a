// Shows recorded completions token by token, with the decision on each token and its numbers.
const PER_PAGE = 10, FIRST_TOKENS = 400, MORE_TOKENS = 2000, SHADES = 8;

/// Names and values for the panel of a token.
const factsOf = (r, row) => {
  const completion = r.completions[r.completionOf[row]], facts = [], kept = r.kept(row);
  const exact = v => Number.isNaN(v) ? '–' : !Number.isFinite(v) ? (v > 0 ? '∞' : '−∞') : v === 0 ? '0' :
    (Math.abs(v) < 1e-4 || Math.abs(v) >= 1e6 ? v.toExponential(4) : String(+v.toPrecision(6))).replace(/-/g, '−');
  const add = (name, value, className = '') => facts.push([name, value, className]);
  const addIfRecorded = (name, column, show = v => v) => { if (r.has(column)) add(name, exact(show(r.value(column, row)))); };
  add('μ, when sampled', exact(r.mu(row)));
  add('π, at the update', exact(r.pi(row)));
  addIfRecorded('log μ', 'log_mu');
  addIfRecorded('log π', 'log_pi');
  add('ratio π/μ', exact(r.ratio(row)));
  addIfRecorded('divergence', 'divergence');
  addIfRecorded('threshold', 'threshold');
  addIfRecorded('advantage', 'advantage');
  addIfRecorded('coefficient', 'coefficient');
  addIfRecorded('weight', 'weight');
  add('kept', kept ? 'yes' : 'no: blocked', kept ? '' : 'warn');
  add('outside the region', r.outside(row) ? 'yes' : 'no');
  addIfRecorded('entropy, nats', 'entropy');
  addIfRecorded('recomputed p', 'log_recomputed', Math.exp);
  addIfRecorded('log recomputed', 'log_recomputed');
  addIfRecorded('reference p', 'log_reference', Math.exp);
  add('position', String(row - completion.first));
  add('step, update', completion.step + ', ' + completion.update);
  add('prompt, completion', completion.prompt + ', ' + completion.rollout);
  add('reward', completion.reward === null ? '–' : exact(completion.reward));
  return facts;
};

class Reader {
  constructor(element, records) {
    this.records = records;
    const r = records, signs = select(option('', 'any'), option('positive', 'positive'), option('negative', 'negative'));
    const reward = (name, key) => {
      const input = make('input');
      Object.assign(input, {type: 'number', step: 'any', placeholder: 'any'});
      return control(input, name, key);
    };
    const blocked = make('input'), find = make('input');
    blocked.type = 'checkbox';
    find.type = 'search';
    find.placeholder = 'text of a completion';
    this.filters = make('div', 'filters', '', control(stepSelect(r), 'Step', 'step'), control(signs, 'Advantage', 'sign'),
      reward('Reward from', 'from'), reward('to', 'to'), control(blocked, 'With blocked tokens', 'blocked', e => e.checked ? '1' : ''),
      control(find, 'Find', 'find'));
    this.count = make('p', 'note');
    this.count.setAttribute('role', 'status');
    this.list = make('div', 'completions');
    this.panel = make('aside', 'panel card');
    this.panel.setAttribute('aria-live', 'polite');
    this.pager = make('p', 'pager');
    element.append(this.legend(), this.filters, this.count, make('div', 'desk', '', make('div', '', '', this.list, this.pager), this.panel));
    this.list.addEventListener('click', event => this.click(event));
    document.addEventListener('keydown', event => this.key(event));
  }

  legend() {
    const ramp = make('span', 'ramp');
    for (let level = SHADES; level > 0; level -= 2) ramp.append(make('i', 't d' + level));
    ramp.append(make('i', 't'));
    for (let level = 2; level <= SHADES; level += 2) ramp.append(make('i', 't u' + level));
    const scale = number(this.records.scale);
    return make('div', 'token-legend', '', make('span', '', '', 'made less likely ', make('b', '', '−' + scale), ramp, make('b', '', '+' + scale),
      ' made more likely'), make('span', '', '', make('span', 't x', 'token'), ' blocked: no update'),
      make('span', 'hint', 'Click a token for all of its numbers; ← and → select its neighbours.'));
  }

  matchingCompletions() {
    const r = this.records, find = (state.find || '').toLowerCase();
    const from = parseFloat(state.from), to = parseFloat(state.to);
    return r.completions.filter(c => (!state.step || String(c.step) === state.step) &&
      (!state.sign || (state.sign === 'positive' ? r.value('advantage', c.first) > 0 : r.value('advantage', c.first) < 0)) &&
      !(c.reward !== null && (c.reward < from || c.reward > to)) && !(c.reward === null && !(isNaN(from) && isNaN(to))) &&
      (!state.blocked || c.blocked > 0) && (!find || r.searchText(c).includes(find)));
  }

  show() {
    for (const input of this.filters.querySelectorAll('[data-key]')) {
      const value = state[input.dataset.key] || '';
      if (input.type === 'checkbox') input.checked = value === '1';
      else if (input.value !== value && input !== document.activeElement) input.value = value;
    }
    const all = this.records.completions, open = state.open === undefined || state.open === null ? null : all[Number(state.open)];
    const shown = open ? [open] : this.matchingCompletions(), pages = Math.max(1, Math.ceil(shown.length / PER_PAGE));
    const current = Math.min(pages, Math.max(1, Number(state.at) || 1));
    const key = JSON.stringify([open && open.index, current, shown.length, state.step, state.sign, state.from, state.to, state.blocked, state.find]);
    if (key !== this.key_) {
      this.key_ = key;
      this.count.textContent = shown.length.toLocaleString('en') + ' of ' + all.length.toLocaleString('en') + ' completions';
      this.list.replaceChildren(...shown.slice((current - 1) * PER_PAGE, current * PER_PAGE).map(c => this.completionCard(c)));
      if (!shown.length) this.list.append(make('p', 'note', 'No recorded completion matches.'));
      this.showPager(current, pages, open);
    }
    this.showToken(open);
  }

  showPager(current, pages, open) {
    const button = (text, changes, enabled) => {
      const b = make('button', '', text);
      b.type = 'button';
      b.disabled = !enabled;
      b.addEventListener('click', () => { setState({...changes, token: null}); this.filters.scrollIntoView({block: 'nearest'}); });
      return b;
    };
    this.pager.replaceChildren();
    if (open) this.pager.append(button('All completions', {open: null}, true));
    else if (pages > 1) this.pager.append(button('Previous', {at: current - 1}, current > 1), ' ' + current + ' of ' + pages + ' ',
      button('Next', {at: current + 1}, current < pages));
  }

  completionCard(c) {
    const r = this.records, fact = (name, value) => make('span', '', name + ' ', make('b', '', value));
    const facts = make('p', 'facts', '', make('b', '', 'step ' + c.step.toLocaleString('en')), fact('update', String(c.update)),
      fact('prompt', String(c.prompt)), fact('completion', String(c.rollout)), fact('reward', c.reward === null ? '–' : number(c.reward)),
      fact('advantage', number(r.value('advantage', c.first))), make('span', '', c.tokens.toLocaleString('en') + ' tokens'));
    if (c.blocked) facts.append(make('span', 'warn', c.blocked.toLocaleString('en') + ' blocked'));
    const strip = make('div', 'strip');
    const card = make('article', 'card sample', '', facts, ...(c.promptText ? [make('pre', 'prompt', c.promptText)] : []), strip);
    card.dataset.completion = c.index;
    this.addTokens(strip, c, 0, FIRST_TOKENS);
    return card;
  }

  addTokens(strip, c, from, count) {
    const r = this.records, to = Math.min(c.rows, from + count);
    for (let i = from; i < to; ++i) {
      const row = c.first + i, text = r.textOf(row), coefficient = r.value('coefficient', row);
      let shade = '';
      if (coefficient !== 0 && r.scale > 0)
        shade = (coefficient > 0 ? ' u' : ' d') + Math.min(SHADES, Math.max(1, Math.ceil(Math.abs(coefficient) / r.scale * SHADES)));
      const token = make('span', 't' + shade + (r.kept(row) ? '' : ' x'), text === '' ? '∅' : text.replace(/\n/g, '↵'));
      token.dataset.row = row;
      strip.append(token);
      if (text.endsWith('\n')) strip.append(make('br'));
    }
    if (to < c.rows) {
      const more = make('button', 'more', (c.rows - to).toLocaleString('en') + ' more tokens');
      more.type = 'button';
      more.addEventListener('click', () => { more.remove(); this.addTokens(strip, c, to, MORE_TOKENS); });
      strip.append(more);
    } else if (c.tokens > c.rows) {
      strip.append(make('span', 'more', ' … ' + (c.tokens - c.rows).toLocaleString('en') + ' more tokens are not in this page'));
    }
  }

  click(event) {
    const token = event.target.closest('.t');
    if (!token) return;
    const row = Number(token.dataset.row), completion = this.records.completionOf[row];
    this.select(this.row === row ? -1 : row);
    setState({token: this.row < 0 ? null : completion + '.' + (row - this.records.completions[completion].first)});
  }

  key(event) {
    if (!isShown(this.list) || this.row === undefined || this.row < 0 || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
    const offset = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === 'Escape') setState({token: null});
    if (!offset) return;
    const c = this.records.completions[this.records.completionOf[this.row]], position = this.row - c.first + offset;
    if (position < 0 || position >= c.rows || !this.list.querySelector('[data-row="' + (c.first + position) + '"]')) return;
    event.preventDefault();
    setState({token: c.index + '.' + position});
  }

  /// Selects the token of the state: COMPLETION.POSITION, or the position in the open completion.
  showToken(open) {
    const [first, second] = String(state.token ?? '').split('.'), isPosition = second === undefined;
    const c = isPosition ? open : this.records.completions[Number(first)], position = Number(isPosition ? first : second);
    const known = c && state.token !== undefined && state.token !== null && position >= 0 && position < c.rows;
    this.select(known ? c.first + position : -1);
  }

  select(row) {
    const before = this.list.querySelector('.t.on');
    if (before) before.classList.remove('on');
    this.row = row;
    this.panel.hidden = row < 0;
    if (row < 0) { this.panel.replaceChildren(); return; }
    const token = this.list.querySelector('[data-row="' + row + '"]');
    if (token) token.classList.add('on');
    const close = make('button', 'close', '×');
    close.type = 'button';
    close.setAttribute('aria-label', 'Close');
    close.addEventListener('click', () => setState({token: null}));
    const text = this.records.textOf(row), list = make('dl');
    for (const [name, value, className] of factsOf(this.records, row)) list.append(make('dt', '', name), make('dd', className, value));
    this.panel.replaceChildren(close, make('h4', '', '', make('code', '', text === '' ? '∅' : text.replace(/\n/g, '↵').replace(/ /g, '␣'))), list);
  }
}

for (const element of document.querySelectorAll('.reader')) {
  let reader = null;
  watchers.push(() => {
    if (!isShown(element)) return;
    const records = recordsOf(element.dataset.records);
    if (!records) return;
    reader ??= new Reader(element, records);
    reader.show();
    if (state.open !== undefined && state.open !== null && state.open !== reader.opened) element.scrollIntoView({block: 'start'});
    reader.opened = state.open;
  });
}

// A click on a token in the table of blocked tokens filters completions by it.
for (const code of document.querySelectorAll('.affected code[data-token]')) {
  const button = make('button', 'find');
  button.type = 'button';
  button.title = 'Completions with this token';
  code.replaceWith(button);
  button.append(code);
  button.addEventListener('click', () => {
    const {blocked, sign} = code.closest('.affected').dataset;
    setState({find: code.dataset.token, blocked, sign, at: null, open: null, token: null});
    (code.closest('.of-run') || document).querySelector('.reader').scrollIntoView({block: 'start'});
  });
}
