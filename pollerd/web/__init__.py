"""The web interface: pages drawn by the server over the ports that REST uses."""
