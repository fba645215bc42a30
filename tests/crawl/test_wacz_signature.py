"""Signed WACZ files: other programs verify what we sign, and whatever is not signed as it says is refused."""

import base64
import datetime as dt
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from skitter.backends.warc.wacz import Wacz
from skitter.backends.warc.wacz_signature import WrongSignatureError, checked
from skitter.cli import main
from skitter.ports import StateError
from tests.chromium import chromium, needs_chromium
from tests.crawl.replaying import replayed
from tests.crawl.test_wacz import packed
from tests.crawl.virtual import ROCKSDB, crawl, html

pytest.importorskip("cryptography", reason="signing needs cryptography: pip install 'skitter[identity]'")

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils

A = "http://a.test"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory) -> Path:
    script = {f"{A}/": html("/one"), f"{A}/one": html()}
    return crawl(tmp_path_factory.mktemp("signed"), [f"{A}/"], script, store=ROCKSDB).directory.path


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> Path:
    return Path(tmp_path_factory.mktemp("keys")) / "key.pem"


@pytest.fixture(scope="module")
def file(crawled, key, tmp_path_factory) -> Path:
    made = Path(tmp_path_factory.mktemp("packed")) / "signed.wacz"
    assert (
        main(["export", str(crawled), "--format", "wacz", "-o", str(made), "--sign", str(key), "--new-key"])
        == 0
    )
    return made


