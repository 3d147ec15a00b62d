//! Who counts as one client: an address, as far as one client can choose it.

use std::net::{IpAddr, Ipv6Addr};

/// Where connections come from. Of an IPv6 address only the network counts: whoever has one
/// address of a /64 has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer(IpAddr);

/// The part of an IPv6 address that is given out, not chosen.
const NETWORK: u128 = !0 << 64;

impl Peer {
    pub(super) fn of(address: IpAddr) -> Self {
        // An IPv4 client of an IPv6 listener is still the same client.
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & NETWORK)),
            v4 => v4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_one_ipv4_address_or_one_ipv6_network() {
        let same = |one: &str, other: &str| {
            Peer::of(one.parse().unwrap()) == Peer::of(other.parse().unwrap())
        };
        assert!(same("192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"), "folded");
        assert!(!same("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
    }
}
