"""Lets the tests of this folder import their helpers (tiny, training_local) in any import mode."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
