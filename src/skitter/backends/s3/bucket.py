"""The bucket: the only place that talks to S3, and its error messages.

The client library is obstore. Its calls block here; callers that must not wait use threads. An upload is
verified before anybody relies on it: by size and ETag, which for S3 is the MD5 of the object, or of the MD5s
of its parts; if the server makes ETags in another way (encryption with its own keys does), by reading
everything back.
"""

import hashlib
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skitter.backends.s3 import names
from skitter.model import Place
from skitter.ports import EngineError
from skitter.runtime.installing import install_line
from skitter.settings.engines import S3Settings
from skitter.settings.secrets import secret

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PIECE = 1 << 20
_PROBE = "skitter-may-write"
_PARTS_AT_ONCE = 4
# A part that takes longer has failed. Our own retries follow later and never end; these few bridge a hiccup.
_CLIENT = {"connect_timeout": "5s", "timeout": "60s"}
# A health check answers at once or not at all: a thread waits for it.
_CHECK = {"connect_timeout": "5s", "timeout": "10s"}
_NO_RETRY = {"max_retries": 0, "retry_timeout": timedelta(seconds=10)}
_RETRY = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}


class BucketError(OSError):
    """S3 failed to do what it was asked. One line."""


class Digests(NamedTuple):
    """What is known about a file before it is uploaded."""

    size: int
    sha256: str
    etag: str  # as S3 computes it for an upload in parts of the given size


def digests(path: Path, part: int) -> Digests:
    """Read a file once, and compute what it must look like in the bucket."""
    whole, parts, size = hashlib.sha256(), [hashlib.md5(usedforsecurity=False)], 0
    with path.open("rb") as file:
        while piece := file.read(min(_PIECE, part - size % part)):
            if size and size % part == 0:
                parts.append(hashlib.md5(usedforsecurity=False))
            whole.update(piece)
            parts[-1].update(piece)
            size += len(piece)
    if len(parts) == 1:
        return Digests(size, f"sha256:{whole.hexdigest()}", parts[0].hexdigest())
    joined = hashlib.md5(b"".join(each.digest() for each in parts), usedforsecurity=False).hexdigest()
    return Digests(size, f"sha256:{whole.hexdigest()}", f"{joined}-{len(parts)}")


def open_bucket(
    settings: S3Settings, crawl: str, environ: Mapping[str, str] = os.environ, *, probe: bool = True
) -> "Bucket":
    """The bucket named in the settings. EngineError if it cannot be used; a `probe` reads and writes it."""
    try:
        from obstore.store import S3Store  # noqa: PLC0415  an extra, which only a cluster needs
    except ImportError:
        raise EngineError(f"S3 needs a library that is not installed: {install_line('s3')}") from None
    if not settings.bucket:
        raise EngineError("S3: no bucket is named; set s3.bucket")
    config: dict[str, object] = {"region": settings.region}
    if settings.endpoint:
        config |= {"endpoint": settings.endpoint, "virtual_hosted_style_request": False}
    if settings.access_key:
        key = secret("s3.secret_key_file", settings.secret_key_file, environ)
        config |= {"access_key_id": settings.access_key, "secret_access_key": key}
    client: dict[str, object] = {"allow_http": settings.endpoint.startswith("http://")}
    if settings.ca_file:
        client["root_certificate"] = _certificates(settings.ca_file)
    store, checked = (
        S3Store(settings.bucket, config=config, client_options=client | times, retry_config=retry)  # type: ignore[arg-type]
        for times, retry in ((_CLIENT, _RETRY), (_CHECK, _NO_RETRY))
    )
    bucket = Bucket(store, crawl, settings.prefix, checked)
    try:
        if probe:
            bucket.probe()
    except BucketError as problem:
        raise EngineError(_advice(settings, str(problem))) from None
    return bucket


def reach(settings: S3Settings) -> None:
    """EngineError unless the bucket exists and answers."""
    try:
        open_bucket(settings, "", probe=False).check()
    except BucketError as problem:
        raise EngineError(_advice(settings, str(problem))) from None


