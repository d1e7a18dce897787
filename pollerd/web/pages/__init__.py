"""The pages: a file a subject, each reads what it shows through the API's ports and fills a template."""
