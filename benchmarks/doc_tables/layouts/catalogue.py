"""Layouts by the experiments that a table's command runs. A new family is a module beside this and a line here."""

from __future__ import annotations

from doc_tables.layouts import ephemeral, gpoks, htraa, objectives, ours_web, robot
from doc_tables.layouts.spot import Layout, as_labelled
from doc_tables.pages import DocTable

_BY_NAME: dict[str, Layout] = {
    "htraa-updates": htraa.updates,
    "htraa-random-switching": htraa.figure,
    "htraa-schedulers": as_labelled,
    "htraa-amounts": htraa.figure,
    "htraa-theorem-2": as_labelled,
    "gpoks-many-pages": gpoks.many_pages,
    "gpoks-appendix-a": as_labelled,
    "gpoks-bandits": as_labelled,
    "gpoks-switching": gpoks.switching,
    "ephemeral-table-1": ephemeral.table_1,
    "lspe-four-sources": ephemeral.four_sources,
    "robot": robot.traversals,
    "ours-web": ours_web.shares,
}
_BY_BEGINNING: dict[str, Layout] = {
    "htraa-fig-": htraa.figure,
    "gpoks-": gpoks.printed_and_ours,
    "robot-": robot.schedules,
    "ours-": objectives.shares,
}


def layout_of(table: DocTable) -> Layout | None:
    """Returns the layout of the table's experiments; None if there is none."""
    for name in table.experiments[:1]:
        beginnings = [layout for beginning, layout in _BY_BEGINNING.items() if name.startswith(beginning)]
        return _BY_NAME.get(name, beginnings[0] if beginnings else None)
    return None
