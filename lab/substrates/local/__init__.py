"""The ``local`` substrate: processes of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lab.substrates.base import Capability, Cluster, Service, Substrate
from lab.substrates.plan import ClusterPlan


class _Local:
    name = "local"
    what = "real processes on this machine"
    capabilities = frozenset(Capability)

    def missing_reason(self) -> str | None:
        if sys.platform != "linux":
            return f"the local substrate needs Linux (preload shims, /proc), and this is {sys.platform}"
        if not os.access("/proc/self/stat", os.R_OK):
            return "the local substrate needs /proc"
        return None

    def lacks(self, service: Service) -> str | None:
        return None

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        if plan.service != "redis":
            from lab.substrates.local.service_cluster import ServiceCluster

            return ServiceCluster(plan, run_id, log_dir)
        from lab.substrates.local.cluster import LocalCluster

        return LocalCluster(plan, run_id, log_dir)


SUBSTRATE: Substrate = _Local()
