"""Where session transcripts are kept, and how they are rewritten as they are fed back."""

from flower_core.sessions.expire import expire
from flower_core.sessions.prune import prune
from flower_core.sessions.rewriting import rewriters
from flower_core.sessions.sqlite import Rewriter, SqliteSessionStore
from flower_core.sessions.trim import trim

__all__ = ["Rewriter", "SqliteSessionStore", "expire", "prune", "rewriters", "trim"]
