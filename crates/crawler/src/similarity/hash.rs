//! Hashes with a secret key, so that no page can be crafted to collide with another.

/// The key of all hashes of a crawl. Fingerprints with different keys are not comparable, so the key must be shared or
/// stored together with the fingerprints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    pub(super) start: u64,
    pub(super) word: u64,
    pub(super) end: u64,
    pub(super) first: u64,
    pub(super) second: u64,
}

impl HashKey {
    /// Derives the key from a secret, which should be random.
    pub fn new(secret: u128) -> HashKey {
        let mut state = secret as u64;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = fold(state, 0xD6E8_FEB8_6659_FD93) ^ (secret >> 64) as u64;
            // Odd, so that multiplication by it is invertible.
            fold(mixed, 0xA076_1D64_78BD_642F) | 1
        };
        HashKey { start: next(), word: next(), end: next(), first: next(), second: next() }
    }

    /// Appends a byte to the hash of a word. The hash of the empty word is `start`.
    #[inline]
    pub(super) fn append(&self, word: u64, byte: u8) -> u64 {
        (word ^ u64::from(byte)).wrapping_mul(self.word)
    }

    /// A 64-bit id of a URL.
    pub fn url_id(&self, url: &str) -> u64 {
        (self.hash(url.as_bytes()) >> 64) as u64
    }

    /// A 56-bit id of a URL, which takes 7 bytes on Redis.
    pub(crate) fn short_url_id(&self, url: &str) -> u64 {
        self.url_id(url) >> 8
    }

    /// A 128-bit hash, wide enough that different bodies do not collide.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u128 {
        let mut left = self.start ^ bytes.len() as u64;
        let mut right = self.end ^ bytes.len() as u64;
        let (blocks, rest) = bytes.as_chunks::<16>();
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        for block in blocks.iter().chain([&last]) {
            let [low, high] = halves(block);
            left = fold(left ^ low, self.first ^ high);
            right = fold(right ^ high, self.second ^ low.rotate_left(32));
        }
        u128::from(fold(left, self.end)) << 64 | u128::from(fold(right, self.word))
    }

    /// The hash of a sequence of hashes, from the hash of all but the last one.
    pub(super) fn chain(&self, sequence: u128, last: u128) -> u128 {
        let ([low, high], [last_low, last_high]) = (split(sequence), split(last));
        let left = fold(low ^ last_low, self.first ^ last_high);
        let right = fold(high ^ last_high, self.second ^ last_low.rotate_left(32));
        u128::from(left) << 64 | u128::from(right)
    }
}

/// Does not print the secret.
impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(…)")
    }
}

/// XORs both halves of the 128-bit product: every bit of either factor affects about half of the bits of the result.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn halves(block: &[u8; 16]) -> [u64; 2] {
    split(u128::from_le_bytes(*block))
}

/// The lower and the upper half.
#[inline]
fn split(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}
