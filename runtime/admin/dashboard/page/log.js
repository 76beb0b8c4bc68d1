// The log lines of all members and the coordinator's decisions, the latest first.
import { el, panel, table, clock, memberLink } from './dom.js';

const levels = ['DEBUG', 'INFO', 'WARN', 'ERROR'];

// eventTable shows events.
export function eventTable(empty, limit) {
  return table([
    { title: 'Time', of: (e) => e.number, show: (_, e) => clock(e.time, { millis: true }) },
    { title: 'Level', of: (e) => levels.indexOf(e.level), show: (_, e) => e.level },
    { title: 'Member', of: (e) => e.node, show: (n, e) => n + (e.also ? ` and ${e.also} more` : ''), link: (e) => memberLink(e.node) },
    { title: 'What', of: (e) => e.text, text: true },
    { title: 'With', of: (e) => e.attrs, text: true },
  ], { empty, sort: 'Time', limit, rowClass: (e) => e.level });
}

export function log() {
  let events = [];
  const rows = eventTable('No line matches.', 500);
  const text = el('input', { type: 'search', placeholder: 'text', 'aria-label': 'Only lines with this text', oninput: draw });
  const level = el('select', { 'aria-label': 'Only from this level', onchange: draw }, ...levels.slice(1).map((l) => el('option', { value: l }, `${l} and above`)));

  function draw() {
    const wanted = text.value.toLowerCase();
    rows.set(events.filter((e) => levels.indexOf(e.level) >= levels.indexOf(level.value) &&
      `${e.node} ${e.text} ${e.attrs}`.toLowerCase().includes(wanted)));
  }

  const lines = panel('What the members logged, the latest first', { wide: true }, el('div', { class: 'controls' }, text, level), rows.element);
  lines.classList.add('log');
  return {
    elements: [lines],
    set([wanted]) {
      if (wanted !== undefined) text.value = wanted;
      draw();
    },
    update(state) {
      events = state.events;
      draw();
    },
  };
}
