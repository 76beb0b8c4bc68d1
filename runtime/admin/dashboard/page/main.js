// Asks the cluster once a second while the page is visible, and draws the view that the address names.
import { el, setText, count, duration, entityLink, memberLink, typeLink, inUTC, showTimes } from './dom.js';
import { overview } from './overview.js';
import { members, member } from './members.js';
import { type } from './types.js';
import { entities } from './entities.js';
import { feeds } from './feeds.js';
import { store } from './store.js';
import { shards } from './shards.js';
import { traffic } from './traffic.js';
import { log } from './log.js';
import { entity } from './entity.js';

const views = [
  ['overview', 'Overview', overview], ['members', 'Members', members], ['shards', 'Shards', shards], ['traffic', 'Traffic', traffic],
  ['entities', 'Entities', entities], ['feeds', 'Feeds', feeds], ['store', 'Store and certificates', store], ['log', 'Log', log],
];
// pages are about one thing, and belong to a view.
const pages = [['member', 'members', member], ['type', 'overview', type], ['entity', 'entities', entity]];
const interval = 1000; // milliseconds
const trendsInterval = 10000; // likewise
const kept = { events: 5000 };
const byId = (id) => document.getElementById(id);

// state is all that the views draw from.
const state = { cluster: null, trends: null, events: [], counterRates: {} };
let view; // has element, update(state), and may have leave() and set(arguments)
let shown; // the name of the view
let asked = 0;
let trendsAt = 0;
let failed = '';

// get asks the handler for something.
async function get(path) {
  const answer = await fetch(path, { headers: { Accept: 'application/json' } });
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.text()).trim()}`);
  return answer.json();
}

async function ask() {
  const last = state.events.at(-1)?.number ?? 0;
  try {
    const next = await get(`api/cluster?after=${last}`);
    take(next);
    failed = next.error ?? '';
    if (Date.now() - trendsAt >= trendsInterval) {
      state.trends = await get('api/trends');
      trendsAt = state.trends.all ? Date.now() : 0;
      if (!trendsAt) state.trends = null; // the members have not answered yet
    }
  } catch (e) {
    failed = e.message;
  }
  asked = Date.now();
  draw();
}

// take adds an answer to the state.
function take(next) {
  const before = state.cluster;
  if (next.events.length && state.events.length && next.events[0].number <= state.events.at(-1).number) state.events = [];
  state.events = state.events.concat(next.events).slice(-kept.events);
  const seconds = before ? (Date.parse(next.at) - Date.parse(before.at)) / 1000 : 0;
  if (seconds > 0) {
    state.counterRates = Object.fromEntries(Object.entries(next.counters ?? {}).map(([reason, n]) => [reason, Math.max(0, n - (before.counters?.[reason] ?? 0)) / seconds]));
  }
  state.cluster = next;
}

function draw() {
  const c = state.cluster;
  byId('stale').hidden = failed === '';
  setText(byId('stale'), failed && `The cluster does not answer${c ? ', and this is older' : ''}: ${failed}`);
  if (!c) return;
  const name = c.health.cluster || 'shardgen';
  setText(byId('cluster'), name);
  const bad = c.health.wrong.length;
  const health = byId('health');
  setText(health, c.health.healthy ? 'healthy' : bad === 1 ? '1 fault' : `${bad} faults`);
  health.className = c.health.healthy ? 'good' : 'bad';
  document.title = (c.health.healthy ? '' : `(${bad}) `) + [view.title?.() ?? views.find(([v]) => v === shown)?.[1], name].filter(Boolean).join(' – ');
  setText(byId('summary'), `${count(c.health.members)} members, ${count(c.health.shards)} shards of ${count(c.health.types)} types` +
    (c.health.moving ? `, ${count(c.health.moving)} moving` : '') + (c.coordinator ? `; coordinator ${c.coordinator}` : '') +
    `; as ${c.seen_by || 'nobody'} saw it ${ago(c.at)}`);
  suggest(c);
  view.update(state);
}

// ago says how long ago a time was.
function ago(time) {
  const seconds = Math.round((Date.now() - Date.parse(time)) / 1000);
  return seconds < 2 ? 'now' : `${duration(seconds)} ago`;
}

// suggest offers the types and the busy entities in the search box.
function suggest(c) {
  const known = [...c.types.map((t) => t.name), ...c.members.slice(0, 200).map((m) => m.name), ...(c.rates?.entities ?? []).map((e) => `${e.type}/${e.id}`)];
  const list = byId('known');
  if (known.join('\n') === [...list.children].map((o) => o.value).join('\n')) return;
  list.replaceChildren(...known.map((value) => el('option', { value })));
}

// route shows the view that the address names: #entity/Cart/ann is the entity's with two arguments.
function route() {
  const [name, ...args] = location.hash.slice(1).split('/').map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const [wanted, under, make] = pages.find(([p]) => p === name) ?? (views.find(([v]) => v === name) ?? views[0]).toSpliced(1, 1, name);
  if (wanted !== shown) {
    const within = byId('view').contains(document.activeElement);
    view?.leave?.();
    view = make({ get });
    shown = wanted;
    byId('view').replaceChildren(...view.elements);
    if (within) byId('view').focus(); // the element that had the focus is gone
    const at = pages.some(([p]) => p === shown) ? under : shown;
    for (const a of document.querySelectorAll('nav a')) {
      if (a.hash === `#${at}`) a.setAttribute('aria-current', 'page');
      else a.removeAttribute('aria-current');
    }
  }
  view.set?.(args);
  if (state.cluster) view.update(state);
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === 'Escape' && typing) event.target.blur();
  if (typing) return;
  if (event.key === '/') {
    event.preventDefault();
    byId('search').focus();
  } else if (event.key >= '1' && event.key <= String(views.length)) {
    location.hash = views[Number(event.key) - 1][0];
  }
}

function find(event) {
  event.preventDefault();
  const text = byId('search').value.trim();
  if (!text) return;
  const [kind, ...id] = text.split('/');
  if (kind && id.join('/')) location.hash = entityLink(kind, id.join('/'));
  else if (state.cluster?.members.some((m) => m.name === text)) location.hash = memberLink(text);
  else if (state.cluster?.types.some((t) => t.name === kind)) location.hash = typeLink(kind);
  else location.hash = `log/${encodeURIComponent(text)}`;
  byId('search').blur();
}

async function loop() {
  for (;;) {
    if (document.visibilityState === 'visible' && Date.now() - asked >= interval) await ask();
    await new Promise((done) => {
      setTimeout(done, interval);
      document.addEventListener('visibilitychange', done, { once: true });
    });
  }
}

document.querySelector('nav').append(...views.map(([name, title], i) => el('a', { href: `#${name}` }, title, ' ', el('kbd', {}, String(i + 1)))));
byId('skip').addEventListener('click', (e) => {
  e.preventDefault(); // the address names the view
  byId('view').focus();
});
const zone = () => setText(byId('zone'), inUTC() ? 'Times: UTC' : 'Times: local');
byId('zone').addEventListener('click', () => {
  showTimes(!inUTC());
  zone();
  if (state.cluster) draw();
});
zone();
byId('find').addEventListener('submit', find);
addEventListener('hashchange', route);
addEventListener('keydown', keys);
route();
loop();
