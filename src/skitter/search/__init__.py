"""How pages get into a search index: `feed` carries batches from anywhere, `stored` makes them from a crawl directory."""
