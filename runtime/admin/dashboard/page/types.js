// The page of one type: its load and latency over time, its methods, its pool and its reminders.
import { el, panel, table, facts, tile, setText, count, rate, duration, processors, clock, entityLink } from './dom.js';
import { chart, charts } from './chart.js';
import { pool } from './overview.js';

const interval = 5000; // milliseconds between questions about reminders and the pool

export function type({ get }) {
  let name = '';
  let reminders;
  let size;
  let askedAt = 0;
  let shownAt = { durable: false, pool: false };
  const about = facts();
  const turns = chart('Turns a second', ['turns', 'failed'], rate);
  const took = chart('Time of a turn', ['p50', 'p99'], duration);
  const commit = chart('Wait of an answer for the store', ['p99'], duration);
  const methods = table([
    { title: 'Method', of: (m) => m.method },
    { title: 'Turns/s', of: (m) => m.rate, show: rate, number: true },
    { title: 'Failed/s', of: (m) => m.failed, show: rate, number: true, classOf: (m) => `number ${m.failed > 0 ? 'bad' : ''}` },
    { title: 'Mean', of: (m) => m.mean_seconds, show: duration, number: true },
    { title: 'Longest', of: (m) => m.longest_seconds, show: duration, number: true },
  ], { label: 'Methods', empty: 'No turn ran in the last second.', sort: 'Turns/s', limit: 200 });
  const busiest = table([
    { title: 'Entity', of: (e) => e.id, link: (e) => entityLink(e.type, e.id), text: true },
    { title: 'Turns/s', of: (e) => e.rate, show: rate, number: true },
  ], { label: 'Busiest entities', empty: 'No entity stands out.', sort: 'Turns/s', limit: 20 });
  const why = el('p');
  const pools = panel('Pool', {}, why);
  const tiles = { late: tile('late'), soon: tile('due within the hour'), pending: tile('pending') };
  const due = table([
    { title: 'Entity', text: true, of: (r) => r.id, link: (r) => (r.binary ? undefined : entityLink(name, r.id)) },
    { title: 'Earliest due', of: (r) => Date.parse(r.due), show: (_, r) => clock(r.due) },
  ], { label: 'Entities with reminders', empty: 'No entity has reminders that are to run.', sort: 'Earliest due', descending: false });
  const failed = el('p', { class: 'note' });
  const dues = panel('Entities with reminders', {}, el('div', { class: 'tiles' }, ...Object.values(tiles).map((t) => t.element)), failed, due.element);
  const heading = panel('Type', { wide: true }, about.element);

  async function ask() {
    if (Date.now() - askedAt < interval) return;
    askedAt = Date.now();
    const asked = name;
    try {
      const [r, p] = await Promise.all([
        shownAt.durable ? get(`api/reminders?name=${encodeURIComponent(name)}`) : undefined, shownAt.pool ? get(`api/pool?name=${encodeURIComponent(name)}`) : undefined,
      ]);
      if (asked === name) [reminders, size] = [r, p];
    } catch { /* the next answer about the cluster says what is wrong */ }
  }

  return {
    title: () => name,
    elements: [
      heading, charts(turns, took, commit),
      pools, dues, panel('Methods', {}, methods.element), panel('Busiest entities', {}, busiest.element),
    ],
    set([wanted]) {
      name = wanted ?? '';
      [reminders, size, askedAt] = [undefined, undefined, 0];
      heading.querySelector('h2').textContent = `Type ${name}`;
    },
    update({ cluster: c, trends }) {
      const t = c.types.find((o) => o.name === name);
      shownAt = { durable: Boolean(t?.durable) && t.shards > 0 && !t.name.startsWith('feed-'), pool: Boolean(t?.instances || t?.wanted) };
      ask();
      about.set(t ? [
        ['Shards', el('a', { href: `#shards/${encodeURIComponent(name)}` }, `${count(t.shards)}${t.homeless ? `, ${count(t.homeless)} without a home` : ''}`)],
        ['Entities', el('a', { href: `#entities/${encodeURIComponent(name)}` }, `${count(t.entities)}, ${count(t.active)} in memory`)],
        ['Processors', processors(t.used)], ['Calls waiting', count(t.waiting)], ['Durable', t.durable ? 'yes' : 'no'],
        ['Hosts', c.members.filter((m) => m.hosts.includes(name)).map((m) => m.name).sort((a, b) => a.localeCompare(b, undefined, { numeric: true })).join(', ') || 'none'],
        ...(shownAt.pool ? [['Instances', pool(t)]] : []),
      ] : [['Not known', 'no member hosts it']]);
      const own = trends?.types[name];
      turns.set(trends?.minutes, [own?.rate, own?.failed]);
      took.set(trends?.minutes, [own?.p50_seconds, own?.p99_seconds]);
      commit.element.hidden = !t?.durable;
      commit.set(trends?.minutes, [own?.commit_p99_seconds]);
      methods.set((c.rates?.methods ?? []).filter((m) => m.type === name && m.rate > 0));
      busiest.set((c.rates?.entities ?? []).filter((e) => e.type === name && e.rate > 0));
      pools.hidden = !shownAt.pool;
      setText(why, size?.error || (size?.why ? `The pool has ${size.why}.` : ''));
      dues.hidden = !shownAt.durable;
      if (reminders) {
        tiles.late.set(count(reminders.late));
        tiles.soon.set(count(reminders.soon));
        tiles.pending.set(count(reminders.pending) + (reminders.more ? '+' : ''));
        due.set(reminders.first);
      }
      setText(failed, reminders?.error ?? '');
      failed.hidden = !reminders?.error;
    },
    leave() {
      for (const c of [turns, took, commit]) c.leave();
    },
  };
}