def digest_of(file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(file) as package:
        return dict(json.loads(package.read("datapackage-digest.json")))


def altered(file: Path, to: Path, **members: bytes | None) -> Path:
    """A copy with some members replaced, or left out."""
    names = {"digest": "datapackage-digest.json", "about": "datapackage.json"}
    changed = {names[name]: octets for name, octets in members.items()}
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(to, "w") as new:
        for info in old.infolist():
            octets = changed.get(info.filename, old.read(info))
            if octets is not None:
                new.writestr(info.filename, octets)
    return to


def with_signature(file: Path, to: Path, **changes: object) -> Path:
    said = digest_of(file)
    said["signedData"] = {
        name: value for name, value in (said["signedData"] | changes).items() if value is not None
    }
    return altered(file, to, digest=json.dumps(said).encode())


def fingerprint(file: Path) -> str:
    octets = base64.b64decode(digest_of(file)["signedData"]["publicKey"])
    return f"SHA256:{base64.b64encode(hashlib.sha256(octets).digest()).decode().rstrip('=')}"


# ------------------------------------------------------------------------------------------------ signing


def test_the_signature_is_what_the_specification_says(file):
    """Verified with the library alone, by the rules of "WACZ Signing and Verification": anonymous form."""
    said = digest_of(file)
    signed = said["signedData"]
    with zipfile.ZipFile(file) as package:
        written = package.read("datapackage.json")
    assert set(signed) == {"hash", "created", "software", "version", "signature", "publicKey"}
    assert signed["hash"] == said["hash"] == f"sha256:{hashlib.sha256(written).hexdigest()}"
    assert signed["created"] == json.loads(written)["created"]
    public = serialization.load_der_public_key(base64.b64decode(signed["publicKey"]))
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert public.curve.name == "secp384r1"
    octets = base64.b64decode(signed["signature"])
    assert len(octets) == 96
    der = utils.encode_dss_signature(int.from_bytes(octets[:48], "big"), int.from_bytes(octets[48:], "big"))
    public.verify(der, signed["hash"].encode(), ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        public.verify(der, signed["hash"].encode() + b" ", ec.ECDSA(hashes.SHA256()))


@needs_chromium
def test_a_browser_verifies_it_as_replay_tools_do(file, tmp_path):
    (tmp_path / "x.html").write_text("<title>x</title>")
    signed = digest_of(file)["signedData"]
    script = """(async ({hash, signature, publicKey}) => {
      const octets = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
      const key = await crypto.subtle.importKey("spki", octets(publicKey), {name: "ECDSA", namedCurve: "P-384"}, true, ["verify"]);
      const how = {name: "ECDSA", hash: "SHA-256"}, said = (text) => new TextEncoder().encode(text);
      return [await crypto.subtle.verify(how, key, octets(signature), said(hash)),
              await crypto.subtle.verify(how, key, octets(signature), said(hash + "0"))];
    })(SIGNED)""".replace("SIGNED", json.dumps(signed))
    with chromium() as browser:
        browser.open(f"file://{tmp_path}/x.html")
        assert browser.evaluate(script) == [True, False]


def test_the_validator_of_other_people_accepts_it(file):
    done = subprocess.run(
        [sys.executable, "-m", "wacz", "validate", "-f", file], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Has signature" in done.stdout


def test_a_key_is_for_its_owner_alone_and_serves_again(file, key, crawled, tmp_path, capsys):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    again = tmp_path / "again.wacz"
    assert main(["export", str(crawled), "--format", "wacz", "-o", str(again), "--sign", str(key)]) == 0
    assert fingerprint(again) == fingerprint(file)
    assert fingerprint(file) in capsys.readouterr().err
    packed(crawled, tmp_path / "third.wacz", sign=str(key))  # by the setting
    assert fingerprint(tmp_path / "third.wacz") == fingerprint(file)


def pem(key, password: bytes | None = None) -> bytes:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sign", "missing.pem"], "there is no missing.pem; make a key there with --new-key"),
        (["--sign", "text.pem"], "is not a private key"),
        (["--sign", "locked.pem"], "is not a private key in PEM format without a password"),
        (["--sign", "p256.pem"], "P-384"),
        (["--sign", "identity.pem"], "P-384"),
        (["--sign", "open.pem"], "chmod 600"),
        (["--sign", "."], "is not a file"),
        (["--sign", "text.pem", "--new-key"], "never overwritten"),
        (["--sign", "no/such/folder/key.pem", "--new-key"], "No such file or directory"),
        (["--new-key"], "--sign"),
    ],
)
def test_wrong_keys_are_said_in_one_line_and_nothing_is_written(
    crawled, tmp_path, monkeypatch, capsys, words, told
):
    monkeypatch.chdir(tmp_path)
    files = {
        "text.pem": b"no key",
        "locked.pem": pem(ec.generate_private_key(ec.SECP384R1()), b"secret"),
        "p256.pem": pem(ec.generate_private_key(ec.SECP256R1())),
        "identity.pem": pem(ed25519.Ed25519PrivateKey.generate()),
        "open.pem": pem(ec.generate_private_key(ec.SECP384R1())),
    }
    for name, octets in files.items():
        (tmp_path / name).write_bytes(octets)
        (tmp_path / name).chmod(0o644 if name == "open.pem" else 0o600)
    assert main(["export", str(crawled), "--format", "wacz", "-o", "x.wacz", *words]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"skitter: .*\n", said)
    assert told in said
    assert {path.name for path in tmp_path.iterdir()} == set(files)


def test_only_wacz_files_are_signed(crawled, capsys):
    assert main(["export", str(crawled), "--format", "jsonl", "--sign", "x.pem"]) == 2
    assert "only wacz files can be signed" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ checking


def test_check_says_who_signed_it(file, capsys):
    assert main(["check", str(file)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{file} is whole\n")
    assert f"signed by the key {fingerprint(file)}\n" in said
    assert main(["check", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sound"] is True
    assert told["signed"]["key"] == digest_of(file)["signedData"]["publicKey"]
    for expected in (fingerprint(file), told["signed"]["key"]):
        assert main(["check", str(file), "--signed-by", expected]) == 0


def test_check_refuses_another_key_and_none(file, crawled, tmp_path, capsys):
    assert main(["check", str(file), "--signed-by", "SHA256:other"]) == 1
    assert "signed by another key" in capsys.readouterr().out
    said = digest_of(file)
    del said["signedData"]
    stripped = altered(file, tmp_path / "stripped.wacz", digest=json.dumps(said).encode())
    assert main(["check", str(stripped)]) == 0
    assert "  not signed\n" in capsys.readouterr().out
    assert main(["check", str(stripped), "--signed-by", fingerprint(file)]) == 1
    assert "whole, but not signed" in capsys.readouterr().out
    assert main(["check", str(file), "--repair"]) == 2
    assert main(["check", str(crawled), "--signed-by", "x"]) == 2
    assert main(["check", str(tmp_path / "missing.wacz")]) == 4


def test_replay_says_who_signed_it(file, tmp_path):
    with replayed(file, log=tmp_path / "log"):
        pass
    assert f"skitter: signed.wacz is signed by the key {fingerprint(file)}" in (tmp_path / "log").read_text()


def forged(digest: str, key: ec.EllipticCurvePrivateKey) -> str:
    return base64.b64encode(key.sign(digest.encode(), ec.ECDSA(hashes.SHA256()))).decode()


OTHER = ec.generate_private_key(ec.SECP384R1())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"signature": forged("sha256:0", OTHER)}, "its signature is wrong"),
        ({"signature": base64.b64encode(bytes(96)).decode()}, "its signature is wrong"),
        ({"signature": "not base64!"}, "its signature is none"),
        ({"signature": None}, "has no signature"),
        ({"signature": 7}, "has no signature"),
        ({"publicKey": None}, "has no publicKey"),
        ({"publicKey": "AAAA"}, "its signature is none"),
        ({"hash": "sha256:" + 64 * "0"}, "one of another package"),
        ({"domainCert": "no certificate", "domain": "a.test"}, "its signature is none"),
    ],
)
def test_a_wrong_signature_is_refused_by_all_who_open_the_file(file, tmp_path, capsys, changes, told):
    bad = with_signature(file, tmp_path / "bad.wacz", **changes)
    assert main(["replay", str(bad)]) == 4
    assert re.fullmatch(rf"skitter: \S+ cannot be trusted: .*{told}.*\n", capsys.readouterr().err)
    assert main(["check", str(bad)]) == 1
    assert told in capsys.readouterr().out


@pytest.mark.parametrize("said", [[], "x", 7])
def test_a_signature_that_is_none_is_refused(said):
    with pytest.raises(WrongSignatureError):
        checked(said, "sha256:x")


def test_a_changed_package_does_not_keep_its_signature(file, tmp_path):
    """Whoever changes the content can mend every digest, and not the signature."""
    with zipfile.ZipFile(file) as package:
        about = json.loads(package.read("datapackage.json"))
    about["title"] = "Another"
    written = json.dumps(about).encode()
    stated = f"sha256:{hashlib.sha256(written).hexdigest()}"
    said = digest_of(file) | {"hash": stated}
    for signed in (said["signedData"], said["signedData"] | {"hash": stated}):
        digest = json.dumps(said | {"signedData": signed}).encode()
        with pytest.raises(StateError, match="cannot be trusted: its signature is"):
            Wacz(altered(file, tmp_path / "bad.wacz", about=written, digest=digest))


def test_digests_that_can_be_forged_are_not_signed(file, tmp_path):
    """Two files with one MD5 digest are made in seconds."""
    with zipfile.ZipFile(file) as package:
        about = json.loads(package.read("datapackage.json"))
        for each in about["resources"]:
            each["hash"] = f"md5:{hashlib.md5(package.read(each['path'])).hexdigest()}"
    written = json.dumps(about).encode()
    for kind in ("sha256", "md5"):
        stated = f"{kind}:{hashlib.new(kind, written).hexdigest()}"
        public = OTHER.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        signed = {
            "hash": stated,
            "signature": forged(stated, OTHER),
            "publicKey": base64.b64encode(public).decode(),
        }
        digest = json.dumps({"hash": stated, "signedData": signed}).encode()
        with pytest.raises(StateError, match="too weak"):
            Wacz(altered(file, tmp_path / "weak.wacz", about=written, digest=digest))


def certificate(key: ec.EllipticCurvePrivateKey, domain: str, *, alternatives: bool) -> str:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, domain)])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=1))
    if alternatives:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(domain)]), critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("alternatives", [True, False])
