"""What is claimed about speed. Each claim is a ratio against a floor or a peer, measured in the same run."""
