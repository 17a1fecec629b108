//! The parser of what other ranks send, for `crate::fuzzing`.

use super::peer::BootstrapRecord;

pub(crate) fn record(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(record) = BootstrapRecord::decode(text) {
        let again = record.encode();
        let back = BootstrapRecord::decode(&again).expect("its own encoding");
        assert_eq!(
            (&back.address, back.control),
            (&record.address, record.control)
        );
        assert_eq!(back.encode(), again);
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) fn a_bootstrap_record() -> Vec<u8> {
    let control = rdma_sys_shim::RemoteRegion {
        address: 4096,
        len: 1 << 24,
        rkey: 17,
    };
    let record = BootstrapRecord {
        device: "rxe0".to_owned(),
        address: vec![0, 255, 7],
        control,
    };
    record.encode().into_bytes()
}
