// The behaviour of the page: the scrubber, the keys, and the cursor on one entry.
//
// Not here: the panes (views.js), the timeline (timeline.js), and the facts, which are rows in the
// data. The cursor stands on an entry that the filter shows: a move passes over the others, and a
// jump to one of them ends at the nearest.
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
let matches = null, found = "", asking = "", byTime = false, watched = "state", timer = 0, speed = 2;

// ---------------------------------------------------------------- the scrubber

const track = by("track"), canvas = by("strips"), total = seconds[last] || 0;
const share = (place) => byTime ? seconds[place] / total : (last ? place / last : 0);

const placeAtShare = (part) => byTime ? Math.max(rank(seconds, part * total) - 1, 0) : Math.round(part * last);

function drawScrubber() {
  const style = getComputedStyle(document.documentElement);
  const ratio = window.devicePixelRatio || 1;
  const width = track.clientWidth, height = track.clientHeight;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const strip = (height - 10) / lanes.length;
  const wide = Math.max(1, Math.min(8, (width - 8) / count - 1));
  const square = (number, place) => {
    context.fillStyle = style.getPropertyValue(`--${lanes[number]}`);
    context.globalAlpha = isShown[place] || isFolded(place) ? 1 : 0.25;
    context.fillRect(4 + share(place) * (width - 8) - wide / 2, 9 + number * strip, wide, strip - 2);
  };
  lane.forEach((number, place) => square(number, place));
  answers.forEach(([[track]], place) => square(track, place));
  context.globalAlpha = 1;
  // Triangles, because colour alone says nothing.
  context.fillStyle = style.getPropertyValue("--fault");
  for (const place of failed) context.fill(new Path2D(`M${share(place) * (width - 8)} 0h8l-4 8z`));
  context.fillStyle = style.getPropertyValue("--text");
  for (const place of own) context.fill(new Path2D(`M${share(place) * (width - 8)} ${height}h8l-4 -8z`));
}

function dragTo(event) {
  const box = track.getBoundingClientRect();
  const part = (event.clientX - box.left - 4) / (box.width - 8);
  go(placeAtShare(Math.max(0, Math.min(1, part))));
}

track.addEventListener("pointerdown", (event) => { track.setPointerCapture(event.pointerId); dragTo(event); });
track.addEventListener("pointermove", (event) => { if (event.buttons & 1) dragTo(event); });

function chooseAxis(wanted) {
  byTime = wanted && total > 0;
  by("axis-box").textContent = byTime ? "\u2611" : "\u2610";
  describe(by("axis"), { "aria-pressed": byTime });
  drawScrubber();
  show(false);
}

// ---------------------------------------------------------------- the cursor

function go(place, missing = "") {
  if (place === undefined || place === null) {
    by("said").textContent = missing && hidden.size ? `${missing}; the filter hides some entries` : missing;
    return;
  }
  const wanted = Math.max(0, Math.min(place, last));
  cursor = nearest(wanted);
  by("said").textContent = cursor === wanted ? "" : `entry ${wanted} is hidden; ${cursor} is the nearest`;
  show(true);
  try {
    history.replaceState(null, "", `#at=${cursor}`);
  } catch {
    // A browser that permits no change of the address of a local file; the page works without it.
  }
}

// Goes to an entry that a person, a link or a finding names, also to a piece of a text.
function goTo(place, missing = "") {
  if (isFolded(place)) foldWords(false);
  go(place, missing);
}

function show(follow) {
  scrolled.clear();
  views.forEach(showView);
  scrolled.forEach((top, body) => { body.scrollTop = top; });  // at last: it lays out the page
  showTimeline(follow);
  by("where").textContent = `entry ${cursor} of ${last} at ${words[time[cursor]]}`;
  by("title-facts").textContent = `the facts after entry ${cursor}`;
  by("knob").style.left = `calc(4px + ${share(cursor)} * (100% - 8px))`;
  const told = `entry ${cursor}, ${words[time[cursor]]}, ${lanes[lane[cursor]]}: ${wordsAt(cursor)}`;
  describe(track, { "aria-valuemax": last, "aria-valuenow": cursor, "aria-valuetext": told });
}

