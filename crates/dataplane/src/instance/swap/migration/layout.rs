//! The layout of a map, and the conversion of its entries to another layout.

use std::collections::HashMap;

use aya::Pod;

use crate::{
    Error,
    instance::swap::migration::fields::{self, Field},
    sys::bpf::raw::RawMap,
};

/// Maps with their layouts, by the names of this build.
pub(super) type Maps = HashMap<&'static str, (RawMap, Layout)>;

/// The layout of a map. Maps of equal layouts are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    kind: u32,
    entries: u32,
    sizes: [usize; 2],
    key: Vec<Field>,
    value: Vec<Field>,
}

impl Layout {
    /// Returns the layout of a map.
    pub(super) fn of(map: &RawMap) -> Result<Self, Error> {
        let types = map.types()?;
        let fields = |id| {
            let detail = "its BTF cannot be read".to_owned();
            fields::of_type(&types.btf, id).ok_or(Error::Bpf { what: "cannot read the types of a map", detail })
        };
        let (key, value) = (fields(types.key)?, fields(types.value)?);
        Ok(Self { kind: map.kind(), entries: map.entries(), sizes: map.sizes(), key, value })
    }

    /// Returns the layout with so many entries.
    pub(super) fn with_entries(self, entries: u32) -> Self {
        Self { entries, ..self }
    }

    /// Returns whether values have a field of this name, at any depth.
    pub(super) fn has_field(&self, name: &str) -> bool {
        self.value.iter().any(|field| field.is_named(name))
    }

    /// Converts a key of layout `from` to this layout.
    pub(super) fn key(&self, from: &Self, key: &[u8]) -> Vec<u8> {
        fields::converted(key, &from.key, &self.key, self.sizes[0])
    }

    /// Converts a value of layout `from` to this layout, for each CPU if each has one.
    pub(super) fn value(&self, from: &Self, value: &[u8], is_per_cpu: bool) -> Vec<u8> {
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

/// Returns the first entry of an array.
pub(super) fn read<T: Pod>(map: &RawMap) -> Result<T, Error> {
    from_bytes(&map.get(&0u32.to_ne_bytes())?.unwrap_or_default())
}

/// Returns the value with these bytes.
pub(super) fn from_bytes<T: Pod>(bytes: &[u8]) -> Result<T, Error> {
    if bytes.len() != size_of::<T>() {
        return Err(Error::Bpf { what: "cannot read a map", detail: "an entry of another size".to_owned() });
    }
    // SAFETY: there are as many bytes, and any bytes are a valid `Pod`.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Returns the bytes of a value.
pub(super) fn bytes<T: Pod>(value: &T) -> &[u8] {
    // SAFETY: a `Pod` has no padding, so all of its bytes can be read.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}
