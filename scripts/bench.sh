#!/usr/bin/env bash
# The benchmark suite of this machine: the CPU kernels, and the CUDA kernels where PyTorch sees a GPU. Arguments go to bench/cpu.py.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/build.sh
if ! python3 -c 'import numpy' 2>/dev/null; then
  echo "bench/cpu.py needs NumPy: pip install numpy" >&2
  exit 1
fi
python3 bench/cpu.py "$@"
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  python3 bench/gpu.py
else
  echo "bench/gpu.py is skipped: PyTorch with a GPU is not here"
fi
