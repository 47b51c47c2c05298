// The timeline: a line for each entry that the filter shows, or for each text; for each gap, and for
// each result of a call that only a request shows; the marks of the user.
//
// Not here: the cursor and the keys (page.js). The rule to keep: a line is made where it is seen.
const timeline = by("timeline"), own = [], hidden = new Set(), isShown = new Uint8Array(count);
let shown = [], lines = [], lineHeight = 0;

// ---------------------------------------------------------------- the entries that are shown

// The kinds of entries in the order in which the run has them, with the places of their entries.
const kinds = new Map();
kind.forEach((each, place) => kinds.has(each) ? kinds.get(each).push(place) : kinds.set(each, [place]));

// The last piece of each piece of a text but the last one, and the words of the text at the last piece.
const lastPiece = new Map(data.texts.flatMap(([pieces]) => pieces.slice(0, -1).map((piece) => [piece, pieces[pieces.length - 1]])));
const wholeText = new Map(data.texts.map(([pieces, number]) => [pieces[pieces.length - 1], number]));
let foldsWords = true;
const isFolded = (place) => foldsWords && lastPiece.has(place);
const wordsAt = (place) => words[foldsWords && wholeText.has(place) ? wholeText.get(place) : text[place]];

// The lines before an entry and its own have numbers: the gap, the results of calls, the entry.
const stride = 2 + Math.max(0, ...data.answers.map(([, found]) => found.length));
const lineOf = (place) => (place + 1) * stride - 1;

function chooseEntries() {
  shown = [...kind.keys()].filter((place) => !hidden.has(kind[place]) && !isFolded(place));
  isShown.fill(0);
  for (const place of shown) isShown[place] = 1;
  lines = [...kind.keys()].flatMap((place) => [
    ...(gaps.has(place) ? [place * stride] : []),
    ...(isShown[place] ? [...(answers.get(place) || []).map((_, number) => place * stride + 1 + number), lineOf(place)] : []),
  ]);
  by("counted").textContent = hidden.size ? ` (${shown.length} of ${count} entries: f shows others)` : "";
}

function foldWords(folds) {
  foldsWords = folds;
  chooseEntries();
  measureTimeline();
}

// The entry itself, or the nearest one that is shown; the later of two. A folded piece has a line.
function nearest(piece) {
  const place = isFolded(piece) ? lastPiece.get(piece) : piece;
  if (isShown[place]) return place;
  const at = rank(shown, place), earlier = shown[at - 1], later = shown[at];
  if (earlier === undefined || later === undefined) return earlier ?? later;
  return place - earlier < later - place ? earlier : later;
}

// The entry that is shown so many entries after the cursor, or at the end; undefined at the end.
function moved(by_entries) {
  const here = rank(shown, cursor) - 1, there = Math.max(0, Math.min(here + by_entries, shown.length - 1));
  return there === here ? undefined : shown[there];
}

// The first of sorted places after an entry that is shown, and the last one before it.
const after = (places, place = cursor) => places.slice(rank(places, place)).find((each) => isShown[each]);
const before = (places, place = cursor) => places.slice(0, rank(places, place - 1)).findLast((each) => isShown[each]);

// ---------------------------------------------------------------- the marks

function toggleMark() {
  const at = rank(own, cursor);
  if (own[at - 1] === cursor) {
    own.splice(at - 1, 1);
    return `the mark of entry ${cursor} is removed`;
  }
  own.splice(at, 0, cursor);
  return `entry ${cursor} is marked`;
}

// ---------------------------------------------------------------- the filter

function openFilter() {
  by("kinds").replaceChildren(...[...kinds].map(([number, [place, ...others]]) => {
    const label = make("label", `lane-${lanes[lane[place]]}`), box = make("input");
    describe(box, { type: "checkbox", value: number });
    box.checked = !hidden.has(number);
    label.append(box, make("span", "track", words[number]), ` ${others.length + 1}`);
    return label;
  }));
  by("filter").showModal();
  by("kinds").querySelector("input").focus();
}

