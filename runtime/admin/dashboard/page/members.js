// The members, with the evidence against those that are not reachable, and the page of one member.
import { el, panel, table, facts, count, rate, duration, percent, processors, bytes, clock, memberLink, typeLink } from './dom.js';
import { chart, charts } from './chart.js';
import { eventTable } from './log.js';

export function members() {
  let filter = '';
  let latest;
  const rows = table([
    { title: 'Age', of: (m) => m.age, number: true },
    { title: 'Name', of: (m) => m.name, link: (m) => memberLink(m.name) },
    { title: 'Status', of: (m) => status(m), classOf: (m) => (status(m) === 'up' ? 'good' : m.reachable ? 'note' : 'bad') },
    { title: 'Processors', of: (m) => m.used, show: (u, m) => `${processors(u)} of ${m.capacity}`, number: true, classOf: (m) => `number ${m.capacity && m.used > 0.8 * m.capacity ? 'bad' : ''}` },
    { title: 'Shards', of: (m) => m.shards, show: count, number: true },
    { title: 'Entities', of: (m) => m.entities, show: count, number: true },
    { title: 'Does', of: (m) => m.does },
    { title: 'Roles', of: (m) => m.roles.join(' ') },
    { title: 'Zone', of: (m) => m.zone },
    { title: 'Evidence', of: (m) => m.evidence ?? m.silent ?? '', text: true },
    { title: 'Release', of: (m) => m.release },
    { title: 'Incarnation', of: (m) => m.incarnation, classOf: () => 'faint' },
  ], { label: 'Members', empty: 'No member has this text.', sort: 'Age', descending: false });
  const box = el('input', {
    type: 'search', placeholder: 'name, status, role', 'aria-label': 'Filter the members', oninput: () => {
      filter = box.value.toLowerCase();
      draw();
    },
  });

  function draw() {
    const all = latest.members.map((m) => ({ ...m, does: does(m, latest) }));
    rows.set(all.filter((m) => [m.name, status(m), m.does, m.zone, ...m.roles, ...m.hosts].join(' ').toLowerCase().includes(filter)));
  }

  return {
    elements: [panel('Members, the oldest first', { wide: true }, el('div', { class: 'controls' }, box), rows.element)],
    update({ cluster }) {
      latest = cluster;
      draw();
    },
  };
}

const does = (m, c) => [m.name === c.leader && 'leader', m.name === c.coordinator && 'coordinator'].filter(Boolean).join(', ');
const status = (m) => (m.reachable ? m.status : `${m.status}, not reachable`);

