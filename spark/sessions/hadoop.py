"""Translates storage options to those of Hadoop's clients, so that Spark's own scan can open the same files.

Owns: the names of the options. Must not know: sessions, tables, plans. Source: architecture §6; the documentation of Hadoop's
S3A, ABFS and HDFS clients and of Google's connector.

Invariants: An option without an equivalent is never silently dropped. The result is then None, and Arrow reads the
files. Without options, the configuration of the session applies. Nothing is set in a session: the translated options are
passed to one reader (H19).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...backends.files.object_store import FIXED_OPTIONS, OWN_OPTIONS

_S3_PROVIDERS = "org.apache.hadoop.fs.s3a"
_AZURE_CLIENT = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_AZURE_LOGIN = "https://login.microsoftonline.com"
_GOOGLE_TOKENS = {"anon": "UNAUTHENTICATED", "google_default": "APPLICATION_DEFAULT", "cloud": "COMPUTE_ENGINE"}


def hadoop_options(root: str, storage_options: Mapping[str, Any]) -> dict[str, str] | None:
    """Translate fsspec's options to those of a reader, with Hadoop's names; None if one of them has no equivalent.

    `root` is the URL that Spark will open: `s3a://bucket/…`, `gs://…`, `abfss://container@host/…`, `hdfs://…`, `file:…`.

    >>> hadoop_options("s3a://b/t", {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9000"})["fs.s3a.endpoint"]
    'http://127.0.0.1:9000'
    >>> hadoop_options("s3a://b/t", {"profile": "work"}) is None
    True
    >>> hadoop_options("hdfs://lake/t", {"dfs.replication": 1})
    {'dfs.replication': '1'}
    """
    scheme, _, rest = root.partition(":")
    left = {name: value for name, value in storage_options.items() if name not in OWN_OPTIONS | FIXED_OPTIONS}
    if scheme == "file" or not left:
        return {}
    match scheme:
        case "hdfs":  # its storage options already have Hadoop's names
            made = {name: str(left.pop(name)) for name in list(left) if "." in name}
        case "s3a":
            made = _s3(left)
        case "gs":
            made = _google(left)
        case "abfs" | "abfss":
            made = _azure(left, rest.removeprefix("//").partition("/")[0].partition("@")[2])
        case _:
            return None
    if left:
        return None
    # Hadoop caches one client per bucket, with the options of its first use.
    return made if scheme == "hdfs" else made | {f"fs.{scheme}.impl.disable.cache": "true"}


def _s3(left: dict[str, Any]) -> dict[str, str]:
    """Translate the options for S3A, and remove them from `left`."""
    made: dict[str, str] = {}
    client = dict(left.pop("client_kwargs", None) or {})
    endpoint = left.pop("endpoint_url", None) or client.pop("endpoint_url", None)
    region = client.pop("region_name", None)
    if left.pop("anon", False):
        made["fs.s3a.aws.credentials.provider"] = f"{_S3_PROVIDERS}.AnonymousAWSCredentialsProvider"
    elif left.get("key") and left.get("secret"):
        made |= {"fs.s3a.access.key": str(left.pop("key")), "fs.s3a.secret.key": str(left.pop("secret"))}
        token = left.pop("token", None)
        kind = "Temporary" if token else "Simple"
        made["fs.s3a.aws.credentials.provider"] = f"{_S3_PROVIDERS}.{kind}AWSCredentialsProvider"
        if token:
            made["fs.s3a.session.token"] = str(token)
    if endpoint:
        made |= {"fs.s3a.endpoint": str(endpoint), "fs.s3a.path.style.access": "true"}
        made["fs.s3a.connection.ssl.enabled"] = str(not str(endpoint).startswith("http://")).lower()
    if region:
        made["fs.s3a.endpoint.region"] = str(region)
    if client:
        left["client_kwargs"] = client
    return made


def _google(left: dict[str, Any]) -> dict[str, str]:
    """As `_s3`. Of tokens, Google's connector accepts names and the paths of key files, but not the text of a key."""
    made: dict[str, str] = {}
    token = left.get("token")
    if isinstance(token, str) and token in _GOOGLE_TOKENS:
        made["fs.gs.auth.type"] = _GOOGLE_TOKENS[left.pop("token")]
    elif isinstance(token, str) and token.endswith(".json"):
        made["fs.gs.auth.type"] = "SERVICE_ACCOUNT_JSON_KEYFILE"
        made["fs.gs.auth.service.account.json.keyfile"] = left.pop("token")
    if project := left.pop("project", None):
        made["fs.gs.project.id"] = str(project)
    if left.pop("requester_pays", False):
        made["fs.gs.requester.pays.mode"] = "AUTO"
        if project:
            made["fs.gs.requester.pays.project.id"] = str(project)
    if endpoint := left.pop("endpoint_url", None):
        made["fs.gs.storage.root.url"] = f"{str(endpoint).rstrip('/')}/"
    return made


def _azure(left: dict[str, Any], host: str) -> dict[str, str]:
    """Translate the options for ABFS, and remove them from `left`: one way to sign in, for the account in the URL."""
    made: dict[str, str] = {}
    if left.get("account_name") == host.partition(".")[0]:
        del left["account_name"]
    if left.keys() & {"account_key", "sas_token"} == {"account_key"}:
        made[f"fs.azure.account.auth.type.{host}"] = "SharedKey"
        made[f"fs.azure.account.key.{host}"] = str(left.pop("account_key"))
    elif "sas_token" in left and "account_key" not in left:
        made[f"fs.azure.account.auth.type.{host}"] = "SAS"
        made[f"fs.azure.sas.fixed.token.{host}"] = str(left.pop("sas_token")).removeprefix("?")
    elif {"tenant_id", "client_id", "client_secret"} <= left.keys():
        prefix = "fs.azure.account.oauth2.client"
        made[f"fs.azure.account.auth.type.{host}"] = "OAuth"
        made[f"fs.azure.account.oauth.provider.type.{host}"] = _AZURE_CLIENT
        made[f"{prefix}.endpoint.{host}"] = f"{_AZURE_LOGIN}/{left.pop('tenant_id')}/oauth2/token"
        made[f"{prefix}.id.{host}"] = str(left.pop("client_id"))
        made[f"{prefix}.secret.{host}"] = str(left.pop("client_secret"))
    return made
