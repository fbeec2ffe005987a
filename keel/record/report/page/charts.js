// Tooltips with the values under the pointer, for every chart.
const number = v => {
  const magnitude = Math.abs(v);
  if (v === 0) return '0';
  if (!Number.isFinite(v)) return Number.isNaN(v) ? '–' : v > 0 ? '∞' : '−∞';
  if (magnitude >= 1e4) return Math.round(v).toLocaleString('en');
  return (magnitude < 1e-3 ? v.toExponential(2) : String(+v.toPrecision(3))).replace('-', '−');
};

/// Creates an element with classes, text and children. Text is never parsed as HTML.
const make = (tag, className = '', text = '', ...inside) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  element.append(...inside);
  return element;
};

/// Shows a tooltip next to the pointer, inside its parent element.
const showTip = (tip, container, event, text) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = container.getBoundingClientRect(), x = event.clientX - box.left;
  const fits = x + 14 + tip.offsetWidth <= box.width;
  tip.style.left = (fits ? x + 14 : Math.max(0, x - tip.offsetWidth - 14)) + 'px';
  tip.style.top = (event.clientY - box.top + 14) + 'px';
};

const pointsOf = path => {
  const coordinates = (path.getAttribute('d').match(/-?[\d.]+/g) || []).map(Number), points = [];
  for (let i = 0; i + 1 < coordinates.length; i += 2) points.push([coordinates[i], coordinates[i + 1]]);
  return points;
};

for (const svg of document.querySelectorAll('figure svg')) {
  const figure = svg.closest('figure'), plot = svg.querySelector('.plot');
  if (!plot) continue;
  let lines = null;  // parsed at the first use: a page has many curves
  const read = name => plot.dataset[name].split(' ').map(Number);
  const box = read('box'), xs = read('x'), ys = read('y'), log = plot.dataset.log === '1', percent = plot.dataset.percent === '1';
  const xLabel = plot.dataset.xLabel || 'step', tip = make('div', 'tip');
  const rule = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  tip.hidden = true;
  figure.append(tip);
  rule.setAttribute('class', 'rule');
  plot.append(rule);
  const hide = () => { tip.hidden = true; rule.setAttribute('d', ''); };
  svg.addEventListener('pointermove', event => {
    lines ??= [...svg.querySelectorAll('path.line')].map(path => ({name: path.dataset.name, points: pointsOf(path)}))
      .filter(line => line.points.length);
    const bounds = svg.getBoundingClientRect(), x = (event.clientX - bounds.left) * svg.viewBox.baseVal.width / bounds.width;
    if (!lines.length || x < box[0] - 4 || x > box[0] + box[2] + 4) return hide();
    let nearestX = 0;
    const rows = lines.map(line => {
      const best = line.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      nearestX = best[0];
      const height = 1 - (best[1] - box[1]) / box[3];  // 0: bottom, 1: top
      const y = log ? ys[0] * Math.pow(ys[1] / ys[0], height) : ys[0] + height * (ys[1] - ys[0]);
      return (lines.length > 1 ? line.name + '  ' : '') + (percent ? number(y * 100) + ' %' : number(y));
    });
    const step = Math.round(xs[0] + (nearestX - box[0]) / box[2] * (xs[1] - xs[0]));
    showTip(tip, figure, event, xLabel + ' ' + step + (figure.dataset.window ? ' (average)' : '') + '\n' + rows.join('\n'));
    rule.setAttribute('d', 'M' + nearestX + ' ' + box[1] + 'V' + (box[1] + box[3]));
  });
  svg.addEventListener('pointerleave', hide);
}

// Tooltips for the tokens of samples on touch screens.
let bar = null, pinned = null;
document.addEventListener('click', event => {
  const token = event.target.closest ? event.target.closest('.samples .strip .t') : null;
  if (pinned) pinned.classList.remove('on');
  if (!token || token === pinned) {
    pinned = null;
    if (bar) bar.hidden = true;
    return;
  }
  if (!bar) {
    bar = make('div', 'pinned');
    bar.setAttribute('role', 'status');
    document.body.append(bar);
  }
  pinned = token;
  pinned.classList.add('on');
  bar.textContent = '“' + token.textContent + '”  ' + token.title;
  bar.hidden = false;
});
