// What the scripts of all pages share: elements, the lines of a timeline, and the list of the keys.
//
// Not here: the behaviour of one page. document.py joins the files of a page to one script. The rule
// to keep: text of the data reaches the document as text (textContent) and never as markup; the
// policy of the page enforces this.
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