def test_the_signature_of_a_domain_is_checked_against_its_certificate(file, tmp_path, capsys, alternatives):
    """The other form: an ASN.1 signature by the key of a certificate; on the curve that such certificates have."""
    key, stated = ec.generate_private_key(ec.SECP256R1()), digest_of(file)["hash"]
    chain = certificate(key, "archive.test", alternatives=alternatives)
    changes = {
        "publicKey": None,
        "signature": forged(stated, key),
        "domain": "archive.test",
        "domainCert": chain,
    }
    good = with_signature(file, tmp_path / "good.wacz", **changes)
    assert main(["check", str(good)]) == 0
    said = capsys.readouterr().out
    assert "signed for archive.test" in said
    assert "is not checked" in said
    elsewhere = with_signature(file, tmp_path / "bad.wacz", **(changes | {"domain": "other.test"}))
    assert main(["check", str(elsewhere)]) == 1
    assert "its signature is not by other.test" in capsys.readouterr().out
    wrong = with_signature(file, tmp_path / "bad.wacz", **(changes | {"signature": forged(stated, OTHER)}))
    assert main(["check", str(wrong)]) == 1
    assert "its signature is wrong" in capsys.readouterr().out


def test_without_the_library_it_is_opened_and_the_lack_is_said(file, crawled, tmp_path):
    """As in an installation without the extra: nothing named cryptography can be imported."""
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text("import sys\nsys.modules['cryptography'] = None\n")
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "blocked")}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "skitter", *words]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=120
        )

    done = run("check", str(file))
    assert done.returncode == 1, done.stderr
    assert "its signature could not be checked" in done.stdout
    assert "[identity]" in done.stdout
    for words in (["--sign", "new.pem", "--new-key"], ["--sign", str(file.parent / "key.pem")]):
        (file.parent / "key.pem").write_text("x")
        (file.parent / "key.pem").chmod(0o600)
        done = run("export", str(crawled), "--format", "wacz", "-o", "x.wacz", *words)
        assert done.returncode == 2
        assert re.fullmatch(r"skitter: export\.sign: .*pip install .*\[identity\].*\n", done.stderr)
    assert not (tmp_path / "new.pem").exists()
    with replayed(file, log=tmp_path / "log", PYTHONPATH=str(tmp_path / "blocked")):
        pass
    assert "signed, which is not checked" in (tmp_path / "log").read_text()
