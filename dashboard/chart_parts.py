"""Axes and legends that all charts share."""

from __future__ import annotations

import altair as alt


def number_axis(grid: bool = True) -> alt.Axis:
    """Few ticks."""
    return alt.Axis(grid=grid, tickCount=5, labelFlush=False)


def top_legend(offset: int = 5) -> alt.Legend:
    """Above the chart, strokes for lines; ``offset`` in px: more where words stand on the chart's top."""
    return alt.Legend(
        title=None, orient="top", direction="horizontal", offset=offset, padding=0, symbolType="stroke"
    )
