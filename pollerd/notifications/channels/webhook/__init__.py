"""Webhooks by the Standard Webhooks specification."""
