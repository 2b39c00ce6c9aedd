"""The Google APIs that the stack needs: switched on, and never switched off again."""

from pulumi_gcp import projects

from infra.component import Component
from infra.model import BuildTrigger, EventarcSource, StackConfig, Workflow

_ALWAYS = ("cloudscheduler", "firestore", "iam", "run")


def needed(config: StackConfig) -> tuple[str, ...]:
    """Return the names of the APIs that this configuration uses, without `.googleapis.com`."""
    starts = config.starts.values()
    triggers = any(isinstance(event.source, EventarcSource) for event in config.events)
    conditional = {
        "artifactregistry": config.image is None,
        "cloudbuild": any(isinstance(start, BuildTrigger) for start in starts),
        "eventarc": triggers,
        "eventarcpublishing": triggers,
        "monitoring": config.alert_channels is not None,
        "pubsub": bool(config.events),
        "secretmanager": any(service.secrets for service in config.services.values()),
        "workflows": config.examples,
        "workflowexecutions": any(isinstance(start, Workflow) for start in starts),
    }
    return tuple(sorted([*_ALWAYS, *(name for name, used in conditional.items() if used)]))


class Apis(Component):
    """One `projects.Service` per API."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__("Apis", "apis", config)
        self.services = [
            projects.Service(
                name,
                project=config.project,
                service=f"{name}.googleapis.com",
                disable_on_destroy=False,
                opts=self.options(),
            )
            for name in needed(config)
        ]
        self.register_outputs({})
