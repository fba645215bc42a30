"""Alerts: which rules there are, whether they hold, since when, and what is said about that. Pure."""
