"""The key that signs WACZ files: made on request, kept in a file of its own, used as the format's specification says.

An anonymous signature ("WACZ Signing and Verification" 0.1.0) is one of the digest of `datapackage.json`, by an ECDSA key whose
public part stands beside it. Replay tools take keys on the curve P-384 with SHA-256, and the two numbers of a signature one
after the other, as browsers do; whatever else a key could be is refused here.
"""

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from skitter import __version__
from skitter.runtime import durable
from skitter.settings import SettingsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

SETTING = "export.sign"
_SPECIFICATION = "0.1.0"
_CURVE = "secp384r1"
_NUMBER = 48  # octets of one of the two numbers that a signature consists of


class WaczKey:
    """Signs packages."""

    def __init__(self, file: str) -> None:
        """Read the key. SettingsError says what is wrong with it."""
        if not Path(file).exists():
            raise SettingsError(f"{SETTING}: there is no {file}; make a key there with --new-key")
        self._key = _private_key(file)

    def signed(self, digest: str, created: str) -> dict[str, str]:
        """What stands beside the digest of a package's description: `signedData` of `datapackage-digest.json`."""
        return {
            "hash": digest,
            "created": created,
            "software": f"Skitter/{__version__}",
            "version": _SPECIFICATION,
            "signature": base64.b64encode(self._signature(digest.encode())).decode(),
            "publicKey": base64.b64encode(self._public()).decode(),
        }

    @property
    def fingerprint(self) -> str:
        """A short name of the key: its SHA-256, as programs for keys write it."""
        return fingerprint(self._public())

    def _signature(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA  # noqa: PLC0415  an extra
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

        numbers = decode_dss_signature(self._key.sign(message, ECDSA(SHA256())))
        return b"".join(number.to_bytes(_NUMBER, "big") for number in numbers)

    def _public(self) -> bytes:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  an extra

        written = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return bytes(written)


def fingerprint(public: bytes) -> str:
    """The SHA-256 of a public key in DER form."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(public).digest()).decode().rstrip('=')}"


def make_key(file: str) -> None:
    """Make a key in a new file that nobody else can read."""
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  an extra
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  the same
    except ModuleNotFoundError:
        raise SettingsError(_lacking()) from None
    written = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        durable.write_private(Path(file), bytes(written))
    except FileExistsError:
        raise SettingsError(f"--new-key: {file} exists, and a key is never overwritten") from None
    except OSError as problem:
        raise SettingsError(f"--new-key: {file}: {problem.strerror}") from None


def _private_key(file: str) -> "EllipticCurvePrivateKey":
    from skitter.fetch.secrets import private_text  # noqa: PLC0415  it loads what sends requests

    pem = private_text(SETTING, file)
    try:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  an extra, and slow to import
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  the same
    except ModuleNotFoundError:
        raise SettingsError(_lacking()) from None
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):
        raise SettingsError(
            f"{SETTING}: {file} is not a private key in PEM format without a password"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != _CURVE:
        raise SettingsError(
            f"{SETTING}: {file} is not an ECDSA key on the curve P-384, which replay tools expect; make one with --new-key"
        )
    return key


def _lacking() -> str:
    from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

    return f"{SETTING}: signing needs the library cryptography, which is not installed; install it with: {install_line('identity')}"
