//! A type that claims to be a predefined one, which accumulate would read past.

use transom::{Accumulate, BasicType};

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Small(u8);

impl Accumulate for Small {
    const TYPE: BasicType = BasicType::F64;
}

fn main() {}
