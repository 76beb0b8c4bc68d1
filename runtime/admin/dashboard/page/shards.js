// A map of the shards of a type by home, and the moves under way.
import { el, panel, table, setText, count, duration } from './dom.js';

const noHome = -1;
const interval = 3000; // milliseconds between two maps

export function shards({ get }) {
  let type = '';
  let map; // as /api/shards has it
  let cluster;
  let chosen = null; // index of the member whose shards are shown alone
  let cursor = 0; // index of the shard that the keys or the pointer chose
  let asking = false;
  let askedAt = 0;
  const select = el('select', {
    'aria-label': 'Type', onchange: () => {
      location.hash = `shards/${encodeURIComponent(select.value)}`;
    },
  });
  const canvas = el('canvas', { tabindex: '0', role: 'img' });
  const said = el('output', { 'aria-live': 'polite' });
  const paused = el('p', { class: 'note', role: 'status' });
  const legend = el('ul', { class: 'legend' });
  const moves = table([
    { title: 'Type', of: (m) => m.type },
    { title: 'Shard', of: (m) => m.shard, number: true },
    { title: 'From', of: (m) => m.from },
    { title: 'To', of: (m) => m.to },
    { title: 'Since', of: (m) => m.seconds, show: duration, number: true },
    { title: 'Phase', of: (m) => m.phase },
    { title: 'Why', of: (m) => m.why, text: true },
  ], { empty: 'No shard is moving.', sort: 'Since' });
  let cells = { columns: 1, size: 1 };

  function draw() {
    if (!map || !cluster) return;
    const n = map.homes.length;
    const width = canvas.clientWidth || 1000;
    const size = Math.max(4, Math.min(28, Math.floor(Math.sqrt((width * 460) / Math.max(1, n)))));
    const columns = Math.max(1, Math.floor(width / size));
    cells = { columns, size };
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = Math.ceil(n / columns) * size * scale;
    canvas.style.height = `${canvas.height / scale}px`;
    const brush = canvas.getContext('2d');
    brush.scale(scale, scale);
    const gap = size > 6 ? 1 : 0.5;
    const none = getComputedStyle(canvas).getPropertyValue('--none');
    const text = getComputedStyle(canvas).getPropertyValue('--text');
    const cell = (i) => [(i % columns) * size, Math.floor(i / columns) * size, size - gap, size - gap];
    map.homes.forEach((home, i) => {
      brush.globalAlpha = chosen === null || chosen === home ? 1 : 0.15;
      brush.fillStyle = home === noHome ? none : colour(home);
      brush.fillRect(...cell(i));
    });
    brush.globalAlpha = 1;
    brush.strokeStyle = text;
    brush.lineWidth = Math.max(1, size / 6);
    for (const shard of map.moving) {
      const [x, y, w, h] = cell(shard - map.first);
      brush.strokeRect(x + brush.lineWidth / 2, y + brush.lineWidth / 2, w - brush.lineWidth, h - brush.lineWidth);
    }
    const homeless = map.homes.filter((h) => h === noHome).length;
    canvas.setAttribute('aria-label', `${n} shards of ${map.type}: ${homeless} without a home, ${map.moving.length} moving. The arrow keys choose one.`);
    drawLegend();
  }

  function drawLegend() {
    const held = new Map();
    for (const home of map.homes) held.set(home, (held.get(home) ?? 0) + 1);
    const homes = [...held.keys()].sort((a, b) => a - b);
    const labels = homes.map((home) => `${home === noHome ? 'no home' : cluster.members[home]?.name} ${held.get(home)}`);
    if (labels.join('\n') !== [...legend.querySelectorAll('button')].map((b) => b.textContent).join('\n')) {
      legend.replaceChildren(...homes.map((home, i) => {
        const mark = el('i');
        mark.style.background = home === noHome ? 'var(--none)' : colour(home);
        return el('li', {}, el('button', { type: 'button', 'data-home': home, onclick: () => choose(chosen === home ? null : home) }, mark, labels[i]));
      }));
    }
    for (const b of legend.querySelectorAll('button')) b.setAttribute('aria-pressed', String(Number(b.dataset.home) === chosen));
  }

  function choose(home) {
    chosen = home;
    draw();
  }

  function say(i) {
    if (!map || i < 0 || i >= map.homes.length) return;
    cursor = i;
    const shard = map.first + i;
    const home = map.homes[i] === noHome ? 'has no home' : `is at ${cluster.members[map.homes[i]]?.name}`;
    const move = cluster.moves.find((m) => m.type === map.type && m.shard === shard);
    setText(said, `Shard ${shard} ${home}` + (move ? `, and moves to ${move.to}: ${move.why}` : map.moving.includes(shard) ? ', and is opening or moving' : ''));
  }

  canvas.addEventListener('pointermove', (e) => {
    const column = Math.floor(e.offsetX / cells.size);
    if (column < cells.columns) say(Math.floor(e.offsetY / cells.size) * cells.columns + column);
  });
  canvas.addEventListener('keydown', (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -cells.columns, ArrowDown: cells.columns }[e.key];
    if (!step) return;
    e.preventDefault();
    say(cursor + step);
  });
  const resized = new ResizeObserver(draw);
  resized.observe(canvas);

  async function ask() {
    if (asking || !type || (map?.type === type && Date.now() - askedAt < interval)) return;
    asking = true;
    try {
      const next = await get(`api/shards?type=${encodeURIComponent(type)}`);
      if (next.type === type) map = next;
      askedAt = Date.now();
      draw();
    } catch {
      // The next answer about the cluster says what is wrong.
    } finally {
      asking = false;
    }
  }

  return {
    elements: [
      panel('Shards by home', { wide: true }, el('div', { class: 'controls' }, select, said), canvas, legend),
      panel('Moves under way', { wide: true }, paused, moves.element),
    ],
    set([name]) {
      if (name) {
        type = name;
        select.value = name;
      }
      chosen = null;
    },
    update(state) {
      cluster = state.cluster;
      const names = cluster.types.map((t) => t.name);
      if (names.join('\n') !== [...select.options].map((o) => o.value).join('\n')) select.replaceChildren(...names.map((value) => el('option', { value }, value)));
      if (!type && names.length) type = names[0];
      select.value = type;
      setText(paused, cluster.paused ?? '');
      paused.hidden = !cluster.paused;
      moves.set(cluster.moves);
      ask();
    },
    leave: () => resized.disconnect(),
  };
}

// colour tells the members' colours apart by the golden angle, and by three lightnesses.
function colour(member) {
  return `hsl(${(member * 137.508) % 360} ${60 + (member % 2) * 15}% ${[50, 38, 62][member % 3]}%)`;
}
