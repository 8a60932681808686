"""Where session transcripts are kept."""

from flower_core.sessions.sqlite import Rewriter, SqliteSessionStore

__all__ = ["Rewriter", "SqliteSessionStore"]
