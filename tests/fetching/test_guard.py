import socket

import pytest

from pollerd.fetching.guard import BlockedAddressError, Guard, denial

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "::1",
    "fc00::1",
    "fdff::1",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "fec0::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::192.168.0.1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
]
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::7f00:1",
    "::808:808",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "3fff::1",
    "100::1",
    "5f00::1",
    "4000::1",
    "::ffff:0.0.0.0",
    "64:ff9b::224.0.0.1",
]
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b::a83f:8110",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "169.253.255.255",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_is_denied_until_allowed(address: str) -> None:
    assert denial(address)
    assert denial(address, allow_private=True) is None


@pytest.mark.parametrize("address", NEVER + METADATA)
def test_denied_even_when_private_is_allowed(address: str) -> None:
    assert denial(address)
    assert denial(address, allow_private=True)


@pytest.mark.parametrize("address", METADATA)
def test_metadata_is_called_so(address: str) -> None:
    assert "cloud metadata" in (denial(address, allow_private=True) or "")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_is_open(address: str) -> None:
    assert denial(address) is None


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "127.0.0.1 ", "/run/socket"])
def test_what_is_no_address_is_denied(text: str) -> None:
    assert denial(text, allow_private=True)


def test_guard_makes_sockets_only_for_what_it_allows() -> None:
    target = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))
    with pytest.raises(BlockedAddressError, match=r"loopback address 127\.0\.0\.1"):
        Guard(allow_private=False)(target)
    with Guard(allow_private=True)(target) as made:
        assert made.family is socket.AF_INET
