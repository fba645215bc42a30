"""What people and programs are told: log, report, records, and numbers the way people read them."""
