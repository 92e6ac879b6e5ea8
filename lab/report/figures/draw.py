"""The figures on paper: matplotlib, 84 mm wide (half a page in two columns), no text below 6.5 points.

Their content is computed in `lab.report.figures.views`, as for the page of a run; the timeline is drawn by
`lab.report.timeline`. The same run gives the same bytes.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lab.report.figures.views import Availability, Graph, Point, Points, Views, views_of
from lab.report.timeline import style
from lab.report.timeline.data import extract

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from checker.history.history import History
    from checker.verdict import Verdict

WIDTH_IN: Final = 84 / 25.4
TEXT_PT: Final = 7.0
NAMED_MAX: Final = 8
_SETTINGS: Final[Mapping[str, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": [style.FONT_FAMILY],
    "font.size": TEXT_PT,
    "axes.titlesize": TEXT_PT + 1,
    "axes.labelsize": TEXT_PT,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "lock-lab figure",
    "pdf.fonttype": 42,
    "text.usetex": False,
    "text.parse_math": False,
}
_MARKERS: Final = {"acquire": "o", "extend": "D", "release": "v", "read": "s", "write": "s", "grant": "o"}
_HOLLOW: Final = ("read", "grant")
_EDGES: Final = {"ww": "overwrote (ww)", "wr": "was read by (wr)", "rw": "did not read (rw)"}


def figure(kind: str, history: History, verdict: Verdict, title: str, suffix: str) -> bytes:
    """Draw one figure of a run.

    Args:
        kind: "timeline", "fencing", "graph", "availability" or "latency".
        history: the record.
        verdict: the checker's verdict on it.
        title: the scenario's title; only the timeline has it.
        suffix: "svg" (texts stay text), "png" or "pdf".

    Raises:
        KeyError: no such kind.
    """
    if kind == "timeline":
        from lab.report.timeline.draw import picture

        return picture(extract(history, verdict, title), [suffix])[suffix]
    views = views_of(history, verdict)
    tones = {name: style.tone(at) for at, name in enumerate(views.clients)}
    return _rendered(_KINDS[kind], views, tones, suffix)


def _rendered(
    paint: Callable[[Axes, Views, Mapping[str, style.Tone]], float],
    views: Views,
    tones: Mapping[str, style.Tone],
    suffix: str,
) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    meta: dict[str, Any] = {
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }[suffix]
    buffer = io.BytesIO()
    settings: Any = dict(_SETTINGS)
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = Figure(figsize=(WIDTH_IN, 2.0), layout="constrained")
        drawn.set_size_inches(WIDTH_IN, paint(drawn.add_subplot(), views, tones))
        drawn.savefig(buffer, format=suffix, dpi=style.PNG_DPI, metadata=meta, facecolor=style.PAPER)
    return buffer.getvalue()


def _empty(axes: Axes, words: str) -> float:
    """A figure without content, with the reason."""
    axes.axis("off")
    axes.text(0.5, 0.5, textwrap.fill(words, 48), ha="center", va="center", color=style.QUIET)
    return 0.9


def _figure(axes: Axes) -> Any:
    """The figure around the axes."""
    return axes.get_figure(root=True)


def _captioned(axes: Axes, words: str) -> None:
    _figure(axes).suptitle(textwrap.fill(words, 64), x=0.02, ha="left", fontsize=6.5, color=style.QUIET)


def _points(
    axes: Axes, shown: Points, tones: Mapping[str, style.Tone], unit_ns: float, names: Mapping[str, str]
) -> None:
    """Points by kind, outcome and client; the legend has the meaning of the shapes."""
    handles: dict[str, Any] = {}
    for point in shown.points:
        tone = tones.get(point.client, style.UNOWNED)
        failed = point.outcome == "fail"
        marker = "x" if failed else _MARKERS.get(point.kind, "o")
        face = style.PAPER if point.kind in _HOLLOW or point.outcome == "info" else tone.solid
        (drawn,) = axes.plot(
            point.t / unit_ns,
            point.y,
            marker=marker,
            markersize=4.2,
            markerfacecolor=face,
            markeredgecolor=style.INK if failed else tone.text,
            markeredgewidth=1.3 if failed else 0.9,
            linestyle="none",
        )
        meaning = names.get(f"{point.kind} {point.outcome}", "refused" if failed else point.kind)
        handles.setdefault(meaning, drawn)
    _figure(axes).legend(
        handles.values(),
        handles.keys(),
        frameon=False,
        loc="outside lower center",
        ncols=4,
        handletextpad=0.1,
        columnspacing=1.0,
    )
    axes.grid(axis="y", color=style.RULE, linewidth=0.4)
    axes.set_axisbelow(True)
    _time(axes, unit_ns)


def _time(axes: Axes, unit_ns: float) -> None:
    axes.set_xlabel(f"time ({'s' if unit_ns > 1e8 else 'ms'})")


def _unit_ns(last_ns: float) -> float:
    return 1e9 if last_ns >= 20e9 else 1e6


def _fencing(axes: Axes, views: Views, tones: Mapping[str, style.Tone]) -> float:
    from matplotlib.ticker import MaxNLocator

    if not views.fencing.points:
        return _empty(axes, views.fencing.summary)
    names = {
        "grant ok": "granted",
        "write ok": "write accepted",
        "write fail": "write rejected",
        "write info": "write, outcome unknown",
    }
    _points(axes, views.fencing, tones, _unit_ns(views.fencing.points[-1].t), names)
    _name_points(axes, views.fencing, tones, _unit_ns(views.fencing.points[-1].t))
    axes.set_ylabel("fence")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.12, y=0.25)
    _captioned(axes, views.fencing.summary)
    return 2.1


def _name_points(axes: Axes, shown: Points, tones: Mapping[str, style.Tone], unit_ns: float) -> None:
    """The client of each point, if there are few."""
    if len(shown.points) > NAMED_MAX:
        return
    span = max(point.t for point in shown.points) - min(point.t for point in shown.points)
    named: list[Point] = []
    for point in shown.points:
        if any(
            (one.client, one.y) == (point.client, point.y) and abs(one.t - point.t) < span / 20
            for one in named
        ):
            continue  # its name stands there already
        named.append(point)
        axes.annotate(
            point.client,
            (point.t / unit_ns, point.y),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=6.5,
            color=tones.get(point.client, style.UNOWNED).text,
        )


def _latency(axes: Axes, views: Views, tones: Mapping[str, style.Tone]) -> float:
    if not views.latency.points:
        return _empty(axes, views.latency.summary)
    from matplotlib.ticker import FuncFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    _points(axes, views.latency, tones, _unit_ns(views.latency.points[-1].t), {})
    axes.set_ylabel("took (ms)")
    _captioned(axes, views.latency.summary)
    return 2.4


def _availability(axes: Axes, views: Views, tones: Mapping[str, style.Tone]) -> float:
    shown = views.availability
    if not shown.rows:
        return _empty(axes, shown.summary)
    last = max(shown.t0 + len(signs) * shown.window for _, signs in shown.rows)
    unit = _unit_ns(last)
    rows = len(shown.rows)
    faults = shown.faults[:8]
    for at, (name, signs) in enumerate(shown.rows):
        _windows(axes, shown, signs, rows - at, tones.get(name, style.UNOWNED) if at else style.UNOWNED, unit)
    for at, fault in enumerate(faults):
        end = last if fault.t1 is None else min(fault.t1, last)
        y = rows + 1 + (len(faults) - at) * 0.8
        width = max(end - fault.t0, last / 300)
        axes.barh(
            y,
            width / unit,
            left=fault.t0 / unit,
            height=0.5,
            color=style.SHADE,
            edgecolor=style.QUIET,
            lw=0.5,
        )
        axes.text(fault.t0 / unit, y, f" {fault.words}", va="center", fontsize=6.5)
    names = [name for name, _ in shown.rows]
    axes.set_yticks([rows - at for at in range(rows)], names)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color(tones[name].text if name in tones else style.INK)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _time(axes, unit)
    _captioned(axes, f"{shown.summary} Full: acquired; hatched: in vain; line: no request.")
    return 0.9 + 0.2 * rows + 0.14 * len(faults)


def _windows(axes: Axes, shown: Availability, signs: str, y: float, tone: style.Tone, unit: float) -> None:
    """One row of windows."""
    looks: dict[str, dict[str, Any]] = {
        "#": {"height": 0.7, "color": tone.solid, "edgecolor": tone.text},
        ".": {"height": 0.7, "color": style.PAPER, "edgecolor": tone.text, "hatch": "/////"},
        "-": {"height": 0.06, "color": tone.solid},
    }
    for sign, look in looks.items():
        lefts = [(shown.t0 + at * shown.window) / unit for at, one in enumerate(signs) if one == sign]
        if lefts:
            axes.barh(
                [y] * len(lefts), shown.window / unit, left=lefts, align="center", linewidth=0.4, **look
            )


def _graph(axes: Axes, views: Views, tones: Mapping[str, style.Tone]) -> float:
    import networkx as nx

    shown: Graph = views.graph
    if not shown.edges:
        return _empty(axes, shown.summary)
    graph: Any = nx.MultiDiGraph()
    places = {one.id: (one.x, one.y) for one in shown.vertices}
    for edge in shown.edges:
        graph.add_edge(edge.source, edge.target)
    bend = "arc3,rad=-0.35" if len(places) == 2 else "arc3,rad=-0.12"
    nx.draw_networkx_edges(
        graph,
        places,
        ax=axes,
        edge_color=style.VIOLATION,
        width=1.2,
        arrowsize=9,
        node_size=1500,
        connectionstyle=bend,
    )
    for edge in shown.edges:
        (x0, y0), (x1, y1) = places[edge.source], places[edge.target]
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        out = 0.34 if len(places) == 2 else 0.16
        x, y = (x0 + x1) / 2 - (y1 - y0) / length * out, (y0 + y1) / 2 + (x1 - x0) / length * out
        paper = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.0}
        axes.text(
            x,
            y,
            _EDGES.get(edge.kind, edge.kind),
            ha="center",
            va="center",
            color=style.VIOLATION,
            bbox=paper,
        )
    for one in shown.vertices:
        tone = tones.get(one.client, style.UNOWNED)
        box = {"boxstyle": "round,pad=0.5", "facecolor": tone.light, "edgecolor": tone.text}
        axes.text(one.x, one.y, f"{one.client}\n{one.words}", ha="center", va="center", bbox=box)
    axes.axis("off")
    axes.set_xlim(-1.45, 1.45)
    axes.set_ylim(*((-0.75, 0.75) if len(places) == 2 else (-1.35, 1.35)))
    return 1.3 if len(places) == 2 else 2.4


_KINDS: Final[Mapping[str, Callable[[Axes, Views, Mapping[str, style.Tone]], float]]] = {
    "fencing": _fencing,
    "latency": _latency,
    "availability": _availability,
    "graph": _graph,
}
