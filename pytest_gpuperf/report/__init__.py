"""From records and verdicts to what people and machines read."""
