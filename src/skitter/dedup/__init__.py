"""Pages that repeat others: by digest, and by SimHash."""
