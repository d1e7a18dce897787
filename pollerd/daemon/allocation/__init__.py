"""Explanations, forecasts, shadows and handover around the active allocator."""