def _certificates(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as problem:
        raise EngineError(f"S3: s3.ca_file: {file}: {problem.strerror}; name a readable file") from None


def _advice(settings: S3Settings, problem: str) -> str:
    """Advice for an error, by its code (S3 API reference, "Error responses"; other servers have a few more)."""
    where = settings.endpoint or f"Amazon in {settings.region}"
    if "NoSuchBucket" in problem:
        return f"S3 at {where} has no bucket {settings.bucket!r}; create it, or mend s3.bucket"
    if any(code in problem for code in ("SignatureDoesNotMatch", "InvalidAccessKeyId", "XAdminUserNotFound")):
        return (
            f"S3 at {where} does not know this key; mend s3.access_key, and s3.secret_key_file or "
            "SKITTER_S3_SECRET_KEY"
        )
    if "AccessDenied" in problem or "403" in problem:
        return f"S3 at {where} does not let {settings.access_key or 'this machine'} write to {settings.bucket!r}; allow it"
    certificate = " or s3.ca_file" if settings.endpoint.startswith("https:") else ""
    return f"S3 at {where} cannot be used: {problem}; mend s3.endpoint{certificate}, or start the server"


class Bucket:
    """The segments and pages of one crawl. Every failure of S3 is a BucketError."""

    def __init__(
        self, store: "ObjectStore", crawl: str, prefix: str = "", checked: "ObjectStore | None" = None
    ) -> None:
        """`checked` is the same bucket with shorter timeouts, for `check`."""
        import obstore  # noqa: PLC0415  an extra

        self._api = obstore
        self._store = store
        self._checked = checked or store
        self._crawl = crawl
        self._prefix = prefix
        # A missing object, and a missing bucket, are FileNotFoundError in the library.
        self._problems = (obstore.exceptions.BaseError, FileNotFoundError)

    def key(self, file: str) -> str:
        """The object key of a segment."""
        return names.segment_key(self._prefix, self._crawl, file)

    def probe(self) -> None:
        """Write a small object, which every worker must be able to do."""
        self._put(f"{self._prefix}{_PROBE}", b"", {})

    def check(self) -> None:
        """Health check: BucketError unless the bucket exists and answers; `probe` checks write access.

        Reads the object that a probe leaves. Only a read, not a HEAD, distinguishes a missing bucket from a
        missing object, and the latter is not an error.
        """
        key = f"{self._prefix}{_PROBE}"
        try:
            self._api.get(self._checked, key).bytes()
        except FileNotFoundError as missing:
            if "NoSuchBucket" in str(missing):
                raise _one_line(key, missing) from None
        except self._problems as problem:
            raise _one_line(key, problem) from None

    def upload(self, path: Path, found: Digests, part: int) -> None:
        """Upload a segment under its name, and verify it. May be repeated."""
        key = self.key(path.name)
        if self._holds(key, found):
            return
        try:
            self._api.put(
                self._store,
                key,
                path,
                attributes={"Content-Type": "application/warc"},
                use_multipart=found.size > part,
                chunk_size=part,
                max_concurrency=_PARTS_AT_ONCE,
            )
        except self._problems as problem:
            raise _one_line(key, problem) from None
        if not self._holds(key, found):
            raise BucketError(f"{key}: it was uploaded, but it is not there")

    def _holds(self, key: str, found: Digests) -> bool:
        """Whether the object exists. One of the same name with other content cannot be fixed by a retry."""
        try:
            there = self._api.head(self._store, key)
        except FileNotFoundError:
            return False
        except self._problems as problem:
            raise _one_line(key, problem) from None
        etag = (there["e_tag"] or "").strip('"')
        if there["size"] == found.size and (etag == found.etag or self._digest(key) == found.sha256):
            return True
        raise EngineError(
            f"S3 has another object named {key}; is cluster.name {self._crawl!r} used by two crawls? set s3.prefix"
        )

    def has(self, file: str, size: int, sha256: str) -> bool:
        """Whether a segment of this size and content exists; it is read for that."""
        key = self.key(file)
        try:
            there = self._api.head(self._store, key)
        except FileNotFoundError:
            return False
        except self._problems as problem:
            raise _one_line(key, problem) from None
        return there["size"] == size and self._digest(key) == sha256

    def _digest(self, key: str) -> str:
        digest = hashlib.sha256()
        try:
            for piece in self._api.get(self._store, key):
                digest.update(piece)
        except self._problems as problem:
            raise _one_line(key, problem) from None
        return f"sha256:{digest.hexdigest()}"

    def member(self, place: Place) -> bytes:
        """The bytes at a place."""
        key = self.key(place.file)
        try:
            found = self._api.get_range(self._store, key, start=place.offset, length=place.length)
        except self._problems as problem:
            raise _one_line(key, problem) from None
        return bytes(found)

    def fetch(self, file: str, to: Path) -> None:
        """Download a whole segment into a file."""
        key = self.key(file)
        try:
            with to.open("wb") as out:
                for piece in self._api.get(self._store, key):
                    out.write(piece)
        except self._problems as problem:
            raise _one_line(key, problem) from None

    def put_page(self, fetched: str, url: str, content: bytes, attributes: Mapping[str, str]) -> None:
        """Store one page under its fetch date and the hash of its URL."""
        self._put(names.page_key(self._prefix, fetched, url), content, attributes)

    def remove(self, file: str) -> None:
        """Delete a segment."""
        key = self.key(file)
        try:
            self._api.delete(self._store, key)
        except self._problems as problem:
            raise _one_line(key, problem) from None

    def _put(self, key: str, content: bytes, attributes: Mapping[str, str]) -> None:
        try:
            self._api.put(self._store, key, content, attributes=dict(attributes), use_multipart=False)
        except self._problems as problem:
            raise _one_line(key, problem) from None


def _one_line(key: str, problem: Exception) -> BucketError:
    """The library's message goes on for pages; its first lines have the status, and the server's code."""
    said = str(problem).partition("\n\nDebug source")[0]
    code = said.partition("<Code>")[2].partition("</Code>")[0]
    what = (
        said.splitlines()[0].rpartition(" - ")[2].partition(": <?xml")[0] if said else type(problem).__name__
    )
    return BucketError(f"{key}: {what}{f' ({code})' if code else ''}")
