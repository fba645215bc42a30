"""Engines run by others: what to do while one is away."""
