"""The engines that a crawl on many machines stands on, started for the tests as they really are.

A fake of Kafka or PostgreSQL would agree with whatever we believe about it; the tests of the cluster ask the engine
itself. One module per engine says how it is installed, configured, started and asked whether it answers. `place` knows
where everything lives, `processes` starts and stops, `install` fetches, `command` is what people type.

Only the standard library is used: the engines come up before there is a virtual environment.
"""
