// Line charts of the last hour, one value a minute, with axes. The members keep the values.
import { el, panel, setText, minute } from './dom.js';

const svg = (name, attributes = {}, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
};
const height = 150;
const room = { left: 56, right: 10, top: 8, bottom: 20 };

// charts puts panels of charts side by side.
export const charts = (...all) => el('div', { class: 'charts wide' }, ...all.map((c) => c.element));

// chart makes a panel with a chart of some lines, each with a title, that show writes the values of. The
// axis reaches to least at the least.
export function chart(title, lines, show, least = 0) {
  let minutes = [];
  let rows = [];
  let cursor = -1; // index of the minute that is read out
  const plot = el('div', { class: 'plot', role: 'img', tabindex: '0' });
  const said = el('output', { class: 'faint', 'aria-live': 'polite' });
  const key = el('span', { class: 'key' }, ...lines.flatMap((l, i) => [el('i', { class: `line${i}`, 'aria-hidden': 'true' }), el('span', {}, l)]));
  const element = panel(title, {}, el('p', { class: 'faint' }, 'in the last hour', lines.length > 1 ? key : ''), plot, said);
  element.classList.add('chart');

  function draw() {
    const width = plot.clientWidth;
    if (!width || !minutes.length) return;
    const wide = width - room.left - room.right;
    const high = height - room.top - room.bottom;
    const known = rows.flat().filter((v) => v !== null && v !== undefined);
    const most = nice(Math.max(least, ...known));
    const x = (i) => room.left + (wide * i) / (minutes.length - 1);
    const y = (v) => room.top + high - (high * v) / most;
    const marks = [0, most / 2, most].flatMap((v) => [
      svg('line', { class: 'grid', x1: room.left, x2: width - room.right, y1: y(v), y2: y(v) }),
      svg('text', { x: room.left - 6, y: y(v) + 4, 'text-anchor': 'end' }, show(v)),
    ]);
    const every = width < 420 ? 30 : 15;
    minutes.forEach((m, i) => {
      if (Math.floor(m / 60) % every) return;
      marks.push(svg('line', { class: 'grid', x1: x(i), x2: x(i), y1: room.top, y2: room.top + high }));
      marks.push(svg('text', { x: Math.min(width - 18, Math.max(18, x(i))), y: height - 4, 'text-anchor': 'middle' }, minute(m)));
    });
    if (cursor >= 0) marks.push(svg('line', { class: 'cursor', x1: x(cursor), x2: x(cursor), y1: room.top, y2: room.top + high }));
    const there = (row, i) => row[i] !== null && row[i] !== undefined;
    const paths = rows.flatMap((row, n) => [
      svg('path', { class: `line${n}`, d: row.map((v, i) => (there(row, i) ? `${there(row, i - 1) ? 'L' : 'M'}${x(i).toFixed(1)},${y(v).toFixed(1)}` : '')).join('') }),
      ...row.map((v, i) => i).filter((i) => there(row, i) && !there(row, i - 1) && !there(row, i + 1)) // alone
        .map((i) => svg('circle', { class: `line${n}`, cx: x(i), cy: y(row[i]), r: 3 })),
    ]);
    plot.replaceChildren(svg('svg', { width, height, 'aria-hidden': 'true' }, ...marks, ...paths.reverse()));
    const last = rows.map((row) => row.findLast((v) => v !== null));
    plot.setAttribute('aria-label', known.length
      ? `${title} of the last hour: ${lines.map((l, n) => `${l} now ${last[n] === undefined ? 'unknown' : show(last[n])}`).join(', ')}; at most ${show(Math.max(...known))}. The arrow keys read out minutes.`
      : `${title} of the last hour: nothing was measured`);
    if (!known.length) setText(said, 'Nothing was measured in the last hour.');
    else say();
  }

  function say() {
    const i = cursor;
    setText(said, i < 0 ? '' : `${minute(minutes[i])}: ${lines.map((l, n) => `${l} ${rows[n][i] === null ? 'unknown' : show(rows[n][i])}`).join(', ')}`);
  }

  function point(i) {
    if (!minutes.length) return;
    cursor = Math.max(0, Math.min(minutes.length - 1, i));
    draw();
  }

  plot.addEventListener('pointermove', (e) => point(Math.round(((e.offsetX - room.left) / (plot.clientWidth - room.left - room.right)) * (minutes.length - 1))));
  plot.addEventListener('pointerleave', () => { cursor = -1; draw(); });
  plot.addEventListener('keydown', (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1000, End: 1000 }[e.key];
    if (!step) return;
    e.preventDefault();
    point((cursor < 0 ? minutes.length : cursor) + step);
  });
  const resized = new ResizeObserver(draw);
  resized.observe(plot);
  return {
    element,
    // set takes the minutes, in seconds after 1970, and the values of each line.
    set(nextMinutes, nextRows) {
      minutes = nextMinutes ?? [];
      rows = nextRows.map((row) => row ?? minutes.map(() => null));
      draw();
    },
    leave: () => resized.disconnect(),
  };
}

// nice returns a round number from v on, of which the half is round, too.
function nice(v) {
  if (v <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 4, 6, 8, 10].find((n) => n * power >= v) * power;
}
