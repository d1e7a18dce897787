"""Who may call: tokens, wrong tokens, and pages of other sites."""
