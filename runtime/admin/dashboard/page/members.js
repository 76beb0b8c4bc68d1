// The members, with the evidence against those that are not reachable.
import { el, panel, table, count } from './dom.js';

export function members() {
  let filter = '';
  let latest;
  const rows = table([
    { title: 'Age', of: (m) => m.age, number: true },
    { title: 'Name', of: (m) => m.name },
    { title: 'Status', of: (m) => status(m), classOf: (m) => (status(m) === 'up' ? 'good' : m.reachable ? 'note' : 'bad') },
    { title: 'Shards', of: (m) => m.shards, show: count, number: true },
    { title: 'Entities', of: (m) => m.entities, show: count, number: true },
    { title: 'Roles', of: (m) => m.roles.join(' ') },
    { title: 'Does', of: (m) => m.does },
    { title: 'Evidence', of: (m) => m.evidence ?? m.silent ?? '', text: true },
    { title: 'Incarnation', of: (m) => m.incarnation, classOf: () => 'faint' },
  ], { empty: 'No member has this text.', sort: 'Age', descending: false });
  const box = el('input', {
    type: 'search', placeholder: 'name, status, role', 'aria-label': 'Filter the members', oninput: () => {
      filter = box.value.toLowerCase();
      draw();
    },
  });

  function draw() {
    const all = latest.members.map((m) => ({ ...m, does: [m.name === latest.leader && 'leader', m.name === latest.coordinator && 'coordinator'].filter(Boolean).join(', ') }));
    rows.set(all.filter((m) => [m.name, status(m), m.does, ...m.roles, ...m.hosts].join(' ').toLowerCase().includes(filter)));
  }

  return {
    elements: [panel('Members, the oldest first', { wide: true }, el('div', { class: 'controls' }, box), rows.element)],
    update({ cluster }) {
      latest = cluster;
      draw();
    },
  };
}

function status(m) {
  return m.reachable ? m.status : `${m.status}, not reachable`;
}