// The entry that a person names: its number, or the last one at or before a virtual time.
function placeOf(named) {
  if (/^\d+$/.test(named)) return Number(named) <= last ? Number(named) : null;
  const duration = /^(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)$/.exec(named);
  if (!duration) return null;
  const unit = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600 }[duration[2]];
  return Math.max(rank(seconds, Number(duration[1]) * unit + 1e-10) - 1, 0);
}

// The entries whose words have the text, and those at which a row with it is first shown.
function search(wanted) {
  const has = (content) => content.toLowerCase().includes(wanted.toLowerCase());
  const inWords = words.map(has);
  const places = new Set();
  text.forEach((each, place) => { if (inWords[each] || inWords[kind[place]]) places.add(place); });
  wholeText.forEach((each, place) => { if (inWords[each]) places.add(place); });
  const lineOf = new Map(rows.map(([, label, content], number) => [number, `${label}: ${content}`]).filter(([, line]) => has(line)));
  const firsts = new Map();
  for (const { changes } of views) {
    for (const [place, ...edits] of changes) {
      for (const number of edits.flatMap((edit) => edit.slice(2))) {
        const line = lineOf.get(number);
        if (line !== undefined && !(firsts.get(line) <= place)) firsts.set(line, place);
      }
    }
  }
  firsts.forEach((place) => places.add(place));
  const lineOfEach = new Set([...places].map((place) => isFolded(place) ? lastPiece.get(place) : place));
  return [...lineOfEach].sort((a, b) => a - b);
}

function goToMatch(find, missing) {
  if (matches === null) return go(null, "nothing has been searched: press /");
  const place = find(matches);
  go(place, matches.length ? missing : `nothing has "${found}"`);
  if (place !== undefined) by("said").textContent = `match ${rank(matches, place)} of ${matches.length} for "${found}"`;
}

// ---------------------------------------------------------------- playing

// Evenly, each entry takes a quarter of a second; in virtual time, a long wait takes a second.
function playOn() {
  const next = moved(1);
  if (next === undefined) return pause("this is the last entry");
  const waited = byTime ? Math.min((seconds[next] - seconds[cursor]) / SPEEDS[speed], 1) : 0.25 / SPEEDS[speed];
  timer = setTimeout(() => { go(next); playOn(); }, waited * 1000);
}

function pause(why) {
  clearTimeout(timer);
  timer = 0;
  by("said").textContent = why;
}

function changeSpeed(by_steps) {
  speed = Math.max(0, Math.min(speed + by_steps, SPEEDS.length - 1));
  by("said").textContent = `it plays at speed ${SPEEDS[speed]}`;
}

// ---------------------------------------------------------------- the actions

function ask(what) {
  asking = what;
  by("question").textContent = what === "goto" ? "Go to entry or time:" : "Search the timeline and all panes:";
  by("ask").hidden = false;
  by("answer").value = what === "search" ? found : "";
  by("answer").focus();
  by("answer").select();
}

function answered() {
  const answer = by("answer").value.trim();
  by("ask").hidden = true;
  timeline.focus();
  if (!answer) return;
  if (asking === "goto") return goTo(placeOf(answer), `there is no entry or time "${answer}"; the last entry is ${last}`);
  found = answer;
  matches = search(answer);
  goToMatch((places) => after(places, cursor - 1) ?? before(places));
  showTimeline(false);
}

