"""What the crawler asks for next: values of pages, trials, concurrency."""
