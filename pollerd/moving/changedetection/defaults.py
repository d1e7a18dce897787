"""Fields of a watch that nothing follows from: defaults, what is only shown, what the program notes for itself."""

from __future__ import annotations

from collections.abc import Mapping

from pollerd.texts import N_

DISPLAY = frozenset(
    {
        *(
            "use_page_title_in_list",
            "page_title",
            "link_to_open",
            "tag_colour",
            "favicon_last_modified",
            "link",
            "open_link",
        ),
        *("strip_ignored_lines", "history_snapshot_max_length", "conditions_match_logic"),
    }
)
INTERNAL = frozenset(
    {
        *("uuid", "date_created", "check_count", "consecutive_filter_failures", "content-type", "fetch_time"),
        *("has_ldjson_price_data", "last_checked", "last_changed", "last_error", "last_notification_error"),
        *("last_viewed", "llm_evaluation_cache", "llm_prefilter", "notification_alert_count", "previous_md5"),
        *("remote_server_reply", "browser_steps_last_error_step", "last_check_status", "last_filter_config_hash"),
        *("restock", "_llm_result", "_llm_intent", "_llm_change_summary", "llm_last_tokens_used", "history_n"),
        *("llm_tokens_used_cumulative", "viewed", "previous_md5_before_filters", "newest_history_key", "history"),
        *(
            "has_special_tag_options",
            "processor_config_restock_diff_source",
            "default",
            "has_browser_steps",
            "last_modified",
            "etag",
            "error_text",
        ),
    }
)
DEFAULTS: Mapping[str, object] = {
    "filter_failure_notification_send": True,
    "llm_backend_profile": True,
    "llm_change_summary_mode": "replace",
    "notification_format": "System default",
    "ignore_status_codes": False,
    "overrides_watch": False,
    "fetch_backend": "system",
    "method": "GET",
    "processor": "text_json_diff",
    **dict.fromkeys(("filter_text_added", "filter_text_removed", "filter_text_replaced"), True),
    **dict.fromkeys(("follow_price_changes", "in_stock_only", "time_between_check_use_default"), True),
    "notification_screenshot": False,
}
_CHANNELS = N_("channels and their texts are not carried over: set up a channel and a rule")
LOST: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("notification_urls", "notification_title", "notification_body", "notification_format"),
            "notification_screenshot",
        ),
        _CHANNELS,
    ),
    "filter_failure_notification_send": N_("set a rule on selections that match nothing"),
    "ignore_status_codes": N_("an error is a separate outcome here, never a content"),
    **dict.fromkeys(
        ("llm_intent", "llm_change_summary", "llm_change_summary_mode", "llm_backend_profile"),
        N_("no language model is asked"),
    ),
}


def says_nothing(key: str, value: object) -> bool:
    """Returns whether a field has its default, or is empty."""
    if isinstance(value, Mapping):
        return not value.get("enabled") if "enabled" in value else not any(value.values())
    return not value or (key in DEFAULTS and value == DEFAULTS[key])
