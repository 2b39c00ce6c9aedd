"""Alerts on what nobody would notice otherwise; only where the configuration has `alerts`."""

from collections.abc import Sequence

import pulumi
from pulumi_gcp import monitoring

from infra import contract
from infra.component import Component
from infra.model import StackConfig

_AT_MOST_EVERY = "300s"
"""Cloud Monitoring's shortest period between two notifications of a log-based alert."""

_CLOSE_AFTER = "1800s"


class Alerts(Component):
    """One policy per question that a person on call has to answer."""

    def __init__(
        self, config: StackConfig, channels: Sequence[str], apis: Sequence[pulumi.Resource]
    ) -> None:
        super().__init__("Alerts", "alerts", config, apis)
        self.channels = channels
        self._log_alert(
            "outcome",
            "A run failed, or its end could not be recorded",
            'resource.type="cloud_run_revision"\n'
            f'resource.labels.service_name=~"^{config.name}-"\n'
            f"labels.{contract.OUTCOME_LABEL}:*\n"
            "severity>=ERROR",
            {
                name: f"EXTRACT(labels.{name})"
                for name in (contract.JOB_LABEL, contract.OUTCOME_LABEL)
            },
            "The line names the job, the run and the reason. `failed` and `unrecorded` are not "
            "retried; the other outcomes are, until the retry window of the job is over.",
        )
        self._log_alert(
            "unreached",
            "Cloud Scheduler could not reach a service",
            'resource.type="cloud_scheduler_job"\n'
            f'resource.labels.job_id=~"^{config.name}-"\n'
            "severity>=ERROR\n"
            # The handler's own answers; it has logged the reason already.
            "NOT httpRequest.status=(409 OR 500)",
            {"job": "EXTRACT(resource.labels.job_id)"},
            "A 401 or 403 means that the account lacks `roles/run.invoker` or the audience is "
            "wrong, a 404 a wrong URL or ingress, no status a timeout.",
        )
        if any(config.dead_letter_topic(event) for event in config.events):
            self._dead_letter_alert()
        self.register_outputs({})

    def _log_alert(
        self, name: str, title: str, filter_: str, labels: dict[str, str], advice: str
    ) -> None:
        self._policy(
            name,
            title,
            advice,
            monitoring.AlertPolicyConditionArgs(
                display_name=title,
                condition_matched_log=monitoring.AlertPolicyConditionConditionMatchedLogArgs(
                    filter=filter_, label_extractors=labels
                ),
            ),
            monitoring.AlertPolicyAlertStrategyArgs(
                auto_close=_CLOSE_AFTER,
                notification_rate_limit=(
                    monitoring.AlertPolicyAlertStrategyNotificationRateLimitArgs(
                        period=_AT_MOST_EVERY
                    )
                ),
            ),
        )

    def _dead_letter_alert(self) -> None:
        title = "A message was given up"
        threshold = monitoring.AlertPolicyConditionConditionThresholdArgs
        aggregation = monitoring.AlertPolicyConditionConditionThresholdAggregationArgs
        self._policy(
            "dead-letters",
            title,
            "It stands in the dead-letter subscription with its source and its attempts as "
            "attributes. docs/events.md says how to look at it and send it again.",
            monitoring.AlertPolicyConditionArgs(
                display_name=title,
                condition_threshold=threshold(
                    filter=(
                        'resource.type="pubsub_subscription" AND '
                        'metric.type="pubsub.googleapis.com/subscription/num_undelivered_messages" '
                        "AND resource.labels.subscription_id = "
                        f'monitoring.regex.full_match("{self.config.name}-.*-dead")'
                    ),
                    comparison="COMPARISON_GT",
                    threshold_value=0,
                    duration="0s",
                    aggregations=[
                        aggregation(alignment_period="60s", per_series_aligner="ALIGN_MAX")
                    ],
                ),
            ),
            monitoring.AlertPolicyAlertStrategyArgs(auto_close=_CLOSE_AFTER),
        )

    def _policy(
        self,
        name: str,
        title: str,
        advice: str,
        condition: monitoring.AlertPolicyConditionArgs,
        strategy: monitoring.AlertPolicyAlertStrategyArgs,
    ) -> None:
        monitoring.AlertPolicy(
            f"alert-{name}",
            project=self.config.project,
            display_name=f"{self.config.name}: {title}",
            combiner="OR",
            conditions=[condition],
            alert_strategy=strategy,
            documentation=monitoring.AlertPolicyDocumentationArgs(
                content=advice, mime_type="text/markdown"
            ),
            notification_channels=list(self.channels),
            user_labels=self.config.labels or None,
            opts=self.options(),
        )
