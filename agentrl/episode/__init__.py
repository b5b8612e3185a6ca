"""Episodes: rendering, parsing, the loop, the records, and seeds by identity."""

from agentrl.episode.loop import EpisodeSettings, run_episode
from agentrl.episode.parse import INVALID, ActionParser, Parsed
from agentrl.episode.prompt import Prompt, Renderer, WindowRenderer
from agentrl.episode.records import Generation, Trajectory, Turn
from agentrl.episode.seeds import derive
from agentrl.episode.transcript import format_trajectory, write_transcript

__all__ = [
    "INVALID",
    "ActionParser",
    "EpisodeSettings",
    "Generation",
    "Parsed",
    "Prompt",
    "Renderer",
    "Trajectory",
    "Turn",
    "WindowRenderer",
    "derive",
    "format_trajectory",
    "run_episode",
    "write_transcript",
]
