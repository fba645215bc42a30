"""`make demo-cluster`: two workers, one crawl, real engines.

Starts the engines on loopback unless they are running (as `make services` does), creates a cluster on them
under its own name, serves the synthetic web that the tests use, and runs the real commands on it, as an
operator would type them. Ends by itself in about a minute and removes its cluster again; the engines stay up.
PostgreSQL and Kafka are required; the archive goes to S3 and the pages to OpenSearch if these are up too.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pycurl
from engines.place import PROJECT, find_place, read_env

from skitter.testing.web import Features, Server, SyntheticWeb, gaps, serve_process
from skitter.testing.web.words import vocabulary

DEMO = Path("demo-cluster")
SETTINGS = DEMO / "cluster.toml"
SHARDS = 8
LOOKS, BETWEEN_LOOKS = 3, 3.0  # how often the status is shown, and how many seconds apart
PATIENCE = 30.0  # seconds for a worker to hand over
TOPICS = ("links_high", "links_medium", "links_low", "documents", "errors", "dead_letters")
FEATURES = Features(link_forms=True, robots=True, redirects=True, statuses=True, duplicates=True)


def main() -> int:
    """Run the whole demo, and clean up whatever happens."""
    engines = started()
    if engines is None:
        return 1
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir()
    name = f"demo_{uuid.uuid4().hex[:8]}"
    web = SyntheticWeb(seed=5, hosts=60, pages_per_host=20, features=FEATURES)
    try:
        with ExitStack() as stack:
            server = stack.enter_context(serve_process(web))
            SETTINGS.write_text(settings(name, engines, web))
            (DEMO / "seeds.txt").write_text("".join(f"{seed}\n" for seed in server.seeds(8)))
            stack.enter_context(cleaned_up(name, engines))
            crawl(name, engines, server)
    except KeyboardInterrupt:
        say("\nInterrupted; everything is cleaned up.")
        return 130
    except subprocess.CalledProcessError as failed:
        say(
            f"\n`{' '.join(failed.cmd[2:])}` said no ({failed.returncode}); the workers' words are in {DEMO}/*.log"
        )
        return 1
    say(
        "\nThe engines still run: make services-status shows them, make services-down stops them."
        "\nWhat to read next: docs/cluster.md, examples/cluster.toml"
    )
    return 0


def crawl(name: str, engines: Mapping[str, str], server: Server) -> None:
    """The five commands of an operator, and their results."""
    skitter("cluster", "init", "--config", str(SETTINGS))
    with ExitStack() as stack:
        for number in (1, 2):
            stack.enter_context(worker(number))
        skitter("cluster", "add", "--config", str(SETTINGS), "--seeds", str(DEMO / "seeds.txt"))
        for _ in range(LOOKS):
            time.sleep(BETWEEN_LOOKS)
            skitter("cluster", "status", "--config", str(SETTINGS))
        skitter("cluster", "wait", "--config", str(SETTINGS), "--timeout", "5m")
        say("\nNothing is left to do. Stopping the workers: they hand their shards over and exit.")
    show_result(name, engines, server)
    if "SKITTER_TEST_OPENSEARCH" in engines:
        skitter("index", "--config", str(SETTINGS), "--once")
        skitter("search", "--config", str(SETTINGS), vocabulary()[0], "--limit", "2")


def show_result(name: str, engines: Mapping[str, str], server: Server) -> None:
    """What the workers did, according to their own files and the web's log."""
    requests = {
        folder.name: sum(file.read_bytes().count(b"\n") for file in folder.glob("log/requests-*.jsonl"))
        for folder in sorted(DEMO.glob("worker-?"))
    }
    say("\nRequests made: " + ", ".join(f"{number:,} by {who}" for who, number in requests.items()))
    shortest = min((gap for each in gaps(server.log()).values() for gap in each), default=0.0)
    say(f"Shortest time between two requests to one host: {shortest * 1000:.0f} ms (asked for: 200 ms)")
    if "SKITTER_TEST_S3" in engines:
        found = sorted(
            path for path in Path(engines["SKITTER_TEST_S3_DATA"]).rglob("*.warc.gz") if name in str(path)
        )
        size = sum(path.stat().st_size for path in found)
        say(
            f"The archive: {len(found)} WARC segments, {size / 1e6:.1f} MB, in the bucket {bucket(name)} on S3, as in"
        )
        say("".join(f"  {path.parts[-3]}/{path.parts[-2]}/{path.name}\n" for path in found[:2]).rstrip("\n"))
    else:
        say(f"The archive stays with each worker: {DEMO}/worker-1/archive, {DEMO}/worker-2/archive")


# ------------------------------------------------------------------------------------------------ processes


def skitter(*words: str) -> None:
    """Print a command, and run it."""
    say(f"\n$ skitter {' '.join(words)}")
    subprocess.run([sys.executable, "-m", "skitter", *words], check=True)


