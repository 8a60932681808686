"""The library half of flower: runs agents, asks people, judges the work. Knows no HTTP."""
