"""An experiment's report: Markdown with printed and own numbers side by side, and the same as CSV."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pollerd.lab.experiments.experiment import Claim, Experiment
from pollerd.lab.experiments.refusals import naming
from pollerd.lab.experiments.results import Estimate, Results
from pollerd.lab.experiments.verdict import PublishedComparison, compare

REPORT, TABLE, NUMBERS = "report.md", "table.csv", "printed.csv"


def write(experiment: Experiment, results: Results, folder: Path, figures: Sequence[str]) -> Counter[str]:
    """Writes report.md, table.csv and, if the paper prints numbers, printed.csv; returns the counts of verdicts.

    Claims count as "claim came out" or "claim did not". figures: names of the figures in the same folder, without
    extensions. Raises InvalidValueError if the folder cannot be written.
    """
    comparisons, claims = compare(experiment, results), experiment.claims(results)
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).write_text(_markdown(experiment, results, comparisons, claims, figures), encoding="utf-8")
        _write_csv(folder / TABLE, ("row", "column", "value", "standard_error", "runs"), _numbers(results))
        if comparisons:
            fields = ("row", "column", "printed", "ours", "standard_error", "runs", "verdict", "reason", "note")
            _write_csv(folder / NUMBERS, fields, map(_compared_fields, comparisons))
    verdicts = Counter(comparison.verdict.strip("*") for comparison in comparisons)
    verdicts.update("claim came out" if claim.holds else "claim did not" for claim in claims)
    return verdicts


def _markdown(
    experiment: Experiment,
    results: Results,
    comparisons: Sequence[PublishedComparison],
    claims: Sequence[Claim],
    figures: Sequence[str],
) -> str:
    counts = {estimate.runs for estimate in results.estimates.values()} or {experiment.runs[results.size]}
    least, most = min(counts), max(counts)
    runs = f"{most:,} {'run' if most == 1 else 'runs'}" if least == most else f"{least:,} to {most:,} runs"
    seeds = f", entropy {experiment.entropy}: other seeds than those of docs/papers" if experiment.entropy else ""
    parts = [
        f"# {experiment.name}: {experiment.title}",
        f"{experiment.source}. Size {results.size}, {runs}{seeds}.",
        experiment.remarks,
        _side_by_side(comparisons),
        _claims(claims),
        "## Ours\n\n" + _own_table(results) if results.estimates else "",
        "\n\n".join(f"![{figure}]({figure}.svg)" for figure in figures),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _side_by_side(comparisons: Sequence[PublishedComparison]) -> str:
    if not comparisons:
        return ""
    head = ("row", "column", "printed", "ours", "standard error", "verdict", "reason, note")
    rows = [
        (
            c.printed.row,
            c.printed.column,
            c.printed.value,
            number(c.ours.value),
            number(c.ours.error),
            c.verdict,
            "; ".join(filter(None, (c.reason, c.printed.note))),
        )
        for c in comparisons
    ]
    return "## Printed and ours\n\n" + table(head, rows)


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    rows = [(claim.text, *_outcome(claim), claim.shown_by) for claim in claims]
    return "## In words\n\n" + table(("it is said", "came out", "why not", "ours"), rows)


def _outcome(claim: Claim) -> tuple[str, str]:
    return ("yes", "") if claim.holds else ("**no**", claim.reason or "unexplained")


def _own_table(results: Results) -> str:
    rows = [
        (row, *(_with_error(results.estimates.get((row, column))) for column in results.columns))
        for row in results.rows
    ]
    return table(("", *results.columns), rows)


def _with_error(estimate: Estimate | None) -> str:
    if estimate is None or math.isnan(estimate.value):
        return ""
    rounding = 1e-12 * abs(estimate.value)
    return number(estimate.value) + (f" ± {estimate.error:.2g}" if estimate.error > rounding else "")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table; bars within cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def number(value: float) -> str:
    """Formats with four digits, or all before the point; empty for nan."""
    if math.isnan(value):
        return ""
    return f"{value:.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _numbers(results: Results) -> Iterable[tuple[object, ...]]:
    for (row, column), estimate in results.estimates.items():
        yield row, column, estimate.value, estimate.error, estimate.runs


def _compared_fields(comparison: PublishedComparison) -> tuple[object, ...]:
    printed, ours = comparison.printed, comparison.ours
    verdict = comparison.verdict.strip("*")
    return (
        *(printed.row, printed.column, printed.value, ours.value, ours.error, ours.runs),
        *(verdict, comparison.reason, printed.note),
    )


def _write_csv(path: Path, fields: Sequence[str], rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(fields)
        writer.writerows(rows)
