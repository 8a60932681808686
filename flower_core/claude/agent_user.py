"""Running agents as a user of their own, each workspace's in a group of its own: what ``--agent-user`` does.

The user keeps agents out of what is the server's: journal, tokens, books, its memory. Two runs have the same user, so
what keeps them apart is a group that each workspace gets and nobody is a member of:

- The directories a run needs belong to root and to that group, mode 3770. A neighbour has neither, so it does not get
  in, whatever it owns inside. (Sticky, as the agent program keeps its socket in no place where others may remove it.)
- To look into a process (its environment, its memory) the kernel asks for the same user *and* group (ptrace(2)).

What is left between neighbours are signals, for which the same user is enough, and what everybody may see of processes.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from flower_core.claude.environment import RUN_AS, agent_program
from flower_core.claude.launch import hand_over
from flower_core.errors import AgentUserUnusable
from flower_core.files import atomic_write
from flower_core.rights import acting_for, entrust
from flower_core.workbench import beside

#: Where the group ids of workspaces begin, and how many there are: a range that no distribution gives to anybody
#: (systemd.io/UIDS-GIDS).
_FIRST_GROUP, _GROUPS = 0x70000000, 0x0FFFFFF0
_PROGRAM_S = 30.0
#: Longer, and the agent program would put the socket through which sessions send each other messages not into the run's
#: directory, but where every run reaches it: its path has at most 103 bytes, ``/config/RUN_ID/tmp/cc-socks/PID.sock``.
_MOST_PATH_BYTES = 44


@dataclass(frozen=True)
class AgentUser:
    """The user ``name`` with id ``uid`` (and group ``gid``), as whom the agents below ``workspace_root`` run."""

    name: str
    uid: int
    gid: int
    data_dir: Path
    workspace_root: Path

    @classmethod
    def find(cls, name: str, data_dir: Path, workspace_root: Path) -> AgentUser:
        """The user of that name, when agents can be run as that one. Changes nothing.

        Raises AgentUserUnusable, which says what is in the way: not root, no such user, root itself, a directory above
        data dir or workspaces that the user cannot get through, a long path, an agent program that it cannot execute.
        """
        if sys.platform != "linux" or os.geteuid() != 0:
            raise AgentUserUnusable(f"--agent-user {name}: only root on Linux can run agents as another user")
        try:
            entry = pwd.getpwnam(name)
        except KeyError as error:
            raise AgentUserUnusable(
                f"--agent-user {name}: there is no such user; make one (useradd --system)"
            ) from error
        if entry.pw_uid == 0:
            raise AgentUserUnusable(f"--agent-user {name}: that is root itself; name a user without any rights")
        user = cls(name, entry.pw_uid, entry.pw_gid, data_dir.resolve(), workspace_root.resolve())
        if len(os.fsencode(user.data_dir)) > _MOST_PATH_BYTES:
            raise AgentUserUnusable(
                f"--agent-user {name}: the path of the data dir {user.data_dir} is too long for it, "
                f"{_MOST_PATH_BYTES} bytes at most; choose a shorter --data-dir, such as /var/lib/flower"
            )
        for place in (user.data_dir, user.workspace_root):
            user._check_way(place)
        user._check_program()
        return user

    def move_in(self) -> None:
        """Prepare this process and the data dir: from now on what it makes is its own, and agents find their way.

        Call it once, before there is another thread. Raises OSError.
        """
        os.umask(0o077)
        os.setgroups([])  # they would count where the server acts for an agent
        for place in (self.data_dir, *self.data_dir.iterdir()):
            if not place.is_symlink():
                place.chmod(place.stat().st_mode & 0o700)
        for place in (self.data_dir / "config", self.data_dir / "tmp", self.workspace_root):
            self._open_way(place)
        for place in (self.data_dir / "config", self.data_dir / "tmp", self.workspace_root):
            entrust(place, self.uid)

    def environ(self) -> dict[str, str]:
        """What has a session run as this user; without :meth:`admit` it finds nothing that it may read."""
        return {RUN_AS: f"{self.uid}:{self.gid}", "USER": self.name, "LOGNAME": self.name}

    def admit(self, config_dir: Path, workspace: Path, *more: Path) -> dict[str, str]:
        """Hand ``config_dir``, ``workspace`` and ``more`` places of the run beside it over to its agents.

        All but the first lie below ``workspace_root``, and belong to the group of ``workspace`` from then on. Takes as
        long as it takes to look at every file once. Returns what to add to the environment: HOME, TMPDIR and
        XDG_RUNTIME_DIR are the run's own, as whatever programs leave there would be open to its neighbours.

        Raises OSError, also when a link in the workspace has led to a place that is another one's.
        """
        for place in more:
            if not self.may_admit(place, workspace):
                raise PermissionError(f"{place} belongs to another workspace than {workspace}")
        gid = self._group_of(workspace)
        for place in dict.fromkeys(self._top(place) for place in (workspace, *more)):
            place.mkdir(exist_ok=True)
            hand_over(place, self.uid, gid)
        self._open_way(config_dir.parent)
        home, temporary = config_dir / "home", config_dir / "tmp"
        config_dir.mkdir(exist_ok=True)
        hand_over(config_dir, self.uid, gid)
        with acting_for(config_dir):  # in a run that goes on, either may be a link by now
            for place in (home, temporary):
                place.mkdir(exist_ok=True)
        # Only root and this group get into a repository's top, so to git it seems to be somebody else's.
        atomic_write(home / ".gitconfig", "[safe]\n\tdirectory = *\n")
        ids = {RUN_AS: f"{self.uid}:{gid}"}
        own = {"HOME": str(home), "TMPDIR": str(temporary), "XDG_RUNTIME_DIR": str(temporary)}
        return {**self.environ(), **ids, **own}

    def may_admit(self, place: Path, workspace: Path) -> bool:
        """Whether agents of ``workspace`` may get ``place``: below the same top, or below the one beside it.

        Both have their links resolved.
        """
        if place == self.workspace_root or not place.is_relative_to(self.workspace_root):
            return False
        top = self._top(workspace)
        return self._top(place) in (top, beside(top))

    def _group_of(self, workspace: Path) -> int:
        """Always the same for one top directory; by chance the same for two in one of 268 million cases."""
        digest = hashlib.sha256(os.fsencode(self._top(workspace))).digest()
        return _FIRST_GROUP + int.from_bytes(digest[:8], "big") % _GROUPS

    def _top(self, place: Path) -> Path:
        return self.workspace_root / place.relative_to(self.workspace_root).parts[0]

    def _open_way(self, place: Path) -> None:
        """Let others go through ``place``, made if missing, to what they know the name of."""
        place.mkdir(parents=True, exist_ok=True)
        for folder in (place, *place.parents):
            if folder == place or folder.is_relative_to(self.data_dir):
                folder.chmod(folder.stat().st_mode | 0o011)

    def _check_way(self, place: Path) -> None:
        for parent in reversed(place.parents):
            ours = parent.is_relative_to(self.data_dir)
            if not ours and parent.exists() and not parent.stat().st_mode & 0o001:
                raise AgentUserUnusable(
                    f"--agent-user {self.name} cannot get through {parent} to {place}; choose another --data-dir or "
                    "--workspace-root, such as one in /var/lib, or chmod o+x what is in the way"
                )

    def _check_program(self) -> None:
        program = agent_program()
        try:
            done = subprocess.run(
                [program, "--version"],
                env={"PATH": os.defpath, "HOME": "/nonexistent", "CLAUDE_CONFIG_DIR": "/nonexistent"},
                cwd="/",
                user=self.uid,
                group=self.gid,
                extra_groups=[],
                capture_output=True,
                timeout=_PROGRAM_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise AgentUserUnusable(f"--agent-user {self.name} cannot execute {program}: {error}") from error
        if done.returncode:
            raise AgentUserUnusable(f"--agent-user {self.name}: {program} ends with exit code {done.returncode}")
