#!/bin/sh
# Makes .venv with exactly the packages of constraints.txt. Does nothing when that has been done already.
# PYTHON=… chooses the interpreter; otherwise the first one found that is new enough.
set -eu
cd "$(dirname "$0")/.."

usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
    usable "$PYTHON" || { echo "flower needs Python 3.11 or newer; PYTHON=$PYTHON is not one that works" >&2; exit 2; }
    python=$PYTHON
else
    python=
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if usable "$name"; then python=$name; break; fi
    done
    if [ -z "$python" ]; then
        found=$(python3 --version 2>/dev/null || echo "none")
        echo "flower needs Python 3.11 or newer (found: $found); install one, or name it: make PYTHON=/path/to/python3 …" >&2
        exit 2
    fi
fi

stamp=.venv/.complete
want=$(cat constraints.txt setup.cfg client/setup.cfg pyproject.toml | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && [ -x .venv/bin/python ]; then
    exit 0
fi

if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "this Python has no venv module; install it (on Debian and Ubuntu: apt-get install python3-venv) and run make again" >&2
    exit 2
fi

echo "setting up .venv (once; this takes a minute)" >&2
rm -rf .venv
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e ./client
echo "$want" > "$stamp"
