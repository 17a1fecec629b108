//! What adapters differ in. Each number is that of a driver of rdma-core or of the kernel; the comment beside it says
//! where it is.

use std::time::Duration;

/// Whose atomics an adapter's are atomic to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// There are none.
    None,
    /// Those of the same adapter.
    Device,
    /// It claims the processor's, too, and its atomics are not (`bnxt_re`, where PCIe carries no atomics).
    Claimed,
}

/// What a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Addresses are LIDs, and GIDs between subnets.
    InfiniBand,
    /// RoCE v2: addresses are GIDs.
    Ethernet,
}

/// The families of the addresses of a port on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gids {
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// Both, the IPv6 address at index 0.
    Both,
}

impl Gids {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "ipv4" => Some(Self::Ipv4),
            "ipv6" => Some(Self::Ipv6),
            "both" => Some(Self::Both),
            _ => None,
        }
    }
}

/// The properties of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Personality {
    /// The name of the driver, with which those of the devices begin.
    pub driver: &'static str,
    /// The number of the maker: that of PCI, but for Mellanox.
    pub vendor: u32,
    /// The kind of port.
    pub link: Link,
    /// The addresses on Ethernet, of the first host and of others.
    pub gids: [Gids; 2],
    /// The most bytes inline that creating a queue pair grants.
    pub inline: u32,
    /// How inline data is treated when it is posted.
    pub inline_data: InlineData,
    /// The most pieces of memory of a request, and of a read.
    pub pieces: u32,
    /// As above.
    pub read_pieces: u32,
    /// The most send requests of a queue pair.
    pub send_queue: u32,
    /// The most reads and atomics under way from a queue pair.
    pub reads_out: u8,
    /// The most that a queue pair serves.
    pub reads_in: u8,
    /// Whether there are atomics.
    pub atomics: Atomics,
    /// Whether the result of an atomic comes in big-endian order (`atomic_size_mask` and PCIe atomics of mlx5, whose
    /// library swaps it back; an adapter whose driver does not is what the self-test of a program should find).
    pub big_endian: bool,
    /// The longest message.
    pub max_message: u32,
    /// Whether a queue pair may be connected to itself.
    pub connects_to_itself: bool,
    /// How long a write may be on its way to memory after it was acknowledged.
    pub late: Duration,
    /// Whether a write may be placed before an earlier one that is not complete yet (adaptive routing).
    pub any_order: bool,
    /// Whether a write of several pages may be placed in parts, the later one first.
    pub split: bool,
    /// Whether a write may overtake an earlier read or atomic, which the table of ordering rules of the InfiniBand
    /// specification (10.8.3.3) allows unless the write has a fence.
    pub overtake: bool,
    /// What a request takes on the wire, there and back.
    pub wire: Duration,
    /// How much memory a process may lock.
    pub locks: LockLimit,
}

/// How much registered memory and memory of queues a process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockLimit {
    /// Any.
    None,
    /// What the system lets it lock (`RLIMIT_MEMLOCK`), unless it has `CAP_IPC_LOCK`.
    System,
    /// So many bytes.
    Bytes(u64),
}

/// How inline data is treated when it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineData {
    /// It is carried.
    Carried,
    /// The flag is ignored: keys are checked, which inline data need not have.
    Ignored,
    /// More than this many bytes are refused when the request is posted.
    Refused(u32),
}

/// The names of all personalities.
pub const NAMES: [&str; 7] = ["mlx5", "irdma", "bnxt_re", "hns", "mana", "erdma", "rxe"];

const GIGABYTE: u32 = 1 << 30;

/// ConnectX-5 to 7, on InfiniBand.
const MLX5: Personality = Personality {
    driver: "mlx5",
    vendor: 0x02c9,
    link: Link::InfiniBand,
    gids: [Gids::Ipv4; 2],
    // providers/mlx5/verbs.c, `mlx5_calc_send_wqe`: of 1024 bytes (`max_sq_desc_sz`), 192 are `sq_overhead`, and 4 say
    // how long the data is.
    inline: 828,
    inline_data: InlineData::Carried,
    // drivers/infiniband/hw/mlx5/main.c: from `max_wqe_sz_sq`; 30 on ConnectX-5.
    pieces: 30,
    read_pieces: 30,
    // As above: `log_max_qp_sz` is 15.
    send_queue: 32768,
    // As above: `log_max_ra_req_qp` and `log_max_ra_res_qp` are 4.
    reads_out: 16,
    reads_in: 16,
    // As above, `get_atomic_caps`: IBV_ATOMIC_HCA.
    atomics: Atomics::Device,
    big_endian: false,
    // As above: `log_max_msg` is 30.
    max_message: GIGABYTE,
    connects_to_itself: true,
    late: Duration::ZERO,
    any_order: false,
    split: false,
    overtake: false,
    wire: Duration::ZERO,
    locks: LockLimit::None,
};

