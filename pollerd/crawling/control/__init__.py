"""Request control of the crawler: values of pages, the request controllers of [C], concurrency."""
