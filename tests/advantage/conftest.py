"""Lets the tests of this folder import their helpers (advantage_naive, advantage_tables) in any import mode."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
