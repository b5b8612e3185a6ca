"""agentrl: reinforcement learning of language-model agents over many-turn environments."""

__version__ = "0.1.0"
