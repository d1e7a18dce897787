"""Figures of our own experiments: shares of the optimum by intervals of polls a page."""

from __future__ import annotations

from typing import Any

from pollerd.lab.experiments.results import Results


def draw_web(axes: Any, results: Results, web: str) -> None:
    """Draws all rows `web: policy` on a matplotlib Axes, over their intervals, with standard errors."""
    for row in results.rows:
        place, _, policy = row.rpartition(": ")
        if place == web:
            columns = [column for column in results.columns if (row, column) in results.estimates]
            estimates = [results.estimates[row, column] for column in columns]
            axes.errorbar(
                columns,
                [estimate.value for estimate in estimates],
                [estimate.error for estimate in estimates],
                label=policy,
                lw=1,
            )
    axes.set_xlabel("polls a page")
    axes.set_ylabel("share of the clairvoyant optimum")
    axes.set_title(web, fontsize="medium")
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
