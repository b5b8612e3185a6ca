"""Seeds by identity: what is random depends on which trajectory and turn it is for, never on who ran it or when."""

from __future__ import annotations

import hashlib
import json


def derive(run_seed: int, step: int, task_id: str, member: int, turn: int | None = None, stream: str = "sample") -> int:
    """A seed in 0 .. 2**63 - 1, the same in every process and release.

    Args:
        step: the training step; evaluations use -1, so that each sees the same randomness.
        member: index in the group. The stream "env" leaves member and turn out: a group starts from one place.
        turn: None for a seed of the whole trajectory.
        stream: what the seed is for; different streams are independent.
    """
    if stream == "env":
        member, turn = 0, None
    # JSON keeps the parts apart: ("1", 23) and ("12", 3) are different texts
    identity = json.dumps([stream, run_seed, step, task_id, member, turn], ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "big") >> 1