@contextmanager
def worker(number: int) -> Iterator[None]:
    """A worker in its own directory, told to leave at the end."""
    words = ["work", "--config", str(SETTINGS), "-o", str(DEMO / f"worker-{number}")]
    say(f"\n$ skitter {' '.join(words)} &")
    with (DEMO / f"worker-{number}.log").open("wb") as log:
        # In its own session: Ctrl-C in this terminal is for us, and we stop the worker cleanly.
        process = subprocess.Popen(
            [sys.executable, "-m", "skitter", *words], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def say(text: str) -> None:
    """Flushed, to stay in order with the output of the commands."""
    print(text, flush=True)


# ------------------------------------------------------------------------------------------------ engines


def started() -> Mapping[str, str] | None:
    """The addresses of the engines; None if a required one is missing."""
    say("Engines (the first time takes minutes, because they are fetched):")
    subprocess.run([sys.executable, str(PROJECT / "scripts" / "services"), "up"], check=False)
    engines = read_env(find_place(os.environ, os.geteuid()).env)
    missing = [name for name in ("POSTGRES", "KAFKA", "REDIS") if f"SKITTER_TEST_{name}" not in engines]
    if missing:
        say(f"\nA cluster cannot do without {' and '.join(missing).title()}; see the lines above.")
        return None
    return engines


def settings(name: str, engines: Mapping[str, str], web: SyntheticWeb) -> str:
    """A settings file as an operator would write it, for engines and a web on loopback."""
    postgres, redis = (urlsplit(engines[f"SKITTER_TEST_{name}"]) for name in ("POSTGRES", "REDIS"))
    pairs = ", ".join(f'"{host}:{address}"' for host, address in web.resolve_map().items())
    topics = "".join(f'{topic} = "{name}-{topic}"\n' for topic in TOPICS)
    text = f"""# The settings of the demonstration. A real one: examples/cluster.toml
[cluster]
size = "full"
name = "{name}"

[crawl]
shards = {SHARDS}
min_free_disk = "10MiB"

[postgres]
addresses = ["{postgres.hostname}:{postgres.port}"]
database = "{postgres.path[1:]}"
user = "{postgres.username}"

[kafka]
addresses = ["{engines["SKITTER_TEST_KAFKA"]}"]
documents_partitions = 2
errors_partitions = 2
{topics}
[redis]
addresses = ["{redis.hostname}:{redis.port}"]

[fetch]
contact = "https://example.org/about-this-crawl"
allow_private = ["127.0.0.0/8"]
resolve = [{pairs}]

[scope]
kind = "any"

[politeness]
per_address = "none"
delay = "200ms"

[robots]
retry_after = ["200ms"]

[schedule]
retry_base = "200ms"
"""
    if "SKITTER_TEST_S3" in engines:
        make_bucket(name, engines)
        secret = DEMO / "s3-secret"
        secret.write_text(engines["SKITTER_TEST_S3_SECRET_KEY"])
        text += f"""
[s3]
bucket = "{bucket(name)}"
endpoint = "{engines["SKITTER_TEST_S3"]}"
region = "{engines["SKITTER_TEST_S3_REGION"]}"
access_key = "{engines["SKITTER_TEST_S3_ACCESS_KEY"]}"
secret_key_file = "{secret}"
segment_time = "5s"
"""
    if "SKITTER_TEST_OPENSEARCH" in engines:
        text += f'\n[search]\naddresses = ["{engines["SKITTER_TEST_OPENSEARCH"]}"]\nindex = "{name}"\n'
    return text


def bucket(name: str) -> str:
    """Buckets have no underscores."""
    return name.replace("_", "-")


def make_bucket(name: str, engines: Mapping[str, str]) -> None:
    """An operator would create it with S3 tools."""
    s3(engines, "PUT", f"/{bucket(name)}")


def s3(engines: Mapping[str, str], method: str, path: str) -> None:
    """One signed request."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, engines["SKITTER_TEST_S3"] + path)
    curl.setopt(pycurl.CUSTOMREQUEST, method)
    curl.setopt(pycurl.AWS_SIGV4, f"aws:amz:{engines['SKITTER_TEST_S3_REGION']}:s3")
    curl.setopt(
        pycurl.USERPWD, f"{engines['SKITTER_TEST_S3_ACCESS_KEY']}:{engines['SKITTER_TEST_S3_SECRET_KEY']}"
    )
    curl.perform_rs()
    status = curl.getinfo(pycurl.RESPONSE_CODE)
    curl.close()
    if status >= 300:
        raise OSError(f"S3 answers {status} to {method} {path}")


@contextmanager
def cleaned_up(name: str, engines: Mapping[str, str]) -> Iterator[None]:
    """Remove the cluster, then what an operator would keep: objects, index."""
    with ExitStack() as stack:  # each step runs, whatever happens to the others
        if "SKITTER_TEST_S3" in engines:
            stack.callback(without_bucket, name, engines)
        if "SKITTER_TEST_OPENSEARCH" in engines:
            stack.callback(without_index, name, engines)
        stack.callback(skitter, "cluster", "remove", "--config", str(SETTINGS), "--yes")
        yield


def without_index(name: str, engines: Mapping[str, str]) -> None:
    """Delete the index and its template."""
    node = HTTPConnection(urlsplit(engines["SKITTER_TEST_OPENSEARCH"]).netloc)
    for path in (f"/{name}", f"/_index_template/{name}"):
        node.request("DELETE", path)
        node.getresponse().read()


def without_bucket(name: str, engines: Mapping[str, str]) -> None:
    """Delete every object, then the bucket."""
    from obstore.store import S3Store  # noqa: PLC0415  as above

    store = S3Store(
        bucket(name),
        endpoint=engines["SKITTER_TEST_S3"],
        region=engines["SKITTER_TEST_S3_REGION"],
        access_key_id=engines["SKITTER_TEST_S3_ACCESS_KEY"],
        secret_access_key=engines["SKITTER_TEST_S3_SECRET_KEY"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    for batch in store.list():
        for each in batch:
            store.delete(each["path"])
    s3(engines, "DELETE", f"/{bucket(name)}")


if __name__ == "__main__":
    sys.exit(main())
