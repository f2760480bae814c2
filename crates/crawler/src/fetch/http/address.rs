//! Classifies IP addresses: pages must not lead the crawler to any but public unicast addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// The kind of a non-public address; `None` for a public one. An IPv4 address embedded in IPv6 counts as that IPv4
/// address.
pub fn non_public_kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => non_public_v4_kind(v4),
        IpAddr::V6(v6) => non_public_v6_kind(v6),
    }
}

/// The kinds of non-public addresses.
pub(crate) const ADDRESS_KINDS: [&str; 17] = [
    "in this network",
    "loopback",
    "private",
    "in the shared address space",
    "link-local",
    "reserved for protocol assignments",
    "reserved for documentation",
    "reserved for benchmarks",
    "multicast",
    "reserved",
    "unspecified",
    "for private translation",
    "discard-only",
    "a Teredo address",
    "an ORCHID",
    "a segment identifier",
    "site-local",
];

/// The kinds of non-public addresses that a host had at a lookup; none if one of its addresses was public. A host that
/// was never looked up has the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressKinds(u64);

impl AddressKinds {
    /// Set in every value that comes from a lookup.
    const LOOKED_UP: u64 = 1 << 63;

    /// The kinds of these addresses.
    pub fn of_addresses(addresses: &[IpAddr]) -> AddressKinds {
        let bits = addresses.iter().map(|address| kind_bit(*address));
        match bits.collect::<Option<Vec<u64>>>() {
            Some(bits) => AddressKinds(bits.into_iter().fold(AddressKinds::LOOKED_UP, |all, bit| all | bit)),
            None => AddressKinds(AddressKinds::LOOKED_UP),
        }
    }

    /// Whether an address is of one of these kinds.
    pub fn contains(self, address: IpAddr) -> bool {
        kind_bit(address).is_some_and(|bit| self.0 & bit != 0)
    }

    /// The kinds as a number, to store them.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The kinds that were stored as this number.
    pub fn from_bits(bits: u64) -> AddressKinds {
        AddressKinds(bits)
    }
}

/// The bit of a non-public address's kind; `None` for a public one.
fn kind_bit(address: IpAddr) -> Option<u64> {
    let kind = non_public_kind(address)?;
    ADDRESS_KINDS.iter().position(|name| *name == kind).map(|index| 1 << index)
}

fn non_public_v4_kind(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    let kind = match (a, b, c) {
        (0, ..) => "in this network",
        (127, ..) => "loopback",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "private",
        (100, 64..=127, _) => "in the shared address space",
        (169, 254, _) => "link-local",
        (192, 0, 0) | (192, 88, 99) => "reserved for protocol assignments",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "reserved for documentation",
        (198, 18..=19, _) => "reserved for benchmarks",
        (224..=239, ..) => "multicast",
        (240.., ..) => "reserved",
        _ => return None,
    };
    Some(kind)
}

fn non_public_v6_kind(address: Ipv6Addr) -> Option<&'static str> {
    let s = address.segments();
    let kind = match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => "unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
        // IPv4-mapped, -translated and -compatible addresses, and the well-known NAT64 prefix.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4, and ISATAP with any prefix.
        | [0x2002, high, low, ..]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => return non_public_v4_kind(v4(high, low)),
        [0x64, 0xff9b, 1, ..] => "for private translation",
        [0x100, 0, 0, 0, ..] => "discard-only",
        [0x2001, 0, ..] => "a Teredo address",
        [0x2001, 2, 0, ..] => "reserved for benchmarks",
        [0x2001, 0xdb8, ..] => "reserved for documentation",
        [0x2001, 0x10..=0x2f, ..] => "an ORCHID",
        [0x3fff, second, ..] if second < 0x1000 => "reserved for documentation",
        [0x5f00, ..] => "a segment identifier",
        [0xfc00..=0xfdff, ..] => "private",
        [0xfe80..=0xfebf, ..] => "link-local",
        [0xfec0..=0xfeff, ..] => "site-local",
        [0xff00..=0xffff, ..] => "multicast",
        _ => return None,
    };
    Some(kind)
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_public_addresses_are_recognised_also_inside_ipv6() {
        let non_public = "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.1.1 169.254.169.254 172.16.0.1 172.31.9.9 \
            192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.1 198.51.100.7 203.0.113.9 224.0.0.1 \
            239.1.1.1 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::127.0.0.1 ::ffff:0:127.0.0.1 \
            64:ff9b::10.0.0.1 64:ff9b:1::1 100::1 2001::1 2001:2::1 2001:db8::1 2001:10::1 2001:2f::1 2002:7f00:1:: \
            2002:c0a8:101::1 2600::5efe:10.0.0.1 2600::200:5efe:127.0.0.1 3fff::1 3fff:fff::1 5f00::1 fc00::1 fdff::1 \
            fe80::1 febf::1 fec0::1 ff02::1";
        for text in non_public.split_whitespace() {
            let address = text.parse().unwrap();
            assert!(non_public_kind(address).is_some(), "{text} is not public");
            assert!(AddressKinds::of_addresses(&[address]).contains(address), "{text} has a kind");
        }
        let public = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.0.1 100.128.0.1 128.0.0.1 169.253.0.1 172.15.0.1 \
            172.32.0.1 192.0.1.1 192.167.1.1 198.17.0.1 198.20.0.1 223.255.255.1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 \
            2002:808:808:: 2001:4860:4860::8888 2606:4700::1111 3fff:1000::1 2a00::5efe:8.8.8.8";
        for text in public.split_whitespace() {
            assert_eq!(non_public_kind(text.parse().unwrap()), None, "{text} is public");
        }
    }

    #[test]
    fn kinds_are_those_of_all_addresses_and_none_if_one_is_public() {
        let [public, loopback, private]: [IpAddr; 3] =
            ["1.1.1.1", "127.0.0.1", "10.0.0.1"].map(|text| text.parse().unwrap());
        let kinds = AddressKinds::of_addresses(&[loopback]);
        assert!(kinds.contains("127.9.9.9".parse().unwrap()) && kinds.contains("::1".parse().unwrap()));
        assert!(!kinds.contains(private) && !kinds.contains(public));
        let both = AddressKinds::of_addresses(&[loopback, private]);
        assert!(both.contains(loopback) && both.contains(private));
        let mixed = AddressKinds::of_addresses(&[public, loopback]);
        assert!(!mixed.contains(loopback) && !mixed.contains(public));
        assert_ne!(mixed, AddressKinds::default());
        assert_eq!(AddressKinds::from_bits(both.bits()), both);
    }
}
