"""Commands of `pollerd sites` by name."""

from __future__ import annotations

from pollerd.cli.commands import Commands, group_of

COMMANDS: Commands = {
    "add": ("sites:add", "Adds sites; all get the same settings."),
    "list": ("sites:list_", "Lists sites: id, state, URL, changes per day, polls, changes."),
    "show": ("sites:show", "Shows all of one site, and why it is polled as it is."),
    "edit": ("sites:edit", "Changes settings of sites."),
    "pause": ("sites:pause", "Stops the polling of sites until they are resumed."),
    "resume": ("sites:resume", "Polls sites again that were paused, back off, or were gone."),
    "poll": ("sites:poll", "Polls sites before all others, as soon as their hosts allow."),
    "remove": ("sites:remove", "Removes sites with all that was recorded of them."),
    "bulk": (
        "jobs:bulk",
        "Does one thing to all sites that fit a filter.",
    ),
    "import": (
        "lists:import_",
        "Adds the sites of a file.",
    ),
    "diff": ("lists:diff", "Says what a list would change, and changes nothing."),
    "preview": (
        "selections:preview",
        "Shows what is kept of a page, what is removed, its values, and what the conditions say.",
    ),
    "export": ("lists:export", "Writes all sites with their settings, as `import` reads them."),
}
app = group_of(COMMANDS, help_="The sites of a running daemon.")
