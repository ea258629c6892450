#!/bin/sh
# usage: make_peer.sh DIR [PYTHON]   -- an environment of its own with TorchTPU 0.2.0 and the XLA CPU plugin, to measure beside us.
# Its package is imported as torch_tpu too, so it can't share an environment with ours.
set -eu
dir=$1
python=${2:-python3}
"$python" -m venv "$dir.part"
"$dir.part/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy
"$dir.part/bin/pip" install -q --disable-pip-version-check torch_tpu==0.2.0 libtpu==0.0.52 xla-cpu-pjrt==0.0.1
# Complete or absent, never half: scripts of the environment are not used, only its interpreter.
mv "$dir.part" "$dir"
