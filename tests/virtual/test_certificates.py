"""Certificates: a run leaves those of a TLS context unread, and code outside of it finds them."""

import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simloop import simulate
from simloop.virtual.border.seal import kept_border

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUFMg/j8CqU9dN+N+ThQDm9I5rT2cwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMc2ltbG9vcCB0ZXN0MCAXDTI2MTEyNjEyMTA0MVoYDzIxMjYx
MTAyMTIxMDQxWjAXMRUwEwYDVQQDDAxzaW1sb29wIHRlc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAAQeEqmaLv4xOdFbSGffAdIqnBh3Tib6dwZFWVZbDq+MVQI8
TlFsHKe5mwcCO4hJx0w/4nYnbSrsBWFWFZC5iLYdo2kwZzAdBgNVHQ4EFgQUIgY2
T7JTO+WCV+Yse0zookQFIaIwHwYDVR0jBBgwFoAUIgY2T7JTO+WCV+Yse0zookQF
IaIwDwYDVR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDRwAwRAIgREBuCH+Dg65DPGZ6xQqeR8uzbTQf9gL/iT5zaM+xcb0CIGgz
Qih0RO2j8xRZb0PNKRL4OLSt95+Pk1mgNx5Z9fkh
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgLoleGyPwKGJ0y6fm
rSiT8HMxCE5lxPodM33GobvTQZahRANCAAQeEqmaLv4xOdFbSGffAdIqnBh3Tib6
dwZFWVZbDq+MVQI8TlFsHKe5mwcCO4hJx0w/4nYnbSrsBWFWFZC5iLYd
-----END PRIVATE KEY-----
"""


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    file = tmp_path / "authority.pem"
    file.write_text(CERTIFICATE)
    return str(file)


def in_run(trusted: str | None = None, data: str | None = None) -> ssl.SSLContext:
    """Return the context of a client that was made in a run."""

    async def main() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=trusted, cadata=data)

    return simulate(main())


def subjects(context: ssl.SSLContext) -> list[str]:
    return [str(each["subject"]) for each in context.get_ca_certs()]


def shake_hands(client: ssl.SSLContext, tmp_path: Path) -> str:
    """Return the protocol on which a client and a server of this certificate agree."""
    (tmp_path / "key.pem").write_text(KEY + CERTIFICATE)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "key.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in [*ends]:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
            agreed = str(end.version())
    return agreed


def unread(context: ssl.SSLContext) -> int:
    return len(vars(context).get("_simloop_unread", ()))


def test_a_context_that_a_run_has_made_works_after_it(trusted: str, tmp_path: Path) -> None:
    context = in_run(trusted)
    assert unread(context) == 1
    assert shake_hands(context, tmp_path).startswith("TLS")
    assert unread(context) == 0
    assert shake_hands(context, tmp_path), "and again"


def test_a_context_that_trusts_nobody_refuses_the_server_as_it_does_without_simloop(
    tmp_path: Path,
) -> None:
    for context in (in_run(), ssl.create_default_context()):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"self.signed"):
            shake_hands(context, tmp_path)


def test_the_certificates_of_a_context_can_be_listed_in_the_run_and_after_it(trusted: str) -> None:
    async def main() -> int:
        return len(ssl.create_default_context(cafile=trusted).get_ca_certs())

    assert simulate(main()) == 1
    assert ["simloop test" in each for each in subjects(in_run(trusted))] == [True]
    assert in_run(trusted).cert_store_stats()["x509_ca"] == 1


def test_certificates_of_a_text_are_read_at_once() -> None:
    """A file of them could be changed before it is read; a text is longer than a path may be."""
    context = in_run(data=CERTIFICATE * 40)
    assert unread(context) == 0
    assert len(subjects(context)) == 1


def test_a_file_that_is_not_there_is_an_error_in_the_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        in_run(str(tmp_path / "none.pem"))


def test_a_context_outside_of_a_run_reads_its_file_at_once(trusted: str) -> None:
    with kept_border():
        context = ssl.create_default_context(cafile=trusted)
    assert unread(context) == unread(ssl.create_default_context(cafile=trusted)) == 0
    assert len(subjects(context)) == 1


MODULE = """
import ssl
CONTEXT = ssl.create_default_context(cafile={file!r})
"""


@pytest.fixture
def module(trusted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "with_a_context.py").write_text(MODULE.format(file=trusted))
    monkeypatch.syspath_prepend(tmp_path)
    yield "with_a_context"
    sys.modules.pop("with_a_context", None)


def test_a_context_of_a_module_that_a_run_imports_is_whole(module: str) -> None:
    """A module is imported once in a process: what it makes is not of one run."""

    async def main() -> ssl.SSLContext:
        context: ssl.SSLContext = __import__(module).CONTEXT
        return context

    context = simulate(main())
    assert unread(context) == 0
    assert len(subjects(context)) == 1


def test_the_usual_certificates_are_read_by_the_first_use_alone() -> None:
    async def main() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_default_verify_paths()
        context.load_default_certs()
        return context

    context = simulate(main())
    assert unread(context) == 2
    known = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    known.load_default_certs()
    assert context.cert_store_stats() == known.cert_store_stats()
    assert unread(context) == 0
