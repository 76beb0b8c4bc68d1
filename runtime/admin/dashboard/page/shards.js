// A map of the shards of a type, grouped by home. The colour of a shard is its load.
import { el, panel, table, setText, count, duration, processors, memberLink } from './dom.js';

const noHome = -1;
const interval = 3000; // milliseconds between two maps
// steps are the loads in processors from which a shard has the next colour.
const steps = [1e-4, 0.01, 0.05, 0.2, 0.5];
const step = (used) => steps.filter((s) => used >= s).length;

export function shards({ get }) {
  let type = '';
  let map; // as /api/shards has it
  let cluster;
  let order = []; // indexes of shards, as they are shown
  let cursor = -1; // index in order of the shard that the keys or the pointer chose
  let asking = false;
  let askedAt = 0;
  const select = el('select', {
    'aria-label': 'Type', onchange: () => {
      location.hash = `shards/${encodeURIComponent(select.value)}`;
    },
  });
  const said = el('output', { 'aria-live': 'polite' });
  const box = el('div', { class: 'groups', role: 'group', tabindex: '0' });
  const legend = el('ul', { class: 'legend', 'aria-label': 'Colours by processors' }, ...['idle', ...steps.slice(0, -1).map((_, i) => `below ${steps[i + 1]}`), `from ${steps.at(-1)} processors on`]
    .map((text, i) => el('li', {}, el('i', { class: `load${i}`, 'aria-hidden': 'true' }), text)), el('li', {}, el('i', { class: 'moves', 'aria-hidden': 'true' }), 'moves'));
  const paused = el('p', { class: 'note', role: 'status' });
  const hottest = table([
    { title: 'Shard', of: (s) => s.shard },
    { title: 'Home', of: (s) => s.home, link: (s) => memberLink(s.home) },
    { title: 'Processors', of: (s) => s.used, show: processors, number: true },
    { title: 'Entities', of: (s) => s.entities, show: count, number: true },
  ], { label: 'Hottest shards', empty: 'No shard uses much.', sort: 'Processors' });
  const moves = table([
    { title: 'Type', of: (m) => m.type },
    { title: 'Shard', of: (m) => m.shard },
    { title: 'From', of: (m) => m.from, link: (m) => memberLink(m.from) },
    { title: 'To', of: (m) => m.to, link: (m) => memberLink(m.to) },
    { title: 'Since', of: (m) => m.seconds, show: duration, number: true },
    { title: 'Phase', of: (m) => m.phase },
    { title: 'Why', of: (m) => m.why, text: true },
  ], { label: 'Moves under way', empty: 'No shard is moving.', sort: 'Since' });
  let groups = new Map(); // by home: its element, canvas and heading
  let size = 12; // of a cell
  const nameOf = (home) => (home === noHome ? 'no home' : cluster.members[home]?.name ?? '?');

  function draw() {
    if (!map || !cluster) return;
    const byHome = new Map();
    map.homes.forEach((home, i) => byHome.set(home, [...(byHome.get(home) ?? []), i]));
    const homes = [...byHome.keys()].sort((a, b) => (b === noHome) - (a === noHome) || nameOf(a).localeCompare(nameOf(b), undefined, { numeric: true }));
    const names = homes.map(nameOf).join('\n');
    if (names !== box.dataset.names) {
      box.dataset.names = names;
      groups = new Map(homes.map((home) => {
        const heading = el('div', { class: 'head' }, home === noHome ? el('b', { class: 'bad' }, 'no home') : el('a', { href: memberLink(nameOf(home)) }, nameOf(home)), el('span', { class: 'faint' }));
        const canvas = el('canvas', { 'aria-hidden': 'true', 'data-home': home });
        canvas.addEventListener('pointermove', (e) => {
          const { columns, cells } = groups.get(home);
          const column = Math.floor(e.offsetX / size);
          const i = cells[Math.floor(e.offsetY / size) * columns + column];
          if (column < columns && i !== undefined) say(order.indexOf(i));
        });
        return [home, { heading, canvas, element: el('div', { class: 'group' }, heading, canvas) }];
      }));
      box.replaceChildren(...[...groups.values()].map((g) => g.element));
    }
    order = homes.flatMap((home) => byHome.get(home));
    const style = getComputedStyle(box);
    const colours = steps.concat(0).map((_, i) => style.getPropertyValue(`--load${i}`));
    const [text, bad] = ['--text', '--bad'].map((v) => style.getPropertyValue(v));
    const width = groups.get(homes[0])?.canvas.clientWidth || 200;
    size = Math.max(5, Math.min(16, Math.floor(Math.sqrt((width * 64) / (map.homes.length / homes.length)))));
    const moving = new Set(map.moving.map((shard) => shard - map.first));
    for (const home of homes) {
      const g = groups.get(home);
      g.cells = byHome.get(home);
      g.columns = Math.max(1, Math.floor(width / size));
      const used = g.cells.reduce((sum, i) => sum + map.used[i], 0);
      setText(g.heading.lastChild, ` ${count(g.cells.length)} ${g.cells.length === 1 ? 'shard' : 'shards'}, ${processors(used)} processors`);
      paint(g, width, { colours, text, bad, moving, homeless: home === noHome });
    }
    const homeless = byHome.get(noHome)?.length ?? 0;
    box.setAttribute('aria-label', `${map.homes.length} shards of ${map.type} by home: ${homeless} without a home, ${map.moving.length} moving. The arrow keys choose one.`);
    hottest.set(map.used.map((used, i) => ({ used, shard: map.first + i, home: map.homes[i] === noHome ? '' : nameOf(map.homes[i]), entities: map.entities[i] }))
      .filter((s) => s.used > 0).sort((a, b) => b.used - a.used).slice(0, 20));
  }

  function paint(g, width, { colours, text, bad, moving, homeless }) {
    const scale = devicePixelRatio || 1;
    g.canvas.width = width * scale;
    g.canvas.height = Math.ceil(g.cells.length / g.columns) * size * scale;
    g.canvas.style.height = `${g.canvas.height / scale}px`;
    const brush = g.canvas.getContext('2d');
    brush.scale(scale, scale);
    const side = size - (size > 6 ? 2 : 1);
    g.cells.forEach((i, at) => {
      const [x, y] = [(at % g.columns) * size, Math.floor(at / g.columns) * size];
      brush.fillStyle = homeless ? bad : colours[step(map.used[i])];
      brush.fillRect(x, y, side, side);
      brush.strokeStyle = text;
      if (moving.has(i)) {
        brush.lineWidth = Math.max(1, size / 8);
        brush.strokeRect(x + brush.lineWidth / 2, y + brush.lineWidth / 2, side - brush.lineWidth, side - brush.lineWidth);
      }
      if (order[cursor] === i) {
        brush.lineWidth = 2;
        brush.strokeRect(x, y, side, side);
      }
    });
  }

  function say(at) {
    const i = order[at];
    if (!map || i === undefined) return;
    cursor = at;
    const shard = map.first + i;
    const home = map.homes[i] === noHome ? 'has no home' : `is at ${nameOf(map.homes[i])}, with ${count(map.entities[i])} entities and ${processors(map.used[i])} processors`;
    const move = cluster.moves.find((m) => m.type === map.type && m.shard === shard);
    setText(said, `Shard ${shard} ${home}` + (move ? `, and moves to ${move.to}: ${move.why}` : map.moving.includes(shard) ? ', and is opening or moving' : ''));
    draw();
  }

  box.addEventListener('keydown', (e) => {
    if (e.target !== box) return;
    const columns = groups.values().next().value?.columns ?? 1;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -order.length, End: order.length }[e.key];
    if (!by) return;
    e.preventDefault();
    say(Math.max(0, Math.min(order.length - 1, cursor + by)));
  });
  const resized = new ResizeObserver(draw);
  resized.observe(box);

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
      panel('Shards by home', { wide: true }, el('div', { class: 'controls' }, select, said), legend, box),
      panel('Hottest shards of the type', {}, hottest.element),
      panel('Moves under way', {}, paused, moves.element),
    ],
    set([name]) {
      if (name) {
        type = name;
        select.value = name;
      }
      cursor = -1;
    },
    update(state) {
      cluster = state.cluster;
      const names = cluster.types.filter((t) => t.shards > 0).map((t) => t.name);
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
