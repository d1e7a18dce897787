"""Job files of urlwatch, and of webchanges, which descends from it."""
