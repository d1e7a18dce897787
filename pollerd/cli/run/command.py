"""The command: what was given, as settings."""

from __future__ import annotations

from pollerd.cli.common.grouped import grouped
from pollerd.cli.common.loading import loading
from pollerd.cli.run.options import CrawlerOptions, ListOfSites, PollingOptions, ProcessOptions, SettingsFile


@grouped
def run(
    urls: ListOfSites = None,
    *,
    crawler: CrawlerOptions,
    polling: PollingOptions,
    process: ProcessOptions,
    config: SettingsFile = None,
) -> None:
    """Polls the sites of a list, and those added over REST, until Ctrl-C. SIGHUP reads list and settings again.

    Every option is also a POLLERD_... variable and a TOML key; flags win, then variables, then the file.
    """
    given = {"urls": urls, **vars(crawler), **vars(polling), **vars(process)}
    flags = {name: None if value == [] else value for name, value in given.items()}  # not given: an empty list
    with loading():  # here, so that --help does not load it
        from pollerd.app import gc_tuning

        gc_tuning.before_loading()
        from pollerd.cli.serving import serve
    serve(flags, config)