const ACTIONS = {
  forward: () => go(moved(1), "this is the last entry"),
  back: () => go(moved(-1), "this is the first entry"),
  page_forward: () => go(moved(PAGE), "this is the last entry"),
  page_back: () => go(moved(-PAGE), "this is the first entry"),
  start: () => go(shown[0]),
  end: () => go(shown[shown.length - 1]),
  next: (name) => go(after(landmarks[name]), `there is no later ${name}`),
  previous: (name) => go(before(landmarks[name]), `there is no earlier ${name}`),
  next_change: () => go(after(changes[watched]), `${watched} does not change any more`),
  last_change: () => go(before(changes[watched]), `${watched} has not changed before`),
  watch_another: () => {
    const names = Object.keys(changes);
    watched = names[(names.indexOf(watched) + 1) % names.length];
    by("said").textContent = `w and W now go to the changes of ${watched}`;
  },
  change_pace: () => chooseAxis(!byTime),
  play: () => timer ? pause("paused") : playOn(),
  faster: () => changeSpeed(1),
  slower: () => changeSpeed(-1),
  search: () => ask("search"),
  next_match: () => goToMatch(after, "there is no later match"),
  previous_match: () => goToMatch(before, "there is no earlier match"),
  filter: openFilter,
  fold_words: () => {
    foldWords(!foldsWords);
    matches = null;
    go(cursor);
    by("said").textContent = foldsWords ? "each text on one line" : "the words one by one";
  },
  mark: () => {
    by("said").textContent = toggleMark();
    drawScrubber();
    show(false);
  },
  next_mark: () => go(after(own), "there is no later mark: b sets one"),
  previous_mark: () => go(before(own), "there is no earlier mark: b sets one"),
  goto: () => ask("goto"),
  view: (name) => by(`pane-${name}`).querySelector(".rows").focus(),
  help: () => by("help").showModal(),
};
// The names of keys in the table, by those that a browser gives to them.
const NAMES = {
  " ": "space", ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right",
  PageUp: "page up", PageDown: "page down", Home: "home", End: "end",
};

function listKeys(keys) {
  let before = "";
  for (const { keys: names, words, group } of keys) {
    if (group !== before) by("keys").append(make("dt", "group", group));
    before = group;
    const term = make("dt");
    names.forEach((name) => term.append(make("kbd", "", name), " "));
    by("keys").append(term, make("dd", "", words));
  }
}

// The function that runs the action of the key of an event, in place of the browser's own.
function presses(keys, actions) {
  const actionOf = new Map(keys.flatMap((each) => each.keys.map((key) => [key, each.does])));
  return (key, event) => {
    const [name, ...given] = actionOf.get(NAMES[key] || key) || [];
    if (!name) return;
    event.preventDefault();
    actions[name](...given);
  };
}
const press = presses(keys, ACTIONS);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target === by("answer")) {
    if (event.key === "Escape") { by("ask").hidden = true; timeline.focus(); }
    return;
  }
  if (event.key === " " && event.target.closest("button, summary")) return;
  // A pane that has the focus scrolls with the keys that are no characters.
  if (event.key.length > 1 && event.target.closest(".rows")) return;
  press(event.key, event);
});
document.addEventListener("click", (event) => press(event.target.closest("[data-key]")?.dataset.key, event));
by("ask").addEventListener("submit", (event) => { event.preventDefault(); answered(); });

listKeys(keys);
listSigns();
for (const { keys: names, does } of keys) {
  if (does[0] !== "next" || !landmarks[does[1]].length) continue;
  const button = make("button");
  button.dataset.key = names[0];
  button.append(make("kbd", "", names[0]), ` ${does[1]} `, make("span", "count", String(landmarks[does[1]].length)));
  by("jumps").append(button);
}
lanes.forEach((name) => by("lanes").append(make("div", `lane-${name}`, name)));

// ---------------------------------------------------------------- the start

function resized() {
  measureTimeline();
  chooseAxis(byTime);
  showTimeline(true);
}

function followAddress() {
  const named = /^#at=([\w.]+)$/.exec(location.hash);
  const place = named ? placeOf(named[1]) : null;
  if (place !== null && place !== cursor) goTo(place);
}

onFilter((said) => {
  drawScrubber();
  go(nearest(cursor));
  by("said").textContent = said;
});
timeline.addEventListener("scroll", () => showTimeline(false));
window.addEventListener("resize", resized);
window.addEventListener("hashchange", followAddress);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawScrubber);
resized();
if (data.start && !location.hash) goTo(data.start);
followAddress();
timeline.focus({ preventScroll: true });
