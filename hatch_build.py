"""Puts `lua/` beside the package in a wheel. An editable install reads the repository's own folder instead."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShipScripts(BuildHookInterface[Any]):
    """Ships the scripts."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder to a standard build; the other kind of build is editable."""
        if version == "standard":
            build_data["force_include"]["lua"] = "langgraph/checkpoint/fastredis/lua"
