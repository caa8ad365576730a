//! The fields of a key or a value, by their names in the kernel's BTF (Documentation/bpf/btf.rst), and the conversion
//! of bytes between layouts. Fields of the same name keep their value, new ones are zero. Old names are translated.

use ratelimit_common::maps::renamed::RENAMED_FIELDS;

/// The most elements of an array that are converted one by one. Longer arrays keep their bytes.
const ELEMENTS: u32 = 4_096;

/// A number, or an array of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    name: String,
    offset: usize,
    size: usize,
}

impl Field {
    /// Returns whether the last part of its path is this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.rsplit('.').next() == Some(name)
    }
}

/// Returns the fields of a type. None if the BTF is invalid.
pub(super) fn of_type(btf: &[u8], id: u32) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    Btf::parse(btf)?.flatten(id, &Field { name: String::new(), offset: 0, size: 0 }, &mut fields)?;
    Some(fields)
}

/// Returns the present name of a field.
fn renamed(name: &str) -> &str {
    RENAMED_FIELDS.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// Converts bytes of one layout to another.
pub(super) fn converted(bytes: &[u8], from: &[Field], to: &[Field], size: usize) -> Vec<u8> {
    let mut all = vec![0; size];
    for field in to {
        let Some(before) = from.iter().find(|before| before.name == field.name) else { continue };
        // Numbers are little-endian: a wider one begins with the same bytes.
        let width = before.size.min(field.size);
        let (old, new) = (bytes.get(before.offset..before.offset + width), field.offset..field.offset + width);
        if let (Some(old), Some(new)) = (old, all.get_mut(new)) {
            new.copy_from_slice(old);
        }
    }
    all
}

/// The kinds of types that matter here.
enum Type {
    Number(usize),
    Array {
        of: u32,
        count: u32,
    },
    /// Name, type and offset in bytes of each.
    Struct {
        size: usize,
        members: Vec<(String, u32, usize)>,
    },
    /// Another name of a type.
    Same(u32),
    Other,
}

struct Btf(Vec<Type>);

impl Btf {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let header = word(4)? as usize;
        let (mut at, end) = (header + word(8)? as usize, header + word(8)? as usize + word(12)? as usize);
        let strings = header + word(16)? as usize;
        let name = |offset: u32| {
            let text = bytes.get(strings + offset as usize..)?;
            Some(String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned())
        };
        // Number 0 is no type.
        let mut types = vec![Type::Other];
        while at < end {
            let (information, size) = (word(at + 4)?, word(at + 8)?);
            let (kind, count) = (information >> 24 & 0x1f, information & 0xffff);
            let more = at + 12;
            let (parsed, length) = match kind {
                1 => (Type::Number(size as usize), 4),
                3 => (Type::Array { of: word(more)?, count: word(more + 8)? }, 12),
                4 => {
                    let member = |number: u32| {
                        let place = more + 12 * number as usize;
                        Some((name(word(place)?)?, word(place + 4)?, (word(place + 8)? & 0xff_ffff) as usize / 8))
                    };
                    let members = (0..count).map(member).collect::<Option<_>>()?;
                    (Type::Struct { size: size as usize, members }, 12 * count as usize)
                }
                8..=11 | 18 => (Type::Same(size), 0),
                // Enumerations are numbers.
                6 => (Type::Number(size as usize), 8 * count as usize),
                19 => (Type::Number(size as usize), 12 * count as usize),
                13 => (Type::Other, 8 * count as usize),
                5 | 15 => (Type::Other, 12 * count as usize),
                14 | 17 => (Type::Other, 4),
                2 | 7 | 12 | 16 => (Type::Other, 0),
                _ => return None,
            };
            types.push(parsed);
            at = more + length;
        }
        Some(Self(types))
    }

    fn size(&self, id: u32) -> Option<usize> {
        match self.0.get(id as usize)? {
            Type::Number(size) | Type::Struct { size, .. } => Some(*size),
            Type::Array { of, count } => Some(self.size(*of)? * *count as usize),
            Type::Same(id) => self.size(*id),
            Type::Other => None,
        }
    }

    fn flatten(&self, id: u32, at: &Field, fields: &mut Vec<Field>) -> Option<()> {
        let inner = |name: String, offset: usize| Field { name, offset: at.offset + offset, size: 0 };
        match self.0.get(id as usize)? {
            Type::Same(id) => self.flatten(*id, at, fields)?,
            Type::Struct { members, .. } => {
                for (name, id, offset) in members {
                    self.flatten(*id, &inner(format!("{}.{}", at.name, renamed(name)), *offset), fields)?;
                }
            }
            Type::Array { of, count } if self.has_parts(*of)? && *count <= ELEMENTS => {
                let size = self.size(*of)?;
                for number in 0..*count {
                    let element = inner(format!("{}[{number}]", at.name), number as usize * size);
                    self.flatten(*of, &element, fields)?;
                }
            }
            _ => fields.push(Field { size: self.size(id)?, ..at.clone() }),
        }
        Some(())
    }

    /// Returns whether a type is not a number.
    fn has_parts(&self, id: u32) -> Option<bool> {
        match self.0.get(id as usize)? {
            Type::Same(id) => self.has_parts(*id),
            found => Some(!matches!(found, Type::Number(_))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, offset: usize, size: usize) -> Field {
        Field { name: name.to_owned(), offset, size }
    }

    #[test]
    fn what_has_the_same_name_is_the_same_and_what_is_new_is_zero() {
        let from = [field("a", 0, 2), field("gone", 2, 2), field("b", 4, 4)];
        let to = [field("b", 0, 8), field("new", 8, 4), field("a", 12, 2)];
        let bytes = converted(&[1, 2, 3, 4, 5, 6, 7, 8], &from, &to, 16);
        assert_eq!(bytes, [5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0]);
        assert_eq!(converted(&[1], &from, &to, 16), [0; 16], "cut short");
    }

    #[test]
    fn bytes_that_are_no_btf_are_none() {
        for length in 0..64 {
            assert_eq!(of_type(&vec![0xff; length], 1), None);
        }
    }
}
