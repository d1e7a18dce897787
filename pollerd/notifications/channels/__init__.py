"""Channels send messages: webhooks, e-mail, NATS JetStream and, in processes of their own, what Apprise can."""
