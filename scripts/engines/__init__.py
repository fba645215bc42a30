"""The engines of a cluster, started for the tests.

A fake of Kafka or PostgreSQL would agree with whatever we believe about it; the cluster tests use the real
engine. One module per engine says how it is installed, configured, started and checked. `place` knows where
everything is, `processes` starts and stops, `install` downloads, `command` is the command line.

Only the standard library is used: the engines start before there is a virtual environment.
"""
