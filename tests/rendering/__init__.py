"""Tests of rendering: the plan, the proxy, and real Chromium."""
