//! Digests of records and payloads, as in `WARC-Block-Digest`: `sha1:` and the hash in base 32.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The digest of some bytes, as archives name it.
pub fn sha1(bytes: &[u8]) -> String {
    sha1_text(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref())
}

/// A SHA-1 hash, as archives name it.
pub fn sha1_text(hash: &[u8]) -> String {
    format!("sha1:{}", base32(hash))
}

/// A SHA-256 hash, as WACZ files name it.
pub fn sha256_text(hash: &[u8]) -> String {
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Whether a digest is that of these bytes; `None` if it has another form or algorithm. Writers use base 32 and hexadecimal digits.
pub fn matches(declared: &str, bytes: &[u8]) -> Option<bool> {
    let (algorithm, value) = declared.trim().split_once(':')?;
    let algorithm = match algorithm.to_ascii_lowercase().as_str() {
        "sha1" | "sha-1" => &SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" | "sha-256" => &SHA256,
        _ => return None,
    };
    let value = value.trim_end_matches('=');
    let length = algorithm.output_len();
    let is_hex = value.len() == 2 * length;
    if !is_hex && value.len() != (8 * length).div_ceil(5) {
        return None;
    }
    let hash = digest(algorithm, bytes);
    let hash = hash.as_ref();
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
