"""Lets the tests of this folder import their helpers in any import mode."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
