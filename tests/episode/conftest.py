"""The helper modules beside these tests can be imported by them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
