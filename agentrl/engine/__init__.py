"""The seam with verl, vLLM and torch.distributed: nothing outside this package imports them."""
