"""Render plans: what a user says about how a page is rendered, checked."""