// member is the page of one member.
export function member({ get }) {
  let name = '';
  let process;
  let askedAt = 0;
  const about = facts();
  const found = el('ul');
  const turns = chart('Turns a second', ['turns'], rate);
  const used = chart('Processors', ['used'], processors, 0.1);
  const memory = chart('Memory', ['taken from the system'], bytes);
  const hottest = table([
    { title: 'Shard', of: (s) => `${s.type}/${s.shard}`, link: (s) => typeLink(s.type) },
    { title: 'Processors', of: (s) => s.used, show: processors, number: true },
  ], { label: 'Hottest shards', empty: 'No shard uses much.', sort: 'Processors' });
  const expiries = expiryTable();
  const lines = eventTable('It has logged nothing in the last hours.', 200);
  const log = panel('What it has logged', { wide: true }, lines.element);
  log.classList.add('log');
  const heading = panel('Member', { wide: true }, found, about.element);

  async function ask() {
    if (Date.now() - askedAt < 2000) return;
    askedAt = Date.now();
    const asked = name;
    try {
      const answer = await get(`api/member?name=${encodeURIComponent(name)}`);
      if (asked === name) process = answer;
    } catch { /* the next answer about the cluster says what is wrong */ }
  }

  return {
    title: () => name,
    elements: [
      heading, charts(turns, used, memory), panel('Hottest shards', {}, hottest.element), panel('Certificates and credentials', {}, expiries.element), log,
    ],
    set([wanted]) {
      name = wanted ?? '';
      process = undefined;
      askedAt = 0;
      heading.querySelector('h2').textContent = `Member ${name}`;
    },
    update({ cluster: c, trends, events }) {
      ask();
      const row = c.members.find((m) => m.name === name);
      const p = process?.known ? process : undefined;
      about.set([
        ['Status', row ? [status(row), does(row, c)].filter(Boolean).join(', ') : 'it is not a member'],
        ...(row?.evidence ? [['Evidence', row.evidence]] : []), ...(row?.silent ? [['Silent', row.silent]] : []),
        ...(row ? [['Incarnation', row.incarnation], ['Shards', `${count(row.shards)}, with ${count(row.entities)} entities`], ['Hosts', row.hosts.join(', ') || 'nothing'], ['Roles', row.roles.join(', ') || 'none']] : []),
        ...(p ? [
          ['Ready', p.ready ? 'yes' : p.reasons.join('; ')],
          ['Started', `${clock(p.started)}, ${duration((Date.now() - Date.parse(p.started)) / 1000)} ago`],
          ['Program', `${p.program}, shardgen ${p.release || '(devel)'}, ${p.go}`],
          ['Processors', `${processors(p.used)} of ${p.capacity}${p.gc ? `, ${percent(p.gc)} of it for garbage collection` : ''}`],
          ['Memory', `${bytes(p.memory)}${p.memory_limit ? ` of ${bytes(p.memory_limit)}` : ''}, heap ${bytes(p.heap)}, ${count(p.goroutines)} goroutines`],
          ['Broker', `${p.server || 'does not say its name'}, messages up to ${bytes(p.max_payload)}`],
          ['Store', p.store || 'none'], ['Zone', p.zone || 'none'], ['Gateway', p.gateway ? 'yes' : 'no'],
          ['Clients', `${count(p.client_count)}${p.clients.length ? `: ${p.clients.slice(0, 20).join(', ')}${p.client_count > 20 ? ', …' : ''}` : ''}`],
        ] : []),
      ]);
      const bad = process?.findings ?? [];
      if (bad.map((f) => f.text).join('\n') !== [...found.children].map((li) => li.dataset.text).join('\n')) {
        found.replaceChildren(...bad.map((f) => el('li', { class: f.severity === 'note' || f.severity === 'passing' ? 'note' : 'bad', 'data-text': f.text }, `${f.text}${f.do ? ` (${f.do})` : ''}`)));
      }
      found.hidden = !bad.length;
      const own = trends?.members[name];
      turns.set(trends?.minutes, [own?.rate]);
      used.set(trends?.minutes, [own?.used]);
      memory.set(trends?.minutes, [own?.memory]);
      hottest.set(p?.hottest ?? []);
      expiries.set(c.expiries.filter((e) => e.node === name));
      lines.set(events.filter((e) => e.node === name));
    },
    leave() {
      for (const c of [turns, used, memory]) c.leave();
    },
  };
}

// expiryTable shows certificates and credentials.
export function expiryTable() {
  const left = (e) => (Date.parse(e.until) - Date.now()) / 1000;
  return table([
    { title: 'Ends', of: (e) => Date.parse(e.until), show: (_, e) => clock(e.until) },
    { title: 'In', of: left, show: (s) => (s > 172800 ? `${Math.floor(s / 86400)} days` : s > 0 ? duration(s) : 'has ended'), number: true, classOf: (e) => `number ${left(e) < 86400 * 14 ? 'bad' : ''}` },
    { title: 'Member', of: (e) => e.node, link: (e) => memberLink(e.node) },
    { title: 'What', of: (e) => e.what, show: (w, e) => w + (e.seen ? ', when the member connected' : ''), text: true },
  ], { label: 'Certificates and credentials', empty: 'None has an end.', sort: 'Ends', descending: false });
}
