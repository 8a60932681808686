"""The HTTP half of flower: serves what flower_core does to anyone who can poll."""
