"""What every process needs and no crawler knows of: time, durable files, memory, hidden passwords."""
