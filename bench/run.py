"""Run every benchmark here, one after the other; each compares with a floor or a peer and ends by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run them; the exit code is that of the first one that failed."""
    for script in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"== {script.name}", flush=True)
        code = subprocess.run([sys.executable, str(script)], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
