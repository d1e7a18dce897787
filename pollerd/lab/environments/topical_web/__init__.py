"""Generated topical webs for crawlers."""
