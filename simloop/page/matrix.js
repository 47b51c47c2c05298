// The behaviour of the matrix: a search, and the panel of one run. The page has the table without it.
const { loops, scenarios, runs, words, lanes } = JSON.parse(by("data").textContent);
const lines = [...document.querySelectorAll("tr[data-name]")];

function filter() {
  const searched = by("search").value.trim().toLowerCase().split(/\s+/);
  const fits = (line) => searched.every((word) => `${line.dataset.name} ${line.textContent}`.toLowerCase().includes(word));
  lines.forEach((line) => { line.hidden = !fits(line); });
  const shown = lines.filter((line) => !line.hidden).length;
  for (const group of document.querySelectorAll("tbody")) group.hidden = !group.querySelector("tr[data-name]:not([hidden])");
  by("none").hidden = shown > 0;
  by("count").textContent = `${shown} of ${lines.length} scenarios`;
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

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target === by("search")) event.target.blur();
  if (event.key !== "/" || event.target === by("search") || by("run").open) return;
  event.preventDefault();
  by("search").focus();
});
by("search").addEventListener("input", filter);
by("run").addEventListener("close", () => {
  const shown = location.hash;
  location.hash = "#matrix";  // so that a click on the same cell opens it again
  [...document.querySelectorAll("td a")].find((link) => link.hash === shown)?.focus();
});
window.addEventListener("hashchange", followAddress);
filter();
followAddress();
