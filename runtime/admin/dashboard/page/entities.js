// The entities of a type, page by page, by the beginning of their ids, an index, or those in memory.
import { el, panel, setText, entityLink } from './dom.js';

export function entities({ get }) {
  let wanted = '';
  let after = '';
  let asked = 0; // number of the last question
  const kinds = el('select', { 'aria-label': 'Type', onchange: begin });
  const prefix = el('input', { type: 'search', placeholder: 'id begins with', 'aria-label': 'Beginning of the ids' });
  const where = el('input', { placeholder: 'Field=value of an index', 'aria-label': 'Indexed field and value, as State=open' });
  const active = el('input', { type: 'checkbox' });
  const form = el('form', {
    class: 'controls', onsubmit: (e) => {
      e.preventDefault();
      begin();
    },
  }, kinds, prefix, where, el('label', {}, active, ' in memory'), el('button', {}, 'List'));
  const list = el('ul', { class: 'ids' });
  const said = el('p', { class: 'faint', role: 'status' });
  const more = el('button', { type: 'button', hidden: true, onclick: ask }, 'More');

  function begin() {
    after = '';
    list.replaceChildren();
    ask();
  }

  async function ask() {
    const number = ++asked;
    const type = kinds.value;
    if (!type) return;
    setText(said, 'asking…');
    more.disabled = true;
    let page;
    try {
      const q = new URLSearchParams({ type, prefix: prefix.value, where: where.value, after });
      if (active.checked) q.set('active', '1');
      page = await get(`api/entities?${q}`);
    } catch (e) {
      page = { entities: [], error: e.message };
    }
    if (number !== asked) return;
    list.append(...page.entities.map((e) => el('li', {}, e.binary ? e.id : el('a', { href: entityLink(type, e.id) }, e.id))));
    after = page.after ?? '';
    more.hidden = !after;
    more.disabled = false;
    const n = list.children.length;
    setText(said, page.error || (n ? `${n} entities${after ? ', and there are more' : ''}` : 'No entity is found.'));
    said.className = page.error ? 'note' : 'faint';
  }

  return {
    elements: [panel('Entities', { wide: true }, form, said, list, more)],
    set([type]) {
      wanted = type ?? '';
      if (wanted && kinds.value !== wanted && [...kinds.options].some((o) => o.value === wanted)) {
        kinds.value = wanted;
        begin();
      }
    },
    update({ cluster }) {
      const names = cluster.types.filter((t) => t.shards > 0 && !t.name.startsWith('feed-')).map((t) => t.name);
      if (names.join('\n') === [...kinds.options].map((o) => o.value).join('\n')) return;
      const before = kinds.value || wanted;
      kinds.replaceChildren(...names.map((value) => el('option', { value }, value)));
      if (names.includes(before)) kinds.value = before;
      if (!asked) begin();
    },
  };
}
