"""Which pages are open to whom: each route of the pages is declared here, and a test compares both ways."""

from __future__ import annotations

PAGE_ROUTES = """
    visitor GET    /assets/*
    visitor GET    /assets/{build}/{name}
    visitor GET    /sign-in
    visitor POST   /sign-in
    visitor GET    /first-user
    visitor POST   /first-user
    read    POST   /sign-out
    read    GET    /password
    read    POST   /password
    read    GET    /
    read    GET    /live/state
    read    GET    /changes
    read    POST   /changes/seen
    read    GET    /changes/{change_id:id}
    read    GET    /collection
    read    GET    /jobs
    read    GET    /jobs/{job_id:id}
    write   POST   /jobs/{job_id:id}/undo
    read    GET    /plan
    read    GET    /rules
    write   POST   /rules/channels
    write   POST   /rules/channels/{channel_id:id}/delete
    write   POST   /rules/channels/{channel_id:id}/resend
    write   POST   /rules/channels/{channel_id:id}/test
    read    GET    /rules/new
    write   POST   /rules/new
    read    GET    /rules/{rule_id:id}
    write   POST   /rules/{rule_id:id}
    write   POST   /rules/{rule_id:id}/delete
    read    GET    /sites
    write   POST   /sites
    write   POST   /sites/bulk
    read    GET    /sites/import
    write   POST   /sites/import
    read    GET    /sites/import/{import_id:id}
    read    GET    /sites/{site_id:id}
    write   POST   /sites/{site_id:id}
    write   POST   /sites/{site_id:id}/accept-redirect
    read    GET    /sites/{site_id:id}/compare
    write   POST   /sites/{site_id:id}/delete
    write   POST   /sites/{site_id:id}/pause
    write   POST   /sites/{site_id:id}/poll
    read    GET    /sites/{site_id:id}/polls
    write   POST   /sites/{site_id:id}/resume
    read    GET    /sites/{site_id:id}/text
    read    GET    /system
    write   POST   /system/allocation
    write   GET    /system/accounts
    write   POST   /system/users
    write   POST   /system/users/{user_name}
    write   POST   /system/users/{user_name}/remove
    write   POST   /system/tokens
    write   POST   /system/tokens/{token_id:id}/withdraw
    write   POST   /system/sessions/{session_id:id}/end
    write   POST   /system/sign-out-everywhere
"""
"""All routes of the pages."""
