// Scatter plots of tokens, pi over mu, for each sign of advantage, with the boundary of the method's region.
const SMALLEST = 1e-6;  // of logarithmic axes; smaller values are drawn at the edge
const MAX_CLICK_DISTANCE = 8;  // in pixels, from the pointer to its token
const LEFT = 44, RIGHT = 10, TOP = 10, BOTTOM = 34;

const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Plane {
  constructor(records, positive) {
    this.records = records;
    this.positive = positive;
    this.canvas = make('canvas');
    this.canvas.setAttribute('role', 'img');
    this.tip = make('div', 'tip');
    this.tip.hidden = true;
    this.counts = make('p', 'note');
    this.card = make('div', 'card square', '', make('h4', '', positive ? 'Positive advantage' : 'Negative advantage'),
      this.counts, this.canvas, this.tip);
    this.canvas.addEventListener('pointermove', event => this.showTipAt(event));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.canvas.addEventListener('click', event => {
      const row = this.nearest(event);
      if (row < 0) return;
      const completion = records.completions[records.completionOf[row]];
      setState({open: completion.index, token: row - completion.first});
    });
  }

  position(v) {
    if (!this.log) return v;
    return v <= SMALLEST ? 0 : 1 - Math.log(v) / Math.log(SMALLEST);
  }
  x(mu) { return LEFT + this.position(mu) * this.side; }
  y(pi) { return TOP + (1 - this.position(pi)) * this.side; }

  /// Selects the tokens of a step ('': of all steps) with this sign of advantage.
  selectRows(step) {
    const records = this.records, rows = [];
    let affected = 0;
    for (const completion of records.completions) {
      if (step !== '' && String(completion.step) !== step) continue;
      for (let row = completion.first; row < completion.first + completion.rows; ++row) {
        const advantage = records.value('advantage', row);
        if (!(this.positive ? advantage > 0 : advantage < 0)) continue;
        rows.push(row);
        if (this.isAffected(row)) ++affected;
      }
    }
    this.rows = rows;
    this.mu = Float64Array.from(rows, row => records.mu(row));
    this.pi = Float64Array.from(rows, row => records.pi(row));
    this.counts.textContent = rows.length.toLocaleString('en') + ' tokens, ' + affected.toLocaleString('en') +
      (this.blocksNothing ? ' outside the region' : ' blocked');
    this.canvas.setAttribute('aria-label', (this.positive ? 'Positive' : 'Negative') + ' advantage: ' + this.counts.textContent);
  }
  isAffected(row) { return this.blocksNothing ? this.records.outside(row) : !this.records.kept(row); }

  draw() {
    const width = this.card.clientWidth - 2 * 14, ratio = devicePixelRatio || 1;
    this.side = Math.max(120, Math.min(width, 520) - LEFT - RIGHT);
    const w = this.side + LEFT + RIGHT, h = this.side + TOP + BOTTOM;
    this.canvas.width = w * ratio;
    this.canvas.height = h * ratio;
    this.canvas.style.width = w + 'px';
    this.canvas.style.height = h + 'px';
    const pen = this.canvas.getContext('2d');
    pen.scale(ratio, ratio);
    this.drawAxes(pen);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, this.side, this.side);
    pen.clip();
    this.drawRegion(pen);
    this.drawTokens(pen);
    pen.restore();
  }

  drawAxes(pen) {
    const ticks = this.log ? [1e-6, 1e-4, 1e-2, 1] : [0, 0.25, 0.5, 0.75, 1];
    pen.font = '11.5px system-ui,sans-serif';
    pen.lineWidth = 1;
    for (const tick of ticks) {
      const text = this.log ? (tick === 1 ? '1' : tick === 1e-2 ? '0.01' : tick === 1e-4 ? '1e−4' : '1e−6') : String(tick);
      pen.strokeStyle = color('--rule');
      pen.beginPath();
      pen.moveTo(this.x(tick), TOP);
      pen.lineTo(this.x(tick), TOP + this.side);
      pen.moveTo(LEFT, this.y(tick));
      pen.lineTo(LEFT + this.side, this.y(tick));
      pen.stroke();
      pen.fillStyle = color('--soft');
      pen.textAlign = 'center';
      pen.fillText(text, this.x(tick), TOP + this.side + 15);
      pen.textAlign = 'right';
      pen.fillText(text, LEFT - 6, this.y(tick) + 4);
    }
    pen.textAlign = 'center';
    pen.fillText('μ, when sampled', LEFT + this.side / 2, TOP + this.side + 30);
    pen.save();
    pen.translate(11, TOP + this.side / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText('π, at the update', 0, 0);
    pen.restore();
    pen.strokeStyle = color('--soft');
    pen.setLineDash([3, 4]);
    pen.beginPath();
    pen.moveTo(LEFT, TOP + this.side);
    pen.lineTo(LEFT + this.side, TOP);
    pen.stroke();
    pen.setLineDash([]);
  }

  drawRegion(pen) {
    for (const curve of this.region ? this.region.curves : []) {
      if (curve.positive !== this.positive) continue;
      const points = [];
      for (let i = 0; i + 1 < curve.points.length; i += 2) points.push([this.x(curve.points[i]), this.y(curve.points[i + 1])]);
      const edge = curve.above ? TOP : TOP + this.side;
      pen.beginPath();
      points.forEach(([x, y], i) => i ? pen.lineTo(x, y) : pen.moveTo(x, y));
      pen.lineTo(points[points.length - 1][0], edge);
      pen.lineTo(points[0][0], edge);
      pen.closePath();
      pen.fillStyle = color('--beyond');
      pen.fill();
      pen.beginPath();
      points.forEach(([x, y], i) => i ? pen.lineTo(x, y) : pen.moveTo(x, y));
      pen.strokeStyle = color('--block');
      pen.lineWidth = 1.6;
      pen.stroke();
    }
  }

  drawTokens(pen) {
    const many = this.rows.length > 20000, size = many ? 1.6 : this.rows.length > 3000 ? 2.2 : 3;
    for (const affected of [false, true]) {
      pen.fillStyle = affected ? color('--block') : color('--s0');
      pen.globalAlpha = affected ? 0.9 : many ? 0.3 : 0.5;
      const mark = affected ? size + 1.2 : size;
      for (let i = 0; i < this.rows.length; ++i)
        if (this.isAffected(this.rows[i]) === affected) pen.fillRect(this.x(this.mu[i]) - mark / 2, this.y(this.pi[i]) - mark / 2, mark, mark);
    }
    pen.globalAlpha = 1;
  }

  nearest(event) {
    const box = this.canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    let best = -1, distance = MAX_CLICK_DISTANCE ** 2;
    for (let i = 0; i < this.rows.length; ++i) {
      const dx = this.x(this.mu[i]) - px, dy = this.y(this.pi[i]) - py, d = dx * dx + dy * dy;
      if (d < distance) { distance = d; best = i; }
    }
    return best < 0 ? -1 : this.rows[best];
  }
  showTipAt(event) {
    const row = this.nearest(event);
    this.canvas.style.cursor = row < 0 ? '' : 'pointer';
    if (row < 0) { this.tip.hidden = true; return; }
    const r = this.records, completion = r.completions[r.completionOf[row]];
    showTip(this.tip, this.card, event, '“' + r.textOf(row) + '”  step ' + completion.step + '\nμ ' + number(r.mu(row)) + '  π ' +
      number(r.pi(row)) + '\ndivergence ' + number(r.value('divergence', row)) + (r.kept(row) ? '' : '\nblocked'));
  }
}

