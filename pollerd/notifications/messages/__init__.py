"""Messages made of events: subject, text, HTML, Markdown, and the JSON of webhooks. Pure."""
