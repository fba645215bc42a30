"""Output for people and programs: log, report, record shapes, and number formatting."""
