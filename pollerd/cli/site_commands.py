"""`pollerd sites`: its commands by name."""

from __future__ import annotations

from pollerd.cli.lazy_commands import Commands, group_of

COMMANDS: Commands = {
    "add": ("sites:add", "Adds sites; all get the same settings."),
    "list": ("sites:list_", "Lists sites: id, state, URL, changes per day, polls, changes."),
    "show": ("sites:show", "Shows all of one site, and why it is polled as it is."),
    "edit": ("site_edit:edit", "Changes settings of sites."),
    "pause": ("sites:pause", "Stops the polling of sites until they are resumed."),
    "resume": ("sites:resume", "Polls sites again that were paused, back off, or were gone."),
    "poll": ("sites:poll", "Polls sites before all others, as soon as their hosts allow."),
    "remove": ("sites:remove", "Removes sites with all that was recorded of them."),
    "import": (
        "site_lists:import_",
        "Adds the sites of a file.",
    ),
    "diff": ("sites_diff:diff", "Says what a list would change, and changes nothing."),
    "export": ("site_lists:export", "Writes all sites with their settings, as `import` reads them."),
}
app = group_of(COMMANDS, help_="The sites of a running daemon.")
