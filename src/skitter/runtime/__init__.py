"""What any process needs, independent of crawling: time, durable files, memory, hiding passwords."""