// Tells `changed` in words that other kinds are shown.
function onFilter(changed) {
  const boxes = () => [...by("kinds").querySelectorAll("input")];
  const choose = (said = "") => {
    hidden.clear();
    for (const box of boxes()) if (!box.checked) hidden.add(Number(box.value));
    chooseEntries();
    measureTimeline();
    changed(said || (hidden.size ? `hidden kinds of entries: ${hidden.size}` : "all entries are shown"));
  };
  const all = () => { boxes().forEach((box) => { box.checked = true; }); choose(); };
  by("kinds").addEventListener("change", (event) => {
    const kept = boxes().some((box) => box.checked);
    if (!kept) event.target.checked = true;
    choose(kept ? "" : "one kind of entries is always shown");
  });
  by("all-kinds").addEventListener("click", all);
  by("filter").addEventListener("keydown", (event) => {
    event.stopPropagation();  // the page, too, has a meaning for these keys
    if (event.key === "a") all();
    if (event.key === "f" || event.key === "q") by("filter").close();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    boxes()[boxes().indexOf(document.activeElement) + step]?.focus();
  });
}

// ---------------------------------------------------------------- the lines

function measureTimeline() {
  lineHeight = parseFloat(getComputedStyle(timeline).lineHeight);
  by("lines").style.height = `${lines.length * lineHeight}px`;
}

function showTimeline(follow) {
  const here = rank(lines, lineOf(cursor)) - 1;
  if (follow) {
    const seen = Math.floor(timeline.clientHeight / lineHeight), margin = Math.min(3, Math.floor(seen / 3));
    const top = Math.round(timeline.scrollTop / lineHeight);
    const wanted = Math.min(Math.max(top, here + margin + 1 - seen), here - margin);
    if (wanted !== top) timeline.scrollTop = wanted * lineHeight;
  }
  const first = Math.max(Math.floor(timeline.scrollTop / lineHeight) - 5, 0);
  const end = Math.min(first + Math.ceil(timeline.clientHeight / lineHeight) + 10, lines.length);
  const numbers = Array.from({ length: end - first }, (_, number) => first + number);
  if (here < first || here >= end) numbers.push(here);  // the element that is named as active
  by("lines").replaceChildren(...numbers.map(lineElement));
  timeline.setAttribute("aria-activedescendant", `entry-${cursor}`);
}

function lineElement(number) {
  const place = Math.floor(lines[number] / stride), order = lines[number] % stride;
  const element = lines[number] === lineOf(place) ? entryElement(place) : order ? answerElement(place, order - 1) : gapLine(gaps.get(place));
  element.style.top = `${number * lineHeight}px`;
  return element;
}

// The result of a call that the request at `place` shows; it is no entry of its own.
function answerElement(place, number) {
  const [track, mark, line, isFailed] = answers.get(place)[number];
  const element = timelineLine({
    number: "".padStart(String(last).length), mark: " ", time: words[time[place]], moves: false,
    lane: lanes[track], sign: words[mark], text: words[line], failed: isFailed > 0,
  });
  element.addEventListener("click", () => go(place));
  return element;
}

function entryElement(place) {
  const at = rank(shown, place) - 1, earlier = shown[at - 1];
  const element = timelineLine({
    number: String(place).padStart(String(last).length),
    mark: own[rank(own, place) - 1] === place ? "b" : " ",
    time: words[time[place]],
    moves: at === 0 || time[place] !== time[earlier] || place === cursor,
    lane: lanes[lane[place]],
    sign: words[sign[place]],
    text: wordsAt(place),
    failed: failed.has(place),
  });
  element.id = `entry-${place}`;
  const selected = { role: "option", "aria-selected": place === cursor, "aria-setsize": shown.length };
  describe(element, { ...selected, "aria-posinset": at + 1 });
  element.querySelector(".sign").title = data.legend[lanes[lane[place]]][words[sign[place]]];
  element.classList.toggle("match", matches !== null && matches[rank(matches, place) - 1] === place);
  element.addEventListener("click", () => go(place));
  return element;
}

// ---------------------------------------------------------------- the legend

// What each sign means: those of the timeline by lane, and those of the rows of the panes.
function listSigns() {
  const line = (name, signs) => {
    const shown = make("p", `lane-${name}`);
    shown.append(make("strong", "track", name), ...signs.flatMap(([sign, meaning]) => [make("kbd", "", sign), ` ${meaning}  `]));
    return shown;
  };
  const shown = make("div");
  shown.id = "signs";
  shown.append(make("h2", "", "Signs of the entries, by lane, and of the rows in the panes"));
  shown.append(...Object.entries(data.legend).map(([name, signs]) => line(name, Object.entries(signs))));
  shown.append(line("panes", marks.filter(([, , meaning]) => meaning).map(([sign, , meaning]) => [sign, meaning])));
  by("help").append(shown);
}
chooseEntries();
