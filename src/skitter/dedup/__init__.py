"""Duplicate pages: exact by digest, near by SimHash."""
