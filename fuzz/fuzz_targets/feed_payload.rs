//! Payloads of the feed: whatever another region wrote, it is read whole or not at all, takes no
//! more memory than its length allows, and means the same when it is packed again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_convergence::{PAYLOAD_MAX, pack, unpack};

fuzz_target!(|payload: &[u8]| {
    let read = unpack(payload);
    assert_eq!(read, unpack(payload), "reading is deterministic");
    let Some(mut counters) = read else { return };
    assert!(counters.len() * 17 <= payload.len(), "a total takes 17 bytes at least");
    let packed = pack(counters.clone());
    assert!(packed.iter().all(|(bytes, _)| bytes.len() <= PAYLOAD_MAX));
    let again: Option<Vec<_>> = packed.iter().map(|(bytes, _)| unpack(bytes)).collect();
    counters.sort_unstable();
    assert_eq!(again.expect("what we packed can be read").concat(), counters);
});
