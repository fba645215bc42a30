"""The deployment files: they fit their schemas, and every setting, command and image in them exists.

Kubernetes' own schemas come with the package kubernetes-validate. For the compose file, and for what KEDA adds to Kubernetes,
the structure is checked by hand. None of this runs a container.
"""

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import skitter
from skitter.jobs import child
from skitter.settings import Settings
from skitter.settings.engines import SECRETS
from skitter.settings.file import load
from skitter.settings.values import KEYS

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "skitter-jobs.service"
KUBERNETES = "1.33"
EXAMPLES = {"cluster.toml": "full", "cluster-redis.toml": "redis"}
IMAGE = re.compile(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z]+)*|[a-z]+:\d+\.\d+-bookworm")
# What the Compose Specification has for a service, as far as it is used here.
SERVICE = {
    "build", "cap_drop", "command", "configs", "depends_on", "entrypoint", "environment", "healthcheck", "image", "networks",
    "profiles", "read_only", "restart", "secrets", "security_opt", "shm_size", "stop_grace_period", "tmpfs", "ulimits", "user",
    "volumes",
}  # fmt: skip
COMPOSE = {"name", "services", "configs", "secrets", "networks", "volumes"}
HEALTH = {"test", "interval", "timeout", "retries", "start_period"}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def section(settings: Settings, dotted: str) -> Any:
    part, _, name = dotted.partition(".")
    return getattr(getattr(settings, part), name)


def check_command(words: list[str]) -> None:
    """A command line that Skitter understands."""
    import_module(f"skitter.cli.{words[0]}").parser().read(words[1:])


# ------------------------------------------------------------------------------------------------ examples


@pytest.mark.parametrize(("name", "size"), EXAMPLES.items())
def test_an_example_loads_and_names_files_for_its_secrets(name, size):
    settings = load(ROOT / "examples" / name, {}, {})
    assert settings.cluster.size == size
    assert settings.crawl.shards > 1
    used = {dotted: section(settings, dotted) for dotted in SECRETS}
    engines = {"redis"} if size == "redis" else {"redis", "postgres", "kafka", "s3", "search"}
    assert {dotted.partition(".")[0] for dotted, file in used.items() if file} == engines


def test_the_full_example_shows_every_setting_of_its_engines():
    shown = tomllib.loads((ROOT / "examples" / "cluster.toml").read_text(encoding="utf-8"))
    engines = {"cluster", "postgres", "kafka", "redis", "s3", "search"}
    missing = {
        dotted
        for dotted, key in KEYS.items()
        if key.section in engines and key.name not in shown[key.section]
    }
    assert missing == {
        "kafka.document_text",
        "redis.database",
        "s3.layout",
        "s3.part",
        "s3.spool",
    }  # rarely changed


# ------------------------------------------------------------------------------------------------ compose


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return read


def test_the_compose_file_has_the_structure_of_one(compose):
    assert {key for key in compose if not key.startswith("x-")} == COMPOSE
    for name, service in compose["services"].items():
        assert set(service) <= SERVICE, name
        assert set(service.get("healthcheck", {})) <= HEALTH, name
        assert service["networks"], name
        for kind in ("networks", "secrets"):
            assert set(service.get(kind, [])) <= set(compose[kind]), name
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in compose["volumes"], name
        for config in service.get("configs", []):
            assert config["source"] in compose["configs"], name
        for other, wait in service.get("depends_on", {}).items():
            condition = wait["condition"]
            assert condition in CONDITIONS
            assert condition != "service_healthy" or "healthcheck" in compose["services"][other], (
                name,
                other,
            )
    used = {
        volume.partition(":")[0]
        for each in compose["services"].values()
        for volume in each.get("volumes", [])
    }
    assert used == set(compose["volumes"])


def test_every_engine_and_two_workers_are_there(compose):
    services = compose["services"]
    engines = {"postgres", "kafka", "redis", "s3", "opensearch"}
    assert engines | {"init", "worker-1", "worker-2", "index"} <= set(services)
    for name in engines:
        assert services[name]["networks"] == ["engines"], "an engine can be reached from outside"
        assert services[name]["volumes"], f"{name} would forget everything"
        assert services[name]["healthcheck"]
    assert compose["networks"]["engines"] == {"internal": True}
    assert services["worker-1"]["volumes"] != services["worker-2"]["volumes"], (
        "each has a directory of its own"
    )
    started = " ".join(services["redis"]["command"])
    assert "appendonly yes" in started
    assert "maxmemory-policy noeviction" in started