/// E810 in RoCE mode.
const IRDMA: Personality = Personality {
    driver: "irdma",
    vendor: 0x8086,
    link: Link::Ethernet,
    // drivers/infiniband/hw/irdma/type.h: IRDMA_MAX_INLINE_DATA_SIZE.
    inline: 101,
    // icrdma_hw.h there: ICRDMA_MAX_WQ_FRAGMENT_COUNT and ICRDMA_MAX_SGE_RD.
    pieces: 13,
    read_pieces: 13,
    // type.h and user.h: (IRDMA_QP_SW_MAX_WQ_QUANTA - IRDMA_SQ_RSVD) / IRDMA_MAX_QUANTA_PER_WR.
    send_queue: 4063,
    // icrdma_hw.h: ICRDMA_MAX_ORD_SIZE and ICRDMA_MAX_IRD_SIZE.
    reads_out: 32,
    reads_in: 32,
    // verbs.c, `irdma_query_device`: `atomic_cap` is not set before the third generation.
    atomics: Atomics::None,
    // IRDMA_MAX_OUTBOUND_MSG_SIZE
    max_message: 0x7fff_ffff,
    ..MLX5
};

/// BCM57508 and others.
const BNXT_RE: Personality = Personality {
    driver: "bnxt_re",
    vendor: 0x14e4,
    link: Link::Ethernet,
    // drivers/infiniband/hw/bnxt_re/qplib_fp.h: BNXT_QPLIB_SWQE_MAX_INLINE_LENGTH.
    inline: 96,
    // qplib_sp.c: BNXT_STATIC_MAX_SGE.
    pieces: 6,
    read_pieces: 6,
    // As above: a number of 16 bits from the firmware.
    send_queue: 65535,
    // qplib_sp.c: BNXT_QPLIB_MAX_OUT_RD_ATOM.
    reads_out: 126,
    reads_in: 126,
    // ib_verbs.c, `bnxt_re_query_device`: IB_ATOMIC_GLOB if PCIe carries atomics as far as the driver can tell.
    atomics: Atomics::Claimed,
    ..MLX5
};

/// HIP08.
const HNS: Personality = Personality {
    driver: "hns",
    vendor: 0x19e5,
    link: Link::Ethernet,
    // drivers/infiniband/hw/hns/hns_roce_hw_v2.h: HNS_ROCE_V2_MAX_SQ_INLINE.
    inline: 32,
    // There: HNS_ROCE_V2_MAX_SQ_SGE_NUM.
    pieces: 64,
    read_pieces: 64,
    // There: HNS_ROCE_V2_MAX_WQE_NUM.
    send_queue: 0x8000,
    // There: HNS_ROCE_V2_MAX_QP_INIT_RDMA, HNS_ROCE_V2_MAX_QP_DEST_RDMA.
    reads_out: 128,
    reads_in: 128,
    ..MLX5
};

/// Azure's adapter.
const MANA: Personality = Personality {
    driver: "mana",
    vendor: 0x1414,
    link: Link::Ethernet,
    // providers/mana/qp.c: `mana_create_qp_rc` does not look at `max_inline_data`; wr.c there, at the flag.
    inline: 1 << 20,
    inline_data: InlineData::Ignored,
    // include/net/mana/gdma.h of the kernel: MAX_TX_WQE_SGL_ENTRIES.
    pieces: 30,
    read_pieces: 30,
    // drivers/infiniband/hw/mana/main.c: from the firmware, as the limits of reads.
    send_queue: 4096,
    reads_out: 32,
    reads_in: 32,
    // There, `mana_ib_query_device`: `atomic_cap` is not set.
    atomics: Atomics::None,
    ..MLX5
};

/// Alibaba's adapter.
const ERDMA: Personality = Personality {
    driver: "erdma",
    vendor: 0x1ded,
    link: Link::Ethernet,
    // providers/erdma/erdma_verbs.c refuses more than ERDMA_MAX_INLINE when a request is posted: six pieces of 16 bytes.
    inline: 1 << 20,
    inline_data: InlineData::Refused(96),
    // drivers/infiniband/hw/erdma/erdma_verbs.h: ERDMA_MAX_SEND_SGE, ERDMA_MAX_SGE_RD, ERDMA_MAX_SEND_WR.
    pieces: 6,
    read_pieces: 1,
    send_queue: 8192,
    // There: ERDMA_MAX_ORD, ERDMA_MAX_IRD.
    reads_out: 128,
    reads_in: 128,
    // erdma_verbs.c there, `erdma_query_device`: IB_ATOMIC_GLOB, with firmware that has atomics.
    atomics: Atomics::Claimed,
    ..MLX5
};

