// The story of one entity: its home and the reason for it, its load, its state, and the lines about it.
import { el, panel, entityLink, typeLink, rate, percent, duration, clock } from './dom.js';
import { eventTable } from './log.js';

export function entity({ get }) {
  let type = '';
  let id = '';
  let drawn = '';
  const kinds = el('datalist', { id: 'kinds' });
  const typeBox = el('input', { list: 'kinds', placeholder: 'Type', 'aria-label': 'Type', required: true });
  const idBox = el('input', { placeholder: 'id', 'aria-label': 'Id', required: true });
  const form = el('form', {
    class: 'controls', onsubmit: (e) => {
      e.preventDefault();
      const next = entityLink(typeBox.value, idBox.value);
      if (location.hash === next) ask();
      else location.hash = next;
    },
  }, typeBox, idBox, kinds, el('button', {}, 'Look'));
  const facts = el('div', {}, el('p', { class: 'empty' }, 'Give a type and an id.'));
  const lines = eventTable('No line of the last hours names it.', 200);
  const log = panel('Lines that name it', { wide: true }, lines.element);
  log.classList.add('log');
  log.hidden = true;
  let state;

  async function ask() {
    const asked = [type, id].join('\n');
    let story;
    try {
      story = await get(`api/entity?type=${encodeURIComponent(type)}&id=${encodeURIComponent(id)}`);
    } catch (e) {
      story = { type, id, error: e.message };
    }
    if (asked !== [type, id].join('\n')) return; // another one was asked for meanwhile
    draw(story);
  }

  function draw(story) {
    lines.set(story.events ?? []);
    log.hidden = false;
    const busy = state?.cluster?.rates?.entities.find((e) => e.type === story.type && e.id === story.id);
    const running = story.runs ? [story.runs] : [];
    const callers = (state?.cluster?.rates?.callers ?? []).filter((c) => c.type === story.type && c.id === story.id && c.rate > 0);
    const moves = (state?.cluster?.moves ?? []).filter((m) => m.type === story.type && m.shard === story.shard);
    const rows = story.error ? [['Not known', story.error]] : [
      ['Home', (story.node || 'none') + (story.since ? ` since ${clock(story.since)}` : '')],
      ['Why there', story.why],
      ['Shard', `${story.shard}, epoch ${story.epoch}`],
      ...moves.map((m) => ['Moves', `to ${m.to} since ${duration(m.seconds)}: ${m.phase}; ${m.why}`]),
      ['Load', busy ? `${rate(busy.rate)} turns a second, busy ${percent(busy.busy)} of the time` : 'not among the busiest'],
      ...running.map((r) => ['Runs', `${r.method} for ${r.earlier ? 'more than ' : ''}${duration(r.seconds)}, called by ${r.from}`]),
      ...(story.mailbox ? [['Waits', `${story.mailbox} calls wait for its turn`]] : []),
      ...callers.map((c) => ['Called by', `${c.from}, ${rate(c.rate)} times a second`]),
      ...(story.errors ?? []).map((f) => ['Failed', `${f.method}, ${duration(f.seconds_ago)} ago; ${f.outcome}`]),
      ['State', story.no_state || (story.state === undefined ? 'is not shown here' : story.active ? 'in memory' : story.stored ? 'in the store' : 'passivated')],
    ];
    const next = [el('h2', {}, el('a', { href: typeLink(story.type) }, story.type), `/${story.id}`),
      el('dl', {}, ...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]))];
    if (story.state !== undefined) next.push(el('pre', { tabindex: '0', 'aria-label': 'State' }, story.state));
    const text = next.map((e) => e.textContent).join('\n');
    if (text !== drawn) facts.replaceChildren(...next);
    drawn = text;
  }

  return {
    title: () => (type ? `${type}/${id}` : 'Entity'),
    elements: [panel('Entity', { wide: true }, form, facts), log],
    set([kind, name]) {
      if (!kind || name === undefined) return;
      [type, id] = [kind, name];
      [typeBox.value, idBox.value] = [kind, name];
      ask();
    },
    update(next) {
      state = next;
      kinds.replaceChildren(...state.cluster.types.map((t) => el('option', { value: t.name })));
    },
  };
}
