"""Aligned plain-text tables."""


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def render(head, rows, left=1):
    """The first `left` columns hold words and lean left; the rest are figures and lean right."""
    cells = [head, *rows]
    widths = [max(len(str(row[column])) for row in cells) for column in range(len(head))]

    def line(row):
        parts = [
            str(cell).ljust(width) if column < left else str(cell).rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])
