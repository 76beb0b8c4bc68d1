// The busiest methods, entities, callers and members of the last second.
import { panel, table, entityLink, memberLink, typeLink, rate, duration, percent } from './dom.js';

const slow = 0.1; // seconds from which a turn that runs is shown

export function traffic() {
  const types = table([
    { title: 'Type', of: (t) => t.type, link: (t) => typeLink(t.type) },
    { title: 'Turns/s', of: (t) => t.rate, show: rate, number: true },
    { title: 'Failed/s', of: (t) => t.failed, show: rate, number: true, classOf: (t) => `number ${t.failed > 0 ? 'bad' : ''}` },
    { title: 'Mean', of: (t) => t.mean_seconds, show: duration, number: true },
    { title: 'P99', of: (t) => t.p99_seconds, show: (s) => (s ? duration(s) : '–'), number: true },
    { title: 'Longest', of: (t) => t.longest_seconds, show: duration, number: true },
  ], { empty: 'No turn ran in the last second.', sort: 'Turns/s', limit: 200 });
  const methods = table([
    { title: 'Method', of: (m) => `${m.type}.${m.method}` },
    { title: 'Turns/s', of: (m) => m.rate, show: rate, number: true },
    { title: 'Failed/s', of: (m) => m.failed, show: rate, number: true, classOf: (m) => `number ${m.failed > 0 ? 'bad' : ''}` },
    { title: 'Mean', of: (m) => m.mean_seconds, show: duration, number: true },
    { title: 'Longest', of: (m) => m.longest_seconds, show: duration, number: true },
  ], { empty: 'No turn ran in the last second.', sort: 'Turns/s', limit: 200 });
  const entities = table([
    { title: 'Entity', of: (e) => `${e.type}/${e.id}`, link: (e) => entityLink(e.type, e.id), text: true },
    { title: 'Turns/s', of: (e) => e.rate, show: rate, number: true },
    { title: 'Busy', of: (e) => e.busy, show: percent, number: true, classOf: (e) => `number ${e.busy > 0.8 ? 'bad' : ''}` },
    { title: 'At', of: (e) => e.node, link: (e) => memberLink(e.node) },
  ], { empty: 'No entity stands out.', sort: 'Turns/s', limit: 20 });
  const callers = table([
    { title: 'Caller', of: (c) => c.from },
    { title: 'Calls/s', of: (c) => c.rate, show: rate, number: true },
    { title: 'Of', of: (c) => `${c.type}/${c.id}`, link: (c) => entityLink(c.type, c.id), text: true },
  ], { empty: 'No caller stands out.', sort: 'Calls/s', limit: 20 });
  const running = table([
    { title: 'Turn', of: (r) => `${r.type}/${r.id}.${r.method}`, link: (r) => entityLink(r.type, r.id), text: true },
    { title: 'For', of: (r) => r.seconds, show: (s, r) => (r.earlier ? '> ' : '') + duration(s), number: true, classOf: (r) => `number ${r.seconds > 5 ? 'bad' : 'note'}` },
    { title: 'At', of: (r) => r.node, link: (r) => memberLink(r.node) },
    { title: 'Called by', of: (r) => r.from },
  ], { empty: 'No turn has been running for 100 ms.', sort: 'For', limit: 20 });
  const nodes = table([
    { title: 'Member', of: (n) => n.node, link: (n) => memberLink(n.node) },
    { title: 'Turns/s', of: (n) => n.rate, show: rate, number: true },
    { title: 'Running at a time', of: (n) => n.busy, show: (b) => b.toFixed(2), number: true },
  ], { empty: 'No member has answered twice yet.', sort: 'Turns/s', limit: 200 });

  return {
    elements: [
      panel('Types', {}, types.element), panel('Methods', {}, methods.element), panel('Turns that run', {}, running.element),
      panel('Busiest entities', {}, entities.element), panel('Busiest callers', {}, callers.element), panel('Members', {}, nodes.element),
    ],
    update({ cluster: { rates: r } }) {
      types.set((r?.types ?? []).filter((t) => t.rate > 0));
      methods.set((r?.methods ?? []).filter((m) => m.rate > 0));
      entities.set((r?.entities ?? []).filter((e) => e.rate > 0));
      callers.set((r?.callers ?? []).filter((c) => c.rate > 0));
      running.set((r?.running ?? []).filter((t) => t.seconds >= slow));
      nodes.set(r?.nodes ?? []);
    },
  };
}
