
(() => {
  'use strict';
  const bar = document.getElementById('zoom');
  const plots = Array.from(document.querySelectorAll('svg.zooms'));
  if (!bar || !plots.length) return;
  const end = Number(bar.dataset.end), least = Number(bar.dataset.least);
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const now = bar.querySelector('.now');
  const buttons = Array.from(bar.querySelectorAll('button'));
  const percent = share => (100 * share).toFixed(2) + '%';
  const two = n => String(Math.floor(n)).padStart(2, '0');
  let from = 0, to = end;

  const clock = (t, step) => {
    const text = t >= 3600 ? Math.floor(t / 3600) + ':' + two(t / 60 % 60) + ':' + two(t % 60) : Math.floor(t / 60) + ':' + two(t % 60);
    return step >= 1 ? text : text + (t % 1).toFixed(1).slice(1);
  };

  const make = (of, name, attributes, text) => {
    const n = document.createElementNS(of.namespaceURI, name);
    for (const [k, v] of Object.entries(attributes)) n.setAttribute(k, v);
    if (text) n.textContent = text;
    return n;
  };

  const axis = plot => {
    const group = plot.querySelector('.times');
    if (!plot.times) plot.times = Array.from(group.childNodes);
    if (to - from >= end) return group.replaceChildren(...plot.times);
    const y = Number(plot.times[0].getAttribute('y1'));
    const step = steps.find(s => 6 * s >= to - from) || 86400, made = [];
    for (let i = Math.ceil(from / step - 1e-6); to + 1e-6 >= i * step; i++) {
      const x = percent((i * step - from) / (to - from));
      made.push(make(plot, 'line', {class: 'axis', x1: x, x2: x, y1: y, y2: y + 4}));
      made.push(make(plot, 'text', {class: 'tick', x: x, y: y + 18, 'text-anchor': i * step + 1e-6 >= to ? 'end' : 'middle'}, clock(i * step, step)));
    }
    group.replaceChildren(...made);
  };

  const place = (plot, n) => {
    const at = x => (x / 1000 * end - from) / (to - from), inside = x => Math.min(Math.max(x, 0), 1);
    const a = at(Number(n.dataset.a)), b = at(Number(n.dataset.b));
    n.classList.toggle('outside', a >= 1 || 0 >= b ? a !== b || a > 1 || 0 > a : false);
    const names = n.hasAttribute('x1') ? ['x1', 'x2'] : ['x'];
    if (!n.first) n.first = names.map(name => n.getAttribute(name));
    names.forEach((name, i) => n.setAttribute(name, to - from >= end ? n.first[i] : percent(inside(at(10 * parseFloat(n.first[i]))))));
  };

  const zoom = (a, b) => {
    if (least > b - a) [a, b] = [(a + b - least) / 2, (a + b + least) / 2];
    [from, to] = [Math.max(Math.min(a, end - least), 0), Math.min(Math.max(b, least), end)];
    for (const plot of plots) {
      const field = plot.querySelector('svg');
      field.setAttribute('viewBox', [1000 * from / end, 0, 1000 * (to - from) / end, field.viewBox.baseVal.height].join(' '));
      axis(plot);
      plot.querySelectorAll('[data-a]').forEach(n => place(plot, n));
    }
    document.documentElement.classList.toggle('zoomed', end > to - from);
    now.textContent = end > to - from ? clock(from, 1) + ' to ' + clock(to, 1) : '';
    for (const b of buttons) b.setAttribute('aria-pressed', Number(b.dataset.from) === from ? Number(b.dataset.to) === to : false);
  };

  const drag = plot => {
    let start = null, pick = null;
    const at = e => {
      const box = plot.getBoundingClientRect();
      return Math.min(Math.max((e.clientX - box.left) / box.width, 0), 1);
    };
    const drop = () => {
      if (pick) pick.remove();
      start = pick = null;
    };
    plot.addEventListener('pointerdown', e => {
      if (e.button !== 0) return;
      start = at(e);
      plot.setPointerCapture(e.pointerId);
    });
    plot.addEventListener('pointermove', e => {
      if (start === null) return;
      const field = plot.querySelector('svg');
      if (!pick) pick = plot.appendChild(make(plot, 'rect', {class: 'pick', y: field.getAttribute('y'), height: field.getAttribute('height')}));
      pick.setAttribute('x', percent(Math.min(start, at(e))));
      pick.setAttribute('width', percent(Math.abs(at(e) - start)));
    });
    plot.addEventListener('pointerup', e => {
      if (start === null) return;
      const one = start, other = at(e);
      drop();
      if (Math.abs(one - other) > 0.015) zoom(from + Math.min(one, other) * (to - from), from + Math.max(one, other) * (to - from));
    });
    plot.addEventListener('pointercancel', drop);
    plot.addEventListener('dblclick', () => zoom(0, end));
  };

  plots.forEach(drag);
  for (const b of buttons) b.addEventListener('click', () => zoom(Number(b.dataset.from), Number(b.dataset.to)));
  document.addEventListener('keydown', e => {
    if (e.key === 'Escape') zoom(0, end);
  });
  document.documentElement.classList.add('scripted');
  bar.hidden = false;

  const wide = () => document.querySelectorAll('.scroll').forEach(n => n.classList.toggle('more', n.scrollWidth > n.clientWidth + 2));
  window.addEventListener('resize', wide);
  document.querySelectorAll('details').forEach(d => d.addEventListener('toggle', wide));
  wide();
})();
