"""Which commands are mere looks: an allowlist of programs, each with the flags it may carry.

A look reads, prints, ends by itself and waits for nobody. Everything here is a list of what is known to be
harmless; whatever is not on it is refused. Three rules hold for every command:

- A word that begins with ``-`` must be a known flag, also behind ``--``. So no mistake about which word is
  a flag's value can hide a flag. Abbreviated long flags are unknown flags.
- Flags are matched before the shell expands wildcards, and a file may be *named* ``--output=x``. Where an
  unlisted flag could do harm, a word must therefore not begin with a wildcard (``./*`` does as well).
- A program that would read standard input needs a file to read, unless something is piped into it. What else
  an operand may be is in :mod:`flower_core.operands`.

What no text shows is somebody else's: programs that a repository's configuration names
(:mod:`flower_core.quiet_git`), and a named pipe or a link to a device that is already there (the time a look may take
is bounded). A shell profile may alias anything; whoever can write one can run commands already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from flower_core import operands as ops
from flower_core.operands import Operands, Word

Wildcards = Literal["anywhere", "inside", "nowhere"]
_NUMBER = re.compile(r"-[0-9]+[A-Za-z]?")


class Rule:
    """One command: its flags, what else it may be given, and where wildcards may stand.

    ``flags`` lists them in words; a suffix tells about the value: none, ``:`` (attached or the next word),
    ``?`` (optional, only attached) or ``=`` (only as ``--flag=value``). ``-NUM`` stands for a number such
    as ``-20``. ``never`` is a regular expression that no word of the command may match anywhere, values included.
    """

    def __init__(
        self,
        flags: str,
        operands: Callable[[Operands], bool] = ops.anything,
        wild: Wildcards = "anywhere",
        never: str = "",
    ) -> None:
        self.operands = operands
        self.wild = wild
        self.never = re.compile(never) if never else None
        self.flags: dict[str, str] = {}
        for flag in flags.split():
            name = flag.rstrip(":?=")
            self.flags[name] = flag[len(name) :]

    def allows(self, args: Sequence[Word], *, piped: bool) -> bool:
        """Whether every flag among ``args`` is known and the rest is acceptable."""
        if self.never is not None and any(self.never.search(word.text) for word in args):
            return False
        flags: set[str] = set()
        rest: list[Word] = []
        wants_value = no_more_flags = False
        for word in args:
            is_flag = word.text.startswith("-") and word.text != "-"
            if word.wild >= 0 and not self._may_expand(word):
                return False
            if wants_value:
                if is_flag and not _NUMBER.fullmatch(word.text):
                    return False
                wants_value = False
            elif not is_flag:
                rest.append(word)
            elif no_more_flags:
                return False
            elif word.text == "--":
                no_more_flags = True
            else:
                found = self._flag(word.text)
                if found is None:
                    return False
                flags |= found[0]
                wants_value = found[1]
        return not wants_value and self.operands(Operands(tuple(rest), frozenset(flags), piped))

    def _may_expand(self, word: Word) -> bool:
        if word.text.startswith("-"):
            return 0 < word.text.find("=") < word.wild
        return self.wild == "anywhere" or (self.wild == "inside" and word.wild > 0)

    def _flag(self, text: str) -> tuple[set[str], bool] | None:
        """The flags in one word and whether the next word is the value of the last; None when one is unknown."""
        if text.startswith("--"):
            name, equals, _ = text.partition("=")
            kind = self.flags.get(name)
            if kind is None or (not kind and equals) or (kind == "=" and not equals):
                return None
            return {name}, kind == ":" and not equals
        if "-NUM" in self.flags and re.fullmatch(r"-[0-9]+", text):
            return set(), False
        names: set[str] = set()
        for at, letter in enumerate(text[1:], start=1):
            kind = self.flags.get(f"-{letter}")
            if kind is None:
                return None
            names.add(f"-{letter}")
            if kind:
                return names, kind == ":" and at == len(text) - 1
        return names, False


_DIFF = """-p -u -s -U: -z -w -b -B? -M? -C? -D -R -W -a -S: -G: -X? --patch --no-patch --unified: --raw --stat?
    --numstat --shortstat --compact-summary --summary --dirstat? --name-only --name-status --color? --no-color
    --minimal --patience --histogram --diff-algorithm= --diff-filter= --find-renames? --find-copies? --no-renames
    --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --word-diff? --color-words?
    --color-moved? --function-context --text --check --full-index --abbrev? --pickaxe-all --pickaxe-regex --relative?
    --inter-hunk-context= --no-prefix --no-ext-diff --no-textconv --exit-code --quiet --cc --combined-all-paths"""
_LOG = f"""{_DIFF} -NUM -n: -g -i -E -F -P -L: -c -m -t -r --oneline --graph --all --branches? --tags? --remotes?
    --decorate? --no-decorate --max-count: --skip= --since: --after: --until: --before: --author: --committer: --grep:
    --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings --format= --pretty?
    --abbrev-commit --no-abbrev-commit --date= --relative-date --parents --children --left-right --cherry-mark
    --cherry-pick --boundary --merges --no-merges --first-parent --min-parents= --max-parents= --reverse --follow
    --topo-order --date-order --full-history --simplify-merges --ancestry-path --walk-reflogs
    --merge-base --source --not --no-notes"""
# These fields of a format start gpg.
_SIGNATURE = r"%[-+ ]?G|^--(?:format|sort)=.*signature"
_GREP = """-i -v -w -x -c -l -L -n -H -h -o -q -s -a -I -b -U -E -F -P -A: -B: -C: -m: -e: --ignore-case --invert-match
    --word-regexp --line-regexp --count --line-number --with-filename --no-filename --only-matching --quiet
    --no-messages --text --fixed-strings --regexp: --max-count: --after-context: --before-context:
    --context: --color?"""

#: The commands by name, git's by name and subcommand. ``find`` has a grammar of its own, see :func:`_find`.
RULES: dict[str, Rule] = {
    # Without -v: given twice it shows a diff, and nothing keeps that from starting a configured textconv.
    "git status": Rule(
        """-s -b -z -u? --short --branch --porcelain? --long --show-stash --untracked-files? --ignored?
        --ahead-behind --no-ahead-behind --no-renames --find-renames? --column? --no-column""",
        wild="inside",
    ),
    "git diff": Rule(f"{_DIFF} --cached --staged --merge-base", ops.ordinary, wild="inside"),
    "git log": Rule(_LOG, ops.ordinary, wild="inside", never=_SIGNATURE),
    "git show": Rule(_LOG, ops.ordinary, wild="inside", never=_SIGNATURE),
    "git branch": Rule(
        """-a -r -v --all --remotes --verbose --list --show-current --merged? --no-merged? --contains? --no-contains?
        --points-at? --sort= --format= --color? --no-color --column? --no-column --abbrev? --no-abbrev -i --ignore-case
        --omit-empty""",
        ops.branch,
        wild="nowhere",
        never=_SIGNATURE,
    ),
    "git rev-parse": Rule(
        """-q --verify --quiet --short? --abbrev-ref? --symbolic --symbolic-full-name --show-toplevel --show-prefix
        --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree --is-inside-git-dir
        --is-bare-repository --is-shallow-repository --show-object-format? --all --branches? --tags? --remotes?
        --since= --until=""",
        wild="inside",
    ),
    "ls": Rule(
        """-a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x -X -Z -1
        -w: -I: -T: --all --almost-all --author --escape --ignore-backups --color? --directory --classify? --file-type
        --full-time --group-directories-first --no-group --human-readable --si --dereference --inode --ignore= --hide=
        --kibibytes --numeric-uid-gid --literal --quote-name --reverse --recursive --size --sort= --time= --time-style=
        --width= --zero --block-size= --format= --indicator-style= --quoting-style="""
    ),
    "pwd": Rule("-L -P --logical --physical", ops.nothing, wild="nowhere"),
    "cat": Rule(
        """-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs
        --show-nonprinting""",
        ops.files,
    ),
    "head": Rule("-NUM -n: -c: -q -v -z --lines: --bytes: --quiet --silent --verbose --zero-terminated", ops.files),
    "tail": Rule(
        "-NUM -n: -c: -q -v -z -r --lines: --bytes: --quiet --silent --verbose --zero-terminated",
        ops.tail,
        wild="inside",
        never="^-cf",  # an old spelling of -f: GNU tail follows the file
    ),
    "wc": Rule("-c -m -l -L -w --bytes --chars --lines --max-line-length --words --total=", ops.files),
    "stat": Rule("-L -f -t -x -c: --dereference --file-system --terse --format= --printf=", ops.no_stdin),
    "file": Rule(
        """-b -i -k -L -h -N -r -0 -F: --brief --mime --mime-type --mime-encoding --extension --keep-going
        --dereference --no-dereference --no-pad --raw --print0 --separator:""",
        ops.files,
        wild="inside",
    ),
    "du": Rule(
        """-a -b -c -D -h -H -k -l -L -m -P -s -S -x -0 -d: -t: -B: --all --apparent-size --block-size= --bytes --total
        --max-depth= --human-readable --inodes --dereference --separate-dirs --si --summarize --threshold= --time?
        --time-style= --exclude= --one-file-system --null"""
    ),
    "df": Rule(
        """-a -h -H -i -k -l -m -P -T -B: -t: -x: --all --block-size= --human-readable --si --inodes --local --no-sync
        --output? --portability --print-type --total --type= --exclude-type="""
    ),
    "date": Rule(
        """-u -R -I? -d: -r: --utc --universal --date: --reference: --iso-8601? --rfc-3339= --rfc-email --debug""",
        ops.date,
        wild="nowhere",
    ),
    "ps": Rule(
        """-A -a -c -d -e -f -F -H -j -l -L -M -T -w -x -y -C: -g: -G: -o: -O: -p: -s: -t: -u: -U: --forest --headers
        --no-headers --sort= --format= --pid= --ppid= --user= --cols= --columns= --width= --rows= --lines= --cumulative
        --deselect --group= --sid= --tty=""",
        ops.ps,
        wild="nowhere",
        never="environ",  # the field that prints every process's environment
    ),
    "which": Rule("-a -s --all"),
    "grep": Rule(
        f"""{_GREP} -NUM -r -R -y -G -Z -z -T --recursive --dereference-recursive --include= --exclude=
        --exclude-dir= --files-with-matches --files-without-match --basic-regexp --extended-regexp --perl-regexp
        --no-ignore-case --byte-offset --null-data --initial-tab --binary-files= --label=
        --line-buffered""",
        ops.grep,
    ),
    "rg": Rule(
        f"""{_GREP} -N -S -u -0 -p -g: -t: -T: -d: -j: -M: -E: -r: --smart-case --case-sensitive --hidden --no-hidden
        --no-ignore --no-ignore-vcs --no-ignore-parent --no-config --follow --files --files-with-matches
        --files-without-match --count-matches --glob: --iglob: --type: --type-not: --type-list --stats --json --sort:
        --sortr: --no-heading --heading --column --no-line-number --trim --vimgrep --passthru --multiline
        --multiline-dotall --pcre2 --max-columns: --max-depth: --max-filesize: --replace: --binary --encoding: --pretty
        --one-file-system --threads: --unrestricted --engine: --no-unicode --crlf --no-require-git""",
        ops.rg,
        wild="inside",
    ),
}

_FIND = """-H -L -P -E -print -prune -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname
    -ilname -type -xtype -size -empty -mtime -mmin -atime -amin -ctime -cmin -used -newer -anewer -cnewer -user -group
    -uid -gid -nouser -nogroup -perm -readable -writable -executable -links -inum -samefile -fstype -maxdepth -mindepth
    -mount -xdev -depth -d -daystart -follow -noleaf -ignore_readdir_race -true -false -not -a -and -o -or"""
_FIND_WORDS = frozenset(_FIND.split())
_FIND_VALUE = re.compile(r"-[0-9]+[A-Za-z]?|-[ugoa]*[+=][rwxstXugoa,+=]*|-newer[aBcm][aBcmt]")


def _find(args: Sequence[Word]) -> bool:
    """Whether a find only prints.

    What each word means is of no interest: none of the words that act is on the list, wherever it stands.
    (``-prune`` is: it steers the walk and does nothing.)
    """
    return all(
        word.wild != 0 and (not word.text.startswith("-") or (word.wild < 0 and _known_to_find(word.text)))
        for word in args
    )


def _known_to_find(text: str) -> bool:
    return text in _FIND_WORDS or _FIND_VALUE.fullmatch(text) is not None


def git_subcommand(words: Sequence[Word]) -> int:
    """The index of git's subcommand in ``words``: behind the general flags that a look may carry."""
    at = 1
    while at < len(words) and words[at].text in ("--no-pager", "--no-optional-locks"):
        at += 1
    return at


def is_look(words: Sequence[Word], *, piped: bool) -> bool:
    """Whether one simple command only looks. ``piped`` says that its standard input comes from a pipe."""
    name, args = words[0].text, words[1:]
    if name == "find":
        return _find(args)
    if name == "git":
        at = git_subcommand(words)
        if at >= len(words) or words[at].wild >= 0:
            return False
        name, args = f"git {words[at].text}", words[at + 1 :]
    rule = RULES.get(name)
    return rule is not None and rule.allows(args, piped=piped)