def test_the_settings_of_compose_name_its_services_and_secrets(compose):
    settings = load(DEPLOY / compose["configs"]["cluster"]["file"], {}, {})
    addresses = [*settings.postgres.addresses, *settings.kafka.addresses, *settings.redis.addresses]
    addresses += [
        address.partition("://")[2] for address in (settings.s3.endpoint, *settings.search.addresses)
    ]
    assert {address.partition(":")[0] for address in addresses} == {
        "postgres",
        "kafka",
        "redis",
        "s3",
        "opensearch",
    }
    for dotted in SECRETS:
        if file := section(settings, dotted):
            assert Path(file).parent == Path("/run/secrets")
            assert Path(file).name in compose["services"]["worker-1"]["secrets"]
    assert f"/data/{settings.s3.bucket}" in " ".join(compose["services"]["s3"]["entrypoint"])


def test_the_commands_of_compose_are_understood(compose):
    ours = {name: each for name, each in compose["services"].items() if each["image"].startswith("skitter:")}
    for name, service in ours.items():
        if name != "skitter":  # for commands that people type
            check_command(service["command"])
        assert service["configs"][0]["target"] == "/etc/skitter/cluster.toml"


# ------------------------------------------------------------------------------------------------ Kubernetes


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted((DEPLOY / "k8s").glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            yield f"{file.name} {document['kind']} {document['metadata']['name']}", document


def one(kind: str, name: str) -> dict[str, Any]:
    [found] = [each for _, each in manifests() if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def pods() -> dict[str, dict[str, Any]]:
    workloads = [("Job", "skitter-init"), ("StatefulSet", "skitter-worker"), ("Deployment", "skitter-index")]
    return {name: one(kind, name)["spec"]["template"]["spec"] for kind, name in workloads}


def scheduler() -> dict[str, Any]:
    pod: dict[str, Any] = one("StatefulSet", "skitter-jobs")["spec"]["template"]["spec"]
    return pod


def configured(folder: Path) -> Settings:
    file = folder / "cluster.toml"
    file.write_text(one("ConfigMap", "skitter")["data"]["cluster.toml"], encoding="utf-8")
    return load(file, {}, {})


@pytest.mark.parametrize(("_name", "manifest"), [pytest.param(*each, id=each[0]) for each in manifests()])
def test_a_manifest_fits_the_schema_of_kubernetes(_name, manifest):
    if not manifest["apiVersion"].startswith("keda.sh/"):  # which has no schema there
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_manifest_that_does_not_fit_would_be_noticed():
    manifest = one("StatefulSet", "skitter-worker")
    manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = 180
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_the_pods_only_use_existing_objects(tmp_path):
    settings = configured(tmp_path)
    secrets = one("Secret", "skitter")["stringData"]
    assert set(secrets.values()) == {""}, "an example has no secrets in it"
    named = {section(settings, dotted) for dotted in SECRETS} - {""}
    assert {Path(file).name for file in named} == set(secrets)
    for name, pod in pods().items():
        [container] = pod["containers"]
        check_command(container["args"])
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert {Path(file).parent for file in named} == {Path(mounts["secrets"])}, name
        assert Path(settings.postgres.ca_file).parent == Path(mounts["ca"]), name
        assert (
            container["args"][container["args"].index("--config") + 1] == f"{mounts['config']}/cluster.toml"
        )
        variables = {each["name"] for each in container.get("env", [])}
        assert variables <= {key.variable for key in KEYS.values()} | set(SECRETS.values())


def test_a_worker_has_its_own_disk_and_time_to_hand_over(tmp_path):
    settings, workers = configured(tmp_path), one("StatefulSet", "skitter-worker")
    pod = workers["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [claim] = workers["spec"]["volumeClaimTemplates"]
    data = next(each for each in container["volumeMounts"] if each["name"] == claim["metadata"]["name"])
    directory = container["args"][container["args"].index("-o") + 1]
    assert Path(directory).parent == Path(data["mountPath"])
    assert f"{directory}/lock" in container["readinessProbe"]["exec"]["command"][-1]
    least = settings.fetch.deadline + settings.cluster.lease + settings.s3.segment_time
    assert pod["terminationGracePeriodSeconds"] > least
    budget = one("PodDisruptionBudget", "skitter-worker")["spec"]
    assert budget["selector"] == workers["spec"]["selector"]
    assert workers["spec"]["selector"]["matchLabels"] == workers["spec"]["template"]["metadata"]["labels"]


def test_autoscaling_looks_at_the_groups_and_topics_there_are(tmp_path):
    settings = configured(tmp_path)
    expected = {
        "skitter-worker": (settings.cluster.name, settings.kafka.links_medium, settings.crawl.shards),
        "skitter-index": (
            f"{settings.cluster.name}-index",
            settings.kafka.documents,
            settings.kafka.documents_partitions,
        ),
    }
    for name, (group, topic, most) in expected.items():
        scaled = one("ScaledObject", name)["spec"]
        target = scaled["scaleTargetRef"]
        assert one(target["kind"], target["name"])["apiVersion"] == target["apiVersion"]
        assert scaled["minReplicaCount"] <= scaled["maxReplicaCount"] <= most
        [trigger] = scaled["triggers"]
        assert trigger["type"] == "kafka"
        assert (trigger["metadata"]["consumerGroup"], trigger["metadata"]["topic"]) == (group, topic)
        assert trigger["metadata"]["bootstrapServers"] in settings.kafka.addresses
        assert one("TriggerAuthentication", trigger["authenticationRef"]["name"])


def test_a_worker_that_ended_at_a_limit_is_not_started_again_and_again(compose):
    """Compose starts again what ended with any code but 0 (on-failure) or with any (unless-stopped), a StatefulSet with any."""
    for name in ("worker-1", "worker-2"):
        service = compose["services"][name]
        assert service["restart"] == "unless-stopped"
        assert read_work(service["command"]).stay_at_limit
    pod = pods()["skitter-worker"]
    assert pod.get("restartPolicy", "Always") == "Always"  # nothing else is allowed there
    assert read_work(pod["containers"][0]["args"]).stay_at_limit
    assert "livenessProbe" not in pod["containers"][0], "it would end a worker that stays"


def read_work(words: list[str]) -> Any:
    return import_module("skitter.cli.work").parser().read(words[1:])


# ------------------------------------------------------------------------------------------------ schedulers


def test_the_scheduler_of_kubernetes_keeps_jobs_in_postgresql_and_crawls_on_its_disk(tmp_path):
    settings, pod = configured(tmp_path), scheduler()
    [container] = pod["containers"]
    arguments = import_module("skitter.cli.job").parser().read(container["args"][1:])
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert arguments.action == "serve"
    assert str(arguments.cluster) == f"{mounts['config']}/cluster.toml"
    assert arguments.root.parent == Path(mounts["data"])
    assert {Path(section(settings, dotted)).parent for dotted in SECRETS if section(settings, dotted)} == {
        Path(mounts["secrets"])
    }
    assert pod["terminationGracePeriodSeconds"] > child._GRACE + child._LAST
    workers = one("StatefulSet", "skitter-jobs")
    assert workers["spec"]["selector"]["matchLabels"] == workers["spec"]["template"]["metadata"]["labels"]


def test_the_unit_of_systemd_starts_a_scheduler_and_gives_it_time_to_stop():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(UNIT, encoding="utf-8")
    service = unit["Service"]
    program, *words = service["ExecStart"].split()
    assert Path(program).name == "skitter"
    arguments = import_module("skitter.cli.job").parser().read(words[1:])
    assert (words[0], arguments.action, str(arguments.root)) == ("job", "serve", service["WorkingDirectory"])
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
    assert service["KillMode"] == "mixed", "the crawls would be told twice, and stop at once"
    assert float(service["TimeoutStopSec"]) > child._GRACE + child._LAST


def test_systemd_understands_the_unit(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    text = UNIT.read_text(encoding="utf-8").replace("/opt/skitter/bin/skitter", sys.executable)
    (tmp_path / UNIT.name).write_text(text.replace("User=skitter\n", ""), encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(tmp_path / UNIT.name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []


# ------------------------------------------------------------------------------------------------ images


def test_every_image_is_pinned_and_ours_is_of_this_version(compose):
    images = {service["image"] for service in compose["services"].values()}
    images |= {
        container["image"] for pod in (*pods().values(), scheduler()) for container in pod["containers"]
    }
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    images |= {line.split()[1] for line in lines if line.startswith("FROM ")}
    assert [image for image in images if not IMAGE.fullmatch(image)] == []
    assert {image for image in images if image.startswith("skitter:")} == {f"skitter:{skitter.__version__}"}
    assert any(f"-t skitter:{skitter.__version__}" in line for line in lines)
