"""What every component of the stack has: a type, a parent, and options for its children."""

from collections.abc import Sequence

import pulumi

from infra.model import StackConfig


class Component(pulumi.ComponentResource):
    """A group of resources with one purpose.

    Parameters
    ----------
    kind
        The component's type, for the engine's own display.
    name
        Logical name, unique per kind.
    config
        The stack's configuration.
    depends_on
        What must exist before any child.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        config: StackConfig,
        depends_on: Sequence[pulumi.Resource] = (),
    ) -> None:
        super().__init__(f"scheduled-once:index:{kind}", name)
        self.config = config
        self._depends_on = list(depends_on)

    def options(
        self, *depends_on: pulumi.Resource, protect: bool = False, retain: bool = False
    ) -> pulumi.ResourceOptions:
        """Return the options of a child.

        Parameters
        ----------
        depends_on
            What must exist before it, beyond what the whole component waits for.
        protect
            Whether a production stack refuses to delete it.
        retain
            Whether it stays when the stack no longer has it.
        """
        return pulumi.ResourceOptions(
            parent=self,
            depends_on=[*self._depends_on, *depends_on],
            protect=True if protect and self.config.production else None,
            retain_on_delete=retain or None,
        )
