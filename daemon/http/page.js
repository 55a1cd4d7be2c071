const $ = id => document.getElementById(id);
function make(tag, name, ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children);
  return node;
}
function refill(node, children) { node.replaceChildren(...children); }


/* ---- numbers as text ---- */
function scaled(value, units, base) {
  let i = 0;
  while (Math.abs(value) >= base * 0.9995 && i < units.length - 1) { value /= base; i++; }
  const digits = value >= 100 || value === 0 ? 0 : value >= 10 ? 1 : 2;
  return [i === 0 && Number.isInteger(value) ? String(value) : value.toFixed(digits), units[i]];
}
function count(value) {
  if (value < 10000 && Number.isInteger(value)) return value.toLocaleString('en');
  return scaled(value, ['', 'k', 'M', 'G', 'T'], 1000).join('');
}
function rate(value) { return value < 1000 ? scaled(value, [''], 1000)[0] : count(Math.round(value)); }
function bytes(value) { return scaled(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000).join(' '); }
function time(seconds) {
  if (!isFinite(seconds)) return '–';
  return scaled(seconds * 1e6, seconds < 1 ? ['µs', 'ms'] : ['µs', 'ms', 's'], 1000).join(' ');
}
function age(seconds) {
  const s = Math.max(0, Math.floor(seconds)), d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24,
    m = Math.floor(s / 60) % 60;
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${s % 60} s` : `${s} s`;
}
const percent = share => `${Math.round(100 * share)}%`;

const sum = list => list.reduce((a, b) => a + b, 0);
const clock = seconds => new Date(seconds * 1000).toLocaleTimeString('en-GB');

function tile(name, value, unit, more) {
  const line = make('div', 'value', value), rest = make('div', 'more', more);
  if (unit) line.append(make('small', '', ` ${unit}`));
  rest.title = more;
  return make('div', 'card tile', make('div', 'name', name), line, rest);
}
function notice(text, kind) {
  const node = $('notice');
  node.hidden = !text;
  node.className = kind;
  if (node.textContent !== text) node.textContent = text;
}
async function get(path) {
  const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(5000)});
  if (!answer.ok)
    throw Object.assign(new Error(`${path}: HTTP status ${answer.status}`), {status: answer.status});
  return answer.json();
}
