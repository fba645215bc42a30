"""The other crawlers, each as its own users would write it for speed. They run in a separate environment."""
