"""The page of `simloop campaign show --format html`: plots, goals and failures.

Not here: the plots themselves (campaign_plots.py). The rules to keep: the page is one file without
network access and scripts, and `_text` escapes every text.
"""

import html
from collections.abc import Iterable, Iterator, Sequence

from simloop.cli.campaign import summary
from simloop.cli.campaign_plots import plots
from simloop.escape import escape, escape_lines
from simloop.fuzz.campaign import CampaignSettings, ChunkResult, Totals

_NS_PER_S = 1_000_000_000
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }}
body {{ margin: 2rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; }}
th, td {{ border: 1px solid GrayText; padding: .2rem .5rem; text-align: left; }}
th {{ font-weight: normal; }}
figure {{ margin: 1rem 0; background: white; color: black; width: fit-content; }}
figure svg {{ max-width: 100%; height: auto; }}
pre {{ overflow-x: auto; border: 1px solid GrayText; padding: .5rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>"""
_FOOT = """\
</main>
</body>
</html>"""


def page(settings: CampaignSettings, results: Sequence[ChunkResult], sums: Totals) -> str:
    """Return the whole page. Raises ScenarioError without the extra `plots`."""
    first = summary(settings, len(results), sums)[0]
    lines = [_HEAD.format(title=f"Search for failures of {_text(settings.loop)}")]
    lines.append(f"<p>{_text(first)}</p>")
    for title, svg in plots(results, sums):
        lines += [f"<h2>{_text(title)}</h2>", f"<figure>{svg}</figure>"]
    lines += _failures(sums)
    lines += _goals(sums.goals)
    lines.append(_FOOT)
    return "\n".join(lines).encode("ascii", "xmlcharrefreplace").decode()


def _text(text: str) -> str:
    return html.escape(escape(text))


def _failures(sums: Totals) -> Iterator[str]:
    yield f"<h2>Failures: {len(sums.failures)}</h2>"
    for group, failure in sums.failures.items():
        runs, cpu_ns = sums.first[group]
        yield f"<h3>{_text(failure.name)}</h3>"
        yield f"<p>{_text(failure.sentence)}</p>" if failure.sentence else ""
        yield f"<p>{_text(failure.text)}</p>"
        yield (
            f"<p>{failure.count:,} failing runs; the first was run {runs:,}, after "
            f"{cpu_ns / _NS_PER_S:.2f} s of processor time.</p>"
        )
        yield f"<pre>{html.escape(escape_lines(failure.scenario))}</pre>"


def _goals(goals: dict[str, int]) -> Iterable[str]:
    yield "<h2>Goals</h2>"
    yield "<table>"
    yield '<thead><tr><th scope="col">goal</th><th scope="col">runs</th></tr></thead>'
    yield "<tbody>"
    for goal, count in goals.items():
        reached = f"{count:,}" if count else "not reached"
        yield f'<tr><th scope="row">{_text(goal)}</th><td>{reached}</td></tr>'
    yield "</tbody>"
    yield "</table>"
