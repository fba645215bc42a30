"""What the ports are made of: each module here keeps the promises of one of them. Only `compose` imports these."""
