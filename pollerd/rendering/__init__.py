"""Rendering: pages that need a browser, loaded through a guarded proxy of ours. Only it uses Playwright."""
