"""Environments: the contract, the registry, the server actor and the pool that recovers what a dead server held."""

from agentrl.environments.contract import ContractError, Environment, EnvironmentPlugin, Observed, TaskList
from agentrl.environments.faults import EnvironmentServerError, TrajectoryLost
from agentrl.environments.pool import EnvironmentPool
from agentrl.environments.registry import available_environments, load_environment
from agentrl.environments.session import EnvironmentSession
from agentrl.environments.waits import Waits, watch

__all__ = [
    "ContractError",
    "Environment",
    "EnvironmentPlugin",
    "EnvironmentPool",
    "EnvironmentServerError",
    "EnvironmentSession",
    "Observed",
    "TaskList",
    "TrajectoryLost",
    "Waits",
    "available_environments",
    "load_environment",
    "watch",
]
