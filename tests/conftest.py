"""Settings that must stand before anything is imported, here and in the processes that tests start."""

import atexit
import os
import shutil
import tempfile

# threads that fight for two cores make everything slower
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# nothing is downloaded, reported or uploaded, whatever the user of this machine has set up
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["VLLM_NO_USAGE_STATS"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["WANDB_MODE"] = "disabled"
os.environ["MPLBACKEND"] = "agg"
# the cluster, the recipes and the environment of an outer run are not ours
for name in ("RAY_ADDRESS", "AGENTRL_RECIPES"):
    os.environ.pop(name, None)
# what packages prepare at first use is made anew, so that nothing that lies about on a machine helps
os.environ["WEBSHOP_ENV_CACHE"] = tempfile.mkdtemp(prefix="agentrl-tests-")
atexit.register(shutil.rmtree, os.environ["WEBSHOP_ENV_CACHE"], ignore_errors=True)
