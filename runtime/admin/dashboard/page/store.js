// The store of durable entities, and the certificates and credentials of the members.
import { panel, table, duration } from './dom.js';
import { chart } from './chart.js';
import { expiryTable } from './members.js';

export function store({ get }) {
  let askedAt = 0;
  let answer = { stores: [], faults: [], checks: [] };
  const commit = chart('Wait of an answer for the store', ['p99'], duration);
  const stores = table([
    { title: 'Store', of: (s) => s.store || 'none' },
    { title: 'Members', of: (s) => s.members.join(', '), text: true },
  ], { label: 'Stores', empty: 'No member has answered yet.', sort: 'Store', descending: false });
  const checks = table([
    { title: 'Status', of: (c) => c.status, classOf: (c) => ({ ok: 'good', fault: 'bad', note: 'note' })[c.status] ?? 'faint' },
    { title: 'Check', of: (c) => c.name },
    { title: 'What', of: (c) => c.text, text: true },
    { title: 'Remedy', of: (c) => c.do ?? '', text: true },
  ], { label: 'Checks of the store', empty: 'Nothing is known to be wrong. shardctl doctor asks JetStream.', sort: 'Status', descending: false });
  const expiries = expiryTable();

  async function ask() {
    if (Date.now() - askedAt < 5000) return;
    askedAt = Date.now();
    try {
      answer = await get('api/store');
    } catch { /* the next answer about the cluster says what is wrong */ }
  }

  return {
    elements: [
      panel('Stores', {}, stores.element), commit.element,
      panel('Checks', { wide: true }, checks.element), panel('Certificates and credentials', { wide: true }, expiries.element),
    ],
    update({ cluster, trends }) {
      ask();
      stores.set(answer.stores);
      checks.set([...answer.faults.map((f) => ({ status: 'fault', name: 'writes', text: (f.node ? `${f.node}: ` : '') + f.text, do: f.do })), ...answer.checks]);
      commit.set(trends?.minutes, [trends?.all.commit_p99_seconds]);
      expiries.set(cluster.expiries);
    },
    leave: commit.leave,
  };
}
