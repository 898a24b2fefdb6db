"""The optional features, one folder each."""
