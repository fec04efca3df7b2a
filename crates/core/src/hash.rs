//! A hash that is the same in every process and every version, so that it may be stored.

/// FNV-1a (Fowler, Noll and Vo), followed by the last step of MurmurHash3 (Appleby): with FNV-1a alone, texts that differ only
/// in their last bytes differ in few bits. Not for values that an attacker chooses.
pub fn stable(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// A number from 0 to 1 that differs between ids and rounds, but is always the same for one: the finalizer of SplitMix64
/// (Steele, Lea and Flood, 2014).
pub(crate) fn fraction(id: u64, round: u32) -> f64 {
    let mut z = id.wrapping_add(u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_changes() {
        assert_eq!([stable(b""), stable(b"default")], [17_280_346_270_528_514_342, 15_307_881_235_196_794_285]);
    }
}