for (const element of document.querySelectorAll('.plane')) {
  let planes = null, drawnKey = '', steps = null, axes = null;
  const caption = element.querySelector('.note'), lastCaption = caption.textContent;
  const show = forceRedraw => {
    if (!isShown(element)) return;
    const records = recordsOf(element.dataset.records);
    if (!records) return;
    if (!planes) {
      planes = [new Plane(records, true), new Plane(records, false)];
      const blocksNothing = !records.completions.some(c => c.blocked) && records.completions.some(c => c.outside);
      planes.forEach(plane => { plane.blocksNothing = blocksNothing; });
      steps = stepSelect(records);
      axes = select(option('', 'linear'), option('log', 'logarithmic'));
      element.append(make('div', 'filters', '', control(steps, 'Step', 'step'), control(axes, 'Axes', 'axes'),
        make('span', 'legend', '', make('i', 'key block s0'), 'kept ', make('i', 'key block affected'), blocksNothing ? 'outside ' : 'blocked ')),
        make('div', 'pair', '', ...planes.map(plane => plane.card)));
    }
    const step = records.steps.includes(Number(state.step)) ? state.step : '', log = state.axes === 'log';
    steps.value = step;
    axes.value = log ? 'log' : '';
    const key = step + ' ' + log + ' ' + element.clientWidth;
    if (key === drawnKey && !forceRedraw) return;
    drawnKey = key;
    const region = records.regionOfStep[step === '' ? records.steps[records.steps.length - 1] : step];
    const several = step === '' && records.regions.length > 1;
    caption.textContent = (region < 0 ? 'Thresholds changed; this page does not include the boundary of this step.' :
      region === undefined ? lastCaption : records.regions[region].caption) +
      (several ? ' Thresholds changed between steps; those of the last step are shown.' : '');
    for (const plane of planes) {
      plane.log = log;
      plane.region = region >= 0 ? records.regions[region] : null;
      plane.selectRows(step);
      plane.draw();
    }
  };
  watchers.push(() => show(false));
  new ResizeObserver(() => show(false)).observe(element);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show(true));
}
