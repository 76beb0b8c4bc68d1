// The streams that members read: positions, lag, dead letters, and what stands still.
import { panel, table, el, setText, count, clock, memberLink } from './dom.js';

export function feeds({ get }) {
  let askedAt = 0;
  const said = el('p', { role: 'status' });
  const rows = table([
    { title: 'Feed', of: (f) => f.feed },
    { title: 'Partition', of: (f) => f.partition, number: true },
    { title: 'State', of: (f) => (f.stands ? 'stands still' : 'runs'), classOf: (f) => (f.stands ? 'bad' : 'good') },
    { title: 'Position', of: (f) => f.position, show: count, number: true },
    { title: 'Lag', of: (f) => f.lag ?? -1, show: (_, f) => (f.lag === null ? 'not known' : count(f.lag)), number: true },
    { title: 'Tells waiting', of: (f) => f.waiting, show: count, number: true },
    { title: 'Dead letters', of: (f) => f.dead, show: count, number: true, classOf: (f) => `number ${f.dead ? 'bad' : ''}` },
    { title: 'Deleted unread', of: (f) => f.missed, show: count, number: true, classOf: (f) => `number ${f.missed ? 'note' : ''}` },
    { title: 'Member', of: (f) => f.node, link: (f) => memberLink(f.node) },
    { title: 'Advanced', of: (f) => Date.parse(f.written), show: (_, f) => clock(f.written) },
    { title: 'What holds it up', of: (f) => f.why, text: true },
    { title: 'Stream', of: (f) => f.stream, classOf: () => 'faint' },
  ], { label: 'Feeds', empty: 'No stream was read.', sort: 'Feed', descending: false });
  let answer = { feeds: [] };

  async function ask() {
    if (Date.now() - askedAt < 5000) return;
    askedAt = Date.now();
    try {
      answer = await get('api/feeds');
    } catch (e) {
      answer = { ...answer, error: e.message };
    }
    draw();
  }

  function draw() {
    rows.set(answer.feeds);
    const still = answer.feeds.filter((f) => f.stands).length;
    setText(said, answer.error || (still ? `${still} of ${answer.feeds.length} partitions stand still.` : ''));
    said.className = answer.error ? 'note' : 'bad';
    said.hidden = said.textContent === '';
  }

  return {
    elements: [panel('Streams that members read', { wide: true }, said, rows.element)],
    update() {
      draw();
      ask();
    },
  };
}
