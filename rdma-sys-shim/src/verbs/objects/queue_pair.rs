//! Queue pairs: reliable connections.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ibverbs_sys as ffi;

use super::{CompletionQueue, Handle, ProtectionDomain, check, queue_refusal};
use crate::rdma::Gid;
use crate::{Error, Result};

/// The sizes of a queue pair's queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    pub(crate) send: u32,
    /// Inline bytes in a work request. The device may grant fewer.
    pub(crate) inline: u32,
    /// The most pieces of memory in a send request.
    pub(crate) elements: u32,
}

impl QueueLimits {
    /// The making of such a queue pair, for errors.
    fn creating(&self) -> String {
        let QueueLimits { send, inline, .. } = self;
        match inline {
            0 => format!("creating a queue pair of {send} send requests"),
            _ => {
                format!("creating a queue pair of {send} send requests with {inline} bytes inline")
            }
        }
    }
}

/// The port that a queue pair uses, and the way to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressVector {
    pub(crate) port: u8,
    /// Index of this side's GID.
    pub(crate) gid_index: u8,
    /// The peer's GID, and whether packets carry it.
    pub(crate) gid: [u8; 16],
    pub(crate) global: bool,
    /// The peer's LID; 0 on Ethernet.
    pub(crate) lid: u16,
    pub(crate) qos: Qos,
}

/// The priority and routing of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qos {
    /// The service level on InfiniBand; the priority on Ethernet, if switches use it.
    pub(crate) level: u8,
    /// In the global header; on Ethernet, its upper six bits are the DSCP.
    pub(crate) traffic_class: u8,
    /// The most routers on the way.
    pub(crate) hop_limit: u8,
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            level: 0,
            traffic_class: 0,
            hop_limit: 64,
        }
    }
}

impl AddressVector {
    /// In the form of verbs.
    pub(crate) fn attributes(&self) -> ffi::ibv_ah_attr {
        let mut attributes = ffi::ibv_ah_attr {
            dlid: self.lid,
            sl: self.qos.level,
            is_global: self.global.into(),
            port_num: self.port,
            ..ffi::ibv_ah_attr::default()
        };
        if self.global {
            attributes.grh.dgid = ffi::ibv_gid { raw: self.gid };
            attributes.grh.sgid_index = self.gid_index;
            attributes.grh.traffic_class = self.qos.traffic_class;
            attributes.grh.hop_limit = self.qos.hop_limit;
        }
        attributes
    }
}

/// Everything that one side needs to connect its queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Establish {
    pub(crate) route: AddressVector,
    /// The peer's queue pair.
    pub(crate) number: u32,
    /// The first packet number from there, and from here.
    pub(crate) their_psn: u32,
    pub(crate) our_psn: u32,
    /// In the numbers of verbs.
    pub(crate) mtu: u8,
    /// The most reads and atomics under way from here to there, and from there to here.
    pub(crate) reads_out: u8,
    pub(crate) reads_in: u8,
    /// The time to wait for an answer: 4.096 µs · 2^n.
    pub(crate) timeout: u8,
    pub(crate) retries: u8,
}

pub(crate) struct QueuePair {
    raw: Handle<ffi::ibv_qp>,
    limits: QueueLimits,
    _queue: Arc<CompletionQueue>,
    _domain: Arc<ProtectionDomain>,
}

/// The number of this process's queue pairs, for reports.
static IN_USE: AtomicU32 = AtomicU32::new(0);

