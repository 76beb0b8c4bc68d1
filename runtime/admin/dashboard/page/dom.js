// Elements and tables. All text is set as text, never as HTML: names come from the cluster.

// el makes an element. Properties that start with "on" are listeners; others are attributes.
export function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) e.setAttribute(key, value === true ? '' : value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null));
  return e;
}

// panel makes a section with a heading.
export function panel(title, { wide = false } = {}, ...children) {
  return el('section', { class: wide ? 'wide' : undefined, 'aria-label': title }, el('h2', {}, title), ...children);
}

// setText changes the text of an element only if it differs, so that a selection stays.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// table makes a table whose columns sort it. A column has a title, of(row) for its value, and may
// have show(value, row) for its text, link(row), classOf(row), number and text.
export function table(columns, { empty, label, sort, descending = true, rowClass, limit = 1000 }) {
  let rows = [];
  let by = columns.find((c) => c.title === sort);
  let down = descending;
  const body = el('tbody');
  const none = el('p', { class: 'empty' }, empty);
  const more = el('p', { class: 'empty', hidden: true });
  const heads = columns.map((c) => el('th', { scope: 'col', class: c.number ? 'number' : undefined }, el('button', {
    type: 'button',
    onclick: () => {
      down = by === c ? !down : Boolean(c.number);
      by = c;
      draw();
    },
  }, c.title)));
  const whole = el('table', { 'aria-label': label }, el('thead', {}, el('tr', {}, ...heads)), body);

  function draw() {
    columns.forEach((c, i) => {
      if (c === by) heads[i].setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else heads[i].removeAttribute('aria-sort');
    });
    const sorted = by ? rows.toSorted((a, b) => compare(by.of(a), by.of(b)) * (down ? -1 : 1)) : rows;
    const shown = sorted.slice(0, limit);
    while (body.rows.length > shown.length) body.deleteRow(-1);
    while (body.rows.length < shown.length) {
      body.append(el('tr', {}, ...columns.map((c) => el('td', { class: c.number ? 'number' : c.text ? 'text' : undefined }))));
    }
    shown.forEach((row, i) => {
      const tr = body.rows[i];
      if (rowClass) tr.className = rowClass(row);
      columns.forEach((c, at) => drawCell(tr.cells[at], c, row));
    });
    whole.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    more.hidden = rows.length <= limit;
    setText(more, `${rows.length - limit} more are not shown`);
  }

  return {
    element: el('div', {}, whole, none, more),
    set(next) {
      rows = next;
      draw();
    },
  };
}

function drawCell(td, column, row) {
  const value = column.of(row);
  const text = column.show ? column.show(value, row) : String(value ?? '');
  const href = column.link?.(row);
  const link = td.firstElementChild;
  if (href && (!link || link.getAttribute('href') !== href || link.textContent !== text)) td.replaceChildren(el('a', { href }, text));
  else if (!href) setText(td, text);
  if (column.classOf) td.className = column.classOf(row) ?? '';
}

function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a ?? '').localeCompare(String(b ?? ''), undefined, { numeric: true });
}

// Addresses of pages about one thing.
const page = (...parts) => `#${parts.map(encodeURIComponent).join('/')}`;
export const entityLink = (type, id) => page('entity', type, id);
export const memberLink = (name) => name && page('member', name);
export const typeLink = (name) => name && page('type', name);

// facts makes a list of names and values, and replaces it only if it differs. A value is a text or an element.
export function facts() {
  const list = el('dl');
  let drawn = '';
  return {
    element: list,
    set(rows) {
      const text = JSON.stringify(rows.map(([name, value]) => [name, value.href ?? '', value.textContent ?? value]));
      if (text !== drawn) list.replaceChildren(...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
      drawn = text;
    },
  };
}

// tile makes a number with a label.
export function tile(label) {
  const value = el('b', {}, '–');
  return { element: el('div', { class: 'tile' }, value, el('span', {}, label)), set: (text) => setText(value, text) };
}

export function count(n) {
  return Math.round(n).toLocaleString('en');
}

// rate shows a number per second.
export function rate(n) {
  if (n === 0) return '0';
  if (n < 10) return n.toFixed(1);
  return count(n);
}

// duration shows a number of seconds.
export function duration(s) {
  if (s === 0) return '0';
  if (s < 1e-3) return `${(s * 1e6).toFixed(0)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 120) return `${s.toFixed(1)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return `${Math.round(s / 3600)} h`;
}

export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

export function bytes(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  for (; n >= 1000 && at < units.length - 1; at++) n /= 1000;
  return `${n >= 10 || at === 0 ? Math.round(n) : n.toFixed(1)} ${units[at]}`;
}

// processors shows a number of processors.
export function processors(n) {
  if (n === 0) return '0';
  return n < 0.001 ? '< 0.001' : n.toFixed(n < 0.1 ? 3 : 2);
}

let utc = false; // times are shown in UTC, otherwise in the viewer's zone
try { utc = localStorage.getItem('shardgen-times') === 'utc'; } catch { /* it may not be kept */ }
export const inUTC = () => utc;

// showTimes chooses the zone of all times, also after a reload.
export function showTimes(asUTC) {
  utc = asUTC;
  try { localStorage.setItem('shardgen-times', utc ? 'utc' : 'local'); } catch { /* likewise */ }
}

const two = (n) => String(n).padStart(2, '0');
const day = (at) => (utc ? [at.getUTCFullYear(), at.getUTCMonth() + 1, at.getUTCDate()] : [at.getFullYear(), at.getMonth() + 1, at.getDate()]).map(two).join('-');
const hour = (at) => (utc ? [at.getUTCHours(), at.getUTCMinutes()] : [at.getHours(), at.getMinutes()]).map(two).join(':');

// clock shows the time of day, and the date if that is not today.
export function clock(time, { millis = false } = {}) {
  const at = new Date(time);
  const date = day(at) === day(new Date()) ? '' : `${day(at)} `;
  return date + hour(at) + ':' + two(at.getUTCSeconds()) + (millis ? `.${String(at.getUTCMilliseconds()).padStart(3, '0')}` : '') + (utc ? ' UTC' : '');
}

// minute shows the hour and minute of a time in seconds after 1970.
export const minute = (seconds) => hour(new Date(seconds * 1000));
