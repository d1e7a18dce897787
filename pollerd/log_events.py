"""Every event that pollerd logs: its level, its meaning, and its keys, each with one name for one thing.

`tests/docs/test_log_events.py` compares the calls with this table, and writes `docs/log-events.md` from it.
"""

from __future__ import annotations

from typing import NamedTuple


class LogKey(NamedTuple):
    """A key of log lines. before: how it was called in earlier versions, where it was called otherwise."""

    meaning: str
    before: str = ""


KEYS = {
    "action": LogKey("what a bulk job does"),
    "added": LogKey("what was added: a number, or names"),
    "address": LogKey("the IP address of a client"),
    "allocator": LogKey("a policy"),
    "budget": LogKey("polls per second", "`polls_per_second`"),
    "by": LogKey("the user, or the scope of the token"),
    "bytes": LogKey("bytes of stored pages that were deleted"),
    "changed": LogKey("what was changed: a number, or names"),
    "changes": LogKey("number of changes"),
    "channel": LogKey("name of a channel"),
    "column": LogKey("a column of the database", "`dropped`"),
    "contents": LogKey("number of stored pages"),
    "database": LogKey("the database, without its password"),
    "deleted_before": LogKey(
        "sites of a list that are not added, because a user deleted them", "`left_out_as_deleted`"
    ),
    "effect": LogKey(
        "what pollerd does now", "`instead`, `polling`, `queue`, `kept`, `start`, `meaning`, `next_version`"
    ),
    "events": LogKey("number of events in a message"),
    "exception": LogKey("the traceback, without values"),
    "existing": LogKey("sites of a list that were there already"),
    "file": LogKey("path of a list of sites"),
    "folders": LogKey("paths of folders"),
    "from_dead_nodes": LogKey("how many of them were held by nodes that died", "`of_dead_nodes`"),
    "hint": LogKey("what you can do", "`instead`, `undo`, `to_keep_it`, `valid`"),
    "host": LogKey("a host of sites"),
    "hosts": LogKey("number of hosts"),
    "hub": LogKey("URL of a WebSub hub"),
    "ignored": LogKey("the value that is not used", "`instead_of`"),
    "job_id": LogKey("id of a bulk job", "`job`"),
    "keepalive_seconds": LogKey("how long idle connections are kept, s"),
    "kind": LogKey("kind of a channel, or of an alert"),
    "limit": LogKey("the largest allowed number", "`most`"),
    "line": LogKey("line of a list"),
    "listen": LogKey("host and port of the API"),
    "max_inflight": LogKey("polls at the same time"),
    "message_id": LogKey("id of a message", "`message`"),
    "messages": LogKey("number of messages", "`number`"),
    "mode": LogKey("subscribe or unsubscribe", "`leaves`"),
    "names": LogKey("names, with commas", "`roles`, `shadows`"),
    "node": LogKey("name of a node"),
    "pages": LogKey("pages of the topic crawler", "`held`"),
    "partition": LogKey("number of a partition"),
    "partitions": LogKey("number of partitions"),
    "path": LogKey("path of a request"),
    "polls": LogKey("number of polls", "`hosts_failed`"),
    "pool": LogKey("which worker processes"),
    "previous": LogKey("the value before", "`before`, `instead_of`"),
    "reader": LogKey("version of the code that reads pages"),
    "reason": LogKey("why it happened", "`why`, `detail`, `last`, `clock`, `must_have`, `result`"),
    "rejected": LogKey("lines of a list that cannot be used"),
    "removed": LogKey("what was removed: a number, or names", "`left`"),
    "result": LogKey("failed, doubted, changed or unchanged"),
    "roles": LogKey("number of roles", "`of`: partitions and roles together"),
    "rule": LogKey("name of a rule"),
    "schema": LogKey("version of the database's tables"),
    "seconds": LogKey("seconds", "`ahead_by`"),
    "seeds": LogKey("pages that the topic crawler starts with, and did not know", "`new_seeds`"),
    "service": LogKey("service of a channel of kind apprise"),
    "setting": LogKey("name of a setting"),
    "settings": LogKey("names of settings, with commas"),
    "site_id": LogKey("id of a site"),
    "sitemaps": LogKey("number of sitemaps", "`number`"),
    "sites": LogKey("number of sites", "`backoffs_ended`"),
    "source_id": LogKey("id of a site list's source, or of a signal source", "`source`"),
    "suppressed": LogKey("events of this kind that were not logged since the previous one", "`others_since`"),
    "tag": LogKey("name of a tag"),
    "task": LogKey("a part of the program"),
    "topic": LogKey("topic of the topic crawler, or of a WebSub hub"),
    "unread": LogKey("pages that have to be fetched again", "`to_be_read_again`"),
    "until": LogKey("end of a pause, seconds since 1970; missing: without end"),
    "url": LogKey("URL of a site, of a source, or to open", "`first_url`, `api`, `source`, `make_the_first`"),
    "user": LogKey("name of a user"),
    "value": LogKey("the value that is used", "`in_force`"),
    "version": LogKey("version of pollerd"),
}


