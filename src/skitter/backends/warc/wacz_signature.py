"""The signature of a WACZ file, checked: is it one of this package, and by which key?

"WACZ Signing and Verification" 0.1.0 knows two forms. An anonymous one carries its public key; whose that is, nobody but its owner
can say. The other carries the certificate of a domain, with a time stamp. Its signature is checked against the first
certificate, and the name in that; neither the chain of certificates nor the time stamp is.
"""

import base64
import hashlib
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any, NamedTuple

_STRONG = ("sha256:", "sha512:")
_MOST = 1 << 20  # characters of a certificate chain


class WrongSignatureError(Exception):
    """The message says why, as in "its signature is wrong"."""


class Signed(NamedTuple):
    """Who signed a package."""

    key: str  # the public key, in base64
    fingerprint: str
    domain: str  # empty for an anonymous signature
    checked: bool  # False without the library that checks


def checked(said: object, digest: str) -> Signed | None:
    """Who signed this digest of a package's description, according to `signedData`; None if nobody did."""
    if said is None:
        return None
    if not isinstance(said, Mapping):
        raise WrongSignatureError("its signature is none")
    if not digest.startswith(_STRONG):
        raise WrongSignatureError("its signature is of a digest that is too weak to say anything")
    if said.get("hash") != digest:
        raise WrongSignatureError("its signature is one of another package")
    try:
        signature = base64.b64decode(_text(said, "signature"), validate=True)
        return (
            _by_domain(said, signature, digest)
            if said.get("domainCert")
            else _by_key(said, signature, digest)
        )
    except ModuleNotFoundError:
        key, domain = str(said.get("publicKey", "")), str(said.get("domain", ""))
        return Signed(key, "", domain, checked=False)
    except (NotBase64, ValueError, TypeError):
        raise WrongSignatureError("its signature is none") from None


def _text(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name, "")
    if not isinstance(found, str) or not 0 < len(found) <= _MOST:
        raise WrongSignatureError(f"its signature has no {name}")
    return found


def _by_key(said: Mapping[str, Any], signature: bytes, digest: str) -> Signed:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  an extra
    from cryptography.hazmat.primitives.serialization import load_der_public_key  # noqa: PLC0415  the same

    octets = base64.b64decode(_text(said, "publicKey"), validate=True)
    try:
        key = load_der_public_key(octets)
    except UnsupportedAlgorithm:
        raise WrongSignatureError("its signature is by a key of an unknown kind") from None
    _verify(key, signature, digest)
    return _signed(octets, "")


def _by_domain(said: Mapping[str, Any], signature: bytes, digest: str) -> Signed:
    from cryptography import x509  # noqa: PLC0415  an extra
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  the same

    certificate = x509.load_pem_x509_certificates(_text(said, "domainCert").encode())[0]
    _verify(certificate.public_key(), signature, digest)
    domain = _text(said, "domain")
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = set(alternatives.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        names = {str(name.value) for name in common}
    if domain not in names:
        raise WrongSignatureError(f"its signature is not by {domain[:253]}, as it says")
    der = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _signed(der, domain)


def _verify(key: Any, signature: bytes, digest: str) -> None:  # noqa: ANN401  the type is that of an extra
    """By ECDSA with SHA-256. The two numbers may follow each other, as browsers write them, or be in ASN.1."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  an extra
    from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415  the same
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415  the same

    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise WrongSignatureError("its signature is not by an ECDSA key")
    half = (key.curve.key_size + 7) // 8
    if len(signature) == 2 * half:
        numbers = (int.from_bytes(part, "big") for part in (signature[:half], signature[half:]))
        signature = utils.encode_dss_signature(*numbers)
    try:
        key.verify(signature, digest.encode(), ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise WrongSignatureError("its signature is wrong") from None


def _signed(public: bytes, domain: str) -> Signed:
    short = base64.b64encode(hashlib.sha256(public).digest()).decode().rstrip("=")
    return Signed(base64.b64encode(public).decode(), f"SHA256:{short}", domain, checked=True)
