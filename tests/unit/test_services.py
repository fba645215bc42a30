"""What scripts/services promises about ports, addresses and processes, without any engine."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from scripts.engines import command, install, processes
from scripts.engines.place import (
    PORTS,
    EngineError,
    Place,
    find_place,
    free_port,
    is_free,
    read_env,
    tail,
    write_env,
)
from scripts.engines.processes import Process, family, identify, recall, remember

from tests import engines

ROOT = Path(__file__).resolve().parents[2]
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
PARENT = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:], start_new_session=True).pid, flush=True); time.sleep(600)"


@pytest.fixture
def place(tmp_path):
    return Place(directory=tmp_path, cache=tmp_path / "cache")


@pytest.fixture
def sleeper():
    with subprocess.Popen(SLEEPER) as child:
        yield identify(child.pid)
        child.kill()


def test_an_engine_keeps_its_ports(place):
    first = place.ports("kafka", ["broker", "controller"])
    assert place.ports("kafka", ["broker", "controller"]) == first
    assert len({*first.values(), *place.ports("redis", ["main"]).values()}) == 3
    assert all(port in PORTS for port in first.values())


def test_ports_are_kept_when_an_engine_needs_one_more(place):
    first = place.ports("kafka", ["broker"])
    assert place.ports("kafka", ["broker", "controller"])["broker"] == first["broker"]


def test_ports_stay_clear_of_those_that_the_kernel_gives_to_clients():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(PORTS) < lowest
    assert all(max(kind.choices) < lowest for kind in command.ENGINES.values())


def test_a_port_in_use_is_not_assigned():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(EngineError, match="no free port"):
            free_port([port], set())
    assert is_free(port)
    assert free_port([port], set()) == port


def test_a_remembered_port_is_not_given_away():
    with pytest.raises(EngineError, match="no free port"):
        free_port([20001], {20001})


def test_the_env_file_says_the_same_to_us_and_to_a_shell(tmp_path):
    settings = {
        "PLAIN": "http://127.0.0.1:1",
        "SPACED": "a b",
        "QUOTED": "it's $HOME; #1",
        "EMPTY": "",
        "EQUALS": "a=b",
    }
    file = tmp_path / "env"
    write_env(file, settings)
    assert read_env(file) == settings
    script = f'. {file}; printf "%s\\n" "$PLAIN" "$SPACED" "$QUOTED" "$EMPTY" "$EQUALS"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "".join(f"{value}\n" for value in settings.values())


def test_no_env_file_means_no_engines(tmp_path):
    assert read_env(tmp_path / "env") == {}
    assert engines.known_engines({}, {}) == {}


def test_the_directory_is_the_projects_unless_the_environment_says_otherwise(tmp_path):
    assert find_place({}, 1000).directory.name == ".services"
    assert find_place({"SKITTER_SERVICES_DIR": str(tmp_path)}, 1000).directory == tmp_path
    assert find_place({"SKITTER_SERVICES_CACHE": str(tmp_path)}, 1000).cache == tmp_path


def test_only_root_changes_the_user_and_never_runs_engines_itself():
    assert find_place({}, 1000).identity() == {}
    assert find_place({}, 0).user == "nobody"


def test_a_process_is_known_by_its_number_and_its_beginning(sleeper, tmp_path):
    remember(tmp_path / "pid", sleeper)
    assert recall(tmp_path / "pid") == sleeper
    assert sleeper.state is not None
    stranger = Process(sleeper.pid, sleeper.started + 1)
    assert stranger.state is None
    assert family(stranger) == []
    stranger.signal(signal.SIGKILL)
    assert sleeper.state is not None, "a process that got an old number was killed"


def test_a_killed_process_is_gone_before_it_is_reaped(sleeper):
    processes.kill([sleeper])
    assert sleeper.state is None  # a zombie: the fixture has not waited for it
    assert not sleeper.buried


def test_without_a_record_no_process_was_started(tmp_path):
    assert recall(tmp_path / "pid") is None
    assert Process(2**22 + 1, 0).state is None


def test_children_in_sessions_of_their_own_belong_to_the_family():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *SLEEPER], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = identify(int(parent.stdout.readline()))
        head = identify(parent.pid)
        assert head is not None
        members = family(head)
        processes.kill(members)
        assert members == [head, child]
        assert child.state is None


def test_a_frozen_process_can_be_stopped(sleeper):
    sleeper.signal(signal.SIGSTOP)
    assert processes.until(lambda: sleeper.state == "T", 30)
    assert processes.stop(sleeper, signal.SIGTERM, patience=30)


def test_an_engine_that_does_not_want_to_end_is_killed():
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "deaf\n"
        process = identify(child.pid)
        assert process is not None
        assert not processes.stop(process, signal.SIGTERM, patience=0.2)
        assert process.state is None


def test_a_download_that_fails_leaves_nothing_that_looks_complete(place):
    def fail(target):
        target.mkdir()
        (target / "half").write_text("half")
        raise EngineError("the network is gone")

    with pytest.raises(EngineError, match="network"):
        install.fetched(place, "thing-1", fail)
    assert not (place.cache / "thing-1").exists()
    assert not (place.directory / "opt" / "thing-1").exists()


def test_a_second_clone_uses_the_downloads_of_the_first(place, tmp_path):
    def fetch(target):
        target.mkdir()
        (target / "a.jar").write_text("jar")

    def never(target):
        pytest.fail("fetched twice")

    install.fetched(place, "thing-1", fetch)
    other = Place(directory=tmp_path / "other", cache=place.cache)
    assert (install.fetched(other, "thing-1", never) / "a.jar").read_text() == "jar"


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError, match="install skitter-missing-package"):
        install.need("skitter-missing-program", "skitter-missing-package")


APT = """#!/bin/sh
echo "$@" >> "$TRACE"
if [ "$1" = update ] && [ "$(grep -c update "$TRACE")" -lt 3 ]; then
  echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 42" >&2; exit 100
