"""Rewards: what a trajectory's rows are paid."""

from agentrl.rewards.outcome import RewardSpec

__all__ = ["RewardSpec"]
