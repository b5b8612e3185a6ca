"""Evaluation of any chat model: the trained policy's own prompt, and the prompting baselines direct, ReAct, Reflexion."""
