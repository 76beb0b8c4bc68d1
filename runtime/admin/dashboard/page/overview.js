// The faults, the load, the types and singletons, and the counters.
import { el, panel, table, setText, count, rate, duration } from './dom.js';

export function overview() {
  const faults = el('div');
  const tile = (label) => {
    const value = el('b', {}, '–');
    return { value, element: el('div', { class: 'tile' }, value, el('span', {}, label)) };
  };
  const tiles = {
    turns: tile('turns a second'), failed: tile('failed turns a second'), entities: tile('entities'),
    active: tile('of them in memory'), waiting: tile('calls that wait for a shard'), moves: tile('moves under way'),
  };
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  const spark = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  spark.setAttribute('class', 'spark');
  spark.setAttribute('viewBox', '0 0 300 40');
  spark.setAttribute('preserveAspectRatio', 'none');
  spark.setAttribute('role', 'img');
  spark.setAttribute('aria-label', 'turns a second since the page was opened, for 5 minutes at most');
  spark.append(line);
  const types = table([
    { title: 'Type', of: (t) => t.name },
    { title: 'Shards', of: (t) => t.shards, show: count, number: true },
    { title: 'Entities', of: (t) => t.entities, show: count, number: true },
    { title: 'In memory', of: (t) => t.active, show: count, number: true },
    { title: 'Calls waiting', of: (t) => t.waiting, show: count, number: true, classOf: (t) => `number ${t.waiting ? 'note' : ''}` },
    { title: 'Homeless shards', of: (t) => t.homeless, show: count, number: true, classOf: (t) => `number ${t.homeless ? 'bad' : ''}` },
  ], { empty: 'No member hosts a type.', sort: 'Type', descending: false });
  const singletons = table([
    { title: 'Singleton', of: (s) => s.name },
    { title: 'Home', of: (s) => s.node, show: (n) => n || 'none', classOf: (s) => (s.node ? '' : 'bad') },
    { title: 'Why', of: (s) => s.why, text: true },
  ], { empty: 'There are no singletons.', sort: 'Singleton', descending: false });
  const counters = table([
    { title: 'What', of: (d) => d.reason },
    { title: 'A second', of: (d) => d.rate, show: rate, number: true },
    { title: 'Since the members started', of: (d) => d.total, show: count, number: true },
  ], { empty: 'Nothing was counted yet.', sort: 'A second' });

  return {
    elements: [
      panel('State', {}, faults),
      panel('Load', {}, el('div', { class: 'tiles' }, ...Object.values(tiles).map((t) => t.element)), spark),
      panel('Types', { wide: true }, types.element),
      panel('Singletons', { wide: true }, singletons.element),
      panel('Counters of the members', { wide: true }, counters.element),
    ],
    update({ cluster: c, history, counterRates }) {
      drawFaults(faults, c);
      const now = history.at(-1);
      const sum = (of) => c.types.reduce((total, t) => total + of(t), 0);
      setText(tiles.turns.value, now ? rate(now.turns) : '–');
      setText(tiles.failed.value, now ? rate(now.failed) : '–');
      setText(tiles.entities.value, count(sum((t) => t.entities)));
      setText(tiles.active.value, count(sum((t) => t.active)));
      setText(tiles.waiting.value, count(sum((t) => t.waiting)));
      setText(tiles.moves.value, count(c.moves.length));
      const most = Math.max(1, ...history.map((h) => h.turns));
      line.setAttribute('d', history.map((h, i) => `${i ? 'L' : 'M'}${300 - history.length + i},${38 - (36 * h.turns) / most}`).join(''));
      types.set(c.types.filter((t) => t.shards > 0)); // the others are singletons
      singletons.set(c.singletons);
      counters.set(Object.entries(c.counters ?? {}).filter(([, total]) => total > 0).map(([reason, total]) => ({ reason, total, rate: counterRates[reason] ?? 0 })));
    },
  };
}

function drawFaults(root, c) {
  const lines = [
    ...c.health.wrong.map((text) => ({ text, kind: 'bad' })),
    ...c.health.notes.map((text) => ({ text, kind: 'note' })),
    ...c.members.filter((m) => m.silent).map((m) => ({ text: `${m.name} did not answer: ${m.silent}`, kind: 'note' })),
    ...c.moves.filter((m) => m.seconds > 10).map((m) => ({ text: `${m.type} shard ${m.shard} has been moving from ${m.from} to ${m.to} for ${duration(m.seconds)}`, kind: 'note' })),
  ];
  if (!lines.length) lines.push({ text: 'Nothing is wrong.', kind: 'good' });
  if (lines.map((l) => l.text).join('\n') === [...root.querySelectorAll('li')].map((li) => li.textContent).join('\n')) return;
  root.replaceChildren(el('ul', {}, ...lines.map(({ text, kind }) => el('li', { class: kind }, text))));
}