/// The kernel's own, in software.
const RXE: Personality = Personality {
    driver: "rxe",
    vendor: 0xff_ffff,
    link: Link::Ethernet,
    // drivers/infiniband/sw/rxe/rxe_param.h: RXE_MAX_INLINE_DATA, as long as RXE_MAX_SGE pieces of 16 bytes.
    inline: 512,
    // There: RXE_MAX_SGE and RXE_MAX_SGE_RD, RXE_MAX_QP_WR.
    pieces: 32,
    read_pieces: 32,
    send_queue: 1 << 20,
    // There: RXE_MAX_QP_RD_ATOM, RXE_MAX_INIT_RD_ATOM.
    reads_out: 128,
    reads_in: 128,
    // There: `atomic_cap` is IB_ATOMIC_HCA.
    atomics: Atomics::Device,
    // There: RXE_PORT_MAX_MSG_SZ.
    max_message: 0x80_0000,
    ..MLX5
};

impl Personality {
    /// Whether it is known what memory its queues take (`queue_memory`).
    pub(crate) fn has_known_queues(&self) -> bool {
        self.driver == MLX5.driver
    }

    /// What a name, and options behind it separated by commas, say: `mlx5`, `irdma,late=200,split`.
    ///
    /// # Errors
    /// There is no such personality or option, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(',').map(str::trim);
        let name = words.next().unwrap_or_default();
        let mut found = Self::named(name)
            .ok_or_else(|| format!("no adapter {name:?} (known: {})", NAMES.join(", ")))?;
        for word in words {
            found.set(word)?;
        }
        Ok(found)
    }

    fn named(name: &str) -> Option<Self> {
        let all = [MLX5, IRDMA, BNXT_RE, HNS, MANA, ERDMA, RXE];
        all.into_iter().find(|known| known.driver == name)
    }

    fn set(&mut self, word: &str) -> Result<(), String> {
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || {
            let number = value.parse::<u32>();
            number.map_err(|_| format!("{word:?}: {option} needs a number"))
        };
        let micros = || number().map(|number| Duration::from_micros(number.into()));
        let reads = || {
            let found = number()?.try_into().ok().filter(|&reads| reads > 0);
            found.ok_or_else(|| format!("{word:?}: 1 to 255"))
        };
        match option {
            "inline" => self.inline = number()?,
            "pieces" => (self.pieces, self.read_pieces) = (number()?, number()?),
            "send-queue" => self.send_queue = number()?,
            "reads" => (self.reads_out, self.reads_in) = (reads()?, reads()?),
            "max-message" => self.max_message = number()?,
            "late" => self.late = micros()?,
            "wire" => self.wire = micros()?,
            "any-order" if value.is_empty() => self.any_order = true,
            "split" if value.is_empty() => self.split = true,
            "overtake" if value.is_empty() => self.overtake = true,
            "big-endian" if value.is_empty() => self.big_endian = true,
            "locked" if value.is_empty() => self.locks = LockLimit::System,
            "locked" => self.locks = LockLimit::Bytes(u64::from(number()?) << 20),
            "no-self" if value.is_empty() => self.connects_to_itself = false,
            "roce" if value.is_empty() => self.link = Link::Ethernet,
            "gids" => {
                let (first, others) = value.split_once('/').unwrap_or((value, value));
                let gids = Gids::parse(first).zip(Gids::parse(others));
                let (first, others) = gids.ok_or_else(|| {
                    format!("{word:?}: ipv4, ipv6 or both, or two of them as in both/ipv6")
                })?;
                self.gids = [first, others];
            }
            "atomics" => {
                self.atomics = match value {
                    "none" => Atomics::None,
                    "device" => Atomics::Device,
                    "claimed" => Atomics::Claimed,
                    _ => return Err(format!("{word:?}: none, device or claimed")),
                };
            }
            _ => {
                return Err(format!(
                    "no option {word:?} of an adapter (known: inline, pieces, send-queue, reads, max-message, late, \
                     wire, any-order, split, overtake, big-endian, locked, no-self, roce, gids, atomics)"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_known() {
        for name in NAMES {
            assert_eq!(Personality::parse(name).unwrap().driver, name);
        }
    }

    #[test]
    fn options_change_a_personality_and_what_is_unknown_is_told() {
        let found = "mlx5,late=200,split,reads=4,atomics=none,locked=3,gids=both/ipv6";
        let found = Personality::parse(found).unwrap();
        let wanted = Personality {
            late: Duration::from_micros(200),
            split: true,
            reads_out: 4,
            reads_in: 4,
            atomics: Atomics::None,
            locks: LockLimit::Bytes(3 << 20),
            gids: [Gids::Both, Gids::Ipv6],
            ..MLX5
        };
        assert_eq!(found, wanted);
        for (text, words) in [
            ("mlx9", "known: mlx5"),
            ("mlx5,slow", "no option"),
            ("mlx5,split=1", "no option"),
            ("mlx5,late=x", "needs a number"),
            ("mlx5,reads=0", "1 to 255"),
            ("irdma,gids=ipv5", "ipv4, ipv6 or both"),
            ("irdma,gids=ipv4/", "ipv4, ipv6 or both"),
            ("mlx5,atomics=global", "none, device or claimed"),
        ] {
            let error = Personality::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
