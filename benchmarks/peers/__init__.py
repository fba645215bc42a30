"""The other crawlers, each as its own users would write it when they want it fast. They run in an environment of their own."""
