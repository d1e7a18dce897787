"""Windows of sites and tags: input and output."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from pollerd.api.schemas.common import Given
from pollerd.model import DAYS, Windows
from pollerd.scheduling.windows import MAX_WINDOWS

_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
# Any name of the IANA's is taken; these are certainly known everywhere.
_ZONES = "^(UTC|Europe/(Berlin|London|Paris|Madrid|Rome)|America/(New_York|Chicago|Sao_Paulo)|Asia/(Tokyo|Kolkata))$"
_DAY = {"pattern": f"^({'|'.join(DAYS)})$"}
_TO = "no longer in it; not after `from`: on the next day"


class DayWindowSchema(Given):
    """Hours of days; without days: of every day."""

    days: list[Annotated[str, Field(json_schema_extra=_DAY)]] = Field(list(DAYS), json_schema_extra={"minItems": 1})
    begins: str = Field(alias="from", json_schema_extra={"pattern": f"^{_CLOCK}$"})
    ends: str = Field(alias="to", description=_TO, json_schema_extra={"pattern": f"^({_CLOCK}|24:00)$"})


class WindowsSchema(Given):
    """When a site may be polled, in the time of a zone."""

    zone: str = Field(description="a name of the IANA's, as Europe/Berlin", json_schema_extra={"pattern": _ZONES})
    open: list[DayWindowSchema] = Field(json_schema_extra={"minItems": 1, "maxItems": MAX_WINDOWS})


EXAMPLE: dict[str, Any] = {"zone": "Europe/Berlin", "open": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]}


def windows_as_given(windows: Windows | None) -> dict[str, Any] | None:
    """Returns windows as they are given."""
    if windows is None:
        return None
    opened = [{"days": list(one.days), "from": one.begins, "to": one.ends} for one in windows.open]
    return {"zone": windows.zone, "open": opened}
