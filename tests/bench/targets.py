"""What the tunnel must reach, and what this run says of it."""

import dataclasses
import typing

from result_table import align
from ways import ONE_TLS, TUNNEL

PEER, MULTIPLEXER, L4, L7 = "v2ray", "nghttpx", "nginx stream", "nginx http"
MANY, SINGLE, BESIDE, HUNDRED = "1 KiB answers, 64 connections", "1 KiB answers, 1 connection", "1 KiB answers, 4 connections, beside", "100 readers"
DOWN, FAR = "down (GET)", "1 stream at 50 ms"
CPU = "CPU-s of both ends"


@dataclasses.dataclass
class Target:
    """`figure(table)` or None when the run does not have it. At least (`sign` is ">=") or at most `must` and `aim`; either may be None."""

    number: int
    what: str
    against: str
    sign: str
    must: float | None
    aim: float | None
    figure: typing.Callable
    form: str = "{:.2f}"

    def _verdict(self, figure, bound):
        if bound is None:
            return ""
        return "reached" if (figure >= bound if self.sign == ">=" else figure <= bound) else "NOT REACHED"

    def line(self, table):
        figure = self.figure(table)
        bounds = [f"{self.sign} {bound:g}" if bound is not None else "" for bound in (self.must, self.aim)]
        start = [f"{self.number}  {self.what}", self.against, *bounds]
        if figure is None:
            return [*start, "", "not in this run", ""]
        return [*start, self.form.format(figure), self._verdict(figure, self.must), self._verdict(figure, self.aim)]


def ratio(section, row, other):
    def figure(table):
        ours, theirs = (table.median(section, row, way) for way in (TUNNEL, other))
        return ours / theirs if ours is not None and theirs else None

    return figure


def own(section, row):
    return lambda table: table.median(section, row, TUNNEL)


def targets(size):
    """`size` is the text of the big transfers' size."""
    down = f"{size} {DOWN}"

    def against_both(number, what, sign, must, aim, section, row):
        kinds = ((PEER, "/ v2ray (peer)"), (MULTIPLEXER, "/ nghttpx (control)"))
        return [Target(number, what, text, sign, must, aim, ratio(section, row, way)) for way, text in kinds]

    return [
        *against_both(1, "requests/s, 64 connections", ">=", 1.05, 1.15, MANY, "requests/s"),
        Target(1, "requests/s, 64 connections", "/ nginx http (control)", ">=", 1.0, None, ratio(MANY, "requests/s", L7)),
        *against_both(2, "CPU per request, both ends", "<=", 0.8, 0.65, MANY, f"{CPU} per 10 000"),
        *against_both(3, "p99 at 64 connections", "<=", 1.0, 0.75, MANY, "p99, ms"),
        *against_both(3, "p50 at 1 connection", "<=", 1.0, 0.9, SINGLE, "p50, ms"),
        *against_both(4, f"GET of {size}, MB/s", ">=", 2.0, 2.3, down, "MB/s"),
        Target(4, f"GET of {size}, MB/s", "/ nginx stream (control)", ">=", 0.9, None, ratio(down, "MB/s", L4)),
        Target(4, f"GET of {size}, MB/s", "/ nginx http (control)", ">=", 0.9, None, ratio(down, "MB/s", L7)),
        *against_both(5, "CPU per GiB down, both ends", "<=", 0.45, 0.40, down, f"{CPU} per GiB"),
        *against_both(6, "small p50 beside 2 downloads", "<=", 0.2, 0.1, BESIDE, "p50, ms"),
        Target(7, "100 slow readers, growth of RSS, MiB", "both ends", "<=", 32, 16, own(HUNDRED, "growth of RSS, both ends, MiB"), "{:.1f}"),
        Target(7, "100 slow readers, others' answers/s", "the fewest", ">=", 1, None, own(HUNDRED, "others: fewest answers in a second"), "{:,.0f}"),
        Target(7, "100 slow readers, others refused", "", "<=", 0, None, own(HUNDRED, "others: refused"), "{:,.0f}"),
        Target(7, "100 slow readers, others' p99", "/ alone", "<=", None, 1.2, own(HUNDRED, "others: p99 beside / alone")),
        Target(13, "1 stream at 50 ms, MB/s down", "/ one plain TLS stream", ">=", 0.8, 0.9, ratio(FAR, "MB/s down", ONE_TLS)),
    ]


def text(table, size):
    lines = [["goal", "against", "must", "aim", "figure", "must", "aim"]]
    return align(lines + [target.line(table) for target in targets(size)])
