"""The one place that knows the agent program and its SDK; everything above speaks in our own types."""
