"""Signal sources: polls and reports that say when other pages change, passed to the allocator as evidence."""
