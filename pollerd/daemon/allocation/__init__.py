"""The allocator in force beside others: explanations, forecasts, shadows, handover."""
