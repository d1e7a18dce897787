"""WebSub: hubs that signal sources offer, subscriptions at them, and what they send."""
