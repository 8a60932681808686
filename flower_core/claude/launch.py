"""The program the SDK starts in place of the agent program: it cleans the environment and ties two lives together.

Run as ``python -I -S launch.py AGENT-PROGRAM ARGUMENT…``. It keeps only the variables named in ``FLOWER_KEEP_ENV``
(comma separated) and then becomes the agent program. Should the parent die, which is the process that
``FLOWER_PARENT_PID`` names, the agent program gets SIGINT, on which it ends cleanly; without that it finishes its
whole turn alone (measured: 23 more requests after the parent was killed). Linux has a kernel call for it; elsewhere
a watcher stays in between. With ``FLOWER_RUN_AS`` (``UID:GID``) it gives up root first, for good. Standard library
only, and nothing of flower: it starts with every session.
"""

import ctypes
import os
import signal
import stat
import subprocess
import sys

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38  # linux/prctl.h
_WATCH_EVERY_S = 0.5


def clean_environment(environ: dict[str, str]) -> dict[str, str]:
    """The variables of ``environ`` that ``FLOWER_KEEP_ENV`` names."""
    keep = set(environ.get("FLOWER_KEEP_ENV", "").split(","))
    return {name: value for name, value in environ.items() if name in keep}


def hand_over(folder: str | os.PathLike[str], uid: int, gid: int) -> None:
    """Make everything in ``folder`` belong to ``uid`` and ``gid``, and let only root and that group into it (3770).

    Call it as root. Follows no symbolic link. Leaves alone what is somebody else's and has a second name: that may lie
    where it is not ours to give. Whoever works in there meanwhile cannot have it take anything else for a file.
    """
    os.chown(folder, 0, gid)
    os.chmod(folder, 0o3770)  # noqa: S103 - in this order: a chown takes the set-group-ID bit away
    for _parent, names, files, within in os.fwalk(folder, follow_symlinks=False):
        for name in (*names, *files):
            try:
                about = os.stat(name, dir_fd=within, follow_symlinks=False)
                if (about.st_uid, about.st_gid) != (uid, gid):
                    _give(name, within, uid, gid)
            except FileNotFoundError:  # it has gone meanwhile
                continue


def _give(name: str, within: int, uid: int, gid: int) -> None:
    """Make what is called ``name`` in the directory ``within`` theirs, unless it is somebody else's with two names."""
    # Held, and looked at again: by another call with its name it might be something else each time.
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        about = os.fstat(handle)
        if about.st_uid == uid or about.st_nlink == 1 or stat.S_ISDIR(about.st_mode):
            os.chown(f"/proc/self/fd/{handle}", uid, gid)
    finally:
        os.close(handle)


def give_up_root(run_as: str, config_dir: str) -> None:
    """Become ``UID:GID``, in no other group and without a way back; the session's own files go along."""
    uid, gid = (int(part) for part in run_as.split(":"))
    if os.path.isdir(config_dir):  # of a session that goes on: the SDK has just laid it out
        hand_over(config_dir, uid, gid)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # Where root was sent to start may be a link by now, past a directory that is closed to this user.
    os.chdir(os.getcwd())
    # No program with a set-user-ID bit (su, sudo) gives any of it back.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.umask(0o077)


def become(command: list[str], environ: dict[str, str], parent: int) -> None:
    """Turn this process into ``command``, which gets SIGINT when ``parent`` dies (Linux). Never returns."""
    # Only now, as giving up root would cancel it. The signal fires when the *thread* that started this process ends, so
    # sessions are opened on a thread that lives as long as the runs do.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    if os.getppid() != parent:  # it died before the call
        sys.exit(143)
    os.execve(command[0], command, environ)  # noqa: S606 - becoming the agent program is the point


def watch(command: list[str], environ: dict[str, str], parent: int) -> int:
    """Run ``command`` and return its exit code; it gets SIGINT when ``parent`` dies, and what this process gets."""
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def hand_on(number: int, _frame: object) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    # Before there is a child: a signal that came in between would end this process alone.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    child = subprocess.Popen(command, env=environ)
    for got in early:
        child.send_signal(got)
    told = False
    while True:
        try:
            return child.wait(timeout=_WATCH_EVERY_S)
        except subprocess.TimeoutExpired:
            if not told and os.getppid() != parent:
                child.send_signal(signal.SIGINT)
                told = True


def main(argv: list[str], platform: str = sys.platform) -> int:
    """Become (Linux) or run (elsewhere) the command ``argv``; returns its exit code in the second case."""
    # Asked of the kernel, a parent that has died before this line would never be missed.
    parent = int(os.environ.get("FLOWER_PARENT_PID") or os.getppid())
    environ = clean_environment(dict(os.environ))
    if run_as := os.environ.get("FLOWER_RUN_AS"):
        give_up_root(run_as, os.environ.get("CLAUDE_CONFIG_DIR", ""))
    # A server put into the background by a shell ignores SIGINT, and what it starts would inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if platform == "linux":
        become(argv, environ, parent)
    return watch(argv, environ, parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
