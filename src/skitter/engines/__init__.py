"""Engines that others run: what to do while one is away."""
