// The behaviour of the matrix: filters, a focus that moves by key, and the panel of one run.
//
// Not here: the table, which the page has without a script, and what all pages share (parts.js).
const { loops, scenarios, runs, words, lanes, keys } = JSON.parse(by("data").textContent);
const lines = [...document.querySelectorAll("tr[data-name]")];
const cellsOf = new Map(lines.map((line) => [line, [...line.querySelectorAll("td")]]));
const heads = [...document.querySelectorAll("thead th")].slice(1);
const FILTERS = ["theme", "loop", "verdict", "ending"];
const STEPS = { up: [-1, 0], down: [1, 0], left: [0, -1], right: [0, 1] };
let focused = null;

// ---------------------------------------------------------------- the filters

const has = (cell, { verdict, ending }) =>
  (!verdict || cell.dataset.verdict.split(" ").includes(verdict)) && (!ending || cell.dataset.ending === ending);

function filter() {
  const wanted = Object.fromEntries(FILTERS.map((name) => [name, by(name).value]));
  const searched = by("search").value.trim().toLowerCase().split(/\s+/);
  const column = wanted.loop === "" ? -1 : Number(wanted.loop);
  heads.forEach((head, number) => head.classList.toggle("gone", column >= 0 && number !== column));
  let shown = 0;
  for (const [line, cells] of cellsOf) {
    cells.forEach((cell, number) => {
      cell.classList.toggle("gone", column >= 0 && number !== column);
      cell.classList.toggle("other", !has(cell, wanted));
    });
    const said = `${line.dataset.name} ${line.textContent}`.toLowerCase();
    const fits = (!wanted.theme || line.dataset.theme === wanted.theme) && searched.every((word) => said.includes(word)) &&
      cells.some((cell, number) => (column < 0 || number === column) && has(cell, wanted));
    line.hidden = !fits;
    shown += fits;
  }
  for (const group of document.querySelectorAll("tbody")) group.hidden = !group.querySelector("tr[data-name]:not([hidden])");
  by("none").hidden = shown > 0;
  by("box").hidden = shown === 0;
  by("count").textContent = `${shown} of ${lines.length} scenarios`;
  focusable();
}

// ---------------------------------------------------------------- the focus

const linkOf = (cell) => cell.querySelector("a");
const seenLines = () => lines.filter((line) => !line.hidden);
const seenLinks = (line) => cellsOf.get(line).filter((cell) => !cell.classList.contains("gone")).map(linkOf);

// One cell is reached by Tab, and the others by the arrows, so that Tab leaves the table.
function focusable() {
  if (!focused || !focused.checkVisibility()) focused = seenLines().length ? seenLinks(seenLines()[0])[0] : null;
  for (const cells of cellsOf.values()) for (const cell of cells) linkOf(cell).tabIndex = linkOf(cell) === focused ? 0 : -1;
}

function move(direction) {
  if (!focused) return;
  const rows = seenLines(), line = focused.closest("tr");
  const row = rows.indexOf(line), column = seenLinks(line).indexOf(focused);
  if (document.activeElement === focused) {
    const [down, right] = STEPS[direction];
    const next = rows[row + down];
    focused = (next && seenLinks(next)[column + right]) || focused;
  }
  focusable();
  focused.focus();
  focused.scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------- the panel

function fact(name, content, tag = "span") {
  if (!content) return;
  const meaning = make("dd");
  meaning.append(...[content].flat().map((each) => make(tag, "", each)).flatMap((each, number) => number ? [make("br"), each] : [each]));
  by("run-facts").append(make("dt", "", name), meaning);
}

function runLines(run) {
  if (!run) return [make("p", "quiet", "Nothing was run.")];
  const { time, lane, sign, text, cut, left } = run;
  const failed = new Set(run.failed), gaps = new Map(run.gaps), widest = String(time.length + left - 1).length;
  return time.flatMap((at, place) => [
    ...(left && place === cut ? [make("div", "line gap", `${left} entries left out: the command above shows them`)] : []),
    ...(gaps.has(place) ? [gapLine(words[gaps.get(place)])] : []),
    timelineLine({
      number: String(place < cut ? place : place + left).padStart(widest),
      time: words[at],
      moves: place === 0 || at !== time[place - 1],
      lane: lanes[lane[place]],
      sign: words[sign[place]],
      text: words[text[place]],
      failed: failed.has(place),
    }),
  ]);
}

function open(number, column) {
  const scenario = scenarios[number], row = scenario.rows[column];
  by("run-name").textContent = `${scenario.name} on ${loops[column]}`;
  by("run-title").textContent = scenario.title;
  by("run-loops").replaceChildren(...scenario.rows.map((each, place) => {
    const link = make("a", "", `${loops[place]}: ${each.ending}`);
    describe(link, { href: `#run=${number}.${place}`, "aria-current": place === column });
    return link;
  }));
  by("run-facts").replaceChildren();
  fact("verdict", [row.verdict, ...row.findings]);
  fact("counts", row.counts);
  fact("text", row.text);
  fact("reproduce", row.reproduce, "code");
  fact("all facts", row.step, "code");
  by("run-lines").replaceChildren(...runLines(runs[number * loops.length + column]));
  by("run-lines").scrollTop = 0;
  by("run-scenario").textContent = scenario.source;
  if (!by("run").open) by("run").showModal();
}

function followAddress() {
  const [, number, column] = (/^#run=(\d+)\.(\d+)$/.exec(location.hash) || []).map(Number);
  if (scenarios[number] && scenarios[number].rows[column]) open(number, column);
  else by("run").close();
}

// ---------------------------------------------------------------- the keys

const ACTIONS = {
  move,
  focus: (name) => by(name).focus(),
  all: () => by("filters").reset(),
  help: () => by("help").showModal(),
};
const press = presses(keys, ACTIONS);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select")) {
    if (event.key === "Escape") { event.target.blur(); move("here"); }
    return;
  }
  press(event.key, event);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[type=button][data-key]");
  if (button) press(button.dataset.key, event);
});
by("filters").addEventListener("submit", (event) => event.preventDefault());
by("filters").addEventListener("input", filter);
by("filters").addEventListener("reset", () => setTimeout(filter));
by("run").addEventListener("close", () => {
  if (!location.hash.startsWith("#run=")) return;
  focused = [...document.querySelectorAll("td a")].find((link) => link.hash === location.hash) || focused;
  location.hash = "#matrix";  // so that a click on the same cell opens it again
  focusable();
  focused?.focus();
});
window.addEventListener("hashchange", followAddress);
listKeys(keys);
filter();
followAddress();