fi
"""


def test_apt_in_use_is_waited_for_and_every_step_is_printed(tmp_path, monkeypatch, capsys):
    """A program in the place of apt-get that finds its lists locked twice, as beside another installation."""
    (tmp_path / "apt-get").write_text(APT)
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(install.time, "sleep", lambda _: None)
    install.apt("postgresql", "redis-server")
    calls = (tmp_path / "trace").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["update", "update", "update", "install"]
    assert "DPkg::Lock::Timeout=600" in calls[-1]
    first, waits, last = capsys.readouterr().out.splitlines()
    assert first.strip() == "apt-get install postgresql redis-server …"
    assert "waiting" in waits
    assert re.fullmatch(r"  apt-get install postgresql redis-server: \d+\.\d s", last)


def test_engines_are_installed_side_by_side_and_one_in_trouble_costs_the_others_nothing(place, capsys):
    kinds = [command.ENGINES[name](place) for name in ("redis", "postgres", "s3")]
    together = threading.Barrier(len(kinds), timeout=30)

    def act(engine):
        together.wait()  # which it would do in vain, were they one after the other
        if engine.name == "redis":
            raise EngineError("no network")
        return engine.name

    assert command.side_by_side(kinds, act) == ["postgres", "s3"]
    assert "redis: no network" in capsys.readouterr().err


def test_the_suite_ends_with_a_line_for_each_engine_that_is_not_there(tmp_path):
    """In a process of its own, with no engine anywhere."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("SKITTER_")}
    environ["SKITTER_SERVICES_DIR"] = str(tmp_path)
    chosen = ["tests/cluster/test_kafka_topics.py", "tests/cluster/test_redis_cache.py"]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environ, cwd=ROOT)
    *_, count, kafka, redis = done.stdout.splitlines()
    assert "SKIPPED" not in done.stdout
    assert "without their engine" in count
    assert re.fullmatch(r"kafka was not there: \d+ tests were skipped; start it with `make services`", kafka)
    assert re.fullmatch(r"redis was not there: \d+ tests were skipped; start it with `make services`", redis)
    assert sum(int(line.split()[4]) for line in (kafka, redis)) == int(re.findall(r"(\d+) without", count)[0])


def test_an_unknown_engine_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        command.main(["up", "oracle"])
    assert "no engine is called oracle" in capsys.readouterr().err


def test_the_end_of_a_log_fits_on_one_line():
    assert tail("a\nb\n c \nd\n", 2) == "c | d"
    assert tail("", 2) == "it said nothing"


def test_the_environment_names_an_engine_before_the_file_does():
    written = {
        "SKITTER_TEST_REDIS": "redis://127.0.0.1:1/0",
        "SKITTER_TEST_REDIS_DATA": "/x",
        "SKITTER_TEST_KAFKA": "127.0.0.1:2",
    }
    found = engines.known_engines(written, {"SKITTER_TEST_REDIS": "redis://10.0.0.9:6379/3"})
    assert (found["redis"].host, found["redis"].port, found["redis"].ours) == ("10.0.0.9", 6379, False)
    assert (found["kafka"].host, found["kafka"].port, found["kafka"].ours) == ("127.0.0.1", 2, True)
    assert engines.known_engines(written, {})["redis"].data == Path("/x")


def test_a_missing_engine_skips_with_the_reason_and_fails_where_it_is_required(monkeypatch, tmp_path):
    monkeypatch.setenv("SKITTER_SERVICES_DIR", str(tmp_path))
    monkeypatch.delenv("SKITTER_TEST_REDIS", raising=False)
    monkeypatch.delenv("SKITTER_TEST_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="redis was not started: make services"):
        engines.engine("redis")
    monkeypatch.setenv("SKITTER_TEST_REQUIRE", "1")
    with pytest.raises(pytest.fail.Exception, match="redis was not started"):
        engines.engine("redis")


def test_an_engine_that_died_is_not_there(monkeypatch, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("SKITTER_TEST_REDIS", f"redis://127.0.0.1:{port}/0")
    monkeypatch.delenv("SKITTER_TEST_REQUIRE", raising=False)
    assert "redis" not in engines.engines()
    with pytest.raises(pytest.skip.Exception, match=f"redis does not answer at redis://127.0.0.1:{port}/0"):
        engines.engine("redis")