impl QueuePair {
    /// A queue pair whose send and receive completions go to `queue`.
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        limits: QueueLimits,
    ) -> Result<Self> {
        let mut attributes = ffi::ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: queue.raw(),
            recv_cq: queue.raw(),
            srq: ptr::null_mut(),
            cap: ffi::ibv_qp_cap {
                max_send_wr: limits.send,
                max_recv_wr: 1,
                max_send_sge: limits.elements,
                max_recv_sge: 1,
                max_inline_data: limits.inline,
            },
            qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: a live domain and queue, kept alive by the result, which alone destroys the queue pair. Afterwards
        // the device accesses no memory for it.
        let raw = unsafe {
            let made = ffi::ibv_create_qp(domain.raw(), &mut attributes);
            Handle::new(made, ffi::ibv_destroy_qp)
        };
        let raw =
            raw.ok_or_else(|| queue_refusal(limits.creating(), limits.send, domain.device()))?;
        IN_USE.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            raw,
            limits: QueueLimits {
                inline: attributes.cap.max_inline_data.min(limits.inline),
                send: attributes.cap.max_send_wr.min(limits.send),
                elements: attributes.cap.max_send_sge.min(limits.elements),
            },
            _queue: queue.clone(),
            _domain: domain.clone(),
        })
    }

    /// The number of this process's queue pairs.
    pub(crate) fn in_use() -> u32 {
        IN_USE.load(Ordering::Relaxed)
    }

    pub(crate) fn number(&self) -> u32 {
        // SAFETY: a live queue pair, whose number libibverbs does not change.
        unsafe { (*self.raw.raw()).qp_num }
    }

    /// The limits that the device granted.
    pub(crate) fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    /// Prepares a reliable connection: its peer may access this process's registered memory.
    pub(crate) fn prepare(&self, port: u8, partition: u16, atomics: bool) -> Result<()> {
        use ffi::{ibv_access_flags as Access, ibv_qp_attr_mask as Mask};
        let mut access = Access::IBV_ACCESS_REMOTE_READ | Access::IBV_ACCESS_REMOTE_WRITE;
        if atomics {
            access |= Access::IBV_ACCESS_REMOTE_ATOMIC;
        }
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            pkey_index: partition,
            port_num: port,
            qp_access_flags: access.0,
            ..ffi::ibv_qp_attr::default()
        };
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_PKEY_INDEX
            | Mask::IBV_QP_PORT
            | Mask::IBV_QP_ACCESS_FLAGS;
        self.modify("preparing a queue pair", &mut attributes, mask)
    }

    /// Connects a prepared queue pair: afterwards both sides may send.
    pub(crate) fn establish(&self, with: &Establish) -> Result<()> {
        use ffi::ibv_qp_attr_mask as Mask;
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: with.mtu.into(),
            dest_qp_num: with.number,
            rq_psn: with.their_psn,
            max_dest_rd_atomic: with.reads_in,
            min_rnr_timer: 12,
            ah_attr: with.route.attributes(),
            ..ffi::ibv_qp_attr::default()
        };
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_AV
            | Mask::IBV_QP_PATH_MTU
            | Mask::IBV_QP_DEST_QPN
            | Mask::IBV_QP_RQ_PSN
            | Mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | Mask::IBV_QP_MIN_RNR_TIMER;
        let what = match with.route.global {
            true => format!(
                "connecting a queue pair to GID {}",
                Gid::from(with.route.gid)
            ),
            false => format!("connecting a queue pair to LID {}", with.route.lid),
        };
        self.modify(&what, &mut attributes, mask).map_err(no_way)?;
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTS,
            timeout: with.timeout,
            retry_cnt: with.retries,
            rnr_retry: with.retries,
            sq_psn: with.our_psn,
            max_rd_atomic: with.reads_out,
            ..ffi::ibv_qp_attr::default()
        };
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_TIMEOUT
            | Mask::IBV_QP_RETRY_CNT
            | Mask::IBV_QP_RNR_RETRY
            | Mask::IBV_QP_SQ_PSN
            | Mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify("starting a queue pair", &mut attributes, mask)
    }

    /// Ends all its work: posted requests complete with an error.
    pub(crate) fn fail(&self) -> Result<()> {
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_ERR,
            ..ffi::ibv_qp_attr::default()
        };
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE;
        self.modify("stopping a queue pair", &mut attributes, mask)
    }

    fn modify(
        &self,
        what: &str,
        attributes: &mut ffi::ibv_qp_attr,
        mask: ffi::ibv_qp_attr_mask,
    ) -> Result<()> {
        // SAFETY: a live queue pair; the attributes that the mask names are filled.
        let code = unsafe { ffi::ibv_modify_qp(self.raw.raw(), attributes, mask.0 as i32) };
        check(|| format!("{what} ({})", self.number()), code)
    }

    /// Posts a chain of send requests, ringing the bell once.
    ///
    /// # Safety
    /// `first` is a request. Each request is linked to the next or to null, and describes memory that the device may
    /// use until the request is complete. Its inline data is readable now.
    #[inline]
    pub(crate) unsafe fn post_send(&self, first: *mut ffi::ibv_send_wr) -> Result<()> {
        let queue_pair = self.raw.raw();
        let mut bad = ptr::null_mut();
        // SAFETY: a live queue pair of a live context, whose table of operations the driver has
        // filled; the requests are the caller's promise.
        let code = unsafe {
            let post = (*(*queue_pair).context).ops.post_send;
            post.map_or(libc::ENOSYS, |post| post(queue_pair, first, &mut bad))
        };
        check(|| "posting send requests".to_owned(), code)
    }
}

/// Adds advice to an error because the port has no way to the peer's GID.
fn no_way(error: Error) -> Error {
    match error.os_code() {
        Some(libc::ETIMEDOUT) => error.with_remedy(
            "nobody answered who has this address: does `ping -I INTERFACE ADDRESS` reach it from the port's \
             interface, are both ports on one network and VLAN, and is it the right GID? Name the network by \
             TRANSOM_RDMA_SUBNET, or the GID by TRANSOM_DEVICE=NAME:PORT:GID",
        ),
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENODEV) => error.with_remedy(
            "is the address of the port's GID still there, and is there a route to the peer? `transom \
             doctor` looks at the GID that is chosen",
        ),
        _ => error,
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_found_comes_with_advice() {
        let refused = |code| {
            let source = std::io::Error::from_raw_os_error(code);
            no_way(Error::os("connecting a queue pair", source)).to_string()
        };
        for words in ["ping -I", "VLAN", "TRANSOM_RDMA_SUBNET"] {
            let text = refused(libc::ETIMEDOUT);
            assert!(text.contains(words), "{text}");
        }
        assert!(!refused(libc::EINVAL).contains("ping"));
    }

    #[test]
    fn an_error_names_inline_data_only_where_there_was_to_be_some() {
        let creating = |inline| {
            let limits = QueueLimits {
                send: 256,
                inline,
                elements: 12,
            };
            limits.creating()
        };
        let plain = "creating a queue pair of 256 send requests";
        assert_eq!(creating(0), plain);
        assert_eq!(creating(96), format!("{plain} with 96 bytes inline"));
    }
}
