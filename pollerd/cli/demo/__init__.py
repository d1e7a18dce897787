"""`pollerd demo`: a small changing web on loopback, polled live."""
