from typing import Any

import pytest

from pollerd.errors import InvalidValueError
from pollerd.fetching.client import user_agent
from pollerd.fetching.settings import FetchSettings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total_timeout_seconds", 0),
        ("total_timeout_seconds", float("nan")),
        ("connect_timeout_seconds", float("inf")),
        ("keepalive_seconds", -1),
        ("keepalive_seconds", True),
        ("max_body_bytes", 0),
        ("max_body_bytes", 1.5),
        ("max_redirects", -1),
        ("max_connections", 0),
        ("robots_max_bytes", 0),
        ("contact", ""),
        ("contact", "a\r\nX-Evil: 1"),
        ("contact", " padded"),
        ("contact", "ü@example.org"),
        ("contact", "a" * 201),
    ],
)
def test_out_of_range_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        FetchSettings(**{field: value})
    assert refused.value.field == field


def test_user_agent_names_the_contact() -> None:
    assert user_agent("ops@example.org").endswith(" (+ops@example.org)")
    assert "(" not in user_agent(None)
