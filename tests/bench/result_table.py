"""Figures by row and way, and the table they make: medians, and what one way is to the others."""

import statistics


class ResultTable:
    """Rows appear in the order in which they were first added to, below their section."""

    def __init__(self):
        self._section = ""
        self._rows = {}  # (section, title) -> {"decimals", "ratio", "values": {way: [figure of each round]}}

    def section(self, title):
        self._section = title
        self._rows.setdefault((title, ""), None)

    def add(self, title, way, figure, decimals, ratio=False):
        """One more figure; `ratio`: comparing it with other ways makes sense."""
        row = self._rows.setdefault((self._section, title), {"decimals": decimals, "ratio": ratio, "values": {}})
        row["values"].setdefault(way, []).append(figure)

    def median(self, section, title, way):
        """Of a row whose section begins with `section`; None when there is no such figure."""
        for (of, row_title), row in self._rows.items():
            if row and of.startswith(section) and row_title.strip() == title and way in row["values"]:
                return statistics.median(row["values"][way])
        return None

    def _cells(self, row, ways, subject):
        medians = {way: statistics.median(figures) for way, figures in row["values"].items()}
        cells = [f"{medians[way]:,.{row['decimals']}f}" if way in medians else "" for way in ways]
        for way in ways:
            if way != subject:
                comparable = row["ratio"] and subject in medians and medians.get(way)
                cells.append(f"{medians[subject] / medians[way]:.2f}" if comparable else "")
        return cells

    def text(self, ways, subject):
        """`subject` is the way whose ratio to each of the others is shown. Ways without any figure are left out."""
        ways = [way for way in ways if any(row and way in row["values"] for row in self._rows.values())]
        lines = [[f"(right: {subject} / the other way)", *ways, *(f"/ {way}" for way in ways if way != subject)]]
        for section in dict.fromkeys(section for section, _ in self._rows):
            rows = [(title, row) for (of, title), row in self._rows.items() if of == section and row]
            lines += [[section]] if rows else []
            lines += [[title, *self._cells(row, ways, subject)] for title, row in rows]
        return align(lines)


def align(lines):
    """Columns as wide as they need to be, the first to the left, the others to the right; a line of one cell may be longer."""
    columns = max(map(len, lines))
    widths = [max((len(line[i]) for line in lines if len(line) > max(i, 1)), default=0) for i in range(columns)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]).rstrip() for line in lines
    )
