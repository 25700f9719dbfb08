#!/usr/bin/env bash
# install-peers.sh NAME REQUIREMENTS IMPORTS: a Python in ~/.cache/coxswain/NAME that can import IMPORTS. Prints its path.
set -euo pipefail
peers=${COXSWAIN_CACHE:-$HOME/.cache/coxswain}/$1
if [ ! -x "$peers/bin/python" ]; then
  echo "installing $3 into $peers" >&2
  python3 -m venv "$peers"
fi
"$peers/bin/python" -c "import $3" 2>/dev/null || "$peers/bin/pip" install -q -r "$2" >&2
echo "$peers/bin/python"
