// The faults, the load of the last hour, the types and singletons, and the counters.
import { el, panel, table, tile, count, rate, duration, processors, typeLink, memberLink } from './dom.js';
import { chart, charts } from './chart.js';

export const pool = (t) => (t.instances || t.wanted ? `${count(t.instances)}${t.wanted && t.wanted !== t.instances ? ` of ${count(t.wanted)}` : ''}` : '');

export function overview() {
  const faults = el('div');
  const tiles = {
    turns: tile('turns a second'), failed: tile('failed turns a second'), entities: tile('entities'),
    active: tile('of them in memory'), waiting: tile('calls that wait for a shard'), moves: tile('moves under way'),
  };
  const turns = chart('Turns a second', ['turns', 'failed'], rate);
  const took = chart('Time of a turn', ['p50', 'p99'], duration);
  const types = table([
    { title: 'Type', of: (t) => t.name, link: (t) => typeLink(t.name) },
    { title: 'Shards', of: (t) => t.shards, show: count, number: true },
    { title: 'Entities', of: (t) => t.entities, show: count, number: true },
    { title: 'In memory', of: (t) => t.active, show: count, number: true },
    { title: 'Processors', of: (t) => t.used, show: processors, number: true },
    { title: 'Calls waiting', of: (t) => t.waiting, show: count, number: true, classOf: (t) => `number ${t.waiting ? 'note' : ''}` },
    { title: 'No home', of: (t) => t.homeless, show: count, number: true, classOf: (t) => `number ${t.homeless ? 'bad' : ''}` },
    { title: 'Pool', of: (t) => t.instances, show: (_, t) => pool(t), number: true, classOf: (t) => `number ${t.wanted > t.instances ? 'note' : ''}` },
  ], { label: 'Types', empty: 'No member hosts a type.', sort: 'Type', descending: false });
  const singletons = table([
    { title: 'Singleton', of: (s) => s.name },
    { title: 'Home', of: (s) => s.node, show: (n) => n || 'none', link: (s) => memberLink(s.node), classOf: (s) => (s.node ? '' : 'bad') },
    { title: 'Why', of: (s) => s.why, text: true },
  ], { label: 'Singletons', empty: 'There are no singletons.', sort: 'Singleton', descending: false });
  const counters = table([
    { title: 'What', of: (d) => d.reason },
    { title: 'A second', of: (d) => d.rate, show: rate, number: true },
    { title: 'Since the members started', of: (d) => d.total, show: count, number: true },
  ], { label: 'Counters', empty: 'Nothing was counted yet.', sort: 'A second' });

  return {
    elements: [
      panel('State', { wide: true }, faults),
      panel('Now', { wide: true }, el('div', { class: 'tiles' }, ...Object.values(tiles).map((t) => t.element))),
      charts(turns, took),
      panel('Types', { wide: true }, types.element),
      panel('Singletons', { wide: true }, singletons.element),
      panel('Counters of the members', { wide: true }, counters.element),
    ],
    update({ cluster: c, trends, counterRates }) {
      drawFaults(faults, c);
      const sum = (list, of) => list.reduce((total, t) => total + of(t), 0);
      tiles.turns.set(c.rates ? rate(sum(c.rates.methods, (m) => m.rate)) : '–');
      tiles.failed.set(c.rates ? rate(sum(c.rates.methods, (m) => m.failed)) : '–');
      tiles.entities.set(count(sum(c.types, (t) => t.entities)));
      tiles.active.set(count(sum(c.types, (t) => t.active)));
      tiles.waiting.set(count(sum(c.types, (t) => t.waiting)));
      tiles.moves.set(count(c.moves.length));
      turns.set(trends?.minutes, [trends?.all.rate, trends?.all.failed]);
      took.set(trends?.minutes, [trends?.all.p50_seconds, trends?.all.p99_seconds]);
      types.set(c.types.filter((t) => t.shards > 0)); // the others are singletons
      singletons.set(c.singletons);
      counters.set(Object.entries(c.counters ?? {}).filter(([, total]) => total > 0).map(([reason, total]) => ({ reason, total, rate: counterRates[reason] ?? 0 })));
    },
    leave() {
      turns.leave();
      took.leave();
    },
  };
}

// drawFaults shows what is wrong in a cluster, and what to know.
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
