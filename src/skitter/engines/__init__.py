"""Engines that others run: databases, brokers, object stores.

breaker   an engine that keeps failing is left alone for a while
parts     what an engine refuses costs the one item that it refuses
watch     tells once that an engine is away, and once that it is back
health    one question to each engine, for people who look
"""
