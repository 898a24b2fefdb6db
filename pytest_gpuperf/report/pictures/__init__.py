"""Pictures of measurements: a model without pixels, builders from records, and a renderer for files."""
