//! What a caller says about a request.

use std::collections::{BTreeMap, HashMap};

/// What a caller says about a request: names and values, such as `user` and `17`.
pub trait Attributes {
    /// Returns the value with this name.
    fn value(&self, name: &str) -> Option<&str>;
}

impl<N: AsRef<str>, V: AsRef<str>> Attributes for [(N, V)] {
    fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|(this, _)| this.as_ref() == name).map(|(_, value)| value.as_ref())
    }
}

impl<N: AsRef<str>, V: AsRef<str>, const COUNT: usize> Attributes for [(N, V); COUNT] {
    fn value(&self, name: &str) -> Option<&str> {
        self.as_slice().value(name)
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Attributes for Vec<(N, V)> {
    fn value(&self, name: &str) -> Option<&str> {
        self.as_slice().value(name)
    }
}

impl<V: AsRef<str>> Attributes for BTreeMap<String, V> {
    fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(AsRef::as_ref)
    }
}

impl<V: AsRef<str>> Attributes for HashMap<String, V> {
    fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(AsRef::as_ref)
    }
}

impl<A: Attributes + ?Sized> Attributes for &A {
    fn value(&self, name: &str) -> Option<&str> {
        (**self).value(name)
    }
}
