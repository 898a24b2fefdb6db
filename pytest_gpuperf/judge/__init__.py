"""From records and baselines to verdicts; touches no GPU."""
