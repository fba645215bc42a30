"""One executable contract per port: a back end is supported when it passes.

Each module holds a class of tests. Subclass it under a name that pytest collects (`Test…`), say how your back end is
opened, and run it.
"""
