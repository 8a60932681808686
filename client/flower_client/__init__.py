"""Follow and steer flower runs: a command and a small library."""
