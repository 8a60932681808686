"""What a workflow is tested with: the real agent program, its tools and files, and a play in place of a model.

Needs no test framework::

    played = rehearse(flow, "notes.toml", workspace=tmp_path / "space", run_dir=tmp_path / "books")
    assert played.failed_at == ""
"""

from flower_core.testing.rehearsing import Answer, Rehearsed, first_option, rehearse

__all__ = ["Answer", "Rehearsed", "first_option", "rehearse"]
