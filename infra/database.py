"""The Firestore database of the records, and the two settings that its collections need."""

from collections.abc import Sequence

import pulumi
from pulumi_gcp import firestore

from infra.component import Component
from infra.contract import EVENTS_COLLECTION, RUNS_COLLECTION, TTL_FIELD
from infra.model import StackConfig


class Database(Component):
    """A named database with a TTL policy, and without indexes that nobody queries.

    Single-field indexes on timestamps that grow are a hot spot, and the handler reads by document
    id only; one exemption on the field `*` switches all of them off.
    Source: https://cloud.google.com/firestore/docs/best-practices#hotspots
    """

    def __init__(self, config: StackConfig, apis: Sequence[pulumi.Resource]) -> None:
        super().__init__("Database", "database", config, apis)
        before: list[pulumi.Resource] = []
        # Asked of the resource where there is one: its fields go and come with it.
        self._database_name: pulumi.Input[str] = config.database.name
        if config.database.create:
            database = self._create()
            before, self._database_name = [database], database.name
        if config.database.manage_fields:
            collections = [RUNS_COLLECTION, *[EVENTS_COLLECTION] * bool(config.events)]
            for collection in collections:
                before = [*before, *self._configure(collection, before)]
        self.ready: Sequence[pulumi.Resource] = before
        self.register_outputs({})

    def _create(self) -> firestore.Database:
        production = self.config.production
        return firestore.Database(
            "database",
            project=self.config.project,
            name=self.config.database.name,
            location_id=self.config.database.location,
            type="FIRESTORE_NATIVE",
            database_edition="STANDARD",
            point_in_time_recovery_enablement=(
                "POINT_IN_TIME_RECOVERY_ENABLED"
                if production
                else "POINT_IN_TIME_RECOVERY_DISABLED"
            ),
            delete_protection_state=(
                "DELETE_PROTECTION_ENABLED" if production else "DELETE_PROTECTION_DISABLED"
            ),
            deletion_policy="PREVENT" if production else "DELETE",
            opts=self.options(protect=True),
        )

    def _configure(
        self, collection: str, before: Sequence[pulumi.Resource]
    ) -> Sequence[pulumi.Resource]:
        """Set a collection's two fields, one after the other: in parallel they can answer 409."""
        exemption = firestore.Field(
            f"{collection}-no-index",
            project=self.config.project,
            database=self._database_name,
            collection=collection,
            field="*",
            index_config=firestore.FieldIndexConfigArgs(),
            opts=self.options(*before),
        )
        ttl = firestore.Field(
            f"{collection}-ttl",
            project=self.config.project,
            database=self._database_name,
            collection=collection,
            field=TTL_FIELD,
            ttl_config=firestore.FieldTtlConfigArgs(),
            opts=self.options(*before, exemption),
        )
        return [exemption, ttl]
