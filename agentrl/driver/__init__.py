"""The training loop and what it needs: collection, metrics, evaluation, checkpoints, stopping."""
