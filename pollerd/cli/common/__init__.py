"""What commands share: options, output, progress, lazy loading."""
