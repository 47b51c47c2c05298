// Elements and lines, and the panes: the rows of each view at the cursor, from the changes in the data.
//
// Not here: the cursor (page.js). Text of the data reaches the document as text (textContent) and
// never as markup; the policy of the page enforces this. A pane is made anew only if its view changes.
const by = (id) => document.getElementById(id);

function make(tag, className = "", content = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = content;
  return element;
}

function describe(element, attributes) {
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, String(value)));
}

// A line of a timeline. A time equal to that of the line before is there, and not seen.
function timelineLine({ number, mark = "", time, moves, lane, sign, text, failed }) {
  const element = make("div", `line lane-${lane}`);
  const track = make("span", "track");
  track.append(make("span", "sign", sign), make("span", "lane", lane));
  if (mark) element.append(make("span", "own", mark));
  element.append(make("span", "number", number), make("span", moves ? "time" : "time same", time), track, make("span", "words", text));
  element.classList.toggle("failed", failed);
  return element;
}

const gapLine = (words) => make("div", "line gap", `~ ${words} ~`);

const data = JSON.parse(document.getElementById("data").textContent);
const { rows, words, lanes, marks, keys, landmarks, changes } = data;
const { time, lane, sign, kind, text } = data.entries;
const count = time.length, last = count - 1;
const failed = new Set(data.entries.failed), gaps = new Map(data.gaps), answers = new Map(data.answers);
const seconds = time.map((each) => parseFloat(words[each]));
const MOST_ROWS = 400, PAGE = 20, FOLDED = 8, FOLD = "%", REMOVED = "-";

let cursor = 0;

// The number of sorted items that are at most `wanted`.
function rank(items, wanted, of = (item) => item) {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(items[middle]) <= wanted) low = middle + 1; else high = middle;
  }
  return low;
}

// A view is stored as changes. Copies at some of them let the cursor move backwards.
class View {
  constructor(name, changes) {
    this.name = name;
    this.changes = changes;
    this.step = Math.max(32, changes.length >> 7);
    this.copies = [[]];
    this.version = 0;
    this.rows = [];
  }

  // The number of changes up to an entry.
  versionAt(place) { return rank(this.changes, place, (change) => change[0]); }

  changesAt(place) {
    const version = this.versionAt(place);
    return version > 0 && this.changes[version - 1][0] === place;
  }

  at(place) {
    const wanted = this.versionAt(place);
    const copy = Math.min(Math.floor(wanted / this.step), this.copies.length - 1);
    if (wanted < this.version || copy * this.step > this.version) {
      this.rows = this.copies[copy].slice();
      this.version = copy * this.step;
    }
    while (this.version < wanted) {
      for (const [at, deleted, ...inserted] of this.changes[this.version].slice(1)) {
        this.rows.splice(at, deleted, ...inserted);
      }
      this.version += 1;
      if (this.version === this.copies.length * this.step) this.copies.push(this.rows.slice());
    }
    return this.rows;
  }
}

const views = Object.entries(data.views).map(([name, changes]) => new View(name, changes));
const opened = new Set(), shownVersions = new Map(), scrolled = new Map();

function showView(view) {
  const version = view.versionAt(cursor), pane = by(`pane-${view.name}`);
  const changed = cursor > 0 && view.name !== "entry" && view.changesAt(cursor);
  pane.querySelector(".changed").textContent = changed ? "changes here" : "";
  pane.classList.toggle("changes", changed);
  if (shownVersions.get(view) === version) return;
  shownVersions.set(view, version);
  pane.querySelector(".rows").replaceChildren(...elements(view.at(cursor), view.name));
  scrolled.set(pane.querySelector(".rows"), ["request", "reply", "context"].includes(view.name) ? 1e9 : 0);
}

// The elements of rows. What a compaction removed, the end of a long text and the middle of a long
// view can be unfolded.
function elements(numbers, name) {
  const left = numbers.length - MOST_ROWS;
  if (left <= 0 || opened.has(name)) return group(numbers);
  const all = make("button", "all", `${left} rows left out: show all`);
  all.addEventListener("click", () => {
    opened.add(name);
    all.parentElement.replaceChildren(...group(numbers));
  });
  return [...group(numbers.slice(0, 20)), all, ...group(numbers.slice(20 + left))];
}

function group(numbers) {
  const made = [];
  for (let i = 0; i < numbers.length;) {
    const [mark, label] = rows[numbers[i]];
    let end = i + 1;
    if (marks[mark][0] === FOLD) {
      while (end < numbers.length && marks[rows[numbers[end]][0]][0] === REMOVED) end += 1;
    } else if (label) {
      while (end < numbers.length && !rows[numbers[end]][1] && rows[numbers[end]][0] === mark) end += 1;
      if (end - i <= FOLDED) end = i + 1;
    }
    made.push(end > i + 1 ? fold(numbers.slice(i, end)) : rowElement(numbers[i]));
    i = end;
  }
  return made;
}

function fold(numbers) {
  const [first, ...rest] = numbers;
  const details = make("details"), summary = make("summary");
  summary.append(rowElement(first), make("span", "more", `${rest.length} more lines`));
  details.append(summary, ...rest.map(rowElement));
  details.open = opened.has(first);
  details.addEventListener("toggle", () => { if (details.open) opened.add(first); else opened.delete(first); });
  return details;
}

function rowElement(number) {
  const [mark, label, content, goesTo] = rows[number];
  const [character, meaning] = marks[mark];
  const element = make("div", `row ${meaning}`);
  const shown = make("span", "mark", character);
  if (meaning !== "plain") describe(shown, { role: "img", "aria-label": meaning });
  element.append(shown);
  const line = make("span", "line");
  if (label) line.append(make("span", "label", content ? `${label.trimEnd()}: ` : label));
  line.append(make("span", "text", content));
  element.append(line);
  if (goesTo !== undefined) {
    const button = make("button", "goes", `@${goesTo}`);
    describe(button, { "aria-label": `go to entry ${goesTo}`, title: `go to entry ${goesTo}` });
    button.addEventListener("click", (event) => { event.preventDefault(); go(goesTo); });
    element.append(button);
  }
  return element;
}

