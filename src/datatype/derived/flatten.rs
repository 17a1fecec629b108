//! From the tree to the normal form.

use std::collections::HashMap;
use std::ptr;

use super::super::BasicType;
use super::list::List;
use super::piece::Piece;
use super::tree::{Block, Contents, Datatype, Node};

/// The normal form of a predefined type's element.
pub(super) type Leaf = fn(BasicType) -> Option<Piece>;

/// Its bytes without padding.
pub(super) fn bytes(ty: BasicType) -> Option<Piece> {
    let mut list = List::default();
    for &(at, len) in ty.runs() {
        list.push(Piece::run(at as i64, len as u64));
    }
    list.finish()
}

/// The whole element as one run, so that runs consist of whole elements.
pub(super) fn elements(ty: BasicType) -> Option<Piece> {
    Some(Piece::run(0, ty.extent() as u64))
}

/// `None` for a type without data. Each node is visited once, after its children, however often it
/// occurs. So the cost depends on the number of nodes only, not on depth or sharing.
pub(super) fn flatten(root: &Datatype, leaf: Leaf) -> Option<Piece> {
    let mut done = HashMap::<*const Node, Option<Piece>>::new();
    let mut stack = vec![root];
    while let Some(&ty) = stack.last() {
        let key = ptr::from_ref(&*ty.0);
        if !done.contains_key(&key) {
            let before = stack.len();
            let is_missing = |child: &&Datatype| !done.contains_key(&ptr::from_ref(&*child.0));
            stack.extend(ty.0.contents.children().filter(is_missing));
            if stack.len() > before {
                continue;
            }
            let piece = one(ty, leaf, |child| done[&ptr::from_ref(&*child.0)].as_ref());
            done.insert(key, piece);
        }
        stack.pop();
    }
    done.remove(&ptr::from_ref(&*root.0)).flatten()
}

/// The normal form of one node, from those of its children.
fn one<'a>(
    ty: &Datatype,
    leaf: Leaf,
    of: impl Fn(&Datatype) -> Option<&'a Piece>,
) -> Option<Piece> {
    // A type may have markers but no data.
    let block = |child: &Datatype, block: Block| -> Option<Piece> {
        let elements = of(child)?.repeated(block.len, child.extent())?;
        Some(elements.shifted(block.at))
    };
    match &ty.0.contents {
        Contents::Basic(basic) => leaf(*basic),
        Contents::Same(child) => of(child).cloned(),
        contents @ Contents::Strided { count, stride, .. } => {
            let (first, child) = contents.block(0)?;
            block(child, first)?.repeated(*count, *stride)
        }
        Contents::Blocks { blocks, of: child } => {
            let child_piece = of(child)?;
            let mut list = List::with_capacity(blocks.len());
            // Most lists have blocks of one length.
            let mut last: Option<(u64, Option<Piece>)> = None;
            for &Block { at, len } in blocks {
                if last.as_ref().is_none_or(|&(before, _)| before != len) {
                    last = Some((len, child_piece.repeated(len, child.extent())));
                }
                if let Some((_, Some(elements))) = &last {
                    list.push(elements.shifted(at));
                }
            }
            list.finish()
        }
        contents => {
            let mut list = List::default();
            (0..)
                .map_while(|index| contents.block(index))
                .filter_map(|(at, child)| block(child, at))
                .for_each(|piece| list.push(piece));
            list.finish()
        }
    }
}
