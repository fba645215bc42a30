"""Engines run by others: databases, brokers, object stores.

breaker   stops calling an engine that keeps failing, for a while
retry     makes a call again until the engine answers
parts     if an engine refuses a batch, only the refused items are lost
damaged   what reading bytes from an engine may raise
watch     reports once that an engine is away, and once that it is back
health    asks each engine one question, for `skitter cluster status`
"""
