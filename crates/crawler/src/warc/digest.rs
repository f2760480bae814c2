//! Digests of records and payloads, as in `WARC-Block-Digest`: `sha1:` and the hash in base 32.

use ring::digest::{SHA256, digest};
use sha1_smol::Sha1;

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A SHA-1 hash.
pub type Hash = [u8; 20];

/// The digest of some bytes, as archives name it.
pub fn sha1(bytes: &[u8]) -> String {
    text(&hash(&[bytes]))
}

/// The SHA-1 hash of these pieces, one after the other.
pub fn hash(pieces: &[&[u8]]) -> Hash {
    let mut hash = Sha1::new();
    pieces.iter().for_each(|piece| hash.update(piece));
    hash.digest().bytes()
}

/// A SHA-256 hash, as WACZ files name it.
pub fn sha256_text(hash: &[u8]) -> String {
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// A hash as archives name it.
pub fn text(hash: &Hash) -> String {
    format!("sha1:{}", base32(hash))
}

/// The hash that such a text names; `None` if it has another form or algorithm.
pub fn parse(text: &str) -> Option<Hash> {
    let digits = text.trim().strip_prefix("sha1:")?;
    if digits.len() != 32 {
        return None;
    }
    let (mut hash, mut bits, mut count, mut length) = ([0; 20], 0_u32, 0, 0);
    for digit in digits.bytes() {
        let value = BASE32.iter().position(|known| *known == digit.to_ascii_uppercase())?;
        bits = bits << 5 | u32::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            hash[length] = (bits >> count) as u8;
            length += 1;
            bits &= (1 << count) - 1;
        }
    }
    Some(hash)
}

/// Whether a digest is that of these bytes; `None` if it has another form or algorithm. Writers use base 32 and hexadecimal digits.
pub fn matches(declared: &str, bytes: &[u8]) -> Option<bool> {
    let (algorithm, value) = declared.trim().split_once(':')?;
    let is_sha1 = match algorithm.to_ascii_lowercase().as_str() {
        "sha1" | "sha-1" => true,
        "sha256" | "sha-256" => false,
        _ => return None,
    };
    let value = value.trim_end_matches('=');
    let length = if is_sha1 { size_of::<Hash>() } else { SHA256.output_len() };
    let is_hex = value.len() == 2 * length;
    if !is_hex && value.len() != (8 * length).div_ceil(5) {
        return None;
    }
    let hash = if is_sha1 { hash(&[bytes]).to_vec() } else { digest(&SHA256, bytes).as_ref().to_vec() };
    let hash = &hash[..];
    let actual = if is_hex { hash.iter().map(|byte| format!("{byte:02x}")).collect() } else { base32(hash) };
    Some(actual.eq_ignore_ascii_case(value))
}

/// Base 32 as in RFC 4648, without padding.
fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity((8 * bytes.len()).div_ceil(5));
    let (mut bits, mut count) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(BASE32[(bits >> count) as usize & 31]));
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        text.push(char::from(BASE32[(bits << (5 - count)) as usize & 31]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_base32_and_compared_in_the_forms_that_writers_use() {
        assert_eq!(sha1(b""), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
        assert_eq!(base32(b"foobar"), "MZXW6YTBOI");
        assert_eq!(parse(&sha1(b"foobar")), Some(hash(&[b"foo", b"bar"])));
        for other in
            ["sha1:short", "md5:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "sha1:1I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
        for (declared, matches_empty) in [
            ("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", Some(true)),
            ("SHA-1: 3i42h3s6nnfq2msvx7xzkyayscx5qbyj", None),
            ("sha1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj", Some(true)),
            ("sha1:DA39A3EE5E6B4B0D3255BFEF95601890AFD80709", Some(true)),
            ("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYA", Some(false)),
            ("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Some(true)),
            ("md5:d41d8cd98f00b204e9800998ecf8427e", None),
            ("sha1:short", None),
            ("nothing", None),
        ] {
            assert_eq!(matches(declared, b""), matches_empty, "{declared}");
        }
    }
}
