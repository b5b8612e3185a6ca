"""WebShop (Yao et al., 2022) as a fast Gymnasium text environment. Importing it registers `WebShop-v0`."""

import gymnasium

from webshop_env.env import WebShopEnv

__all__ = ["WebShopEnv"]

if "WebShop-v0" not in gymnasium.registry:
    gymnasium.register(id="WebShop-v0", entry_point="webshop_env.env:WebShopEnv", disable_env_checker=True)