class LogEvent(NamedTuple):
    """An event of the log. level: one or two, as words; keys: separated by spaces; before: its earlier name."""

    level: str
    meaning: str
    keys: str = ""
    before: str = ""


EVENTS = {
    # The daemon and its settings.
    "started": LogEvent("info", "pollerd is running; clients can connect", "version listen budget"),
    "stopped": LogEvent("info", "pollerd has ended"),
    "stopped_uncommitted": LogEvent("error", "Polls of the last seconds could not be stored before the end", "reason"),
    "end_not_stored": LogEvent(
        "warning", "The end could not be stored: the next start assumes a crash", "reason", "end_not_noted"
    ),
    "reloaded": LogEvent("info", "SIGHUP: the settings were read again", "changed"),
    "reload_failed": LogEvent("error", "SIGHUP: the settings or the list are invalid", "reason effect"),
    "restart_needed": LogEvent("warning", "These settings changed, and need a restart", "settings"),
    "new_default": LogEvent(
        "info",
        "A default differs from the version before; logged once, when the database is upgraded",
        "setting value previous hint",
    ),
    "short_token": LogEvent("warning", "A token is too short", "setting reason effect"),
    "setting_without_effect": LogEvent("warning", "A setting is not used any more", "setting reason hint"),
    "descriptors_scarce": LogEvent(
        "info",
        "Polls at the same time were lowered to fit the file descriptors",
        "limit max_inflight keepalive_seconds",
    ),
    "descriptors_exhausted": LogEvent("error", "All file descriptors are in use", "effect hint"),
    "clock_set": LogEvent("warning", "The clock was set ahead by so much; stored times were moved with it", "seconds"),
    "task_fault": LogEvent("error", "Internal error while a part of the program ended", "task exception"),
    "no_sites": LogEvent("info", "There are no sites yet", "hint url"),
    "no_users": LogEvent("warning", "There are no users yet", "url hint"),
    # The database.
    "storage_failing": LogEvent("error", "The database fails; repeated every minute", "reason effect seconds database"),
    "storage_recovered": LogEvent("info", "The database works again, after so many seconds", "effect seconds"),
    "maintenance_put_off": LogEvent(
        "warning", "Old polls and pages could not be deleted; the next time does it", "reason"
    ),
    "pruned": LogEvent("info", "Old polls, changes and pages were deleted", "polls changes contents bytes"),
    "batch_refused": LogEvent("error", "The database refused a group of polls", "polls effect exception"),
    "site_state_refused": LogEvent("error", "The database refused a site's state", "site_id effect exception"),
    "migrated_beside_nodes": LogEvent(
        "warning", "The database was upgraded while nodes of the previous version run", "schema previous"
    ),
    "migration_waits": LogEvent("warning", "The upgrade of the database waits", "reason"),
    "poll_partition_kept": LogEvent("warning", "The polls of an old day could not be deleted", "reason effect"),
    "poll_partition_not_made": LogEvent(
        "warning", "The table for the polls of a day could not be made", "reason effect"
    ),
    "listening_failed": LogEvent("warning", "PostgreSQL's notifications stopped", "reason effect"),
    "feed_window_unusable": LogEvent("warning", "A feed's stored window is damaged", "site_id reason effect"),
    "reads_unusable": LogEvent("warning", "Stored reads of a site are damaged", "site_id column reason effect"),
    "yield_not_stored": LogEvent(
        "warning", "A minute of the overview's numbers could not be stored", "reason", "yield_not_noted"
    ),
    # Polling.
    "offline": LogEvent("warning", "No connection to the internet", "polls reason effect"),
    "online": LogEvent("info", "The connection is back", "effect"),
    "private_addresses": LogEvent(
        "warning", "Sites are not polled, because their addresses are private", "sites url reason hint"
    ),
    "robots_unreachable": LogEvent(
        "info", "A robots.txt cannot be fetched: its host is not polled", "host reason suppressed"
    ),
    "page_too_heavy": LogEvent("warning", "A page takes too much time or memory to read", "site_id url reason"),
    "site_fault": LogEvent("error", "Internal error at a site, which is set aside", "site_id url exception"),
    "worker_ended": LogEvent("warning", "A worker process was ended, because its work took too long", "pool reason"),
    "browser_folders_left": LogEvent("warning", "Folders of a browser could not be deleted", "folders"),
    "reader_upgraded": LogEvent("info", "Pages are read by a newer version of the code", "reader url effect"),
    "preview_failed": LogEvent("warning", "Internal error in a preview", "url exception"),
    # What was learned.
    "caught_up_on_polls": LogEvent("info", "The policy learned from polls after its stored state", "polls allocator"),
    "learned_from_stored_polls": LogEvent("info", "The policy learned from the stored polls", "polls allocator"),
    "learned_state_unusable": LogEvent(
        "warning", "The stored state of the policy cannot be used", "sites reason effect"
    ),
    "learning_refused": LogEvent(
        "warning", "The policy refused a group of polls", "polls reason effect exception", "batch_refused"
    ),
    "shadow_dropped": LogEvent("warning", "A comparison policy failed and ended", "allocator reason exception"),
    "shadow_put_off": LogEvent("warning", "The database fails: a comparison policy waits", "allocator reason"),
    "shadows_put_off": LogEvent("warning", "The database fails: the comparison policies wait", "reason"),
    "shadows_refused": LogEvent("error", "The comparison policies cannot be used", "reason effect"),
    # Sites, and lists of them.
    "list_read": LogEvent("info", "A list was read", "file added existing changed removed deleted_before rejected"),
    "list_put_off": LogEvent("warning", "The database fails: the list waits", "file reason", "list_waits"),
    "list_skipped": LogEvent("warning", "SIGHUP: the list was not read again", "file reason", "list_left_out"),
    "list_stopped": LogEvent("error", "Reading of a list stopped", "file line rejected reason effect"),
    "list_without_sites": LogEvent("warning", "A list names no site", "file reason"),
    "line_rejected": LogEvent(
        "warning", "A line of a list cannot be used; the first 20 are logged", "file line reason"
    ),
    "site_refused": LogEvent("warning", "A site of a list cannot be added or changed", "file reason"),
    "sync_refused": LogEvent("error", "`--sync` would delete too much", "file reason effect"),
    "tag_refused": LogEvent("warning", "Settings of a tag in a list cannot be used", "file tag reason"),
    "tag_set": LogEvent("warning", "A tag got settings", "tag settings by"),
    "tag_settings_removed": LogEvent("warning", "The settings of a tag were removed", "tag by"),
    "sites_paused": LogEvent("warning", "All sites, or all of a tag, were paused", "sites tag by"),
    "sites_resumed": LogEvent("warning", "All sites, or all of a tag, were resumed", "sites tag by"),
    "host_paused": LogEvent("warning", "A host was paused", "host until by"),
    "host_resumed": LogEvent("warning", "The pauses of a host were ended, and those of so many sites", "host sites by"),
    "deleted_sites_purged": LogEvent("info", "Sites that were deleted long ago were removed for good", "sites"),
    "job_started": LogEvent("warning", "A bulk job was started", "job_id action sites by"),
    "job_undone": LogEvent("warning", "A bulk job is undone", "job_id action sites by"),
    "job_failed": LogEvent("error", "A bulk job failed", "job_id reason"),
    "jobs_put_off": LogEvent("warning", "The database fails: bulk jobs wait", "reason"),
    "import_failed": LogEvent("warning", "An import in the web pages failed", "reason", "import_ended"),
    "source_added": LogEvent("info", "A list added a source of sites", "file url"),
    "source_set": LogEvent("warning", "A list changed a source of sites", "file url"),
    "source_removed": LogEvent("warning", "A list removed a source of sites", "file url"),
    "source_read": LogEvent(
        "info, warning",
        "A source of sites was read; a warning if it failed or sites vanished",
        "source_id url result reason",
    ),
    "source_put_off": LogEvent("warning", "The database fails: a source of sites waits", "source_id reason"),
    "source_set_aside": LogEvent("error", "Internal error at a source of sites", "source_id url exception"),
    "sources_put_off": LogEvent("warning", "The database fails: sources of sites wait", "reason"),
    # Signals.
    "signal_sources_set": LogEvent("warning", "A list changed signal sources", "file added changed removed"),
    "signal_source_refused": LogEvent("warning", "A signal source of a list cannot be used", "file url reason"),
    "signals_put_off": LogEvent("warning", "The database fails: signals wait", "reason"),
    "signals_unreadable": LogEvent("warning", "A signal source cannot be read", "source_id url reason"),
    "sitemaps_followed": LogEvent("info", "Sitemaps of an index were added or removed", "source_id added removed"),
    "sitemaps_put_off": LogEvent("warning", "The database fails: sitemaps of an index wait", "reason"),
    "sitemaps_skipped": LogEvent(
        "warning", "An index names more sitemaps than are read", "source_id sitemaps limit", "sitemaps_left_out"
    ),
    "report_refused": LogEvent("warning", "IndexNow: too many reports of a host", "host reason"),
    "report_unverified": LogEvent("info", "IndexNow: a report is not from its host", "host reason", "report_refused"),
    "reports_put_off": LogEvent("warning", "The database fails: reports wait", "reason"),
    "hub_requested": LogEvent("info", "A WebSub hub accepted a request", "hub topic mode", "hub_asked"),
    "hub_refuses": LogEvent("warning", "A hub refused a request", "hub topic reason"),
    "hub_verified": LogEvent("info", "A hub confirmed a request", "hub topic mode"),
    "hub_denies": LogEvent("warning", "A hub denied or ended a subscription", "hub topic"),
    "hub_not_subscribed": LogEvent("warning", "A source's hub cannot be used", "source_id hub reason"),
    "hub_delivery_ignored": LogEvent("info", "What a hub delivered was not used", "hub topic reason"),
    "hub_delivery_fault": LogEvent("error", "Internal error at what a hub delivered", "exception"),
    "hubs_put_off": LogEvent("warning", "The database fails: hubs wait", "reason"),
    # Alerts.
    "notifications_set": LogEvent("warning", "A list changed channels or rules", "file added changed removed"),
    "rule_unusable": LogEvent("error", "A rule cannot be used", "rule reason effect"),
    "template_failed": LogEvent("warning", "A template failed", "message_id reason effect"),
    "message_failed": LogEvent(
        "warning", "A message could not be delivered", "channel kind message_id events reason", "message_dead"
    ),
    "message_fault": LogEvent("error", "Internal error at a message", "channel kind message_id exception"),
    "messages_expired": LogEvent(
        "warning", "Messages waited too long, and were not sent", "messages", "notices_expired"
    ),
    "channel_down": LogEvent("error", "A channel refuses pollerd, or its credentials", "channel kind reason effect"),
    "channel_works": LogEvent("info", "A channel works again", "channel kind"),
    "channel_unusable": LogEvent("error", "A channel's settings cannot be used", "channel reason effect"),
    "public_url_set": LogEvent("info", "Messages link to the pages at this URL, until a restart", "url by"),
    "unsubscribed": LogEvent("info", "A recipient ended a rule's messages by their link", "rule channel"),
    "apprise_not_fenced": LogEvent("warning", "The kernel cannot fence the process of Apprise", "reason"),
    "apprise_ended": LogEvent("debug", "The idle process of Apprise was ended", "service"),
    "alert_put_off": LogEvent(
        "warning", "The database fails: an alert waits", "kind reason", "notice_put_off, watch_put_off"
    ),
    "deliveries_put_off": LogEvent("warning", "The database fails: deliveries wait", "reason"),
    "delivery_put_off": LogEvent("warning", "The database fails: a channel's messages wait", "channel reason"),
    "failing_sites_not_checked": LogEvent(
        "warning", "The database fails: alerts of failing sites wait", "reason", "failing_sites_not_looked_at"
    ),
    "outbox_not_tidied": LogEvent("warning", "The database fails: old messages are deleted later", "reason"),
    # The API and its users.
    "api_connections_full": LogEvent("warning", "The API has no free connection", "limit effect"),
    "request_cancelled": LogEvent("warning", "A request was not finished", "path reason", "request_called_off"),
    "wrong_tokens": LogEvent("warning", "An address sends many wrong tokens", "address effect"),
    "wrong_sign_ins": LogEvent("warning", "An address sends many wrong passwords", "address effect"),
    "first_user_made": LogEvent("info", "The first user was created", "user"),
    "password_changed": LogEvent("info", "A user changed the password", "user"),
    # Several nodes.
    "node_runs_alone": LogEvent("warning", "`--node` has no effect with `--topic`", "topic reason"),
    "node_drained": LogEvent("warning", "This node hands over its sites", "node hint"),
    "node_undrained": LogEvent("warning", "This node takes sites again", "node"),
    "clock_differs": LogEvent("warning", "The clock differs from the database server's", "node reason"),
    "cluster_check_put_off": LogEvent("warning", "The database fails: changes of nodes wait", "reason", "look_failed"),
    "partitions_taken": LogEvent("info", "This node polls these sites now", "partitions sites from_dead_nodes"),
    "partitions_released": LogEvent(
        "info", "Another node gets these partitions and roles", "partitions roles", "released"
    ),
    "partition_lost": LogEvent("warning", "Another node polls these sites now", "partition reason"),
    "roles_taken": LogEvent("info", "This node does these tasks for all nodes", "names"),
    "not_handed_over": LogEvent("warning", "The database fails: other nodes take over after a wait", "reason"),
    "hosts_not_claimed": LogEvent(
        "warning", "The database fails: polls of hosts that several nodes poll wait", "reason hosts"
    ),
    "budget_of_all_nodes": LogEvent("info", "The budget is that of the other nodes", "budget previous"),
    "budget_report_put_off": LogEvent(
        "warning", "The database fails: this node keeps its share", "reason", "not_reported"
    ),
    "allocation_put_off": LogEvent("warning", "The database fails: a new policy or goal waits", "reason"),
    "allocation_refused": LogEvent(
        "error", "This node cannot use the policy of all nodes", "reason effect", "allocation_not_followed"
    ),
    "setting_of_all_nodes": LogEvent("warning", "The setting is that of the other nodes", "setting value ignored"),
    "shadows_skipped": LogEvent(
        "warning", "Comparison policies cannot run on nodes", "names reason", "shadows_left_out"
    ),
    "news_put_off": LogEvent("warning", "The database fails: changes by other nodes wait", "reason"),
    # The topic crawler.
    "crawl_started": LogEvent("info", "The topic crawler is running", "topic pages unread seeds"),
    "frontier_unavailable": LogEvent("warning", "The database fails: the topic crawler waits", "reason"),
}
