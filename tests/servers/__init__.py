"""Real servers for tests, benchmarks and the demo: object stores and network faults on free ports of 127.0.0.1.

Owns: starting, stopping and faulting the servers. Must not know: pytest (`tests/conftest.py` has the fixtures), lakelatch.
To use them, put the folder `tests` on the path (`make` and pytest do it) and import this package:

    from servers import FaultProxy, s3_server
    with s3_server() as s3, FaultProxy(s3.endpoint_url, latency_ms=20) as proxy:
        options = s3.storage_options(proxy.url)
"""

from __future__ import annotations

from .azure import AzureServer, azure_server
from .fault_proxy import FaultProxy, Request, sequential_depth
from .gcs import GcsServer, gcs_server
from .hdfs import HdfsServer, hdfs_server
from .s3 import S3Server, s3_server
from .toxiproxy import Toxiproxy, toxiproxy

__all__ = [
    "AzureServer",
    "FaultProxy",
    "GcsServer",
    "HdfsServer",
    "Request",
    "S3Server",
    "Toxiproxy",
    "azure_server",
    "gcs_server",
    "hdfs_server",
    "s3_server",
    "sequential_depth",
    "toxiproxy",
]
