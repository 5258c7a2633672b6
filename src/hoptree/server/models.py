"""The models that clients choose among, opened once and shared by all questions."""

from __future__ import annotations

from hoptree.errors import ConfigError
from hoptree.models import open_model
from hoptree.models.model import Model
from hoptree.server.names import unknown
from hoptree.server.settings import Settings

__all__ = ["Models"]


class Models:
    """Open models by the names clients see; the first is the default."""

    def __init__(self, settings: Settings) -> None:
        for name in settings.base_urls:
            if name not in settings.models:
                raise ConfigError(f"--base-url names no model '{name}'.", f"There are {', '.join(settings.models)}.")
        self._opened: list[Model] = []
        self._models: dict[str, Model] = {}
        for name, given in settings.models.items():
            if not isinstance(given, str):
                self._models[name] = given
                continue
            self._models[name] = open_model(given, base_url=settings.base_urls.get(name, ""))
            self._opened.append(self._models[name])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._models)

    @property
    def default(self) -> str:
        return self.names[0]

    def find(self, name: str | None) -> tuple[str, Model]:
        """The model of a name, or the default one."""
        chosen = self.default if name is None else name
        if chosen not in self._models:
            raise unknown("model", chosen, self._models)
        return chosen, self._models[chosen]

    async def aclose(self) -> None:
        for model in self._opened:
            await model.aclose()
