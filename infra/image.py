"""The container image: built from `handler/` and pushed, unless a digest is configured."""

from collections.abc import Sequence

import pulumi
import pulumi_docker_build as docker_build
from pulumi_gcp import artifactregistry, organizations

from infra.component import Component
from infra.model import StackConfig

_CONTEXT = "../handler"
"""Seen from the folder of the program. Relative, since it is compared as text on every machine."""


class Image(Component):
    """A repository of the stack, and the image in it.

    Attributes
    ----------
    digest
        The image's full name, by digest.
    """

    def __init__(self, config: StackConfig, apis: Sequence[pulumi.Resource]) -> None:
        super().__init__("Image", "image", config, apis)
        host = f"{config.region}-docker.pkg.dev"
        name = f"{host}/{config.project}/{config.name}/handler"
        repository = self._repository()
        deployer = organizations.get_client_config_output()
        image = docker_build.Image(
            "image",
            context=docker_build.BuildContextArgs(location=_CONTEXT),
            platforms=[docker_build.Platform.LINUX_AMD64],
            tags=[f"{name}:latest"],
            push=True,
            build_on_preview=False,
            registries=[
                docker_build.RegistryArgs(
                    address=host,
                    username="oauth2accesstoken",
                    password=pulumi.Output.secret(deployer.access_token),
                )
            ],
            opts=self.options(repository),
        )
        self.digest = image.digest.apply(lambda digest: f"{name}@{digest}")
        self.register_outputs({})

    def _repository(self) -> artifactregistry.Repository:
        """Create a repository that keeps what is new and the last ten images for a way back."""
        policy = artifactregistry.RepositoryCleanupPolicyArgs
        return artifactregistry.Repository(
            "repository",
            project=self.config.project,
            location=self.config.region,
            repository_id=self.config.name,
            format="DOCKER",
            labels=self.config.labels or None,
            cleanup_policies=[
                policy(
                    id="delete-old",
                    action="DELETE",
                    condition=artifactregistry.RepositoryCleanupPolicyConditionArgs(
                        older_than="2592000s"
                    ),
                ),
                policy(
                    id="keep-recent",
                    action="KEEP",
                    most_recent_versions=(
                        artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(
                            keep_count=10
                        )
                    ),
                ),
            ],
            opts=self.options(),
        )
