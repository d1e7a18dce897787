"""What every page goes through: templates, headers, errors, forms, assets."""
