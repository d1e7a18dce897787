"""Watches of prices and stock (processor `restock_diff`): values, and conditions on them."""

from __future__ import annotations

from pollerd.moving.changedetection.groups import RESTOCK, WatchGroups
from pollerd.moving.changedetection.instance import Item, table
from pollerd.moving.draft import Condition, Draft
from pollerd.texts import _

PROCESSOR = "restock_diff"
_TEXT = "text_json_diff"
_OLD = ("in_stock_only", "follow_price_changes", "price_change_threshold_percent")
"""Fields of older versions, flat in the watch."""
_IN_STOCK = "(?i)(?:instock|instoreonly|limitedavailability|onlineonly|presale)"
_PRICE: Condition = {"kind": "price", "from": {"css": "[itemprop=price]", "attribute": "content"}, "which": "first"}
_AVAILABILITY: Condition = {"kind": "text", "from": {"css": "[itemprop=availability]", "attribute": "href"}}
_ANNOUNCED = {"against": "announced"}
_LEAST = 0.01


def apply(draft: Draft, fields: Item, groups: WatchGroups) -> None:
    """Sets the values `price` and `availability` and what must become of them."""
    processor = str(fields.pop("processor", _TEXT) or _TEXT)
    own = table(fields.pop(RESTOCK, None))
    old = {key: fields.pop(key) for key in _OLD if key in fields}
    if processor != PROCESSOR:
        _report_unused(draft, processor, {RESTOCK: own, **old})
        return
    draft.report.approximated("processor", _("price and availability are read from microdata (itemprop), not guessed"))
    draft.values |= {"price": _PRICE, "availability": _AVAILABILITY}
    settings = groups.restock(own) or _from_old(old)
    leaves = [*_stock(draft, settings), *_prices(draft, settings)]
    draft.conditions += [{"any": leaves}] if len(leaves) > 1 else leaves
    for key in old:
        draft.report.nothing_said(key, _("its newer form counts")) if own else draft.report.carried(key)
    draft.report.carried(RESTOCK) if own else draft.report.nothing_said(RESTOCK)
    _report_unknown(draft, settings)


def _report_unused(draft: Draft, processor: str, item: Item) -> None:
    if processor == _TEXT:
        draft.report.nothing_said("processor")
    else:
        draft.report.not_carried(
            "processor", _("{processor} has no counterpart: the text is compared", processor=processor[:40])
        )
    for key in item:
        draft.report.nothing_said(key, _("it only counts for watches of prices and stock"))


def _from_old(old: Item) -> Item:
    follows = bool(old.get("follow_price_changes", True))
    stock = "in_stock_only" if old.get("in_stock_only", True) else "all_changes"
    percent = old.get("price_change_threshold_percent")
    return {"in_stock_processing": stock, "follow_price_changes": follows, "price_change_threshold_percent": percent}


def _stock(draft: Draft, item: Item) -> list[Condition]:
    processing = item.get("in_stock_processing", "in_stock_only")
    appears: Condition = {"value": "availability", "appears": {"re": _IN_STOCK}}
    if processing == "off":
        return []
    if processing == "all_changes":
        return [appears, {"value": "availability", "disappears": {"re": _IN_STOCK}}]
    return [appears]


def _prices(draft: Draft, item: Item) -> list[Condition]:
    if not item.get("follow_price_changes", True):
        return []
    low, high = _number(item.get("price_change_min")), _number(item.get("price_change_max"))
    leaves = list[Condition]()
    if low:
        leaves.append({"value": "price", "below": low, **_ANNOUNCED})
    if high:
        leaves.append({"value": "price", "above": high, **_ANNOUNCED})
    percent = _number(item.get("price_change_threshold_percent"))
    unit, least = ("percent", percent) if percent else ("amount", _LEAST)
    moved: list[Condition] = [{"value": "price", "changed_by": {unit: sign * least}, **_ANNOUNCED} for sign in (1, -1)]
    if percent:
        how = _("compared with the last price that was sent: 1 % per day is sent too, in the end; there it is not")
        draft.report.approximated(f"{RESTOCK}.price_change_threshold_percent", how)
    if not leaves:
        return moved
    if not percent:
        return leaves
    return [{"all": [{"any": leaves}, {"any": moved}]}]


def _number(value: object) -> float:
    """Returns a number above 0; 0: not set, as there."""
    try:
        number = float(str(value))
    except ValueError:
        return 0.0
    return number if 0 < number < 1e12 else 0.0


_KNOWN = frozenset(
    {
        *("in_stock_processing", "follow_price_changes", "price_change_min", "price_change_max"),
        "price_change_threshold_percent",
    }
)


def _report_unknown(draft: Draft, item: Item) -> None:
    for key in item:
        if key not in _KNOWN:
            draft.report.not_carried(f"{RESTOCK}.{key}", _("pollerd does not know this setting"))
