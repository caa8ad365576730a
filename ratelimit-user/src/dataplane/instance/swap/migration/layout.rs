//! The layout of a map, and the conversion of its entries to another layout.

use crate::dataplane::{
    Error,
    instance::swap::migration::fields::{self, Field},
    sys::raw::RawMap,
};

/// The layout of a map. Maps of equal layouts are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    kind: u32,
    entries: u32,
    sizes: [usize; 2],
    key: Vec<Field>,
    value: Vec<Field>,
}

impl Layout {
    /// Returns the layout of a map.
    pub(crate) fn of(map: &RawMap) -> Result<Self, Error> {
        let types = map.types()?;
        let fields = |id| {
            let detail = "its BTF cannot be read".to_owned();
            fields::of_type(&types.btf, id).ok_or(Error::Bpf { what: "cannot read the types of a map", detail })
        };
        let (key, value) = (fields(types.key)?, fields(types.value)?);
        Ok(Self { kind: map.kind(), entries: map.entries(), sizes: map.sizes(), key, value })
    }

    /// Returns the layout with so many entries.
    pub(crate) fn with_entries(self, entries: u32) -> Self {
        Self { entries, ..self }
    }

    /// Converts a key of layout `from` to this layout.
    pub(crate) fn key(&self, from: &Self, key: &[u8]) -> Vec<u8> {
        fields::converted(key, &from.key, &self.key, self.sizes[0])
    }

    /// Converts a value of layout `from` to this layout, for each CPU if each has one.
    pub(crate) fn value(&self, from: &Self, value: &[u8], is_per_cpu: bool) -> Vec<u8> {
        let convert = |value: &[u8]| fields::converted(value, &from.value, &self.value, self.sizes[1]);
        if !is_per_cpu {
            return convert(value);
        }
        let padded = |value: &[u8]| {
            let mut bytes = convert(value);
            bytes.resize(self.sizes[1].next_multiple_of(8), 0);
            bytes
        };
        value.chunks(from.sizes[1].next_multiple_of(8)).flat_map(padded).collect()
    }
}
