"""What says which sites there are, or that they changed. Pure."""
