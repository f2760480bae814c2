//! Hashes under a key, so that no page can be written to collide with another. Only this file knows how.

/// What all hashes of a crawl are keyed with: fingerprints made under one key are not comparable with those
/// made under another, so whoever shares or stores fingerprints shares or stores the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    pub(super) start: u64,
    pub(super) word: u64,
    pub(super) end: u64,
    pub(super) first: u64,
    pub(super) second: u64,
}

impl HashKey {
    /// The key that belongs to a secret, which should be random.
    pub fn new(secret: u128) -> HashKey {
        let mut state = secret as u64;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = fold(state, 0xD6E8_FEB8_6659_FD93) ^ (secret >> 64) as u64;
            // Odd and dense: multiplying by it loses nothing.
            fold(mixed, 0xA076_1D64_78BD_642F) | 1
        };
        HashKey { start: next(), word: next(), end: next(), first: next(), second: next() }
    }

    /// The hash of a word, from `start` on, with one byte more.
    #[inline]
    pub(super) fn append(&self, word: u64, byte: u8) -> u64 {
        (word ^ u64::from(byte)).wrapping_mul(self.word)
    }

    /// What stands for a URL: 56 bits, so that a byte is left beside it in a word.
    pub(crate) fn url_id(&self, url: &str) -> u64 {
        (self.hash(url.as_bytes()) >> 72) as u64
    }

    /// A hash of any bytes, wide enough that two different bodies never share it.
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
}

/// The key stays secret.
impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Both halves of a product, one upon the other: every bit of either factor moves about half of the result.
#[inline]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn halves(block: &[u8; 16]) -> [u64; 2] {
    let block = u128::from_le_bytes(*block);
    [block as u64, (block >> 64) as u64]
}
