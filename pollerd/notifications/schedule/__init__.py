"""When a notice may be sent: at once, with a digest, after quiet hours; when again after a failure. Pure."""
